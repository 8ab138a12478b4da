"""How strong the noise is, from noisy images alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage.filters import gaussian

from noise2same.errors import InputError

# Side of a block, number of brightness levels, share and least number of a level's blocks to keep, and the width of the
# smoothing in pixels: chosen on BSD68.
BLOCK = 8
LEVELS = 8
SMOOTHEST = 0.1
FEWEST = 3
SMOOTHING = 0.85
MAX_PLANES = 64

Array = NDArray[np.float64]


class NoiseLevel(NamedTuple):
    """How strong the noise is, in the units of the image."""

    sigma: float
    """Root of the mean variance of the noise over the image."""
    slope: float
    """By how much the variance grows with the intensity: 0 for Gaussian noise, the gain of a detector for photons."""


def noise_sigma(image: ArrayLike) -> float:
    """Standard deviation of the noise: `noise_level` without its slope."""
    return noise_level(image).sigma


def noise_level(image: ArrayLike) -> NoiseLevel:
    r"""Level of the white noise in noisy images, pooled over images and channels.

    Each XY plane is filtered with Immerkær's kernel, which is blind to slopes and edges along the axes and keeps the
    standard deviation of white noise,

    .. math:: r = \tfrac16 \begin{bmatrix}1&-2&1\\-2&4&-2\\1&-2&1\end{bmatrix} * x ,

    and cut into blocks of 8×8 pixels. Texture leaks into r, so only the blocks with the flattest smoothed image count.
    Those alone would mostly be the dark ones, where photon noise is weak: the blocks are first sorted by brightness
    into 8 levels of equal size, the flattest tenth of every level (3 blocks at least) is kept, and the levels' mean
    squares r² are averaged. Noise that depends on the signal thus gives the root of its mean variance over the image.
    A line through the levels, variance against brightness, tells how it depends on it.

    Blocks that are constant in most places (a masked or saturated background) and NaN or infinite pixels are left out.

    Parameters
    ----------
    image : array_like, (Y, X), (Z, Y, X), (N, C, Y, X) or (N, C, Z, Y, X)
        Noisy images. Of more than 64 planes per image and channel, 64 evenly spaced ones are looked at.

    Returns
    -------
    NoiseLevel
        The standard deviation is the root mean square over channels of the median over images; 0 if everything is
        constant. Planes under 3 pixels a side cannot tell noise from signal and give their plain standard deviation, an
        upper bound. The slope is never negative.

    References
    ----------
    Immerkær: Fast noise variance estimation. Computer Vision and Image Understanding 64(2), 1996.
    """
    array = np.asarray(image)
    if not 2 <= array.ndim <= 5 or array.size == 0:
        raise InputError(f"a noise estimate needs pixels in 2 to 5 dimensions, but the shape is {array.shape}.")
    samples, channels = array.shape[:2] if array.ndim >= 4 else (1, 1)
    volumes = array.reshape(samples, channels, -1, *array.shape[-2:])
    levels = [[_levels(volumes[n, c]) for c in range(channels)] for n in range(samples)]
    variances = [[float(variance.mean()) for _, variance in image] for image in levels]
    sigma = float(np.sqrt(np.mean(np.median(variances, axis=0))))
    brightness, variance = np.hstack([level - level.mean(axis=1, keepdims=True) for one in levels for level in one])
    run = float(brightness @ brightness)
    return NoiseLevel(sigma, max(0.0, float(brightness @ variance) / run) if run > 0 else 0.0)


def _levels(volume: NDArray[np.generic]) -> Array:
    """Brightness and noise variance at the levels of brightness of one channel of an image, (Z, Y, X): (2, levels)."""
    depth, *plane = volume.shape
    chosen = np.linspace(0, depth - 1, min(depth, MAX_PLANES)).round().astype(int)
    if min(plane) < 3:
        pixels = np.asarray(volume[chosen], dtype=np.float64)
        finite = pixels[np.isfinite(pixels)]
        return np.array([[finite.mean()], [finite.var()]]) if finite.size else np.zeros((2, 1))
    statistics = [_block_statistics(np.asarray(volume[z], dtype=np.float64)) for z in chosen]
    brightness, texture, variance = np.concatenate(statistics, axis=1)
    if brightness.size == 0:
        return np.zeros((2, 1))
    order = np.argsort(brightness)
    levels = np.array_split(order, np.clip(len(order) // LEVELS, 1, LEVELS))
    flat = [_smoothest(level, texture) for level in levels]
    return np.array([[values[level].mean() for level in flat] for values in (brightness, variance)])


def _smoothest(level: NDArray[np.intp], texture: Array) -> NDArray[np.intp]:
    count = min(len(level), max(FEWEST, round(SMOOTHEST * len(level))))
    return level[np.argpartition(texture[level], count - 1)[:count]]


def _block_statistics(plane: Array) -> Array:
    """Brightness, texture and noise variance of a plane's usable blocks, (3, blocks)."""
    finite = np.isfinite(plane)
    weight = gaussian(finite.astype(np.float64), SMOOTHING)
    with np.errstate(invalid="ignore", divide="ignore"):
        smooth = gaussian(np.where(finite, plane, 0.0), SMOOTHING, preserve_range=True) / weight
        curvature = np.diff(np.diff(np.where(finite, plane, np.nan), n=2, axis=0), n=2, axis=1) / 6
    slope_y, slope_x = np.gradient(smooth)
    inner = (slice(1, -1), slice(1, -1))
    residual = _blocks(curvature)
    brightness = _blocks(smooth[inner]).mean(axis=1)
    texture = _blocks((slope_y**2 + slope_x**2)[inner]).mean(axis=1)
    known = np.isfinite(residual)
    count = known.sum(axis=1)
    mostly_flat = 2 * (known & (residual != 0)).sum(axis=1) <= count
    usable = np.isfinite(brightness) & np.isfinite(texture) & ~mostly_flat
    variance = np.nansum(residual**2, axis=1) / np.maximum(count, 1)
    return np.stack([brightness, texture, variance])[:, usable]


def _blocks(plane: Array) -> Array:
    """Array (Y, X) -> its whole blocks, (blocks, pixels of a block)."""
    height, width = (min(BLOCK, length) for length in plane.shape)
    rows, columns = plane.shape[0] // height, plane.shape[1] // width
    cut = plane[: rows * height, : columns * width].reshape(rows, height, columns, width)
    return cut.swapaxes(1, 2).reshape(rows * columns, height * width)
