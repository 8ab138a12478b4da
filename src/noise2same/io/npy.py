"""NumPy's .npy: mapped into memory both ways, so that only what is touched is read or written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from noise2same.errors import InputError
from noise2same.files import reserve
from noise2same.io.image import Image, Pieces

suffixes = (".npy",)
default_output = ""


def read(path: Path) -> Image:
    try:
        data = np.lib.format.open_memmap(path, mode="r")  # unlike np.load, never a pickle or an archive
    except ValueError as error:
        if "Python objects" in str(error):
            raise InputError(f"{path} holds pickled Python objects, which are never loaded: save numbers.") from error
        raise
    return Image(data if data.dtype.isnative else Pieces(data, path), "", path=path)


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    """Holds everything."""


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=like.shape)
    reserve(path)
    yield out
    out.flush()
