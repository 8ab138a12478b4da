"""Volumes of few planes with little noise: is the level right, and is the result never worse than the input?

The real volumes are smoothed first: they have noise of their own (pollen's is 0.3 of its contrast), which counts as
truth otherwise. Then noise of a known level is added. Two volumes as channels of one, a bright and a dim one, follow:
each joint and alone.
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
from noise2same.metrics import psnr
from noise2same.noise.synthesise import gaussian, poisson_gaussian

VOLUMES = ("neuron_25pct", "pollen", "spotmax_volume")
PLANES, LEVELS = (2, 4, 8, 16), (0.05, 0.15, 0.5)
SMOOTH = (0.7, 1.0, 1.0)


def clean_volume(name: str, planes: int) -> NDArray[np.float32]:
    """The middle planes of a real volume, smoothed until its own noise is gone, 256 pixels a side at most."""
    volume = ndimage.gaussian_filter(tifffile.imread(record.DATA / "real3d" / f"{name}.tif").astype(np.float32), SMOOTH)
    start = max(0, len(volume) - planes) // 2
    return volume[start : start + planes, :256, :256]


def safety(task: tuple[str, int, float], steps: int) -> dict[str, Any]:
    """Level and scores of one volume."""
    import torch

    torch.set_num_threads(1)
    name, planes, level = task
    clean = clean_volume(name, planes)
    sigma, span = level * float(clean.std()), float(np.ptp(clean))
    noisy = gaussian(clean, sigma, np.random.default_rng(0))
    model = train(noisy, "ZYX", steps=steps, progress=False)
    found = model.summary["sigma"][0] * model.normalization.std[0] / sigma
    blended = model.denoise(noisy)
    weight, model.blend = model.blend[0], (1.0,)
    before, after, alone = (psnr(clean, one, data_range=span) for one in (noisy, blended, model.denoise(noisy)))
    return {
        "volume": name,
        "planes": len(clean),
        "σ / contrast": level,
        "level found / true": round(found, 3),
        "noisy": round(before, 2),
        "network alone": round(alone, 2),
        "its weight": round(weight, 2),
        "result": round(after, 2),
        "gain": round(after - before, 2),
    }


def channels(way: str, steps: int) -> dict[str, Any]:
    """PSNR of a bright and a dim channel, joint or each alone: gain 2 and read-out noise of 4."""
    import torch

    torch.set_num_threads(1)
    clean = np.stack([clean_volume(name, 8) for name in ("pollen", "neuron_25pct")])
    clean *= (np.array([1500, 60]) / clean.max(axis=(1, 2, 3)))[:, None, None, None]
    clean = clean.astype(np.float32)
    noisy = poisson_gaussian(clean, gain=2.0, sigma=4.0, rng=np.random.default_rng(0))
    if way == "joint":
        results = train(noisy, "CZYX", steps=steps, progress=False).denoise(noisy)
    else:
        results = np.stack([train(one, "ZYX", steps=steps, progress=False).denoise(one) for one in noisy])
    row: dict[str, Any] = {"channels": way}
    for name, y, x, f in zip(("bright", "dim"), clean, noisy, results, strict=True):
        span = float(np.ptp(y))
        row |= {f"{name}, noisy": round(psnr(y, x, data_range=span), 2), name: round(psnr(y, f, data_range=span), 2)}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="of training, far too few")
    parser.add_argument("--long", type=int, default=1000, help="steps of the two channels")
    arguments = parser.parse_args()
    tasks = [(name, planes, level) for name in VOLUMES for planes in PLANES for level in LEVELS]
    rows = record.side_by_side(partial(safety, steps=arguments.steps), tasks)
    text = (
        "# Volumes of few planes, after too little training\n\nPSNR in dB. The result is a blend of the network's "
        f"output and the input, by a weight that is estimated without the truth. {arguments.steps} steps from scratch."
    )
    record.write("volumes", rows, text)
    both = record.side_by_side(partial(channels, steps=arguments.long), ("joint", "alone"))
    text = f"# A bright and a dim channel\n\nPSNR in dB, 8 planes, after {arguments.long} steps from scratch."
    record.write("channels", both, text)


if __name__ == "__main__":
    main()
