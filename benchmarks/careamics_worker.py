"""CAREamics behind a pipe: a JSON request a line on standard input, a JSON answer a line on standard output.

It runs in CAREamics' own environment and imports nothing of ours; `careamics_peer` starts it and asks. It works only
while it is asked, so that what is measured on either side has the machine for itself. Networks and training are
CAREamics' defaults, which are 32 features and depth 2.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from careamics import CAREamist
from careamics.config.factories import create_advanced_n2v_config
from lightning.pytorch import Callback, Trainer
from torch.utils.flop_counter import FlopCounterMode

MODELS: dict[str, CAREamist] = {}
"""Trained ones, by the name that the request gave them."""
PARENT = os.getppid()


class Clock(Callback):
    """Notes when each step ended, and keeps the model at some minutes of training, the last of which ends it.

    Checkpoints are not the training's own doing: the time to write them does not count.
    """

    def __init__(self, minutes: list[float]) -> None:
        self.minutes = sorted(minutes)
        self.started = 0.0
        self.ends: list[float] = []
        self.kept: list[dict[str, Any]] = []

    def on_train_start(self, trainer: Trainer, *_: Any) -> None:
        self.started = time.perf_counter()

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if os.getppid() != PARENT:
            os._exit(1)  # killed: nobody waits for the answer, and the next measurement wants the cores
        now = time.perf_counter()
        self.ends.append(now - self.started)
        if self.minutes and self.ends[-1] >= 60 * self.minutes[0]:
            path = os.path.abspath(f"{self.minutes[0]:g}-minutes.ckpt")
            trainer.save_checkpoint(path)
            self.kept.append({"minutes": self.minutes.pop(0), "steps": len(self.ends), "checkpoint": path})
            trainer.should_stop = not self.minutes
            self.started += time.perf_counter() - now


def images_of(path: str) -> list[Any]:
    """Arrays of an .npz file, in the order in which they were saved."""
    with np.load(path) as file:
        return [file[name] for name in file]


def train(
    name: str, images: str, n2v2: bool, patch: list[int], batch: int, steps: int | None, minutes: list[float]
) -> dict[str, Any]:
    """Train a model for one epoch of some steps, or without end until the last of the minutes at which it is kept."""
    clock = Clock(minutes)
    config = create_advanced_n2v_config(
        "peer",
        data_type="array",
        axes="ZYX"[-len(patch) :],
        patch_size=patch,
        batch_size=batch,
        num_epochs=1 if steps else 1_000_000,
        num_steps=steps,
        use_n2v2=n2v2,
        seed=1,
    )
    model = MODELS[name] = CAREamist(config, work_dir=name, callbacks=[clock], enable_progress_bar=False)
    model.train(train_data=images_of(images))
    if steps and len(clock.ends) != steps:
        raise ValueError(f"{images} has patches for {len(clock.ends)} steps only, not for {steps}")
    return {
        "seconds a step": (clock.ends[-1] - clock.ends[0]) / max(1, len(clock.ends) - 1),  # the first starts the loader
        "kept": clock.kept,
        "parameters": sum(weights.numel() for weights in model.model.parameters()),
    }


def predict(
    name: str, images: str, output: str, tile: list[int], overlap: list[int], batch: int, checkpoint: str | None
) -> dict[str, Any]:
    """Denoise images into another .npz file: seconds of the prediction alone, pixels and work of all tiles it took."""
    model, noisy = MODELS[name], images_of(images)
    network, pushed = model.model.model, 0

    def count(_: Any, inputs: tuple[torch.Tensor]) -> None:
        nonlocal pushed
        pushed += inputs[0].numel()

    with network.register_forward_pre_hook(count):
        start = time.perf_counter()
        clean, _ = model.predict(
            noisy,
            tile_size=tile,
            tile_overlap=overlap,
            batch_size=batch,
            axes="ZYX"[-len(tile) :],
            checkpoint=checkpoint,
        )
        seconds = time.perf_counter() - start
    np.savez(output, *clean)
    one = torch.zeros(1, 1, *tile)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        network.eval()(one)
    return {"seconds": seconds, "pixels": pushed, "flops": counter.get_total_flops() * pushed / one.numel()}


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("careamics", "torch", "lightning")}


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever is printed goes to the log
    commands = {"train": train, "predict": predict, "versions": versions}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = commands[request.pop("command")](**request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
