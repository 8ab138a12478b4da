"""To zero mean and unit variance per channel, as Theorem 1 asks, and exactly back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.data.stabilize import Stabilizer
from noise2same.errors import InputError

LARGEST = 1e37
"""Value that pixels may have, by its size: a tenth of what 32 bits hold."""


@dataclass(frozen=True)
class Normalization:
    """Mean and standard deviation of each channel, in the image's own units or on a stabilized scale."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    stabilizer: Stabilizer | None = None
    """What is applied before; None for the image's own units."""

    @classmethod
    def measure(cls, images: Iterable[NDArray], stabilizer: Stabilizer | None = None) -> Normalization:
        """Pool the pixels of images of shape (N, C, [Z,] Y, X), leaving out NaN and infinite ones.

        A channel that is constant keeps a scale of 1.
        """
        count, total, square, shift = 0.0, 0.0, 0.0, None
        for image in images if stabilizer is None else map(stabilizer.apply, images):
            flat = np.moveaxis(image, 1, 0).reshape(image.shape[1], -1).astype(np.float64)
            finite = np.isfinite(flat)
            flat = np.where(finite, flat, 0)
            if shift is None:  # sums of squares around a typical value keep their digits
                shift = flat.sum(1) / np.maximum(finite.sum(1), 1)
            centred = np.where(finite, flat - shift[:, None], 0)
            count = count + finite.sum(1)
            total = total + centred.sum(1)
            square = square + (centred**2).sum(1)
        assert shift is not None, "no image to measure"
        offset = total / np.maximum(count, 1)
        variance = np.maximum(square / np.maximum(count, 1) - offset**2, 0)
        std = np.where(variance > 1e-20 * (shift + offset) ** 2, np.sqrt(variance), 1.0)
        return cls(tuple((shift + offset).tolist()), tuple(std.tolist()), stabilizer)

    def apply(self, image: NDArray) -> NDArray[np.float32]:
        """(N, C, [Z,] Y, X) in any units -> float32 with zero mean and unit variance."""
        mean, std = self._columns(image.ndim)
        own = image if self.stabilizer is None else self.stabilizer.apply(image)
        return ((own - mean) / std).astype(np.float32)

    def undo(self, image: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Normalised (N, C, [Z,] Y, X) -> the image's own units, in `dtype` (`to_dtype`)."""
        precise = np.result_type(np.float32, dtype)
        mean, std = (column.astype(precise) for column in self._columns(image.ndim))
        result = image * std
        result += mean
        return to_dtype(result if self.stabilizer is None else self.stabilizer.undo(result), dtype)

    def _columns(self, ndim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        shape = (-1, *(1,) * (ndim - 2))
        return np.asarray(self.mean).reshape(shape), np.asarray(self.std).reshape(shape)


def to_dtype(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Floats, which may be overwritten, in `dtype`: clipped to its range, and rounded to integers."""
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        highest = values.dtype.type(limits.max)
        if int(highest) > limits.max:  # as of 64 bits, the next number that a float can hold
            highest = np.nextafter(highest, values.dtype.type(0))
        np.clip(np.rint(values, out=values), limits.min, highest, out=values)
    elif np.issubdtype(dtype, np.floating) and dtype.itemsize < values.dtype.itemsize:
        np.clip(values, np.finfo(dtype).min, np.finfo(dtype).max, out=values)
    return values.astype(dtype, copy=False)


def partway(noisy: NDArray[Any], clean: NDArray[Any], strength: float) -> NDArray[Any]:
    """Part of the way from an image (0) to its result (1), in the type of that; NaN and infinite pixels stay.

    Examples
    --------
    >>> partway(np.array([10.0, np.nan]), np.array([20.0, np.nan]), 0.3)
    array([13., nan])
    """
    if strength == 1:
        return clean
    with np.errstate(invalid="ignore"):
        mixed = noisy + strength * (clean.astype(np.float64) - noisy)
    return to_dtype(np.where(np.isfinite(mixed), mixed, clean), clean.dtype)


def check_range(image: NDArray, finite: NDArray[np.bool_] | None = None) -> None:
    """Raise InputError if finite pixels are larger than what can be computed with."""
    if image.dtype.kind != "f" or image.dtype.itemsize == 2 or not image.size:
        return
    if np.abs(image, where=np.isfinite(image) if finite is None else finite, out=np.zeros_like(image)).max() > LARGEST:
        raise InputError(
            f"The image has values beyond {LARGEST:.0e}, too large to compute with: divide them by a number."
        )


def fill_invalid(image: NDArray) -> tuple[NDArray, NDArray[np.bool_] | None]:
    """Replace each NaN or infinite pixel of (N, C, [Z,] Y, X) by its nearest finite neighbor in the same channel.

    Returns the filled image and the mask of finite pixels, or the image itself and None where all are finite.
    """
    if not np.issubdtype(image.dtype, np.floating):
        return image, None
    finite = np.isfinite(image)
    check_range(image, finite)
    if finite.all():
        return image, None
    filled = image.copy()
    for plane, ok in zip(filled.reshape(-1, *image.shape[2:]), finite.reshape(-1, *image.shape[2:]), strict=True):
        if not ok.any():
            plane[...] = 0
        elif not ok.all():
            nearest = ndimage.distance_transform_edt(~ok, return_distances=False, return_indices=True)
            plane[...] = plane[tuple(nearest)]
    return filled, finite
