"""Real fluorescence images with references: w2s and FMD, which the paper does not have."""

from __future__ import annotations

import os

import imageio.v3 as imageio
import numpy as np

from noise2same.errors import InputError
from noise2same.paper.datasets.dataset import Dataset, Split, folder

W2S = "Get it from github.com/widefield2sim/w2s: avg1 has single frames, avg400 the means of 400."
FMD = "Get it from github.com/yinhaoz/denoising-fluorescence: raw has NAME_k.png, gt NAME.png."


def w2s(data: str | os.PathLike[str] | None = None, *, seed: int = 0) -> Dataset:
    """24 fields in three channels, 512×512: single frames, and means of 400. A quarter of the fields is tested on.

    Noisy and clean images were stretched separately: score them after an affine fit.
    """
    noisy = folder(data, "w2s24", "avg1", source=W2S)
    names = sorted(file.name for file in noisy.glob("*.png"))
    pairs = {name: (noisy / name, noisy.parent / "avg400" / name) for name in names}
    return _real("w2s", pairs, {name: name.split("_")[0] for name in names}, seed, W2S)


def fmd(data: str | os.PathLike[str] | None = None, *, seed: int = 0) -> Dataset:
    """Confocal, two-photon and wide-field images of 12 samples, four noisy ones of each, 512×512.

    The last noisy image of each sample is tested on; the wide-field ones have noise that pixels share.
    """
    noisy = folder(data, "fmd48", "raw", source=FMD)
    names = sorted(file.name for file in noisy.glob("*.png"))
    pairs = {name: (noisy / name, noisy.parent / "gt" / f"{name.rsplit('_', 1)[0]}.png") for name in names}
    return _real("fmd", pairs, {name: name.rsplit("_", 1)[1] for name in names}, seed, FMD)


def _real(name: str, pairs: dict, groups: dict[str, str], seed: int, source: str) -> Dataset:
    """Pairs of files divided by groups, which stay together: half to train on, a quarter each to watch and to test."""
    missing = [str(clean) for _, clean in pairs.values() if not clean.exists()]
    if missing or not pairs:
        raise InputError(f"{missing[0] if missing else f'The noisy images of {name}'} is missing. {source}")
    order = np.random.default_rng(seed).permutation(sorted(set(groups.values())))
    quarter = max(1, len(order) // 4)
    parts = {"test": order[:quarter], "validation": order[quarter : 2 * quarter], "train": order[2 * quarter :]}

    def split(part: str) -> Split:
        files = [pair for file, pair in pairs.items() if groups[file] in parts[part]]
        noisy, clean = ([imageio.imread(pair[i]).astype(np.float32) for pair in files] for i in (0, 1))
        return Split(noisy, clean)

    return Dataset(name, "YX", split("train"), split("validation"), {"": split("test")}, 255.0)
