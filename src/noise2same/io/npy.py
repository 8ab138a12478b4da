"""NumPy's .npy: read and written in parts, so that only what is touched is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.files import reserve
from noise2same.io.image import Image, Pieces
from noise2same.io.mapped import Filled
from noise2same.io.raw import Raw, expanded

suffixes = (".npy",)
default_output = ""


def read(path: Path) -> Image:
    try:
        mapped = np.lib.format.open_memmap(path, mode="r")  # unlike np.load, never a pickle or an archive
    except ValueError as error:
        if "Python objects" in str(error):
            raise InputError(f"{path} holds pickled Python objects, which are never loaded: save numbers.") from error
        raise
    columns_first = mapped.flags.f_contiguous and not mapped.flags.c_contiguous
    shape = mapped.shape[::-1] if columns_first else mapped.shape
    raw = Raw(path, mapped.offset, shape, mapped.dtype)
    return Image(Pieces(_Transposed(raw) if columns_first else raw, path), "", path=path)


class _Transposed:
    """An array whose axes are in the reverse order in its file."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self.shape, self.dtype, self.ndim = raw.shape[::-1], raw.dtype, raw.ndim

    def __getitem__(self, key: Any) -> NDArray[Any]:
        keys = expanded(key, self.ndim)
        if all(isinstance(one, slice) for one in keys):
            return self._raw[tuple(reversed(keys))].T
        return self._raw[...].T[key]


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    """Holds everything."""


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=like.shape).view(Filled)
    reserve(path)
    yield out
    out.flush()
