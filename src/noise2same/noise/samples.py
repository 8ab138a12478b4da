"""Noisy pictures to try things with: a photograph in gray, one in color, and a volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.noise.synthetic import gaussian, poisson_gaussian


@dataclass(frozen=True)
class Sample:
    """A clean image in 0 to 255, and the same with noise."""

    axes: str
    clean: NDArray[Any]
    noisy: NDArray[np.float32]


def samples() -> dict[str, Sample]:
    """All samples by name; the same in every call."""
    from skimage import data

    rng = np.random.default_rng(0)
    cells = volume(rng)
    return {
        "gray": Sample("YX", data.camera(), gaussian(data.camera(), 25, rng)),
        "color": Sample("YXC", data.chelsea(), gaussian(data.chelsea(), 25, rng)),
        "volume": Sample("ZYX", cells, poisson_gaussian(cells, gain=2.0, sigma=5.0, rng=rng)),
    }


def volume(rng: np.random.Generator, shape: tuple[int, int, int] = (32, 128, 128)) -> NDArray[np.float32]:
    """A procedural stack of bright round cells and thin fibres on a dim background, in 0 to 255."""
    z, y, x = np.indices(shape, dtype=np.float32)
    image = np.full(shape, 15.0, np.float32)
    for _ in range(30):
        center, radius = rng.uniform((0, 0, 0), shape), rng.uniform(4, 10)
        distance = np.sqrt((2 * (z - center[0])) ** 2 + (y - center[1]) ** 2 + (x - center[2]) ** 2)
        image += rng.uniform(40, 120) / (1 + np.exp(2 * (distance - radius)))
    fibres = np.zeros(shape, np.float32)
    for _ in range(25):
        start, end = rng.uniform((0, 0, 0), shape), rng.uniform((0, 0, 0), shape)
        for position in np.linspace(start, end, 400):
            fibres[tuple(position.astype(int))] = 1
    fibres = ndimage.gaussian_filter(fibres, (0.7, 1, 1))
    return np.clip(image + 100 * fibres / fibres.max(), 0, 255).astype(np.float32)
