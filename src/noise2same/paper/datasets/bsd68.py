"""BSD68: grey photographs with Gaussian noise."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.noise.synthetic import gaussian
from noise2same.paper.datasets.dataset import Dataset, Split, folder, read_folder

SOURCE = "Train400 and BSD68 come with most denoisers, such as DnCNN's github.com/cszn/DnCNN."


def bsd68(data: str | os.PathLike[str] | None = None, *, sigma: float = 25.0, seed: int = 0) -> Dataset:
    """396 training and 4 validation images of 180×180, and the 68 test images, noisy once and not clipped.

    The noisy test images have 20.17 dB at σ = 25 (the paper's Table 3: 20.19).
    """
    rng = np.random.default_rng(seed)

    def noise(clean: NDArray[Any]) -> NDArray[np.float32]:
        return gaussian(clean, sigma, rng)

    def noisy(name: str, count: int) -> Split:
        images = read_folder(folder(data, "bsd", name, source=SOURCE), "*.png", count, SOURCE)
        clean = [image.astype(np.float32) for image in images[:count]]
        return Split([noise(image) for image in clean], clean)

    train, test = noisy("Train400", 400), noisy("BSD68", 68)
    return Dataset("bsd68", "YX", train[:396], train[396:], {"": test}, 255.0, noise)
