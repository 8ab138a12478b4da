"""What a data set is: noisy and clean images to train on, to watch, and to test with; and where its files are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError

VARIABLE = "NOISE2SAME_DATA"
"""Environment variable that names the folder of all data."""


@dataclass(frozen=True)
class Split:
    """Images with `Dataset.axes`, as sequences or stacked along S: each noisy one and its clean one."""

    noisy: Sequence[NDArray[Any]]
    clean: Sequence[NDArray[Any]]

    def __len__(self) -> int:
        return len(self.noisy)

    def __getitem__(self, which: slice) -> Split:
        return Split(self.noisy[which], self.clean[which])


@dataclass(frozen=True)
class Dataset:
    """Three parts, the same for the same seed."""

    name: str
    axes: str
    """Of one image."""
    train: Split
    validation: Split
    test: dict[str, Split]
    """By condition: one, "", or several such as C1, C2 and C3 of Planaria."""
    data_range: float
    """Of the clean images, for PSNR."""
    noise: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    """Draws a noisy image of a clean one anew; None where the noise is real, or differs between images."""


def folder(data: str | os.PathLike[str] | None, *parts: str, source: str) -> Path:
    """The folder of a data set in that of all data, which is given or named by the environment."""
    root = data or os.environ.get(VARIABLE)
    if root is None:
        raise InputError(f"Where is the data? Name its folder with --data, or in the environment variable {VARIABLE}.")
    path = Path(root).expanduser().joinpath(*parts)
    if not path.exists():
        raise InputError(f"{path} is missing. {source}")
    return path


def read_folder(path: Path, pattern: str, least: int, source: str) -> list[NDArray[Any]]:
    """All images of a folder, sorted by name; an InputError if there are fewer than there should be."""
    files = sorted(path.glob(pattern))
    if len(files) < least:
        raise InputError(f"{path} has {len(files)} files {pattern}, but there should be {least}. {source}")
    return [imageio.imread(file) for file in files]


def divided(noisy: Sequence[NDArray[Any]], clean: Sequence[NDArray[Any]], shares: tuple[float, float]) -> list[Split]:
    """Three parts in this order; `shares` are those of the first two."""
    count = len(noisy)
    first, second = (round(share * count) for share in np.cumsum(shares))
    every = Split(noisy, clean)
    return [every[:first], every[first:second], every[second:]]
