"""Whether neighboring pixels share noise: its autocorrelation along each axis, from noisy images alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noise2same.data.normalize import fill_invalid
from noise2same.noise.level import Line, cuts

Array = NDArray[np.float64]

LAGS = 5
CELL = 8
"""Half of the side of a block, which is the distance of blocks too."""
FLATTEST = 0.05
FEWEST = 8
FLAWS = 0.05
"""Share of a block's pixels that may be unknown or cut off."""
# What passes as independent, chosen on Train400 and Set12: texture that is left is mostly below, noise smoothed over 3
# pixels far above.
NEIGHBOR = 0.2
"""Correlation at lag 1."""
STRIPE = 0.1
"""Mean correlation over all lags."""
CALM, SMOOTH = 0.14, 0.45
"""Correlation at lag 1 by gentle differences, where they leave the same everywhere, and where they leave texture."""
EVEN = 1.35
"""Ratio of what is left in the flattest quarter of the blocks and in the flattest of all, up to which it is noise."""
REACH = 0.15
"""Correlation of pixels that still share noise, in an axis that is known to be correlated."""
SHARP, GENTLE = 4, 1
"""Orders of the differences that remove the image."""
OTHER = (2, 2, 1)
"""The axis of (Z, Y, X) along which they are taken, for each axis."""


class Correlation(NamedTuple):
    """Autocorrelation of the noise along the spatial axes ("Z", "Y", "X")."""

    lags: dict[str, tuple[float, ...]]
    """At the lags 1, 2, ...; none where an axis is too short to measure."""
    extent: dict[str, int]
    """The largest lag at which noise is still correlated; 0 where it is independent."""
    strength: float
    """The largest correlation over the limit of what passes as independent."""


def correlation(volumes: Sequence[NDArray], line: Line, axes: str) -> Correlation:
    """Autocorrelation of the noise along each of the axes.

    The image is removed by differences along *another* axis, which leave the correlation along this one as it is if
    the noise's covariance is a product over the axes. What texture they leave differs from place to place, while noise
    is everywhere: only the twentieth of the blocks of 16×16 pixels with the least left counts, after division by the
    noise variance at each block's brightness.

    Fourth differences remove most of the image. They also remove most of a noise that is smooth, and change the rest.
    First differences do not, but leave more texture: they decide only if what they leave is equally strong in a quarter
    of the blocks, as noise is, or is very correlated. In an axis that is found to be correlated, they measure how much.

    Parameters
    ----------
    volumes : sequence of ndarray, (Z, Y, X)
        Parts of noisy images, all with the same noise. Blocks with more than a few NaN or infinite pixels do not count.
    line : Line
        Their noise-level function.
    axes : str
        "YX" or "ZYX".
    """
    lags: dict[str, tuple[float, ...]] = {}
    extent = dict.fromkeys(axes, 0)
    strength = 0.0
    parts = [_part(volume, line) for volume in volumes]
    least = 0.1 * float(np.mean([part.variance.mean() for part in parts])) or 1.0  # of photon noise in the dark
    parts = [part._replace(variance=np.maximum(part.variance, least)) for part in parts]
    for name in axes:
        found = _along(parts, "ZYX".index(name))
        if found is None:
            lags[name] = ()
            continue
        strength = max(strength, found.strength)
        correlated = found.strength > 1
        lags[name] = tuple((found.gentle if correlated else found.sharp).tolist())
        if correlated:
            extent[name] = max([1] + [lag for lag, value in enumerate(found.gentle, 1) if abs(value) > REACH])
    return Correlation(lags, extent, strength)


def thinned(volume: NDArray, extent: dict[str, int]) -> list[NDArray]:
    """Parts of a volume (Z, Y, X) whose pixels are further apart than the noise's extent, so that theirs is white."""
    strides = [extent.get(name, 0) + 1 for name in "ZYX"]
    return [volume[z :: strides[0], y :: strides[1], x :: strides[2]] for z, y, x in np.ndindex(*strides)]


class _Part(NamedTuple):
    """Part of an image, each field (Z, Y, X)."""

    pixels: Array
    variance: Array
    """Of the noise, as the noise-level function promises it."""
    flawed: NDArray[np.bool_]
    """Pixels that do not count: unknown ones, and those at an end of the range that cuts the noise off."""


def _part(volume: NDArray, line: Line) -> _Part:
    pixels, finite = fill_invalid(np.asarray(volume, dtype=np.float64)[None, None])
    pixels, known = pixels[0, 0], np.ones(volume.shape, bool) if finite is None else finite[0, 0]
    return _Part(pixels, line.at(pixels), ~known | np.isin(pixels, cuts(pixels[known])))


class _Axis(NamedTuple):
    """Autocorrelation along one axis at the lags 1, 2, ..., by sharp and by gentle differences where they are flat."""

    sharp: Array
    gentle: Array
    strength: float
    """Correlation over what passes as none."""


def _along(parts: Sequence[_Part], axis: int) -> _Axis | None:
    """Autocorrelation along one axis; None where the images are too small or constant."""
    shapes = [part.pixels.shape for part in parts]
    reach = min(LAGS, *(shape[axis] - 2 for shape in shapes))
    room = [shape[a] - SHARP * (a == OTHER[axis]) - reach * (a == axis) for shape in shapes for a in (1, 2)]
    if reach < 1 or min(room) < CELL:
        return None
    products = np.concatenate([_products(part, axis, reach) for part in parts], axis=-1)
    count = min(products.shape[-1], max(FEWEST, round(FLATTEST * products.shape[-1])))
    if count == 0:
        return None
    by_sharp, by_gentle = (products[..., np.argpartition(square, count - 1)[:count]] for square in products[:, 0])
    (sharp, gentle), (_, calm) = (mean[:, 1:] / mean[:, :1] for mean in (by_sharp.mean(-1), by_gentle.mean(-1)))
    # blocks overlap by half; differences are worth 1 / 2.6 of their number of independent pixels
    error = (2.6 / (2 * CELL**2 * count)) ** 0.5
    few, many = np.quantile(products[1, 0], (FLATTEST, 5 * FLATTEST))
    limit = CALM + 2 * error if many < EVEN * few else SMOOTH
    ratios = (sharp[0] / (NEIGHBOR + 2 * error), sharp.mean() / (STRIPE + 2 * error), calm[0] / limit)
    return _Axis(sharp, gentle, float(np.abs(ratios).max()))


def _products(part: _Part, axis: int, reach: int) -> Array:
    """Mean products of sharp and of gentle differences at the lags 0, 1, ... in units of the noise variance.

    Of each usable block: (2, 1 + lags, blocks).
    """
    other = OTHER[axis]
    ordered, variance, flawed = (np.moveaxis(field, (other, axis), (-2, -1)) for field in part)
    rows, columns = ordered.shape[-2] - SHARP, ordered.shape[-1] - reach
    kinds = [np.diff(ordered, n=n, axis=-2)[..., (SHARP - n) // 2 :, :][..., :rows, :] for n in (SHARP, GENTLE)]
    products = [[h[..., :columns] * h[..., lag : lag + columns] for lag in range(reach + 1)] for h in kinds]
    squares = _pooled(np.moveaxis(np.array(products), (-2, -1), (2 + other, 2 + axis)))
    inside = (field[..., SHARP // 2 :, :][..., :rows, :columns] for field in (variance, flawed))
    expected, flaws = (_pooled(np.moveaxis(field, (-2, -1), (other, axis))) for field in inside)
    usable = squares[0, 0] > 0
    whole = usable & (flaws <= FLAWS)
    usable = whole if whole.sum() > 0.2 * usable.sum() else usable
    scaled: Array = (squares / expected)[..., usable]
    return scaled


def _pooled(planes: NDArray) -> Array:
    """Means over overlapping blocks of 16×16 pixels, (..., Z, Y, X) -> (..., blocks); 8×8 where there is no room."""
    rows, columns = planes.shape[-2] // CELL, planes.shape[-1] // CELL
    cut = planes[..., : rows * CELL, : columns * CELL]
    cells = cut.reshape(*planes.shape[:-2], rows, CELL, columns, CELL).mean(axis=(-3, -1))
    cells = (cells[..., 1:, :] + cells[..., :-1, :]) / 2 if rows > 1 else cells
    cells = (cells[..., 1:] + cells[..., :-1]) / 2 if columns > 1 else cells
    return cells.reshape(*planes.shape[:-3], -1)
