"""What happens to single values: replaced by an impulse, cut off at an end of the range, rounded to coarse steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

Array = NDArray[np.float64]

FAR = 3.0
"""Distance from the surroundings, in standard deviations, that noise hardly reaches."""
WINDOW = (1, 5, 5)
"""In which a pixel's surroundings are looked at."""
SAMPLE = 2**16
"""Number of pixels from which the step is taken."""
RARE = 0.001
"""Share of pixels with exactly one value, up to which it is chance."""


class Values(NamedTuple):
    """Shares of pixels, from 0 to 1, and the step between values."""

    impulses: float
    """Pixels that have a suspect value far from their surroundings, as a share of all that are far from it."""
    clipped: float
    """Pixels at an end of the range where the noise would reach beyond it."""
    step: float
    """Typical distance between neighboring values that occur, in the units of the images."""


def examine(volumes: Sequence[NDArray]) -> Values:
    """Look for impulses, clipping and steps in parts of images, (Z, Y, X); NaN and infinite pixels do not count.

    The lowest and the highest value and 0 are suspects if there are many more pixels of them than of the next values. A
    pixel's surroundings are the mean of those in 5×5 pixels that have no such value. How far those deviate from their
    own surroundings, in the median at a brightness, shows what noise and texture can reach.
    """
    pixels = np.concatenate([volume[np.isfinite(volume)] for volume in volumes]).astype(np.float64)
    ends = pixels.min(), pixels.max()
    suspects = [value for value in ends if _stands_out(pixels, value, 2)]
    if 0.0 not in ends and _stands_out(pixels, 0.0, 50):
        suspects.append(0.0)
    found = [_count(np.asarray(volume, dtype=np.float64), suspects, ends) for volume in volumes]
    far, impulses, clipped = np.sum(found, axis=0)
    share = impulses / far if far > RARE * pixels.size else 0.0
    low, high = np.quantile(pixels, (0.05, 0.95))
    values = np.unique(pixels[:: -(-pixels.size // SAMPLE)])
    gaps = np.diff(values[(values >= low) & (values <= high)])
    step = float(np.median(gaps)) if gaps.size else float(np.ptp(pixels))
    return Values(max(0.0, float(share)), float(clipped / pixels.size), step)


def _stands_out(pixels: Array, value: float, times: float) -> bool:
    """Whether a value is so many times as frequent as the next ones, below and above: no step, and no photon count."""
    count = (pixels == value).sum()
    if count <= RARE * pixels.size:
        return False
    below, above = pixels[pixels < value], pixels[pixels > value]
    next_ones = ([below.max()] if below.size else []) + ([above.min()] if above.size else [])
    return all(count > times * (pixels == other).sum() for other in next_ones)


def _count(volume: Array, suspects: list[float], ends: tuple[float, float]) -> Array:
    """Number of pixels that are far from a suspect value, of those that have it nevertheless, and of clipped pixels."""
    unclear = np.isin(volume, suspects) | ~np.isfinite(volume)
    share = ndimage.uniform_filter((~unclear).astype(np.float64), WINDOW)
    known = share > 0.1
    if not suspects or not (known & ~unclear).any():
        return np.zeros(3)
    clear = np.where(unclear, 0.0, volume)
    around = ndimage.uniform_filter(clear, WINDOW) / np.maximum(share, 1e-9)
    scale = _scale(around, np.abs(clear - around), known & ~unclear)
    counts = np.zeros(3)
    for value in suspects:
        same = volume == value
        solid = ndimage.maximum_filter(ndimage.minimum_filter(same, WINDOW), WINDOW)  # a mask, or all saturated
        at = known & same & ~solid
        if value not in ends:  # nothing but an impulse puts many pixels on one value amid others
            counts += known.sum(), at.sum(), 0
            continue
        distance = np.abs(around - value) / scale
        far = known & (distance > FAR)
        alone = ndimage.uniform_filter(same.astype(np.float64), (1, 3, 3)) < 3.5 / 9
        counts += far.sum(), (at & far & alone).sum() - special.ndtr(-distance[far]).sum(), (at & ~far).sum()
    return counts


def _scale(around: Array, deviation: Array, known: NDArray[np.bool_]) -> Array:
    """Robust standard deviation at each pixel, by the brightness of its surroundings; it includes texture."""
    order = np.array_split(np.argsort(around[known]), 8)
    brightness, deviations = around[known], deviation[known]
    middles = [brightness[part].mean() for part in order if part.size]
    spreads = [1.4826 * np.median(deviations[part]) for part in order if part.size]
    return np.maximum(np.interp(around, middles, spreads), 1e-9 * max(1.0, np.abs(around).max()))
