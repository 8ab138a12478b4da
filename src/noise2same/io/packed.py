"""Files of a header and plain pixels, as they are or packed by gzip: `.mrc` and `.map.gz`, `.fits` and `.fits.gz`."""

from __future__ import annotations

import gzip
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from noise2same.files import reserve
from noise2same.io.image import Decoded, Pieces
from noise2same.io.mapped import Filled
from noise2same.io.raw import Raw
from noise2same.io.scaling import Physical, Scaling

LEVEL = 6  # of gzip: its own default; 9 takes several times as long for a few percent


def is_packed(path: Path) -> bool:
    """Whether a name says that its content is packed."""
    return path.suffix.lower() == ".gz"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to read, unpacked."""
    with gzip.open(path) if is_packed(path) else path.open("rb") as file:
        yield cast(BinaryIO, file)


def stored(path: Path, offset: int, shape: tuple[int, ...], scaling: Scaling) -> Decoded | Pieces:
    """Pixels in C order from an offset on: of a plain file piece by piece, of a packed one all at once."""
    if is_packed(path):
        return Decoded(path, shape, scaling.dtype, partial(_unpacked, offset=offset, shape=shape, scaling=scaling))
    return Pieces(Physical(Raw(path, offset, shape, scaling.raw), scaling), path)


def _unpacked(path: Path, *, offset: int, shape: tuple[int, ...], scaling: Scaling) -> NDArray[Any]:
    with opened(path) as file:
        file.seek(offset)
        content = file.read(math.prod(shape) * scaling.raw.itemsize)
    return scaling(np.frombuffer(content, scaling.raw).reshape(shape))


@contextmanager
def filled(path: Path) -> Iterator[BinaryIO]:
    """A new file to read and write, packed at the end if its name says so; until then it has no name."""
    if not is_packed(path):
        with path.open("w+b") as file:
            yield file
        return
    with tempfile.TemporaryFile(dir=path.parent) as plain:
        yield cast(BinaryIO, plain)
        plain.seek(0)
        with gzip.open(path, "wb", LEVEL) as packed:
            shutil.copyfileobj(plain, packed, 2**20)


def mapped(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Filled:
    """Room for pixels at the end of what is written of a file, as an array to fill; the file goes on behind it."""
    start = file.seek(0, 2)
    file.truncate(start + math.prod(shape) * dtype.itemsize)
    file.flush()
    reserve(file)
    out = Filled(file, dtype, "r+", start, shape)
    file.seek(0, 2)
    return out
