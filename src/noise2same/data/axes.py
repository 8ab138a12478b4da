"""Axes strings such as 'TCZYX' to the network's layout (N, C, [Z,] Y, X), and back.

S (samples) and T (time points) are independent images, C are channels that are denoised together, Z makes the data
three-dimensional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from noise2same.io.axes import LETTERS, check, guess
from noise2same.io.image import Sliceable

__all__ = [
    "LETTERS",
    "SAMPLES",
    "Sample",
    "Samples",
    "channels",
    "check",
    "from_network",
    "guess",
    "samples",
    "spatial",
    "to_network",
]

SAMPLES = "ST"


def spatial(axes: str) -> str:
    """'ZYX' or 'YX': the axes the network convolves over."""
    return "ZYX" if "Z" in axes else "YX"


def channels(axes: str, shape: tuple[int, ...]) -> int:
    """Number of channels of an array with these axes."""
    return shape[axes.index("C")] if "C" in axes else 1


def to_network(array: NDArray[Any], axes: str) -> NDArray[Any]:
    """Array with `axes` -> view or copy of shape (N, C, [Z,] Y, X), where N runs over S and T.

    `from_network` is its exact inverse.
    """
    order = [axes.index(letter) for letter in _network_order(axes)]
    sizes = dict(zip(axes, array.shape, strict=True))
    samples = 1
    for letter in SAMPLES:
        samples *= sizes.get(letter, 1)
    return array.transpose(order).reshape(samples, sizes.get("C", 1), *(sizes[letter] for letter in spatial(axes)))


def from_network(array: NDArray[Any], axes: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Array of shape (N, C, [Z,] Y, X) -> array of `shape` with `axes`."""
    order = _network_order(axes)
    sizes = dict(zip(axes, shape, strict=True))
    expanded = array.reshape(*(sizes[letter] for letter in order))
    back = [order.index(letter) for letter in axes]
    return expanded.transpose(back)


class Sample:
    """One independent image inside an array with axes, read and written as boxes of shape (1, C, [Z,] Y, X).

    Parameters
    ----------
    array : array-like
        Anything that can be sliced: a NumPy array, a memory map, a zarr array on disk.
    axes : str
        Its axes.
    index : dict
        Position of the image along S and T. With slices in place of numbers, it is several images at once, and boxes
        have the shape (N, C, [Z,] Y, X).
    """

    def __init__(self, array: Sliceable, axes: str, index: Mapping[str, int | slice]) -> None:
        self.array, self.axes, self.index = array, axes, index
        self.size = tuple(array.shape[axes.index(letter)] for letter in spatial(axes))

    def read(self, *region: slice) -> NDArray[Any]:
        """The pixels of a region: a slice along each spatial axis, [Z,] Y, X; all of an axis that has none."""
        return to_network(np.asarray(self.array[self._slices(region)]), self.axes)

    def write(self, pixels: NDArray[Any], *region: slice) -> None:
        """Put pixels where `read` takes them from, in an array that can be written to."""
        out: Any = self.array
        where = self._slices(region)
        shape = tuple(len(range(*cut.indices(n))) for cut, n in zip(where, self.array.shape, strict=True))
        out[where] = from_network(pixels, self.axes, shape)

    def _slices(self, region: Sequence[slice]) -> tuple[slice, ...]:
        cuts = {at: slice(index, index + 1) if isinstance(index, int) else index for at, index in self.index.items()}
        cuts |= dict(zip(spatial(self.axes), region, strict=False))
        return tuple(cuts.get(letter, slice(None)) for letter in self.axes)


class Samples(Sequence[Sample]):
    """All independent images of an array, in order; each is made when it is asked for, as there may be billions."""

    def __init__(self, array: Sliceable, axes: str) -> None:
        self._array, self._axes = array, axes
        self._lengths = {letter: array.shape[axes.index(letter)] for letter in SAMPLES if letter in axes}

    def __len__(self) -> int:
        return prod(self._lengths.values())

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        chosen = range(len(self))[index]  # raises IndexError, which ends a loop
        if isinstance(chosen, range):
            return [self[i] for i in chosen]
        place = np.unravel_index(chosen, tuple(self._lengths.values())) if self._lengths else ()
        return Sample(self._array, self._axes, dict(zip(self._lengths, map(int, place), strict=True)))


def samples(array: Sliceable, axes: str) -> Samples:
    """All independent images of an array, in order.

    Examples
    --------
    >>> film = np.zeros((2, 3, 32, 32))
    >>> [sample.index for sample in samples(film, "STYX")][:2]
    [{'S': 0, 'T': 0}, {'S': 0, 'T': 1}]
    """
    return Samples(array, axes)


def _network_order(axes: str) -> str:
    return "".join(letter for letter in LETTERS if letter in axes)
