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
from lightning.pytorch import Callback
from torch.utils.flop_counter import FlopCounterMode

MODELS: dict[str, CAREamist] = {}
"""Trained ones, by the name that the request gave them."""
PARENT = os.getppid()


class Clock(Callback):
    """Notes when each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        if os.getppid() != PARENT:
            os._exit(1)  # killed: nobody waits for the answer, and the next measurement wants the cores
        self.ends.append(time.perf_counter())


def images_of(path: str) -> list[Any]:
    """Arrays of an .npz file, in the order in which they were saved."""
    with np.load(path) as file:
        return [file[name] for name in file]


def train(name: str, images: str, n2v2: bool, patch: list[int], batch: int, steps: int) -> dict[str, Any]:
    """Train a model for one epoch of some steps."""
    clock = Clock()
    config = create_advanced_n2v_config(
        "peer",
        data_type="array",
        axes="ZYX"[-len(patch) :],
        patch_size=patch,
        batch_size=batch,
        num_epochs=1,
        num_steps=steps,
        use_n2v2=n2v2,
        seed=1,
    )
    model = MODELS[name] = CAREamist(config, work_dir=name, callbacks=[clock], enable_progress_bar=False)
    model.train(train_data=images_of(images))
    if len(clock.ends) != steps:
        raise ValueError(f"{images} has patches for {len(clock.ends)} steps only, not for {steps}")
    return {
        "seconds a step": (clock.ends[-1] - clock.ends[0]) / max(1, len(clock.ends) - 1),  # the first starts the loader
        "parameters": sum(weights.numel() for weights in model.model.parameters()),
    }


def predict(name: str, images: str, tile: list[int], overlap: list[int], batch: int) -> dict[str, Any]:
    """Denoise images: seconds of the prediction alone, pixels and work of all tiles it took."""
    model, noisy = MODELS[name], images_of(images)
    network, pushed = model.model.model, 0

    def count(_: Any, inputs: tuple[torch.Tensor]) -> None:
        nonlocal pushed
        pushed += inputs[0].numel()

    with network.register_forward_pre_hook(count):
        start = time.perf_counter()
        model.predict(noisy, tile_size=tile, tile_overlap=overlap, batch_size=batch, axes="ZYX"[-len(tile) :])
        seconds = time.perf_counter() - start
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
