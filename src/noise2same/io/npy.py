"""NumPy's .npy: mapped into memory both ways, so that only what is touched is read or written."""

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

suffixes = (".npy",)
default_output = ""


def read(path: Path) -> Image:
    try:
        mapped = _Mapped(path)
    except ValueError as error:
        if "Python objects" in str(error):
            raise InputError(f"{path} holds pickled Python objects, which are never loaded: save numbers.") from error
        raise
    return Image(Pieces(mapped, path), "", path=path)


class _Mapped:
    """A file that is mapped anew for each part that is read: one that stays mapped stays open, and few files may."""

    def __init__(self, path: Path) -> None:
        self._path = path
        whole = self._map()
        self.shape, self.dtype, self.ndim = whole.shape, whole.dtype, whole.ndim

    def _map(self) -> np.memmap[Any, Any]:
        return np.lib.format.open_memmap(self._path, mode="r")  # unlike np.load, never a pickle or an archive

    def __getitem__(self, key: Any) -> NDArray[Any]:
        return self._map()[key]


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    """Holds everything."""


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=like.shape)
    reserve(path)
    yield out
    out.flush()
