"""Planaria: volumes of flatworms at three strengths of noise, and clean volumes with noise of that kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.noise.synthetic import poisson_gaussian
from noise2same.paper.datasets.dataset import Dataset, Split, folder

SOURCE = "Get Denoising_Planaria.tar.gz of CARE from publications.mpi-cbg.de, and unpack it there."
CONDITIONS = {"C1": "condition_1", "C2": "condition_2", "C3": "condition_3"}
LIKE = {"C1": (4.0, 4.0), "C2": (12.0, 8.0), "C3": (60.0, 20.0)}
"""Gain and read-out noise of `planaria-like`, for volumes in 0 to 255."""


def planaria(data: str | os.PathLike[str] | None = None, *, seed: int = 0) -> Dataset:
    """CARE's data (Weigert et al. 2018): training patches of all conditions mixed, test volumes of each by itself.

    Expects ``planaria/train_data/data_label.npz`` with X, Y and axes, and ``planaria/test_data`` with the folders GT
    and condition_1 to condition_3 of TIFF files with the same names. As in the paper, the inputs are scaled by their
    2nd and 99.8th percentile, the ground truth by its 0.1st and 99.9th; so PSNR has a range of 1.
    """
    root = folder(data, "planaria", source=SOURCE)
    patches = root / "train_data" / "data_label.npz"
    if not patches.exists():
        raise InputError(f"{patches} is missing. {SOURCE}")
    with np.load(patches) as archive:
        names = {"X", "Y", "axes"} - set(archive)
        if names:
            raise InputError(f"{patches} has no array {min(names)}. {SOURCE}")
        if str(archive["axes"]) != "SCZYX" or archive["X"].shape != archive["Y"].shape or archive["X"].shape[1] != 1:
            raise InputError(f"{patches} should have X and Y of the same shape with axes SCZYX and one channel.")
        noisy, clean = (archive[name][:, 0] for name in "XY")
    order = np.random.default_rng(seed).permutation(len(noisy))
    every = Split(list(noisy[order]), list(clean[order]))
    held = max(1, len(every) // 20)
    truths = sorted((root / "test_data" / "GT").glob("*.tif"))
    if not truths:
        raise InputError(f"{root / 'test_data' / 'GT'} has no TIFF files. {SOURCE}")
    test = {name: _condition(root / "test_data" / place, truths) for name, place in CONDITIONS.items()}
    return Dataset("planaria", "ZYX", every[held:], every[:held], test, 1.0)


def _condition(place: Path, truths: list[Path]) -> Split:
    missing = [file.name for file in truths if not (place / file.name).exists()]
    if missing:
        raise InputError(f"{place} misses {missing[0]}. {SOURCE}")
    noisy = [scaled(tifffile.imread(place / file.name), 2, 99.8) for file in truths]
    return Split(noisy, [scaled(tifffile.imread(file), 0.1, 99.9) for file in truths])


def scaled(volume: NDArray[Any], low: float, high: float) -> NDArray[np.float32]:
    """A volume with the percentiles `low` and `high` at 0 and 1."""
    ends = np.percentile(volume, (low, high))
    return ((volume - ends[0]) / max(ends[1] - ends[0], 1e-12)).astype(np.float32)


def planaria_like(data: str | os.PathLike[str] | None = None, *, seed: int = 0) -> Dataset:
    """A neuron and pollen grains, nearly clean, with photon and read-out noise at three strengths.

    Left halves of both are trained on, at all strengths together as in Planaria; right halves are tested on, mirrored
    to 512×512 so that they take several tiles. A part of the pollen's left half is for validation.
    """
    source = "They are neuron_25pct.tif and pollen.tif, two nearly clean volumes of 256×256."
    volumes = []
    for name in ("neuron_25pct.tif", "pollen.tif"):
        volume = tifffile.imread(folder(data, "real3d", name, source=source)).astype(np.float32)
        volumes.append(255 * scaled(volume, 0, 100))
    rng = np.random.default_rng(seed)
    halves = [volume[..., :128] for volume in volumes]
    train = [half[:, :, :112] for half in halves]
    noisy = [poisson_gaussian(clean, *level, rng) for clean in train for level in LIKE.values()]
    clean = [clean for clean in train for _ in LIKE]
    held = halves[1][:, :, 112:]
    validation = Split([poisson_gaussian(held, *level, rng) for level in LIKE.values()], [held] * len(LIKE))
    mirrored = [np.pad(volume[..., 128:], ((0, 0), (0, 256), (0, 384)), mode="symmetric") for volume in volumes]
    test = {
        name: Split([poisson_gaussian(volume, *level, rng) for volume in mirrored], mirrored)
        for name, level in LIKE.items()
    }
    return Dataset("planaria-like", "ZYX", Split(noisy, clean), validation, test, 255.0)
