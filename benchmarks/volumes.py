"""Volumes of few planes with little noise: is the level right, and is the result never worse than the input?

The real volumes are smoothed first: they have noise of their own (pollen's is 0.3 of its contrast), which counts as
truth otherwise. Then noise of a known level is added.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import record
import tifffile
from numpy.typing import NDArray
from scipy import ndimage

from noise2same import train
from noise2same.noise.diagnose import diagnose
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

VOLUMES = ("neuron_25pct", "pollen", "spotmax_volume")
PLANES, TRAINED, LEVELS = (2, 4, 8, 16), (2, 8), (0.05, 0.15, 0.5)
SMOOTH = (1.0, 1.5, 1.5)


def real_volume(name: str, planes: int, *, smooth: bool = True) -> NDArray[np.float32]:
    """The middle of a real volume, 256 pixels a side at most; smoothed, until its own noise is gone, or as it is."""
    volume = tifffile.imread(record.DATA / "real3d" / f"{name}.tif").astype(np.float32)
    volume = ndimage.gaussian_filter(volume, SMOOTH) if smooth else volume
    starts = (max(0, whole - part) // 2 for whole, part in zip(volume.shape, (planes, 256, 256), strict=True))
    return volume[tuple(slice(at, at + part) for at, part in zip(starts, (planes, 256, 256), strict=True))]


def made_noisy(clean: NDArray[np.float32], level: float) -> tuple[NDArray[np.float32], float]:
    """A volume with noise of a level in units of its contrast, and the level in its own."""
    sigma = level * float(clean.std())
    return gaussian(clean, sigma, np.random.default_rng(0)), sigma


def level_of(name: str, planes: int) -> dict[str, Any]:
    """Level found over the true one; in a volume as it is, over what its own noise and the added noise are together."""
    row: dict[str, Any] = {"volume": name, "planes": planes}
    for smooth in (True, False):
        volume = real_volume(name, planes, smooth=smooth)
        own = 0.0 if smooth else diagnose([volume[None, None]]).sigma
        if not smooth:
            row["its own noise"] = round(own / float(volume.std()), 3)
        for level in LEVELS:
            noisy, sigma = made_noisy(volume, level)
            found = diagnose([noisy[None, None]]).sigma
            row[f"{'smoothed' if smooth else 'as it is'}, {level}"] = round(found / float(np.hypot(sigma, own)), 3)
    return row


def safety(task: tuple[str, int, float], steps: int) -> dict[str, Any]:
    """Scores of one volume after too little training."""
    import torch

    torch.set_num_threads(1)
    name, planes, level = task
    clean = real_volume(name, planes)
    noisy, _ = made_noisy(clean, level)
    model = train(noisy, "ZYX", steps=steps, progress=False)
    blended = model.denoise(noisy)
    weight, model.blend = model.blend[0], (1.0,)
    span = float(np.ptp(clean))
    before, after, alone = (psnr(clean, one, data_range=span) for one in (noisy, blended, model.denoise(noisy)))
    scores = {"noisy": before, "network alone": alone, "its weight": weight, "result": after, "gain": after - before}
    return {"volume": name, "planes": planes, "σ / contrast": level} | {k: round(v, 2) for k, v in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="of training, far too few")
    arguments = parser.parse_args()
    levels = [level_of(name, planes) for name in VOLUMES for planes in PLANES]
    text = (
        "# The level of volumes of few planes\n\nLevel found over the true one, for noise of "
        "0.05, 0.15 and 0.5 of the contrast. A volume as it is has noise of its own, whose variance adds up with it."
    )
    record.write("volumes_level", levels, text)
    tasks = [(name, planes, level) for name in VOLUMES for planes in TRAINED for level in LEVELS]
    rows = record.side_by_side(partial(safety, steps=arguments.steps), tasks)
    text = (
        "# Volumes of few planes, after too little training\n\nPSNR in dB. The result is a blend of the network's "
        f"output and the input, by a weight that is estimated without the truth. {arguments.steps} steps from scratch."
    )
    record.write("volumes", rows, text)


if __name__ == "__main__":
    main()
