"""Resolution levels: each is the mean of the one before it, box by box, so that memory is bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Box = tuple[tuple[int, int], ...]
"""Start and stop along each axis of a level."""

MEAN_PIXELS = 2**24
"""Pixels of the finer level that are read at once, or else those of one chunk."""


def factors(fine: Sequence[int], coarse: Sequence[int]) -> tuple[int, ...] | None:
    """How many pixels along each axis make one of a coarser level; None if that is no whole number."""
    found = []
    for long, short in zip(fine, coarse, strict=True):
        fitting = (f for f in (long // short, -(-long // short)) if f and short in (long // f, -(-long // f)))
        found.append(next(fitting, 0))
    return tuple(found) if all(found) else None


def boxes(fine: Any, coarse: Any) -> Iterator[Box]:
    """Cut a level into boxes of whole shards, or else chunks, for `fill`."""
    unit = list(coarse.shards or coarse.chunks)
    room = MEAN_PIXELS // max(1, math.prod(unit) * math.prod(factors(fine.shape, coarse.shape) or ()))
    for axis in reversed(range(len(unit))):
        count = -(-coarse.shape[axis] // unit[axis])
        times = min(count, max(1, room))
        unit[axis], room = unit[axis] * times, room // times
        if times < count:
            break
    counts = [-(-length // step) for length, step in zip(coarse.shape, unit, strict=True)]
    for number in range(math.prod(counts)):
        at = np.unravel_index(number, counts)
        ends = zip(at, unit, coarse.shape, strict=True)
        yield tuple((int(i) * step, min((int(i) + 1) * step, length)) for i, step, length in ends)


def fill(fine: Any, coarse: Any, box: Box) -> None:
    """Write a box of a level: the means of the finer one, of as many pixels as there are at its far ends."""
    steps = factors(fine.shape, coarse.shape)
    assert steps is not None, "levels are checked when the store is made"
    around = tuple(
        slice(start * f, min(stop * f, n)) for (start, stop), f, n in zip(box, steps, fine.shape, strict=True)
    )
    pixels = means(np.asarray(fine[around]), steps)
    if np.issubdtype(coarse.dtype, np.integer):
        pixels = np.rint(pixels)
    coarse[tuple(slice(*ends) for ends in box)] = pixels.astype(coarse.dtype)


def means(pixels: NDArray[Any], steps: Sequence[int]) -> NDArray[Any]:
    """Means of boxes of so many pixels along each axis; those at the far ends may be smaller."""
    pixels = pixels.astype(np.result_type(pixels.dtype, np.float32), copy=False)
    for axis, step in enumerate(steps):
        if step > 1:
            starts = np.arange(0, pixels.shape[axis], step)
            counts = np.diff(np.append(starts, pixels.shape[axis])).astype(pixels.dtype)
            pixels = np.add.reduceat(pixels, starts, axis)
            pixels /= counts.reshape(-1, *(1,) * (pixels.ndim - axis - 1))
    return pixels
