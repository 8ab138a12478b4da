"""CAREamics to compare with: its own environment, made where it is missing, and a process there that waits for work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from record import HERE

from noise2same.config import Config, batch_of
from noise2same.plan import PATCHES

PACKAGE = "careamics==0.3.5"  # needs an older PyTorch than ours
PATCH = {dims: (Config().patch_of(dims), batch_of(PATCHES, Config(), dims)) for dims in (2, 3)}
"""Patch and batch to train with: those of our own methods of one pass; methods of two passes have half as many."""
Tiles = tuple[tuple[int, ...], tuple[int, ...], int]
"""Size, overlap and batch of the tiles to predict with."""
TILES: dict[int, list[Tiles]] = {
    2: [((256, 256), (48, 48), 4), ((512, 512), (48, 48), 1)],
    3: [((32, 128, 128), (16, 48, 48), 4), ((32, 256, 256), (16, 48, 48), 1)],
}
"""Its default overlap with tiles that may be its fastest, as `Peer.best_tiles` finds out."""


def environment() -> Path:
    """Python with CAREamics: of the environment that NOISE2SAME_CAREAMICS names, or one made here (gigabytes)."""
    folder = Path(os.environ.get("NOISE2SAME_CAREAMICS", HERE / ".careamics"))
    python = folder / "bin" / "python"
    if not list(folder.glob(f"lib/*/site-packages/{PACKAGE.replace('==', '-')}.dist-info")):
        print(f"Installing {PACKAGE} into {folder} ...")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    return python


class Peer:
    """CAREamics in a process of its own, with as many threads as we have; idle but while a method here waits for it."""

    def __enter__(self) -> Peer:
        self.temporary = TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.log = (self.folder / "log").open("w+")
        self.process = subprocess.Popen(
            [environment(), HERE / "careamics_worker.py", str(torch.get_num_threads())],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.communicate()  # it ends with its input
        self.log.close()
        self.temporary.cleanup()

    def ask(self, command: str, **request: Any) -> dict[str, Any]:
        """The worker's answer to a command, once it has it."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"command": command} | request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, which the missing answer says
        answer = json.loads(self.process.stdout.readline() or "{}")
        if not answer or "error" in answer:
            self.log.seek(0)
            raise RuntimeError(f"CAREamics could not {command}:\n{answer.get('error') or self.log.read()[-2000:]}")
        return answer

    def train(self, name: str, images: Sequence[NDArray[Any]], steps: int, *, n2v2: bool = False) -> dict[str, Any]:
        """Train N2V or N2V2 under a name for some steps."""
        patch, batch = PATCH[images[0].ndim]
        path = self.save(images)
        return self.ask("train", name=name, images=path, n2v2=n2v2, patch=patch, batch=batch, steps=steps)

    def predict(self, name: str, image: NDArray[Any], tiles: Tiles) -> dict[str, Any]:
        """Seconds, pixels and flops that it takes a model to denoise an image."""
        tile, overlap, batch = tiles
        return self.ask("predict", name=name, images=self.save([image]), tile=tile, overlap=overlap, batch=batch)

    def best_tiles(self, name: str, image: NDArray[Any]) -> tuple[dict[str, Any], Tiles]:
        """Whichever of `TILES` is fastest, so that the comparison is fair, and what it took; it is warm then, too."""
        tried = [(self.predict(name, image, tiles), tiles) for tiles in TILES[image.ndim]]
        return min(tried, key=lambda one: one[0]["seconds"])

    def save(self, images: Sequence[NDArray[Any]]) -> str:
        path = self.folder / "images.npz"
        np.savez(path, *images)
        return str(path)
