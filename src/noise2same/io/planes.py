"""Pixels of a microscope's file, which its own library reads plane by plane."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.io.raw import Boxes

ReadPlane = Callable[[tuple[int, ...], slice, slice], NDArray[Any]]
"""Takes the place of a plane along the outer axes, rows and columns; returns these pixels of it."""


class Planes(Boxes):
    """An array of planes, of which the file is opened for each box: few files may be open at a time.

    Parameters
    ----------
    shape, dtype : tuple of int, dtype
        Of all pixels.
    inner : int
        How many of the last axes a plane has: 2, or 3 with colors.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, inner: int = 2) -> None:
        self.shape, self.dtype, self._inner = shape, np.dtype(dtype), inner

    def _opened(self) -> AbstractContextManager[ReadPlane]:
        """The opened file, as what reads a plane of it."""
        raise NotImplementedError

    def _box(self, box: Any) -> NDArray[Any]:
        out = np.empty([part.stop - part.start for part in box], self.dtype)
        outer, (rows, columns, *colors) = box[: -self._inner], box[-self._inner :]
        if out.size == 0:
            return out
        with self._opened() as read:
            for place in product(*(range(part.start, part.stop) for part in outer)):
                inside = tuple(at - part.start for at, part in zip(place, outer, strict=True))
                out[inside] = read(place, rows, columns)[(..., *colors)]
        return out
