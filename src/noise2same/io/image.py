"""What every format reads into and writes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from noise2same.errors import InputError


@dataclass(frozen=True)
class Image:
    """Pixels, what their axes are, and what has to survive a round trip to disk.

    Parameters
    ----------
    data : numpy.ndarray or Pieces
        The pixels; `Pieces` and memory maps are read from disk when they are indexed.
    axes : str
        One letter of 'STCZYX' per dimension of `data`.
    pixel_size : dict
        Size of a pixel per axis letter, Z, Y and X in `unit`, T in seconds; empty when unknown.
    unit : str
        Unit of `pixel_size` by its full name, such as 'micrometer'; '' when unknown.
    path : Path, optional
        Where it came from; None for an array in memory.
    details : dict
        Private to the formats: flavour, compression, alpha channel and the like.
    others : int
        Further images in the same file, which are not read.
    """

    data: Any
    axes: str
    pixel_size: dict[str, float] = field(default_factory=dict)
    unit: str = ""
    path: Path | None = None
    details: dict[str, Any] = field(default_factory=dict)
    others: int = 0

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return "The array" if self.path is None else str(self.path)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.data.dtype)


class Pieces:
    """An array on disk whose parts are read, in native byte order, when it is indexed."""

    def __init__(self, source: Any, path: Path) -> None:
        self._source = source
        self._path = path
        self.shape: tuple[int, ...] = tuple(source.shape)
        self.ndim = len(self.shape)
        self.dtype: np.dtype[Any] = np.dtype(source.dtype).newbyteorder("=")

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        try:
            piece = np.asarray(self._source[key])
        except IndexError:
            raise
        except Exception as error:  # readers raise anything on damaged data
            raise InputError(f"{self._path} is damaged: a part of its pixels cannot be read ({error}).") from error
        return piece.astype(self.dtype, copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self[...], dtype=dtype)


def dtype_of(name: str) -> np.dtype[Any]:
    """Type of pixels by its name."""
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        raise InputError(f"dtype '{name}' is not known: use same, uint8, uint16, int16 or float32.") from None
    if dtype.kind not in "uif":
        raise InputError(f"dtype '{name}' cannot hold an image: use same, uint8, uint16, int16 or float32.")
    return dtype
