"""How an image is cut for prediction: into regions that are written at once, and these into blocks.

A block is predicted from its window: the block and a halo as wide as the network's reach. The network sees the same
pixels of the same stride grid around a block wherever it is cut, so the result does not depend on the cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from noise2same.data import axes as ax

Region = tuple[slice, ...]
"""A slice with a start and a stop along each spatial axis, [Z,] Y, X."""

UNKNOWN_REACH = 32
"""Pixels of halo around a block for a network that does not state its reach."""
UNKNOWN_VALUES = 128
"""Values per pixel that a network is taken to hold if it does not say: those of a U-Net with 20 features."""
SMALLEST_BLOCK = 16
"""Pixels along each axis of a block that is not halved any more: by then the halo takes nearly all of the memory."""


@dataclass(frozen=True)
class Grid:
    """An image of `size` as a network sees it.

    Parameters
    ----------
    size : tuple of int
        Of the image, ([Z,] Y, X).
    reach : tuple of int
        Pixels along each axis, to either side, that an output pixel may depend on.
    multiple : tuple of int
        Stride of the network along each axis. The image counts as padded to multiples of it at its far ends.
    """

    size: tuple[int, ...]
    reach: tuple[int, ...]
    multiple: tuple[int, ...]

    @classmethod
    def of(cls, network: nn.Module, size: tuple[int, ...], margin: Sequence[int] = ()) -> Grid:
        """The grid of a network that may state its `reach` and `multiple`.

        `margin` is the number of pixels around a block, along each axis, whose output is needed too.
        """
        multiple = tuple(getattr(network, "multiple", (1,) * len(size)))
        unknown = tuple(max(UNKNOWN_REACH, step) for step in multiple)
        reach = tuple(getattr(network, "reach", unknown))
        return cls(size, tuple(map(sum, zip(reach, margin, strict=True))) if margin else reach, multiple)

    @property
    def whole(self) -> Region:
        """All of the image."""
        return tuple(slice(0, size) for size in self.size)

    def window(self, region: Region) -> Region:
        """A region and its halo, from grid point to grid point, within the padded image.

        It may end beyond the image, where the image is padded.
        """
        return tuple(slice(*self._window(axis, part.start, part.stop)) for axis, part in enumerate(region))

    def _window(self, axis: int, start: int, stop: int) -> tuple[int, int]:
        reach, step = self.reach[axis], self.multiple[axis]
        first = max(0, start - reach) // step * step
        return first, min(round_up(stop + reach, step), round_up(self.size[axis], step))

    def split(
        self, region: Region, most: int, *, unit: Sequence[int] | None = None, longest: Sequence[int] | None = None
    ) -> list[Region]:
        """Cut a region into blocks whose windows hold at most `most` pixels, with as little halo as that allows.

        Parameters
        ----------
        region : Region
            What to cut.
        most : int
            Pixels of the largest window. Blocks of one unit are made even if their windows are larger.
        unit : sequence of int, optional
            Blocks are multiples of it; by default of the stride.
        longest : sequence of int, optional
            Largest block.
        """
        unit, longest = unit or self.multiple, longest or self.size
        cuts = [self._cuts(part, unit[axis], longest[axis]) for axis, part in enumerate(region)]
        held = [[max(self._lengths(axis, cut)) for cut in along] for axis, along in enumerate(cuts)]
        return self._cheapest(cuts, held, most)

    def gather(self, most: int, unit: Sequence[int]) -> list[Region]:
        """Cut the image into regions of at most `most` pixels, multiples of `unit`, with as little halo as possible."""
        cuts = [self._cuts(part, unit[axis], part.stop) for axis, part in enumerate(self.whole)]
        return self._cheapest(cuts, [[cut[0].stop - cut[0].start for cut in along] for along in cuts], most)

    def _cuts(self, part: slice, unit: int, longest: int) -> list[list[slice]]:
        """All ways to cut an axis into equal pieces of whole units, but for the last one; the longest pieces first."""
        extent = part.stop - part.start
        units = -(-extent // unit)
        lengths = {-(-units // pieces) * unit for pieces in range(1, units + 1)}
        allowed = [length for length in lengths if min(length, extent) <= longest] or [unit]
        return [
            [slice(start, min(start + length, part.stop)) for start in range(part.start, part.stop, length)]
            for length in sorted(allowed, reverse=True)
        ]

    def _lengths(self, axis: int, cut: list[slice]) -> list[int]:
        windows = (self._window(axis, piece.start, piece.stop) for piece in cut)
        return [stop - start for start, stop in windows]

    def _cheapest(self, cuts: list[list[list[slice]]], held: list[list[int]], most: int) -> list[Region]:
        """Of all ways to cut the axes, one with the fewest pixels in all windows together, while `held` permits it.

        Of equal ones, that with the longest pieces along X, then Y: these are read and written fastest.
        """
        work = [[float(sum(self._lengths(axis, cut))) for cut in along] for axis, along in enumerate(cuts)]
        total, largest = (reduce(np.multiply.outer, [np.array(v, float) for v in reversed(of)]) for of in (work, held))
        total[largest > most] = np.inf
        best = total.argmin() if np.isfinite(total).any() else total.size - 1  # the smallest pieces, if none will do
        chosen = reversed(np.unravel_index(best, total.shape))
        return list(product(*(along[int(index)] for along, index in zip(cuts, chosen, strict=True))))


def halved(region: Region, multiple: Sequence[int]) -> list[Region]:
    """Cut a block in two along its longest axis; a block that is small already stays whole."""
    edges = [part.stop - part.start for part in region]
    axis = int(np.argmax(edges))
    if edges[axis] <= max(SMALLEST_BLOCK, multiple[axis]):
        return [region]
    part = region[axis]
    middle = part.start + round_up(edges[axis] // 2, multiple[axis])
    return [
        (*region[:axis], half, *region[axis + 1 :]) for half in (slice(part.start, middle), slice(middle, part.stop))
    ]


class Part(NamedTuple):
    """What is written at once: a region of one image, or of some that share the chunks of a store. Plain numbers."""

    place: tuple[tuple[int, int], ...]
    """Start and stop along S and T, as far as the array has them."""
    region: tuple[tuple[int, int], ...]
    """Start and stop along [Z,] Y, X."""

    @property
    def where(self) -> Region:
        """The region as slices."""
        return tuple(slice(*ends) for ends in self.region)

    @property
    def samples(self) -> list[tuple[int, ...]]:
        """The place of each image along S and T."""
        return list(product(*(range(*ends) for ends in self.place)))

    @property
    def pixels(self) -> int:
        """How many there are, in one channel."""
        return math.prod(stop - start for start, stop in (*self.place, *self.region))


def places_of(out: Any, axes: str) -> Iterator[tuple[tuple[int, int], ...]]:
    """The images of an array along S and T, in order: one by one, or those together that a store writes at once."""
    at_once, letters = _written_at_once(out), sample_axes(axes)
    lengths = [out.shape[axes.index(letter)] for letter in letters]
    steps = [at_once[axes.index(letter)] if at_once else 1 for letter in letters]
    counts = [-(-length // step) for length, step in zip(lengths, steps, strict=True)]
    for number in range(math.prod(counts)):  # there may be billions, so no list of them is made
        at = np.unravel_index(number, counts) if counts else ()
        yield tuple(
            (int(i) * step, min(int(i) * step + step, n)) for i, step, n in zip(at, steps, lengths, strict=True)
        )


def sample_axes(axes: str) -> str:
    """Those of S and T that there are."""
    return "".join(letter for letter in ax.SAMPLES if letter in axes)


def chunks_of(out: Any, axes: str) -> tuple[int, ...] | None:
    """What a store writes at once along [Z,] Y, X: its shards, or else its chunks; None for a plain array."""
    chunks = _written_at_once(out)
    return tuple(chunks[axes.index(letter)] for letter in ax.spatial(axes)) if chunks else None


def _written_at_once(out: Any) -> tuple[int, ...] | None:
    chunks = getattr(out, "shards", None) or getattr(out, "chunks", None)
    return chunks if chunks and all(isinstance(length, int) for length in chunks) else None


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below `value`."""
    return -(-value // multiple) * multiple
