"""EXIF: what a camera says of a photograph, as the bytes that JPEG and PNG hold; TIFF has it in tags of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal

from PIL import Image as Pillow
from PIL import TiffImagePlugin

MARK = b"Exif\0\0"  # before it in a JPEG
ORIENTATION = 274
KEPT = (271, 272, ORIENTATION, 306, 315, 33432)  # tags at the top: maker, model, orientation, time, artist, copyright
# Tags with tables of their own, exposure and the like and the place. tifffile does not write them: until `append`
# they have the number of a neighbor that no one uses
POINTERS = {34665: 34664, 34853: 34854}
_SHORT, _LONG, _ASCII = 3, 4, 2  # types of TIFF


def upright(content: bytes) -> bytes:
    """EXIF of pixels that have been turned as it says. Nothing else is touched, as notes of makers must not move."""
    order, places = _places(BytesIO(content))
    place = places.get(ORIENTATION)
    return content if place is None else content[:place] + (1).to_bytes(2, order) + content[place + 2 :]


def _places(file: BinaryIO) -> tuple[Literal["little", "big"], dict[int, int]]:
    """The byte order of a TIFF, and where the value of each tag is written, or where that is."""
    head = file.read(8)
    order: Literal["little", "big"] = "big" if head[:2] == b"MM" else "little"
    start = int.from_bytes(head[4:], order)
    file.seek(start)
    count = int.from_bytes(file.read(2), order)
    table = file.read(12 * count)
    entries = range(len(table) // 12)
    return order, {int.from_bytes(table[12 * n : 12 * n + 2], order): start + 2 + 12 * n + 8 for n in entries}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Pillow from warnings about EXIF that is damaged: the pixels matter more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def of_tiff(path: Path) -> bytes:
    """What a TIFF says of a photograph; b'' if nothing, or if it is damaged."""
    found, kept = Pillow.Exif(), Pillow.Exif()
    with (
        quiet(),
        suppress(Exception),
        path.open("rb") as file,
    ):
        found.load_from_fp(file)
        for tag in KEPT:
            if found.get(tag) in range(2, 9) if tag == ORIENTATION else isinstance(found.get(tag), str):
                kept[tag] = found[tag]
        for pointer in POINTERS:
            if table := found.get_ifd(pointer):
                kept[pointer] = dict(table)
        return kept.tobytes().removeprefix(MARK) if len(kept) else b""
    return b""


def tags(content: bytes) -> list[tuple[int, int, int, Any, bool]]:
    """The same as tags for tifffile; `append` writes the tables that they point to."""
    found = _loaded(content)
    out: list[tuple[int, int, int, Any, bool]] = []
    for tag in KEPT:
        if tag in found and tag == ORIENTATION:
            out.append((tag, _SHORT, 1, int(found[tag]), True))
        elif tag in found:
            out.append((tag, _ASCII, 0, str(found[tag]).encode("latin-1", "replace"), True))  # as Pillow decodes it
    return out + [(other, _LONG, 1, 0, True) for pointer, other in POINTERS.items() if found.get_ifd(pointer)]


def append(path: Path, content: bytes) -> None:
    """Add the tables of EXIF to a TIFF that was written with `tags`."""
    with path.open("r+b") as file:
        order, places = _places(file)
        head = b"II*\0\x08\0\0\0" if order == "little" else b"MM\0*\0\0\0\x08"
        places = {pointer: places[other] for pointer, other in POINTERS.items() if other in places}
        for pointer, place in places.items():
            table = TiffImagePlugin.ImageFileDirectory_v2(head, group=pointer)
            for tag, value in _loaded(content).get_ifd(pointer).items():
                if not isinstance(value, dict):
                    table[tag] = value
            at = file.seek(0, 2)
            at += file.write(bytes(at % 2))
            file.write(table.tobytes(at))
            file.seek(place - 8)  # an entry is number, type, count and value
            file.write(pointer.to_bytes(2, order))
            file.seek(place)
            file.write(at.to_bytes(4, order))


def _loaded(content: bytes) -> Pillow.Exif:
    found = Pillow.Exif()
    with quiet(), suppress(Exception):
        found.load(MARK + content)
    return found
