"""How strong the noise is, from noisy images alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dctn

from noise2same.errors import InputError

Array = NDArray[np.float64]

# Chosen on BSD68, and compared with other estimators on two more sets in benchmarks/level.py: side of a block, distance
# of blocks, up to which sum of its two frequencies they are texture's and from which on noise's, number of brightness
# levels, share and least number of a level's blocks to keep.
BLOCK = 8
STRIDE = 4
TEXTURE = 6
NOISE = 10
LEVELS = 8
SUMS = np.add.outer(np.arange(BLOCK), np.arange(BLOCK))
COARSE, FINE = (SUMS > 0) & (SUMS <= TEXTURE), SUMS >= NOISE
"""Frequencies of texture and of noise."""
FLATTEST = 0.02
FEWEST = 12
EMPTY = 1.2
"""Texture, in units of the noise variance, up to which there is nothing but noise."""
LEAK = 0.3
"""Error of a level's variance by texture, as a share of how much its texture is above the noise."""
SIGNIFICANT = 3.0
"""Standard errors that a slope must have to count."""
HUGE = 10.0
"""Range of brightness (`brightness_range`) from which on the noise of the brightest places is looked for as well.

Star fields and bright beads have 28 to 53; ordinary photographs, fluorescence and volumes 0.8 to 5.3, 190 images."""
BETWEEN = (SUMS > TEXTURE) & (SUMS < NOISE)
"""Frequencies by which blocks in a huge range are chosen: between those of stars and of noise."""
MAX_PLANES = 64
MAX_BLOCKS = 2**14
MAX_PIXELS = 2**20
"""How many of the pixels their mean is taken of, if there are more."""


class NoiseLevel(NamedTuple):
    """How strong the noise is in each channel, in the units of the image."""

    sigma: tuple[float, ...]
    """Root of the mean variance of the noise over the image."""
    slope: tuple[float, ...]
    """By how much the variance grows with the intensity: 0 for Gaussian noise, the gain of a detector for photons."""


class Levels(NamedTuple):
    """The flattest blocks at some levels of brightness, each field of shape (levels,)."""

    brightness: Array
    variance: Array
    """Of the noise: mean square of the high frequencies."""
    texture: Array
    """Mean square of the low frequencies: equal to the variance where there is white noise and nothing else."""
    blocks: Array
    """Their number."""
    fewest: Array
    """How many were kept in any case; the others hold nothing but noise."""


class Line(NamedTuple):
    """The noise-level function: variance = slope · intensity + intercept."""

    slope: float
    intercept: float
    slope_error: float
    """Standard error of the slope."""
    error: float
    """Relative standard error of the variance in the middle of the line, with what texture may add."""
    misfit: float
    """Root mean square distance of the levels from the line, beyond their errors, as a share of the variance."""

    def at(self, intensity: Any) -> Any:
        """Variance of the noise at an intensity, or at an array of them; never negative."""
        return np.maximum(self.slope * intensity + self.intercept, 0.0)


def noise_sigma(image: ArrayLike) -> float:
    """Standard deviation of the noise: the root mean square over the channels of `noise_level`."""
    return float(np.sqrt(np.mean(np.square(noise_level(image).sigma))))


def noise_level(image: ArrayLike) -> NoiseLevel:
    """Level of the white noise in each channel of noisy images, pooled over images.

    The noise is measured at several levels of brightness (`measure`) and a line is fitted to them (`fit`).

    Parameters
    ----------
    image : array_like, (Y, X), (Z, Y, X), (N, C, Y, X) or (N, C, Z, Y, X)
        Noisy images. Of more than 64 planes per image and channel, 64 evenly spaced ones are looked at.

    Returns
    -------
    NoiseLevel
        Of variance and slope, the median over images; 0 if everything is constant. Planes under 8 pixels a side cannot
        separate noise from signal and give their plain standard deviation, an upper bound. The slope is never negative.
    """
    array = np.asarray(image)
    if not 2 <= array.ndim <= 5 or array.size == 0:
        raise InputError(f"a noise estimate needs pixels in 2 to 5 dimensions, but the shape is {array.shape}.")
    samples, channels = array.shape[:2] if array.ndim >= 4 else (1, 1)
    volumes = array.reshape(samples, channels, -1, *array.shape[-2:])
    variances, slopes = np.array([[_of_volume(volumes[n, c]) for c in range(channels)] for n in range(samples)]).T
    sigma, slope = np.sqrt(np.median(variances, axis=1)), np.median(slopes, axis=1)
    return NoiseLevel(tuple(sigma.tolist()), tuple(slope.tolist()))


def _of_volume(volume: NDArray[np.generic]) -> tuple[float, float]:
    """Mean variance of the noise in a volume (Z, Y, X), and its slope."""
    levels = measure([volume])
    planes = _spread(volume)
    step = max(1, round((sum(plane.size for plane in planes) / MAX_PIXELS) ** 0.5))
    pixels = np.stack([plane[::step, ::step] for plane in planes]).astype(np.float64)
    finite = pixels[np.isfinite(pixels)]
    if levels is None:
        return (float(finite.var()) if min(volume.shape[1:]) < BLOCK and finite.size else 0.0), 0.0
    line = fit(levels)
    return float(line.at(finite.mean())), max(0.0, line.slope)


def measure(volumes: Sequence[NDArray[np.generic]]) -> Levels | None:
    r"""Noise variance at several levels of brightness of one channel of an image.

    Each XY plane is cut into overlapping blocks of 8×8 pixels, and each block is transformed to its frequencies
    :math:`(u, v)` by the discrete cosine transform. White noise is as strong at all of them, and independent from one
    to the other; texture is strongest at the low ones. So the low ones, :math:`0 < u+v \le 6`, show how flat a block
    is, and the high ones, :math:`u+v \ge 10`, how strong the noise is, without choosing blocks where it happens to be
    weak (Ponomarenko et al. 2007). Flat blocks are mostly dark ones, where photon noise is weak: the blocks are first
    sorted by brightness into 8 levels of equal size, and the flattest 2 % of every level (12 blocks at least) are kept,
    with all others of the level whose low frequencies are as weak as if there were only the noise of those. Where the
    range of brightness is huge, as in a field of stars, the brightest blocks follow in finer levels: the gain of the
    detector shows nowhere else.

    Blocks that are constant in most places (a masked background), that touch an end of a range that cuts the noise off,
    or that have more than 4 NaN or infinite pixels are left out.

    Parameters
    ----------
    volumes : sequence of ndarray, (Z, Y, X)
        One channel of an image, or parts of it, or of several with the same noise.

    Returns
    -------
    Levels or None
        None if no block is left.

    References
    ----------
    Ponomarenko, Lukin, Zriakhov, Kaarna, Astola: An automatic approach to lossy compression of AVIRIS images. IGARSS
    2007.
    """
    planes = [plane for volume in volumes for plane in _spread(volume)]
    stride = max(STRIDE, round((sum(plane.size for plane in planes) / MAX_BLOCKS) ** 0.5))
    cut = [cut_blocks(plane, stride) for plane in planes if min(plane.shape) >= BLOCK]
    blocks, known, fit = usable(np.concatenate(cut) if cut else np.zeros((0, BLOCK, BLOCK)))
    blocks = blocks[fit]
    if len(blocks) == 0:
        return None
    squares = squared_frequencies(blocks, known[fit])
    brightness, variance = blocks.mean(axis=(1, 2)), squares[:, FINE].mean(axis=1)
    found = by_brightness(brightness, squares)
    if not has_huge_range(blocks, float(np.median(variance)) ** 0.5):
        return found
    middle = squares[:, BETWEEN].mean(axis=1)
    octaves = _brightest(brightness, middle)
    bright = _levels(octaves, brightness, variance, middle, [len(octave) for octave in octaves])
    return Levels(*map(np.concatenate, zip(found, bright, strict=True)))


def by_brightness(brightness: Array, squares: Array) -> Levels:
    """The flattest blocks at some levels of brightness.

    Parameters
    ----------
    brightness : ndarray, (blocks,)
        Mean intensity of each.
    squares : ndarray, (blocks, 8, 8)
        Squares of its frequencies.
    """
    texture, variance = (squares[:, band].mean(axis=1) for band in (COARSE, FINE))
    levels = np.array_split(np.argsort(brightness), np.clip(len(brightness) // (2 * FEWEST), 1, LEVELS))
    flat = [_flattest(level, texture, variance) for level in levels]
    return _levels(flat, brightness, variance, texture, [_fewest(level) for level in levels])


def has_huge_range(pixels: NDArray[Any], sigma: float) -> bool:
    """Whether the range of brightness of finite pixels is `HUGE`; the arguments are those of `brightness_range`."""
    return bool(pixels.std() > HUGE * sigma) and brightness_range(pixels, sigma) > HUGE  # which has to sort them


def brightness_range(pixels: NDArray[Any], sigma: float) -> float:
    """Standard deviation of finite pixels over their usual spread, that of the middle 68 %; 1 if they are Gaussian.

    The spread counts as at least `sigma`, that of the noise.
    """
    low, high = np.quantile(pixels, (0.16, 0.84))
    return float(pixels.std() / max((high - low) / 2, sigma, np.finfo(np.float64).tiny))


def _spread(volume: NDArray[np.generic]) -> list[NDArray[np.generic]]:
    """At most `MAX_PLANES` evenly spaced planes of a volume (Z, Y, X)."""
    return [volume[z] for z in np.linspace(0, len(volume) - 1, min(len(volume), MAX_PLANES)).round().astype(int)]


def cut_blocks(plane: NDArray[np.generic], stride: int) -> Array:
    """Array (Y, X) -> blocks of it at distances of `stride`, (blocks, 8, 8)."""
    return sliding_window_view(plane, (BLOCK, BLOCK))[::stride, ::stride].reshape(-1, BLOCK, BLOCK).astype(np.float64)


def usable(blocks: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Blocks, (blocks, 8, 8), with NaN filled by their mean, how many pixels are known, and which can be measured."""
    finite = np.isfinite(blocks)
    known = finite.sum(axis=(1, 2))
    blocks = np.where(finite, blocks, 0.0)
    mean = blocks.sum(axis=(1, 2)) / np.maximum(known, 1)
    blocks = np.where(finite, blocks, mean[:, None, None])
    constant = (np.diff(np.diff(blocks, axis=1), axis=2) == 0).mean(axis=(1, 2)) > 0.5
    fit = ~constant & (known >= BLOCK**2 - 4)
    whole = fit & (sum((blocks == end).mean(axis=(1, 2)) for end in cuts(blocks[fit])) <= 0.02)
    return blocks, known, whole if whole.sum() > 0.2 * fit.sum() else fit


def squared_frequencies(blocks: Array, known: Array) -> Array:
    """Squares of the frequencies of blocks, (blocks, 8, 8), as if none of their pixels were filled."""
    squares: Array = dctn(blocks, axes=(1, 2), norm="ortho", overwrite_x=False) ** 2
    return squares * (BLOCK**2 / known)[:, None, None]


def cuts(values: Array) -> list[float]:
    """The ends of the range that cut values off: there are twice as many of them there as one step further inside.

    Photons that are not detected are no cut: the counts 0 and 1 are about as frequent as each other.
    """
    if values.size == 0 or np.ptp(values) == 0:
        return []
    low, high = values.min(), values.max()
    ends = ((low, values[values > low].min()), (high, values[values < high].max()))
    return [float(end) for end, inside in ends if (values == end).sum() > 2 * (values == inside).sum()]


def _flattest(level: NDArray[np.intp], texture: Array, variance: Array) -> NDArray[np.intp]:
    """The flattest of a level's blocks, and all others where there is no more than the noise of those."""
    count = _fewest(level)
    ranked = level[np.argsort(texture[level])]
    empty = np.searchsorted(texture[ranked], EMPTY * variance[ranked[:count]].mean())
    return ranked[: max(count, int(empty))]


def _fewest(level: NDArray[np.intp]) -> int:
    """How many of a level's blocks are kept at least."""
    return min(len(level), max(FEWEST, round(FLATTEST * len(level))))


def _brightest(brightness: Array, middle: Array) -> list[NDArray[np.intp]]:
    """The brightest eighth of all blocks in levels by octaves of their rank, of each the half with the least texture.

    Few blocks on a star are flat, but light through optics has next to nothing at the highest frequencies.
    """
    ranked = np.argsort(brightness)[::-1]
    ends = [len(ranked) // LEVELS]
    while ends[-1] >= 2 * FEWEST:
        ends.append(ends[-1] // 2)
    octaves = [ranked[start:end] for end, start in pairwise(ends)]
    return [octave[np.argsort(middle[octave])][: max(FEWEST, len(octave) // 2)] for octave in octaves]


def _levels(
    chosen: list[NDArray[np.intp]], brightness: Array, variance: Array, texture: Array, fewest: list[int]
) -> Levels:
    """Means over the blocks that were chosen at each level, of which `fewest` would have been in any case."""
    means = [np.array([values[level].mean() for level in chosen]) for values in (brightness, variance, texture)]
    counts = [np.array(list(map(float, of))) for of in (map(len, chosen), fewest)]
    return Levels(means[0], means[1], means[2], *counts)


def fit(levels: Levels) -> Line:
    """Line through the variances at some levels of brightness, by weighted least squares.

    A level counts by the error of its variance, which has two parts: chance, by the number of its blocks, and texture,
    by how much more of it there is at the low frequencies than of noise. So a level without a flat place hardly counts.
    """
    brightness, variance, texture, count, _ = levels
    chance = 2 / (count * (BLOCK * 2 - NOISE) * (BLOCK * 2 - NOISE - 1) / 2)
    expected = variance
    for _ in range(8):  # both parts of the error depend on the line itself
        floor = np.maximum(expected, 0.01 * variance.mean() + np.finfo(float).tiny)
        excess = np.maximum(texture / floor - 1, 0)
        weight = 1 / (floor**2 * (chance + (LEAK * excess) ** 2 + 1e-3))
        total = weight.sum()
        centre = (weight * brightness).sum() / total
        offset = brightness - centre
        run = (weight * offset**2).sum()
        slope = (weight * offset * variance).sum() / run if run > 0 else 0.0
        slope = slope if abs(slope) * run**0.5 > SIGNIFICANT else 0.0
        middle = (weight * variance).sum() / total
        expected = middle + slope * offset
    beyond = max(0.0, (weight * (variance - expected) ** 2 - 1).sum())
    misfit = (beyond / (weight * floor**2).sum()) ** 0.5
    slope_error = run**-0.5 if run > 0 else 0.0
    error = total**-0.5 / middle if middle > 0 else 0.0
    return Line(float(slope), float(middle - slope * centre), float(slope_error), float(error), float(misfit))
