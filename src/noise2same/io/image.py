"""What every format reads into and writes from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.files import file_of, identity
from noise2same.io import foreign
from noise2same.io.raw import Boxes, expanded
from noise2same.io.remote import Url, explain

# what readers say of pixels that are whole but packed in a way that they do not know
_CODEC = re.compile(
    r"(compression|codec|scheme)\b.*\b(not supported|unsupported|unknown)|requires the .* package|"
    r"(unsupported|unknown|unrecognized|cannot decompress)\b.*\b(compression|codec)|not a known COMPRESSION|"
    r"codec not available|The method or operation is not implemented",  # the last is what libCZI says
    re.IGNORECASE,
)
LAZY_BYTES = 2**30  # larger images are read piece by piece


class Sliceable(Protocol):
    """Pixels that are read by slicing: a NumPy array, a memory map, a Zarr array, `Pieces` or `Decoded`."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any: ...


@dataclass(frozen=True)
class Image:
    """Pixels, what their axes are, and what has to survive a round trip to disk.

    Parameters
    ----------
    data : Sliceable
        The pixels: an array, or what is read from disk when it is indexed, such as `Decoded` and `Pieces`.
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
    stamp : str
        What `files.identity` said of the file when it was opened; '' for an array or a store of many files.
    title : str
        What to call one that has no path, such as the name of a layer in napari.
    note : str
        What is done to its pixels, which a file that is written like it says in its metadata; '' for nothing.
    """

    data: Sliceable
    axes: str
    pixel_size: dict[str, float] = field(default_factory=dict)
    unit: str = ""
    path: Path | None = None
    details: dict[str, Any] = field(default_factory=dict)
    others: int = 0
    stamp: str = ""
    title: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return (self.title or "The array") if self.path is None else str(self.path)

    @property
    def label(self) -> str:
        """What to call it where there is little room: without its folder, as 'scan.czi/2'."""
        if self.path is None:
            return self.name
        return f"{self.path.parent.name}/{self.path.name}" if self.path.name.isdecimal() else self.path.name

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.data.dtype)

    def check_unchanged(self) -> None:
        """Raise InputError if the file is no longer what it was when it was opened."""
        if self.path is None or not self.stamp:
            return
        try:
            now = identity(self.path)
        except OSError as error:
            raise InputError(f"{self.path} was taken away while it was read ({error.strerror}): try again.") from None
        if now != self.stamp:
            raise InputError(f"{self.path} has changed while it was read: try again when it is complete.")

    def forget(self) -> None:
        """Free the memory of decoded pixels; they are decoded again when they are needed."""
        if isinstance(self.data, Decoded | Part):
            self.data.forget()


class OnDisk:
    """Shape and type of pixels in a file, in native byte order, whose values are read when it is indexed.

    Attributes
    ----------
    found : dict
        What took a look at all of the pixels to find. It is kept as long as the file is open, and goes with `forget`.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = tuple(int(length) for length in shape)
        self.ndim = len(self.shape)
        self.found: dict[str, Any] = {}
        self.dtype: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")

    def __getitem__(self, key: Any) -> NDArray[Any]:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self[...], dtype=dtype, copy=copy)


class Pieces(OnDisk):
    """An array on disk of which each part is read again whenever it is indexed, for what is too large to keep."""

    def __init__(self, source: Sliceable, path: Path) -> None:
        super().__init__(source.shape, source.dtype)
        self._source, self._path = source, path

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """What is read and decoded at once, along each axis, where the file has such parts."""
        found: tuple[int, ...] | None = getattr(self._source, "chunks", None)
        return found

    def __getitem__(self, key: Any) -> NDArray[Any]:
        try:
            piece = np.asarray(self._source[key])
        except (IndexError, MemoryError):
            raise
        except Exception as error:  # readers raise anything on damaged data
            raise unreadable(self._path, error, "damaged: a part of its pixels cannot be read") from error
        return piece.astype(self.dtype, copy=False)


class Decoded(OnDisk):
    """An array that is decoded whole when it is first indexed, and then kept until `forget`.

    Parameters
    ----------
    path : Path
        The file.
    shape, dtype : tuple of int, dtype
        What its header says of its pixels.
    decode : callable
        Takes the path and returns the pixels.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: Any, decode: Callable[[Path], NDArray[Any]]) -> None:
        super().__init__(shape, dtype)
        self._path, self._decode = path, decode
        self._pixels: NDArray[Any] | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:  # another process decodes the file itself
        return Decoded, (self._path, self.shape, self.dtype, self._decode)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        with self._lock:
            if self._pixels is None:
                self._pixels = self._decoded()
            pixels = self._pixels
        return pixels[key]

    def _decoded(self) -> NDArray[Any]:
        try:
            pixels = self._decode(self._path).astype(self.dtype, copy=False)
        except InputError:
            raise
        except Exception as error:
            raise unreadable(self._path, error) from error
        if pixels.shape != self.shape:
            raise InputError(f"{self._path} has changed since it was opened, or is corrupt; open it again.")
        return pixels

    def forget(self) -> None:
        """Free the memory of the pixels; they are decoded again when they are needed."""
        self._pixels = None
        self.found.clear()


class Part(OnDisk):
    """Some of the samples of each pixel, along the last axis of `whole`: its colors without alpha, or alpha alone."""

    def __init__(self, whole: Decoded | Pieces, samples: slice | int) -> None:
        rest = () if isinstance(samples, int) else (len(range(whole.shape[-1])[samples]),)
        super().__init__((*whole.shape[:-1], *rest), whole.dtype)
        self._whole, self._samples = whole, samples

    def __getitem__(self, key: Any) -> NDArray[Any]:
        keys = expanded(key, self.ndim)
        if isinstance(self._samples, int):
            return self._whole[(*keys, self._samples)]
        *places, last = keys
        return self._whole[(*places, self._samples)][..., last]

    def forget(self) -> None:
        """As `Decoded.forget`."""
        self.found.clear()
        if isinstance(self._whole, Decoded):
            self._whole.forget()


def lazily(source: Boxes, path: Path) -> Decoded | Pieces:
    """Pixels that have to be decoded: once if there are few, and else each part whenever it is needed."""
    if math.prod(source.shape) * source.dtype.itemsize <= LAZY_BYTES:
        return Decoded(path, source.shape, source.dtype, source.everything)
    return Pieces(source, path)


def unreadable(path: Path, error: Exception, damage: str = "truncated or corrupt") -> InputError:
    """What to raise for an error that a reader raised, which may be any on a damaged file."""
    if isinstance(path, Url):
        return explain(path, error)
    if isinstance(error, PermissionError):
        return InputError(f"{path} cannot be read: no permission.")
    if isinstance(error, MemoryError):
        return InputError(f"{path} does not fit into memory; convert it to .zarr, which is read piece by piece.")
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    if _CODEC.search(reason):
        return InputError(f"{path} has a compression that cannot be read ({reason}); save it again without.")
    if what := foreign.disguise(file_of(path)):
        return InputError(f"{path} is {what} it first.")
    return InputError(f"{path} is {damage} ({reason}); copy or export it again.")


def dtype_of(name: str) -> np.dtype[Any]:
    """Type of pixels by its name."""
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        raise InputError(f"dtype '{name}' is not known: use same, uint8, uint16, int16 or float32.") from None
    if dtype.kind not in "uif":
        raise InputError(f"dtype '{name}' cannot hold an image: use same, uint8, uint16, int16 or float32.")
    return dtype
