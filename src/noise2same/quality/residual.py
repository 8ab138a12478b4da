"""What a denoiser removed, x − f(x), measured block by block in units of the noise; and the seams that it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.noise.model import NoiseModel

Array = NDArray[np.float64]

BLOCK = 16
"""Side of a block in pixels."""
MAX_WHITE_LAG = 1.7
"""Standard errors that the autocorrelation of white noise in a block hardly exceeds."""
SCALES = (2, 4, 8, 16)
"""Sides of the squares, in pixels, over which the residual is averaged."""
FLATTEST = 0.05
"""Share of the blocks, by their fine detail, that are flat in most images."""
NOISE_LIKE = 0.37
"""Correlation with the residual from which on detail in the flattest blocks is noise; texture has less."""
BRIGHTNESS_LEVELS = 8
"""Into which the blocks of an image are divided."""
CROP = {2: (256, 256), 3: (16, 128, 128)}
"""Largest sides of the crops of a large image that are measured, [Z,] Y, X."""
MIN_CROP = 64
"""Sides along Y and X are not halved below this: a network needs some surroundings."""
PIXELS = 2**19
"""Pixels of a channel that are measured at most."""
SEAM_IMAGES = 4
"""Images of a stack that are searched for seams."""
SEAM_SEGMENT, SEAM_SEGMENTS = 64, 32
"""Longest segment of a line in pixels, and segments of a line that are averaged at most, in search of seams."""
SEAM_MAX = 9.0
"""The most that one segment adds to the strength of a seam, in squared usual steps."""
SEAM_MARGIN = 8
"""Outermost lines that are not searched for seams: denoisers err there for want of neighbors."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of one channel without unknown pixels, in units in which the noise has the variance 1.

    The residual is x − f(x). Fields have the shape (blocks,) unless they say otherwise.
    """

    square: Array
    """Mean square of the residual: 1 where nothing but noise was removed."""
    mean: Array
    """Mean of the residual."""
    brightness: Array
    """Mean of the denoised image, in its own units."""
    slope: Array
    """Mean square gradient of the denoised image, slightly smoothed."""
    lag: Array
    """Larger of the residual's two autocorrelations from a pixel to its neighbors along Y and X."""
    grain: Array
    """Mean square of the denoised image's fine detail, which is mostly noise where noise is left."""
    detail: Array
    """Mean product of that detail and the residual: positive where detail was flattened."""
    local: Array
    """(blocks, scales): variance of the residual's means over squares of `SCALES`, 1 for white noise."""
    variance: Array
    """Mean variance of the noise, in the image's own units."""
    derivative: Array
    """Mean of ∂f_j/∂x_j, the share of the noise that the denoiser lets through; 0 where it was not probed."""

    def __len__(self) -> int:
        return len(self.square)

    def __getitem__(self, which: NDArray[np.generic]) -> Blocks:
        return Blocks(*(getattr(self, field.name)[which] for field in fields(self)))

    def quiet(self) -> NDArray[np.bool_]:
        """Select the blocks, (blocks,), in which nothing but noise can have been removed.

        These are blocks of the flatter half of the denoised image whose residual is white: lost texture would make
        neighbors alike. Neither criterion depends on how strong the residual is.
        """
        return (self.slope <= np.median(self.slope)) & (self.lag < MAX_WHITE_LAG / BLOCK)

    @classmethod
    def join(cls, parts: Sequence[Blocks]) -> Blocks:
        """Put the blocks of several crops together."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def by_brightness(some: Blocks) -> list[NDArray[np.intp]]:
    """Divide blocks into equally large groups, from dark to bright; of few blocks, into fewer."""
    return np.array_split(np.argsort(some.brightness), np.clip(len(some) // 4, 1, BRIGHTNESS_LEVELS))


def remaining(some: Blocks) -> float:
    """Standard deviation of detail in the flattest blocks, in units of the noise's; 0 if it is texture."""
    flat = some[some.grain <= np.quantile(some.grain, FLATTEST)]
    deviation = float(np.sqrt(flat.grain.mean()))
    removed = float(np.sqrt(flat.square.mean()))
    return deviation if deviation > removed or flat.detail.mean() > NOISE_LIKE * deviation * removed else 0.0


def crops(shape: Sequence[int], pixels: int = PIXELS) -> list[tuple[slice, ...]]:
    """Choose evenly spread crops of an array (N, C, [Z,] Y, X).

    Parameters
    ----------
    shape : sequence of int
        Of the array.
    pixels : int
        How many pixels of a channel the crops have together, at most; but there is at least one crop.

    Returns
    -------
    list of tuple of slice
        Each selects (1, C, [Z,] Y, X): a part of one image, with all of its channels. An image with at most `pixels`
        pixels is one crop; of a larger one, at least two crops are taken if `pixels` allows.
    """
    samples, _, *size = shape
    sides = list(size)
    if np.prod(size) > pixels:
        sides = list(map(min, size, CROP[len(size)]))
        while 2 * np.prod(sides) > pixels and min(sides[-2:]) >= 2 * MIN_CROP:
            sides[-2:] = [side // 2 for side in sides[-2:]]
    starts = [
        np.linspace(0, length - side, -(-length // side)).astype(int) for length, side in zip(size, sides, strict=True)
    ]
    every = list(product(range(samples), *starts))
    count = min(len(every), max(1, pixels // int(np.prod(sides))))
    chosen = [every[i] for i in np.linspace(0, len(every) - 1, count).round().astype(int)]
    return [
        (slice(n, n + 1), slice(None), *(slice(at, at + side) for at, side in zip(corner, sides, strict=True)))
        for n, *corner in chosen
    ]


def blocks(noisy: Array, clean: Array, variance: Array, derivative: Array | None = None) -> Blocks:
    """Measure the blocks of a crop of one channel, plane by plane.

    Parameters
    ----------
    noisy, clean, variance, derivative : ndarray, ([Z,] Y, X)
        The crop, the denoised crop, the variance of its noise, and the derivative of each denoised pixel by the noisy
        one, if it was probed.
    """
    arrays = (noisy, clean, variance, np.zeros_like(noisy) if derivative is None else derivative)
    planes = (array.reshape(-1, *noisy.shape[-2:]) for array in arrays)
    return Blocks.join([_of_plane(*plane) for plane in zip(*planes, strict=True)])


def blocks_of_channels(x: NDArray[Any], f: NDArray[Any], noise: NoiseModel) -> list[Blocks]:
    """Measure the blocks of each channel of noisy and denoised images, (N, C, [Z,] Y, X)."""
    found: list[list[Blocks]] = [[] for _ in range(x.shape[1])]
    for crop in crops(x.shape):
        noisy, clean = x[crop].astype(np.float64), f[crop].astype(np.float64)
        variance = noise.variance(np.where(np.isfinite(clean), clean, 0.0))
        for channel, *arrays in zip(found, noisy[0], clean[0], variance[0], strict=True):
            channel.append(blocks(*arrays))
    return [Blocks.join(parts) for parts in found]


def _of_plane(noisy: Array, clean: Array, variance: Array, derivative: Array) -> Blocks:
    known = np.isfinite(noisy) & np.isfinite(clean)
    middle = np.median(clean[known]) if known.any() else 0.0
    std = np.sqrt(np.where(known, variance, 1.0)).astype(np.float32)
    clean = np.where(known, clean, middle)
    z = (np.where(known, noisy, clean) - clean).astype(np.float32) / std
    level = (clean - middle).astype(np.float32)  # filters take half of the time that they take in float64
    usable = cut(known).all(axis=(1, 2))
    tiles = cut(z)[usable]
    square = (tiles**2).mean(axis=(1, 2))
    smooth = ndimage.gaussian_filter(level, 1.0)
    gradient = np.hypot(ndimage.sobel(smooth, 0), ndimage.sobel(smooth, 1)) / 8 / std
    grain = (level - ndimage.gaussian_filter(level, 2.0)) / std
    lags = [(tiles[:, 1:] * tiles[:, :-1]).mean(axis=(1, 2)), (tiles[:, :, 1:] * tiles[:, :, :-1]).mean(axis=(1, 2))]
    return Blocks(
        square=square,
        mean=tiles.mean(axis=(1, 2)),
        brightness=cut(level)[usable].mean(axis=(1, 2)) + middle,
        slope=(cut(gradient)[usable] ** 2).mean(axis=(1, 2)),
        lag=np.abs(lags).max(axis=0) / np.maximum(square, 1e-12),
        grain=(cut(grain)[usable] ** 2).mean(axis=(1, 2)),
        detail=(cut(grain)[usable] * tiles).mean(axis=(1, 2)),
        local=np.stack([_local_power(tiles, scale) for scale in SCALES], axis=1),
        variance=cut(std**2)[usable].mean(axis=(1, 2)),
        derivative=cut(derivative)[usable].mean(axis=(1, 2)),
    )


def cut(plane: NDArray[Any]) -> NDArray[Any]:
    """Cut an array (Y, X) into whole blocks, (blocks, height, width); a shorter axis is one block long."""
    height, width = (min(BLOCK, length) for length in plane.shape)
    rows, columns = plane.shape[0] // height, plane.shape[1] // width
    tiles = plane[: rows * height, : columns * width].reshape(rows, height, columns, width)
    return tiles.swapaxes(1, 2).reshape(rows * columns, height, width)


def _local_power(tiles: Array, scale: int) -> Array:
    """Mean square of the means over squares, times the pixels of a square."""
    count, *sides = tiles.shape
    height, width = (min(scale, side) for side in sides)
    rows, columns = sides[0] // height, sides[1] // width
    squares = tiles[:, : rows * height, : columns * width].reshape(count, rows, height, columns, width)
    return height * width * (squares.mean(axis=(2, 4)) ** 2).mean(axis=(1, 2))


def seams(x: NDArray[Any], f: NDArray[Any]) -> list[float]:
    """Find the strongest `seam` of each channel of images (N, C, [Z,] Y, X), of which a few are searched."""
    chosen = np.linspace(0, len(x) - 1, min(len(x), SEAM_IMAGES)).round().astype(int)
    return [max(seam(x[n, c], f[n, c]) for n in chosen) for c in range(x.shape[1])]


def seam(noisy: NDArray[Any], clean: NDArray[Any]) -> float:
    """Measure how strong the strongest straight line across a whole image is that only the denoised one has.

    A denoiser that treats tiles differently makes steps along their borders. The step of the residual from each line of
    pixels to the next is averaged over segments and squared, in units of its usual size. It counts where the denoised
    image has a sharp step and the noisy one has none: an object's edge is in both, and rarely crosses the whole image.
    A line's strength is the mean over its segments without the highest quarter.

    Parameters
    ----------
    noisy, clean : ndarray, ([Z,] Y, X)
        One channel of an image, and the same denoised.
    """
    highest = 0.0
    for axis in range(noisy.ndim):
        if noisy.shape[axis] < 4 * SEAM_MARGIN or noisy.shape[-2 if axis == noisy.ndim - 1 else -1] < 2 * SEAM_MARGIN:
            continue
        steps, made = (np.diff(lines[:, SEAM_MARGIN:-SEAM_MARGIN], axis=1) for lines in _profiles(noisy, clean, axis))
        usual = 1.4826 * np.median(np.abs(steps))
        only_clean = np.abs(steps + made) < np.abs(made) / 2  # the noisy image's step is the sum of both
        sharp = np.abs(made) > np.abs(np.roll(made, 1, axis=1)) + np.abs(np.roll(made, -1, axis=1))
        if usual > 0:
            counted = np.where(only_clean & sharp, np.minimum((steps / usual) ** 2, SEAM_MAX), 0.0)
            usually = np.sort(counted, axis=0)[: -(-3 * len(counted) // 4)]
            highest = max(highest, float(usually.mean(axis=0).max()))
    return highest


def _profiles(noisy: NDArray[Any], clean: NDArray[Any], axis: int) -> tuple[Array, Array]:
    """Average residual and denoised image over segments across an axis: each (segments, length of the axis)."""
    noisy, clean = np.moveaxis(noisy, axis, -1), np.moveaxis(clean, axis, -1)
    *outer, across, _ = noisy.shape
    length = int(np.clip(across // 8, 8, SEAM_SEGMENT))
    places = list(product(*map(range, outer), range(0, across - length + 1, length)))
    residuals, cleans = [], []
    for i in np.linspace(0, len(places) - 1, min(len(places), SEAM_SEGMENTS)).round().astype(int):
        *plane, start = places[i]
        x, f = (array[*plane, start : start + length].astype(np.float64) for array in (noisy, clean))
        known = np.isfinite(x) & np.isfinite(f)
        x, f = np.where(known, x, 0.0), np.where(known, f, 0.0)
        residuals.append((x - f).mean(axis=0))
        cleans.append(f.mean(axis=0))
    return np.stack(residuals), np.stack(cleans)
