"""PNG with 8 or 16 bits: grey or RGB, with or without alpha; a palette becomes RGB."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io.image import Decoded, Image, Part

suffixes = (".png",)
default_output = ""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SAMPLES = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # values of a decoded pixel by color type


def read(path: Path) -> Image:
    shape, dtype = _header(path)
    whole = Decoded(path, shape, dtype, _decode)
    if len(shape) == 3 and shape[2] in (2, 4):
        data = Part(whole, 0 if shape[2] == 2 else slice(0, 3))
        return Image(data, "YXC"[: data.ndim], path=path, details={"alpha": Part(whole, shape[2] - 1)})
    return Image(whole, "YXC"[: len(shape)], path=path)


def _decode(path: Path) -> NDArray[Any]:
    return imagecodecs.png_decode(path.read_bytes())


def _header(path: Path) -> tuple[tuple[int, ...], type[np.unsignedinteger[Any]]]:
    """Shape and type of the decoded pixels; ValueError if a chunk of the file is cut off."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(33)
        if start[:8] != _SIGNATURE or start[12:16] != b"IHDR" or len(start) < 33:
            raise ValueError("no PNG header")
        width, height, depth, color = struct.unpack(">IIBB", start[16:26])
        kinds = set()
        while len(head := file.read(8)) == 8 and head[4:] != b"IEND":
            end = file.seek(int.from_bytes(head[:4], "big") + 4, os.SEEK_CUR)  # behind its content and checksum
            if end > size:
                raise ValueError("it ends before its pixels do")
            kinds.add(head[4:])
    if b"IDAT" not in kinds:
        raise ValueError("no pixels")
    samples = _SAMPLES[color] + (b"tRNS" in kinds and color < 4)  # transparency of some colors becomes alpha
    return (height, width, *((samples,) if samples > 1 else ())), np.uint16 if depth == 16 else np.uint8


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if like is None:
        return
    if dtype not in (np.uint8, np.uint16):
        raise InputError(f"{path}: PNG holds uint8 and uint16 only, not {dtype}; write .tif or .npy instead.")
    if like.axes != "YX" and not (like.axes == "YXC" and like.shape[2] == 3):
        raise InputError(
            f"{path}: PNG holds one grey (YX) or RGB (YXC) image, not axes '{like.axes}' of shape {like.shape}; "
            "write .tif or .zarr instead."
        )


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    try:
        out = np.zeros(like.shape, dtype)
    except MemoryError:
        raise InputError(f"{like.name} does not fit into memory as a PNG; write .zarr instead.") from None
    yield out
    alpha = like.details.get("alpha")
    if alpha is not None and alpha.dtype == dtype and alpha.shape == out.shape[:2]:
        out = np.dstack([out, alpha[...]])
    path.write_bytes(imagecodecs.png_encode(out))
