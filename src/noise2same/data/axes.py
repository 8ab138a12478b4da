"""Axes strings such as 'TCZYX' to the network's layout (N, C, [Z,] Y, X), and back.

S (samples) and T (time points) are independent images, C are channels that are denoised together, Z makes the data
three-dimensional.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError

LETTERS = "STCZYX"
SAMPLES = "ST"


def check(axes: str, shape: tuple[int, ...], *, name: str = "the array") -> str:
    """Return `axes` in capitals if it describes an array of this shape; say what does not fit otherwise.

    Parameters
    ----------
    axes : str
        One letter per dimension, of S, T, C, Z, Y and X, each at most once; Y and X are required.
    shape : tuple of int
        Shape of the array to be described.
    name : str
        What to call the array in an error, usually its file.
    """
    axes = axes.upper()
    unknown = sorted(set(axes) - set(LETTERS))
    if unknown:
        raise InputError(f"{name}: axes '{axes}' has the unknown letter {unknown[0]!r}; use S, T, C, Z, Y and X.")
    if len(set(axes)) != len(axes):
        raise InputError(f"{name}: axes '{axes}' names a letter twice.")
    if not {"Y", "X"} <= set(axes):
        raise InputError(f"{name}: axes '{axes}' must contain both Y and X.")
    if len(axes) != len(shape):
        raise InputError(f"{name}: axes '{axes}' has {len(axes)} letters but the data has shape {shape}.")
    if 0 in shape:
        raise InputError(f"{name} is empty: its shape is {shape}.")
    return axes


def guess(shape: tuple[int, ...], *, name: str = "the array") -> str:
    """Axes of an array that carries no metadata, where only one reading is sensible.

    Two dimensions are YX, and a last dimension of 3 or 4 behind two long ones is colour (YXC). Anything else could be a
    volume, a time series or separate images, so it is asked for.
    """
    if len(shape) == 2:
        return "YX"
    if len(shape) == 3 and shape[2] in (3, 4) and min(shape[:2]) >= 16:
        return "YXC"
    hints = {
        3: "'ZYX' (a volume), 'SYX' (separate images), 'TYX' (a time series) or 'CYX' (channels)",
        4: "'TZYX', 'CZYX', 'SYXC' or another order",
    }
    hint = hints.get(len(shape), "one letter of S, T, C, Z, Y and X per dimension")
    raise InputError(f"{name} has shape {shape} and does not say what its axes are: pass axes, such as {hint}.")


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
        Position of the image along S and T.
    """

    def __init__(self, array: Any, axes: str, index: dict[str, int]) -> None:
        self.array, self.axes, self.index = array, axes, index
        self.size = tuple(array.shape[axes.index(letter)] for letter in spatial(axes))

    def read(self, *region: slice) -> NDArray[Any]:
        """The pixels of a region: a slice along each spatial axis, [Z,] Y, X; all of an axis that has none."""
        return to_network(np.asarray(self.array[self._slices(region)]), self.axes)

    def write(self, pixels: NDArray[Any], *region: slice) -> None:
        """Put pixels where `read` takes them from."""
        where = self._slices(region)
        shape = tuple(len(range(*cut.indices(n))) for cut, n in zip(where, self.array.shape, strict=True))
        self.array[where] = from_network(pixels, self.axes, shape)

    def _slices(self, region: Sequence[slice]) -> tuple[slice, ...]:
        cuts = {letter: slice(index, index + 1) for letter, index in self.index.items()}
        cuts |= dict(zip(spatial(self.axes), region, strict=False))
        return tuple(cuts.get(letter, slice(None)) for letter in self.axes)


def samples(array: Any, axes: str) -> list[Sample]:
    """All independent images of an array, in order."""
    letters = [letter for letter in SAMPLES if letter in axes]
    indices = product(*(range(array.shape[axes.index(letter)]) for letter in letters))
    return [Sample(array, axes, dict(zip(letters, index, strict=True))) for index in indices]


def _network_order(axes: str) -> str:
    return "".join(letter for letter in LETTERS if letter in axes)
