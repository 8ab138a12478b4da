"""What is exported: the module that other programs run, what it says of itself, and an image to check it with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noise2same.data.normalize import Normalization
from noise2same.errors import InputError
from noise2same.export.portable import Portable
from noise2same.model_file import About
from noise2same.prediction.blocks import round_up
from noise2same.prediction.predict import predict

TOLERANCE = 1e-4
"""Largest difference between an export and our own result, as a share of the range of an image."""
INNER = 16
"""Least number of pixels along an axis of a tile that are left when its halo is cut."""

INPUT, OUTPUT = "image", "denoised"
"""Names of the tensors in every export."""

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Exportable:
    """A model to be exported.

    Parameters
    ----------
    portable : Portable
        What other programs run.
    about : About
        Its license, training data and authors.
    facts : dict
        What else it says of itself.
    image, expected : ndarray, (1, C, [Z,] Y, X)
        An image, and what noise2same makes of it.
    """

    portable: Portable
    about: About
    facts: dict[str, Any]
    image: Array
    expected: Array

    @classmethod
    def of(
        cls,
        portable: Portable,
        about: About,
        facts: dict[str, Any],
        sample: NDArray[Any] | None,
        size: tuple[int, ...],
    ) -> Exportable:
        """Choose an image of a size, from the sample (1, C, [Z,] Y, X) if there is one, and denoise it."""
        bright = portable.fixed or Normalization((100.0,) * portable.channels, (20.0,) * portable.channels)
        image = made_up(bright, size) if sample is None else central(sample, size)
        return cls(portable, about, facts, image, own_result(portable, image))

    @property
    def letters(self) -> str:
        """Spatial axes, such as yx."""
        return "zyx"[-self.portable.dims :]

    def example(self) -> Tensor:
        """Two images to trace with, of a size that is no multiple of the stride along any axis."""
        odd = self.image[:, :, *(slice(1, None) for _ in self.portable.multiple)]
        return torch.from_numpy(np.concatenate([odd, odd[..., ::-1]]))

    def card(self) -> str:
        """What it says of itself, as JSON."""
        return json.dumps(self.facts | self.about.model_dump(exclude_none=True))

    def check(self, run: Callable[[Array], NDArray[Any]], name: str) -> float:
        """Largest difference between what an export makes of two images and our results, as a share of the range.

        InputError if it is larger than `TOLERANCE`.
        """
        odd = np.ascontiguousarray(self.image[:, :, *(slice(3, None) for _ in self.portable.multiple)])
        pairs = [(self.image, self.expected), (odd, own_result(self.portable, odd))]
        difference = max(float(np.abs(run(image) - ours).max() / np.ptp(image)) for image, ours in pairs)
        if not difference <= TOLERANCE:
            raise InputError(
                f"The model cannot be exported to {name}: its results there differ from ours by {difference:.1e} of "
                "the range; denoise with noise2same itself, or try another format."
            )
        return difference


def checked_size(portable: Portable) -> tuple[int, ...]:
    """Size of an image that is large enough to check an export with."""
    return tuple(
        round_up(max(least, 2 * INNER), step) for least, step in zip(portable.smallest, portable.multiple, strict=True)
    )


def smallest_tile(portable: Portable) -> tuple[int, ...]:
    """Size of the smallest tile: twice the halo and a few pixels within it."""
    return tuple(2 * halo + step for halo, step in zip(portable.halo, tile_steps(portable), strict=True))


def tile_steps(portable: Portable) -> tuple[int, ...]:
    """By what a tile grows: a multiple of the stride."""
    return tuple(round_up(INNER, step) for step in portable.multiple)


def own_result(portable: Portable, image: Array) -> Array:
    """What noise2same makes of an image, block by block, with the same network and settings."""
    out = np.zeros(image.shape, np.float32)
    axes = "SC" + "ZYX"[-portable.dims :]
    options: dict[str, Any] = {"tta": portable.tta, "blend": portable.blend}
    predict(portable.network, image, axes, out, normalization=portable.fixed, **options)
    return out


def central(sample: NDArray[Any], size: tuple[int, ...]) -> Array:
    """The middle of a sample, repeated by reflection where it is smaller than `size`."""
    for axis, wanted in enumerate(size, start=2):
        length = sample.shape[axis]
        first = (length - wanted) // 2 if length > wanted else 0
        period = max(1, 2 * length - 2)
        place = np.arange(first, first + wanted) % period
        sample = sample.take(np.minimum(place, period - place) if length > 1 else place * 0, axis)
    return np.ascontiguousarray(sample, np.float32)


def made_up(scale: Normalization, size: tuple[int, ...]) -> Array:
    """Soft structures and noise, as bright as the training images."""
    rng = np.random.default_rng(0)
    waves = [np.sin(np.arange(length) / 5) for length in size]
    soft = waves[0]
    for wave in waves[1:]:
        soft = np.multiply.outer(soft, wave)
    channels = len(scale.mean)
    values = (soft + 0.5 * rng.standard_normal((1, channels, *size))).astype(np.float32)
    return scale.undo(values, np.dtype(np.float32))
