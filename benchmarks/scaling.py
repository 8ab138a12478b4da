"""What prediction costs as images grow, each in a process of its own for its memory; and what it takes to start."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import imageio.v3 as imageio
import numpy as np
import timing
from skimage import data

from noise2same import Config, Denoiser, io

REFERENCE = 2048
"""Side of the image that the cost of all others is compared with."""
GIGAPIXEL = 32768
WARM_UP = 6.0
"""Seconds; in the first of a process everything is slower."""


def memory(field: str) -> float:
    """MB by /proc/self/status, as Linux tells it; getrusage's peak would begin with that of the parent process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def write_noise(path: Path, side: int) -> None:
    """OME-Zarr of noise, of which only a band is ever in memory."""
    like = io.Image(np.broadcast_to(np.uint8(0), (side, side)), "YX")
    with io.create(path, like) as out:
        for start in range(0, side, 1024):
            out[start : start + 1024] = noise(*out[start : start + 1024].shape)


def cost(side: int, folder: Path | None) -> tuple[float, float]:
    """Seconds to denoise side² pixels of uint8, in memory or from file to file, and MB by which memory grew at most.

    Warm: in memory, the same has been done for some seconds before, at least once. The growth counts everything but the
    program and the network: the tiles at work, and in memory both images.
    """
    model = Denoiser(Config(method="projected"))
    model.network = model.new_network()
    model.denoise(noise(64, 64))  # compiles the network
    before = memory("VmRSS")
    image, begin = noise(*(side, side) if folder is None else (REFERENCE, REFERENCE)), time.perf_counter()
    while time.perf_counter() < begin + WARM_UP:
        model.denoise(image, tta=False)
    if folder is None:
        taken = timing.seconds(lambda: model.denoise(image, tta=False))
    else:
        taken = timing.seconds(lambda: model.denoise(folder / "noisy.zarr", output=folder / "clean.zarr"))
    return taken, memory("VmHWM") - before


def cost_rows(sides: Sequence[int], repeats: int, gigapixel: int | None = None) -> list[dict[str, Any]]:
    """A row for each size: seconds per megapixel, the ratio to that of the reference, the growth of memory."""
    growth: dict[str, list[float]] = {}
    with TemporaryDirectory() as folder, ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:

        def measured(side: int, folder: Path | None) -> float:
            taken, grown = pool.submit(cost, side, folder).result()
            growth.setdefault(name_of(side), []).append(grown)
            return taken

        times = timing.interleaved({name_of(side): partial(measured, side, None) for side in sides}, repeats)
        if gigapixel is not None:
            pool.submit(write_noise, Path(folder) / "noisy.zarr", gigapixel).result()
            times |= {name_of(gigapixel): [measured(gigapixel, Path(folder))]}
            sides = [*sides, gigapixel]
    each = {side: median(times[name_of(side)]) / (side**2 / 1e6) for side in sides}
    rows = []
    for side, value in each.items():
        name, where = name_of(side), "on disk" if side == gigapixel else "in memory"
        ratios = {f"that of {name_of(REFERENCE)}": value / each[REFERENCE]}
        more = {"MPix": side**2 / 2**20, "MB": growth[name]}
        row = timing.row("cost of prediction", f"{name} {where}", value, "s/MPix", ratios, times[name], **more)
        rows.append(row | {"figure": f"{row['figure']}, {median(growth[name]):.0f} MB more memory"})
    return rows


def name_of(side: int) -> str:
    return f"{side}²"


def startup_rows(repeats: int) -> list[dict[str, Any]]:
    """Seconds of commands that do next to nothing: import little, get to the first step, go through all the motions."""
    program = Path(sys.executable).with_name("noise2same")
    commands = (
        "--help",
        "train camera.png --model m.safetensors --from-scratch --steps 1",
        "denoise camera.png --output clean.png --steps 1",
    )
    with TemporaryDirectory() as folder:
        imageio.imwrite(Path(folder) / "camera.png", data.camera())

        def run(command: str) -> float:
            call = partial(subprocess.run, [program, *command.split()], cwd=folder, capture_output=True, check=True)
            return timing.seconds(call)

        times = timing.interleaved({command: partial(run, command) for command in commands}, repeats)
    return [timing.row("start-up", f"noise2same {one}", median(times[one]), "s", {}, times[one]) for one in commands]
