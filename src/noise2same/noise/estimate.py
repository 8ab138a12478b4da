"""How strong the noise is, from noisy images alone."""

from __future__ import annotations

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


def noise_sigma(image: ArrayLike) -> float:
    r"""Standard deviation of the white noise in noisy images, pooled over images and channels.

    Each XY plane is filtered with Immerkær's kernel, which is blind to slopes and edges along the axes and keeps the
    standard deviation of white noise,

    .. math:: r = \tfrac16 \begin{bmatrix}1&-2&1\\-2&4&-2\\1&-2&1\end{bmatrix} * x ,

    and cut into blocks of 8×8 pixels. Texture leaks into r, so only the blocks with the flattest smoothed image count.
    Those alone would mostly be the dark ones, where photon noise is weak: the blocks are first sorted by brightness
    into 8 levels of equal size, the flattest tenth of every level (3 blocks at least) is kept, and the levels' mean
    squares r² are averaged. Noise that depends on the signal thus gives the root of its mean variance over the image.

    Blocks that are constant in most places (a masked or saturated background) and NaN or infinite pixels are left out.

    Parameters
    ----------
    image : array_like, (Y, X), (Z, Y, X), (N, C, Y, X) or (N, C, Z, Y, X)
        Noisy images. Of more than 64 planes per image and channel, 64 evenly spaced ones are looked at.

    Returns
    -------
    float
        The root mean square over channels of the median over images; 0 if everything is constant. Planes under 3 pixels
        a side cannot tell noise from signal and give their plain standard deviation, an upper bound.

    References
    ----------
    Immerkær: Fast noise variance estimation. Computer Vision and Image Understanding 64(2), 1996.
    """
    array = np.asarray(image)
    if not 2 <= array.ndim <= 5 or array.size == 0:
        raise InputError(f"a noise estimate needs pixels in 2 to 5 dimensions, but the shape is {array.shape}.")
    samples, channels = array.shape[:2] if array.ndim >= 4 else (1, 1)
    volumes = array.reshape(samples, channels, -1, *array.shape[-2:])
    variances = np.array([[_variance(volumes[n, c]) for c in range(channels)] for n in range(samples)])
    return float(np.sqrt(np.mean(np.median(variances, axis=0))))


def _variance(volume: NDArray[np.generic]) -> float:
    """Noise variance of one channel of one image, (Z, Y, X)."""
    depth, *plane = volume.shape
    chosen = np.linspace(0, depth - 1, min(depth, MAX_PLANES)).round().astype(int)
    if min(plane) < 3:
        pixels = np.asarray(volume[chosen], dtype=np.float64)
        finite = pixels[np.isfinite(pixels)]
        return float(finite.var()) if finite.size else 0.0
    statistics = [_block_statistics(np.asarray(volume[z], dtype=np.float64)) for z in chosen]
    brightness, texture, variance = np.concatenate(statistics, axis=1)
    if brightness.size == 0:
        return 0.0
    order = np.argsort(brightness)
    levels = np.array_split(order, np.clip(len(order) // LEVELS, 1, LEVELS))
    return float(np.mean([variance[_smoothest(level, texture)].mean() for level in levels]))


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
