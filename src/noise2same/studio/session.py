"""What one person has on the page: files, a model, results. It knows nothing of the page itself."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from noise2same import io, pipeline
from noise2same.config import Config
from noise2same.data import axes as ax
from noise2same.data.normalize import partway
from noise2same.denoiser import Denoiser
from noise2same.plan import EFFORTS, Plan
from noise2same.quality.report.views import Array, Box, plane_of
from noise2same.training.state import TrainingState

SHOWN = 2048
"""Longest side in pixels of what is shown of a plane, and of the preview; of larger ones, the middle."""
LIVE = 384
"""Longest side in pixels of the part that is shown while a network learns."""
LIVE_SECONDS = 2.0
"""Between two pictures of it."""
MANY_CHANNELS = 8
"""More than these are no channels, in a file that does not say what its axes are."""
READINGS = {3: ("ZYX", "TYX", "CYX", "YXC"), 4: ("TZYX", "CZYX", "TCYX", "TYXC"), 5: ("TCZYX", "TZCYX")}
"""Axes to choose from, by the number of dimensions, where a file does not say."""


@dataclass(frozen=True)
class Place:
    """Which plane of which file is looked at."""

    file: int = 0
    frame: int = 0
    depth: int | None = None


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    text: str
    share: float
    live: tuple[Array, Array] | None = None
    """The middle of a plane, noisy and as the network denoises it now."""


class Session:
    """Everything that belongs to one tab of the browser, with a folder that is removed when the tab is closed.

    Parameters
    ----------
    root : path
        Where its folder is made.
    """

    def __init__(self, root: Path) -> None:
        self.folder = Path(mkdtemp(dir=root))
        self.files: list[Path] = []
        self.images: list[io.Image] = []
        self.home: Path | None = None
        self.results: list[pipeline.Result] = []
        self.model: Denoiser | None = None
        self.model_name = ""
        self._stopped, self._closed = threading.Event(), threading.Event()

    def close(self) -> None:
        """End what runs, and remove all files."""
        self._stopped.set()
        self._closed.set()
        shutil.rmtree(self.folder, ignore_errors=True)

    def take(self, upload: Path) -> Path:
        """Move an uploaded file to the session's own folder: another tab may upload the same file to the same place."""
        folder = Path(mkdtemp(dir=self.folder))
        return Path(shutil.move(upload, folder / upload.name))

    def stop(self) -> None:
        """End the training, and keep what was learned."""
        self._stopped.set()

    def open(self, files: Sequence[Path], axes: str | None = None, home: Path | None = None) -> None:
        """Open other files, in place of those from before.

        Parameters
        ----------
        files : sequence of path
            Files, or a folder of them.
        axes : str, optional
            Where the files do not say.
        home : path, optional
            Folder for the results, if not the session's own.
        """
        self.files, self.home = list(files), home
        self.images, self.results = [], []
        self.images = io.open_images([str(file) for file in files], axes, fallback=self._model_axes())
        (self.model or Denoiser()).adopt(self.images, resume=True)  # which says what does not fit

    def _model_axes(self) -> str | None:
        return None if self.model is None else self.model.axes

    def load_model(self, path: Path | None) -> None:
        """Use a trained model from now on; None to train again."""
        self.model, self.model_name = (None, "") if path is None else (Denoiser.load(path), path.name)
        if self.model is not None and self.images:
            self.model.check_fits(self.images[0])

    def make_plan(self) -> Plan:
        """What a training would do with the files, and why."""
        from noise2same.api import plan

        return plan(list(self.images))

    # what is looked at

    def frames(self, file: int) -> int:
        """Number of frames of a file."""
        image = self.images[file]
        return len(ax.samples(image.data, image.axes))

    def depth(self, file: int) -> int:
        """Number of slices of a file; 1 for a picture."""
        image = self.images[file]
        return image.shape[image.axes.index("Z")] if "Z" in image.axes else 1

    def box(self, file: int, longest: int = SHOWN) -> Box:
        """The middle of a plane, of so many pixels a side at most."""
        image = self.images[file]
        sizes = [image.shape[image.axes.index(axis)] for axis in "YX"]
        starts = [max(0, size - longest) // 2 for size in sizes]
        rows, columns = (slice(at, min(at + longest, size)) for at, size in zip(starts, sizes, strict=True))
        return rows, columns

    def noisy_plane(self, place: Place, longest: int = SHOWN) -> Array:
        """What is looked at, noisy."""
        image = self.images[place.file]
        return plane_of(image.data, image.axes, place.frame, place.depth, self.box(place.file, longest))

    def clean_plane(self, place: Place) -> Array | None:
        """The same, denoised; None if there is no result."""
        if place.file >= len(self.results) or self.results[place.file].denoised is None:
            return None
        path = self.results[place.file].denoised
        assert isinstance(path, Path)
        result = io.read(path, self.images[place.file].axes)
        return plane_of(result.data, result.axes, place.frame, place.depth, self.box(place.file))

    def preview(self, place: Place, longest: int = SHOWN) -> Array:
        """What is looked at, denoised at once: by the model that is loaded, or else by a pretrained network."""
        noisy = np.moveaxis(self.noisy_plane(place, longest), -1, 0)
        model = self.model
        if model is None or len(ax.spatial(model.axes)) != 2:
            model = Denoiser(Config(minutes=0, blend=False)).use_pretrained(noisy, "CYX")
        return np.moveaxis(np.asarray(model.denoise(noisy, "CYX", tta=False)), 0, -1)

    def readings(self, choices: Sequence[str]) -> dict[str, Array]:
        """What the first file would show if its axes were these, by axes; those that do not fit are left out."""
        shown = {}
        for axes in choices:
            image = io.open_images(str(self.files[0]), axes)[0]
            if ax.channels(axes, image.shape) <= MANY_CHANNELS:
                shown[axes] = plane_of(image.data, axes)
        return shown

    # denoising

    def run(self, effort: str, options: dict[str, Any], tell: Callable[[Progress], None], place: Place) -> None:
        """Denoise all files, into `home` or else the folder of the session.

        Parameters
        ----------
        effort : str
            A key of the plan's `EFFORTS`; a model that is loaded is used as it is.
        options : dict
            Fields of `Config` beside the budget.
        tell : callable
            Given a `Progress` now and then.
        place : Place
            What is looked at meanwhile.
        """
        self._stopped.clear()
        self.results = []
        denoiser = self._new_denoiser(effort, options)
        folder = self.home or self.folder
        folder.mkdir(parents=True, exist_ok=True)
        names = [io.output_name(image.path) if image.path else "image.tif" for image in self.images]
        outputs = [folder / _denoised(name) for name in names]
        reports = [path.with_name(f"{io.stem(path)}.html") for path in outputs]
        results: list[pipeline.Result] = []
        listener = pipeline.Listener(
            on_step=self._watch(tell, place),
            on_block=lambda image, done, total: self._on_block(tell, len(results), done, total),
            on_result=results.append,
        )
        job = pipeline.check(list(self.images), outputs, reports, denoiser=denoiser)
        pipeline.run(job, denoiser, listener=listener)
        self.results = results
        if self.model is None and denoiser.network is not None:
            denoiser.save(self.model_file)

    @property
    def model_file(self) -> Path:
        """Where the model of the last training is."""
        return self.folder / "model.safetensors"

    def _new_denoiser(self, effort: str, options: dict[str, Any]) -> Denoiser:
        if self.model is not None:
            return self.model
        budget = {} if "minutes" in options or "steps" in options else {"minutes": EFFORTS[effort]}
        return Denoiser(Config.of(**budget, **options))

    def _watch(self, tell: Callable[[Progress], None], place: Place) -> Callable[[TrainingState], bool]:
        shown = time.monotonic() - LIVE_SECONDS / 2
        noisy = self.noisy_plane(place, LIVE)
        flat = len(ax.spatial(self.images[0].axes)) == 2

        def on_step(state: TrainingState) -> bool:
            nonlocal shown
            if time.monotonic() - shown >= LIVE_SECONDS:
                left = "" if state.seconds_left is None else f", {state.seconds_left:.0f} s left"
                live = None
                if flat:
                    image = np.moveaxis(noisy, -1, 0)
                    live = noisy, np.moveaxis(np.asarray(state.preview(image, "CYX")), 0, -1)
                tell(Progress(f"Learning: step {state.step}{left}", state.share, live))
                shown = time.monotonic()
            return self._stopped.is_set()

        return on_step

    def _on_block(self, tell: Callable[[Progress], None], number: int, done: int, total: int) -> bool:
        many = len(self.images)
        which = f"file {number + 1} of {many}, " if many > 1 else ""
        tell(Progress(f"Denoising: {which}block {done} of {total}", (number + done / total) / many))
        return self._closed.is_set()

    def download(self, file: int, strength: float) -> Path:
        """The result of a file, blended with its input: 0 is the input, 1 all of the denoising."""
        result, image = self.results[file], self.images[file]
        assert isinstance(result.denoised, Path)
        if strength == 1:
            return result.denoised
        clean = io.read(result.denoised, image.axes)
        path = self.folder / f"strength {strength:.2f}" / result.denoised.name
        path.parent.mkdir(exist_ok=True)
        with io.create(path, image) as out:
            for source, denoised, target in zip(
                *(ax.samples(data, image.axes) for data in (image.data, clean.data, out)), strict=True
            ):
                target.write(partway(source.read(), denoised.read(), strength))
        return path


def _denoised(name: str) -> str:
    """Name of a result: that of its file with a word before the suffix."""
    stem = io.stem(Path(name))
    return f"{stem}_denoised{name[len(stem) :]}"
