"""PNG with 8 or 16 bits: grey or RGB, with or without alpha; a palette becomes RGB. What is said of it is kept."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io import units
from noise2same.io.image import Decoded, Image, Part

suffixes = (".png",)
default_output = ""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# chunks that stay true of other pixels: colors, size, EXIF and texts
KEPT = (b"cICP", b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"pHYs", b"eXIf", b"tEXt", b"zTXt", b"iTXt")
INCH = units.LENGTHS["inch"][1]  # meters
MOST = 2**24  # bytes of a chunk that is kept
Chunks = dict[bytes, list[bytes]]

_SAMPLES = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # values of a decoded pixel by color type


def read(path: Path) -> Image:
    shape, dtype, chunks = _header(path)
    whole = Decoded(path, shape, dtype, _decode)
    details: dict[str, Any] = {"flavour": "plain", "png": chunks, "exif": chunks.get(b"eXIf", [b""])[0]}
    details["icc"] = _profile(chunks.get(b"iCCP", [b""])[0])
    data: Decoded | Part = whole
    if len(shape) == 3 and shape[2] in (2, 4):
        data = Part(whole, 0 if shape[2] == 2 else slice(0, 3))
        details["alpha"] = Part(whole, shape[2] - 1)
    return Image(data, "YXC"[: data.ndim], *_resolution(chunks.get(b"pHYs", [b""])[0]), path, details)


def _profile(content: bytes) -> bytes:
    """The color profile of a chunk: a name, a zero, the number of a method, and the profile, packed."""
    with suppress(zlib.error):
        return zlib.decompressobj().decompress(content.partition(b"\0")[2][1:], MOST)
    return b""


def _resolution(content: bytes) -> tuple[dict[str, float], str]:
    across, down, unit = struct.unpack(">IIB", content) if len(content) == 9 else (0, 0, 0)
    dots = {"Y": round(down * INCH, 2), "X": round(across * INCH, 2)}  # whole dots per meter are no whole ones per inch
    known = unit == 1 and all(dots.values())
    return ({letter: 1 / count for letter, count in dots.items()}, "inch") if known else ({}, "")


def _decode(path: Path) -> NDArray[Any]:
    return imagecodecs.png_decode(path.read_bytes())


def _header(path: Path) -> tuple[tuple[int, ...], type[np.unsignedinteger[Any]], Chunks]:
    """Shape and type of the decoded pixels, and the chunks to keep; ValueError if a chunk of the file is cut off."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(33)
        if start[:8] != _SIGNATURE or start[12:16] != b"IHDR" or len(start) < 33:
            raise ValueError("no PNG header")
        width, height, depth, color, packing = struct.unpack(">IIBBB", start[16:27])
        if packing:
            raise ValueError(f"unknown compression method {packing}")
        kinds, kept = set(), dict[bytes, list[bytes]]()
        while len(head := file.read(8)) == 8 and head[4:] != b"IEND":
            length = int.from_bytes(head[:4], "big")
            if head[4:] in KEPT and length <= MOST:
                kept.setdefault(head[4:], []).append(file.read(length))
                length = 0
            end = file.seek(length + 4, os.SEEK_CUR)  # behind its content and checksum
            if end > size:
                raise ValueError("it ends before its pixels do")
            kinds.add(head[4:])
    if b"IDAT" not in kinds:
        raise ValueError("no pixels")
    samples = _SAMPLES[color] + (b"tRNS" in kinds and color < 4)  # transparency of some colors becomes alpha
    return (height, width, *((samples,) if samples > 1 else ())), np.uint16 if depth == 16 else np.uint8, kept


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
    content = imagecodecs.png_encode(out)
    start = len(_SIGNATURE) + 25  # behind the first chunk
    path.write_bytes(content[:start] + b"".join(_chunks(like)) + content[start:])


def _chunks(like: Image) -> Iterator[bytes]:
    """What the file of the input said, if it was PNG too; else what is known of the image."""
    found: Chunks = like.details.get("png") or {}
    if not found:
        sizes = [units.convert(like.pixel_size.get(letter, 0.0), like.unit, "meter") for letter in "XY"]
        dots = [round(1 / size) for size in sizes if size and 1 / size < 2**31]
        found = {b"pHYs": [struct.pack(">IIB", *dots, 1)]} if len(dots) == 2 else {}
        if like.details.get("icc"):
            found[b"iCCP"] = [b"ICC profile\0\0" + zlib.compress(like.details["icc"])]
        if like.details.get("exif"):
            found[b"eXIf"] = [like.details["exif"]]
    if like.note:
        found = found | {b"tEXt": [*found.get(b"tEXt", []), b"Comment\0" + like.note.encode("latin-1", "replace")]}
    for kind in KEPT:  # in this order: colors come before all else
        for content in found.get(kind, []):
            yield struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
