"""Volumes of few planes with little noise: is its level right?

The real volumes are smoothed first: they have noise of their own (pollen's is 0.3 of its contrast), which counts as
truth otherwise. Then noise of a known level is added.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import record
import tifffile
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.noise.diagnose import diagnose
from noise2same.noise.synthetic import gaussian

VOLUMES = ("neuron_25pct", "pollen", "spotmax_volume")
PLANES, LEVELS = (2, 4, 8, 16), (0.05, 0.15, 0.5)
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


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    levels = [level_of(name, planes) for name in VOLUMES for planes in PLANES]
    text = (
        "# The level of volumes of few planes\n\nLevel found over the true one, for noise of "
        "0.05, 0.15 and 0.5 of the contrast. A volume as it is has noise of its own, whose variance adds up with it."
    )
    record.write("volumes_level", levels, text)


if __name__ == "__main__":
    main()
