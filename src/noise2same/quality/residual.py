"""What a denoiser took away, x − f(x), measured block by block in units of the noise; and lines that it left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float64]
Variance = Callable[[Array], Array]
"""Variance of the noise of a channel where the clean image has the given values."""

BLOCK = 16
"""Side of a block in pixels."""
WHITE = 1.7
"""Standard errors that the autocorrelation of white noise in a block hardly exceeds."""
SCALES = (2, 4, 8, 16)
"""Sides of the squares, in pixels, over which the residual is averaged."""
CROP = {2: (256, 256), 3: (16, 128, 128)}
"""Sides of the pieces of a large image that are looked at."""
PIXELS = 2**20
"""Of a channel that are looked at."""
SEGMENT, SEGMENTS, HIGHEST, MARGIN = 64, 32, 9.0, 8
"""In search of seams: pixels and number of a line's segments, the most that one can count, and lines left out."""
IMAGES = 4
"""Of a stack that are searched for seams."""


@dataclass(frozen=True)
class Blocks:
    """Blocks without unknown pixels of one channel; fields of shape (blocks,). The noise has the variance 1."""

    square: Array
    """Mean square of the residual: 1 where nothing but noise was taken away."""
    mean: Array
    """Mean of the residual."""
    brightness: Array
    """Mean of the denoised image, in its own units."""
    slope: Array
    """Mean square gradient of the denoised image, slightly smoothed."""
    lag: Array
    """Larger of the residual's two autocorrelations from a pixel to its neighbours along Y and X."""
    grain: Array
    """Mean square of the denoised image's fine detail, which the noise would dominate if it were still there."""
    detail: Array
    """Mean product of that detail and the residual: positive where detail was flattened."""
    local: Array
    """(blocks, scales): variance of the residual's means over squares of `SCALES`, 1 for white noise."""
    variance: Array
    """Mean variance of the noise, in the image's own units."""
    derivative: Array
    """Mean of ∂f_j/∂x_j; 0 where the denoiser was not asked."""

    def __len__(self) -> int:
        return len(self.square)

    def __getitem__(self, which: NDArray[np.generic]) -> Blocks:
        return Blocks(*(getattr(self, field.name)[which] for field in fields(self)))

    def quiet(self) -> NDArray[np.bool_]:
        """Where nothing but noise can have been taken away: (blocks,).

        The denoised image is flat there, as in the flattest half of all blocks, and the residual looks white: lost
        texture would show in it. Neither looks at how strong the residual is.
        """
        return (self.slope <= np.median(self.slope)) & (self.lag < WHITE / BLOCK)

    @classmethod
    def join(cls, parts: Sequence[Blocks]) -> Blocks:
        """All blocks of several crops."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def crops(shape: Sequence[int], pixels: int = PIXELS) -> list[tuple[slice, ...]]:
    """Evenly spread pieces of an array (N, C, [Z,] Y, X), each of one image and all of its channels: (C, [Z,] Y, X).

    Together they have at most `pixels` pixels in a channel, or are one.
    """
    samples, _, *size = shape
    whole = np.prod(size) <= pixels
    sides = [length if whole else min(length, side) for length, side in zip(size, CROP[len(size)], strict=True)]
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
    """Blocks of a piece of one channel, plane by plane.

    Parameters
    ----------
    noisy, clean, variance, derivative : ndarray, ([Z,] Y, X)
        The piece, denoised, the variance of its noise, and the derivative of each denoised pixel by the noisy one, if
        it was asked for.
    """
    arrays = (noisy, clean, variance, np.zeros_like(noisy) if derivative is None else derivative)
    planes = (array.reshape(-1, *noisy.shape[-2:]) for array in arrays)
    return Blocks.join([_of_plane(*plane) for plane in zip(*planes, strict=True)])


def of_channels(x: NDArray[Any], f: NDArray[Any], variances: Sequence[Variance]) -> list[Blocks]:
    """Blocks of each channel of noisy and denoised images, (N, C, [Z,] Y, X)."""
    found: list[list[Blocks]] = [[] for _ in variances]
    for piece in crops(x.shape):
        noisy, clean = (array[piece][0].astype(np.float64) for array in (x, f))
        for c, variance in enumerate(variances):
            known = np.where(np.isfinite(clean[c]), clean[c], 0.0)
            found[c].append(blocks(noisy[c], clean[c], variance(known)))
    return [Blocks.join(parts) for parts in found]


def _of_plane(noisy: Array, clean: Array, variance: Array, derivative: Array) -> Blocks:
    known = np.isfinite(noisy) & np.isfinite(clean)
    clean = np.where(known, clean, np.median(clean[known]) if known.any() else 0.0)
    std = np.sqrt(np.where(known, variance, 1.0))
    z = np.where(known, noisy - clean, 0.0) / std
    usable = cut(known).all(axis=(1, 2))
    tiles = cut(z)[usable]
    square = (tiles**2).mean(axis=(1, 2))
    smooth = ndimage.gaussian_filter(clean, 1.0)
    gradient = np.hypot(ndimage.sobel(smooth, 0), ndimage.sobel(smooth, 1)) / 8 / std
    grain = (clean - ndimage.gaussian_filter(clean, 2.0)) / std
    lags = [(tiles[:, 1:] * tiles[:, :-1]).mean(axis=(1, 2)), (tiles[:, :, 1:] * tiles[:, :, :-1]).mean(axis=(1, 2))]
    return Blocks(
        square=square,
        mean=tiles.mean(axis=(1, 2)),
        brightness=cut(clean)[usable].mean(axis=(1, 2)),
        slope=(cut(gradient)[usable] ** 2).mean(axis=(1, 2)),
        lag=np.abs(lags).max(axis=0) / np.maximum(square, 1e-12),
        grain=(cut(grain)[usable] ** 2).mean(axis=(1, 2)),
        detail=(cut(grain)[usable] * tiles).mean(axis=(1, 2)),
        local=np.stack([_local_power(tiles, scale) for scale in SCALES], axis=1),
        variance=cut(std**2)[usable].mean(axis=(1, 2)),
        derivative=cut(derivative)[usable].mean(axis=(1, 2)),
    )


def cut(plane: NDArray[Any]) -> NDArray[Any]:
    """Array (Y, X) -> its whole blocks, (blocks, height, width); an axis shorter than a block is one block long."""
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
    """The strongest `seam` of each channel of images (N, C, [Z,] Y, X), a few of which are searched."""
    chosen = np.linspace(0, len(x) - 1, min(len(x), IMAGES)).round().astype(int)
    return [max(seam(x[n, c], f[n, c]) for n in chosen) for c in range(x.shape[1])]


def seam(noisy: NDArray[Any], clean: NDArray[Any]) -> float:
    """How much the strongest straight line across a whole image, ([Z,] Y, X), stands out that only `clean` has.

    A denoiser that treats tiles differently makes steps along their borders. The step of the residual from each line of
    pixels to the next is averaged over segments of up to 64 pixels and squared, in units of its usual size. It counts
    where the denoised image has it, sharply, and the noisy one has not, and up to 9: an object's edge is in both, and
    rarely crosses the whole image. The value is the largest mean over a line's segments but the highest quarter of
    them. The outermost lines are left out: denoisers err there for want of neighbours.
    """
    highest = 0.0
    for axis in range(noisy.ndim):
        if noisy.shape[axis] < 4 * MARGIN or noisy.shape[-2 if axis == noisy.ndim - 1 else -1] < 2 * MARGIN:
            continue
        steps, made = (np.diff(lines[:, MARGIN:-MARGIN], axis=1) for lines in _profiles(noisy, clean, axis))
        usual = 1.4826 * np.median(np.abs(steps))
        only_clean = np.abs(steps + made) < np.abs(made) / 2  # the noisy image's step is the sum
        sharp = np.abs(made) > np.abs(np.roll(made, 1, axis=1)) + np.abs(np.roll(made, -1, axis=1))
        if usual > 0:
            counted = np.where(only_clean & sharp, np.minimum((steps / usual) ** 2, HIGHEST), 0.0)
            usually = np.sort(counted, axis=0)[: -(-3 * len(counted) // 4)]
            highest = max(highest, float(usually.mean(axis=0).max()))
    return highest


def _profiles(noisy: NDArray[Any], clean: NDArray[Any], axis: int) -> tuple[Array, Array]:
    """Means over segments across an axis, evenly spread, of residual and clean: each (segments, length of the axis)."""
    noisy, clean = np.moveaxis(noisy, axis, -1), np.moveaxis(clean, axis, -1)
    *outer, across, _ = noisy.shape
    length = int(np.clip(across // 8, 8, SEGMENT))
    places = list(product(*map(range, outer), range(0, across - length + 1, length)))
    residuals, cleans = [], []
    for i in np.linspace(0, len(places) - 1, min(len(places), SEGMENTS)).round().astype(int):
        *plane, start = places[i]
        x, f = (array[*plane, start : start + length].astype(np.float64) for array in (noisy, clean))
        known = np.isfinite(x) & np.isfinite(f)
        x, f = np.where(known, x, 0.0), np.where(known, f, 0.0)
        residuals.append((x - f).mean(axis=0))
        cleans.append(f.mean(axis=0))
    return np.stack(residuals), np.stack(cleans)
