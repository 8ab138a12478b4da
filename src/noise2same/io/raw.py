"""Plain pixels in a file, read by slicing.

They are read, not mapped into memory: a process that touches a mapped file which has shrunk meanwhile ends without a
word. The file is opened for each part, as few files may be open at a time.
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


class Boxes:
    """An array that is read box by box, and can be indexed like any other: a format says how a box is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        keys = expanded(key, self.ndim)
        if not all(isinstance(one, slice | int | np.integer) for one in keys):
            return self._box([slice(0, length) for length in self.shape])[key]
        box, inside = zip(*map(_box_along, keys, self.shape), strict=True) if keys else ((), ())
        return self._box(box)[inside]

    def everything(self, _: Path) -> NDArray[Any]:
        """All pixels, for `Decoded`."""
        return self[...]

    def _box(self, box: Any) -> NDArray[Any]:
        """The pixels of a box: a slice with start and stop along each axis."""
        raise NotImplementedError


class Raw(Boxes):
    """An array in C order that begins at `offset` in a file. Slices with a step of 1 read no more than they hold.

    EOFError if the file ends before it does, when it is made and whenever it is read.
    """

    def __init__(self, path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path, self.offset, self.shape, self.dtype = path, offset, shape, dtype
        missing = offset + math.prod(shape) * dtype.itemsize - path.stat().st_size
        if missing > 0:
            raise EOFError(f"it ends {missing} bytes before its pixels do")

    def _box(self, box: Any) -> NDArray[Any]:
        out = np.empty([part.stop - part.start for part in box], self.dtype)
        if out.size == 0:
            return out
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(self.ndim)]
        # the last axes, of which all is wanted but for the first of them, follow each other in the file
        run = self.ndim - 1
        while run > 0 and out.shape[run] == self.shape[run]:
            run -= 1
        rows = out.reshape(-1, math.prod(out.shape[max(run, 0) :]))
        starts = product(*(range(part.start, part.stop) for part in box[: max(run, 0)]))
        inner = box[run].start * strides[run] if self.ndim else 0
        with self.path.open("rb", buffering=0) as file:
            for row, start in zip(rows, starts, strict=True):
                place = sum(at * stride for at, stride in zip(start, strides, strict=False)) + inner
                _fill(file, self.offset + place * self.dtype.itemsize, row)
        return out


def expanded(key: Any, ndim: int) -> list[Any]:
    """One key for each axis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    gap = next((at for at, part in enumerate(keys) if part is Ellipsis), len(keys))
    keys[gap : gap + 1] = [slice(None)] * (ndim - len(keys) + (gap < len(keys)))
    if len(keys) > ndim:
        raise IndexError(f"there are {len(keys)} indices for {ndim} axes")
    return keys


def _box_along(key: Any, length: int) -> tuple[slice, Any]:
    """What to read along an axis, and what to take of that."""
    if isinstance(key, slice):
        chosen = range(length)[key]
        if not chosen:
            return slice(0, 0), slice(None)
        low, high = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
        return slice(low, high + 1), slice(None, None, chosen.step)
    at = range(length)[int(key)]  # raises IndexError
    return slice(at, at + 1), 0


def _fill(file: BinaryIO, place: int, row: NDArray[Any]) -> None:
    """Read bytes at a place of a file into an array; EOFError if there are too few."""
    file.seek(place)
    view, done = row.view(np.uint8).data, 0
    while done < len(view):
        count = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError("it has become shorter while it was read")
        done += count
