"""Nikon ND2, read only: each position is an image."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io import units
from noise2same.io.extras import load
from noise2same.io.image import Image, lazily
from noise2same.io.planes import Planes, ReadPlane
from noise2same.io.readonly import DEFAULT_OUTPUT, refusing

suffixes = (".nd2",)
default_output = DEFAULT_OUTPUT
check = create = refusing("ND2")

WITHIN = "CYXS"
"""Axes of what the library reads at once; the others are loops of the recording."""


class _Position(Planes):
    """The pixels of one position: `loops` are the sizes of all loops of the file, `outer` those of the array."""

    def __init__(self, path: Path, position: int, loops: dict[str, int], outer: str, *what: Any) -> None:
        super().__init__(*what)
        self._path, self._position, self._loops, self._outer = path, position, loops, outer

    @contextmanager
    def _opened(self) -> Iterator[ReadPlane]:
        with _open(self._path) as file:

            def read(place: tuple[int, ...], rows: slice, columns: slice) -> NDArray[Any]:
                at = dict(zip(self._outer, place, strict=True)) | {"P": self._position}
                index = 0  # frames are numbered with the innermost loop first
                for letter, size in self._loops.items():
                    index = index * size + at.get(letter, 0)
                frame = file.read_frame(index)
                return (frame[at["C"]] if "C" in at else frame)[rows, columns]

            yield read


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    library = load("nd2", "microscopes", path)
    with library.ND2File(path) as file:
        yield file


def count(path: Path) -> int:
    with _open(path) as file:
        return int(file.sizes.get("P", 1))


def read(path: Path, number: int = 0) -> Image:
    with _open(path) as file:
        sizes, dtype = dict(file.sizes), np.dtype(file.dtype)
        found = {letter: (float(getattr(file.voxel_size(), letter.lower())), "µm") for letter in "XYZ"}
        periods = [loop.parameters.periodMs for loop in file.experiment if loop.type == "TimeLoop"]
        xml = _ome_xml(path, file)
    loops = {letter: size for letter, size in sizes.items() if letter not in WITHIN}
    unknown = set(loops) - set("PTZ")
    if unknown:
        raise InputError(f"{path} has the axis '{unknown.pop()}', which is not read; export it as OME-TIFF.")
    color = sizes.get("S", 1) > 1
    if color and sizes.get("C", 1) > 1:
        raise InputError(f"{path} has several channels of colored pixels, which are not read; export it as OME-TIFF.")
    outer = "".join(letter for letter in "TCZ" if sizes.get(letter, 1) > 1)
    axes = outer + ("YXC" if color else "YX")
    shape = tuple(sizes[letter] for letter in (*outer, "Y", "X", *("S" * color)))
    if periods and periods[0] > 0:
        found["T"] = (periods[0] / 1000, "s")
    told, unit = units.combine({letter: size for letter, size in found.items() if letter in axes})
    pixels = _Position(path, number, loops, outer, shape, dtype, 3 if color else 2)
    details = {"ome_xml": xml, "flavour": "ome", "number": number}
    return Image(lazily(pixels, path), axes, told, unit, path, details, sizes.get("P", 1) - 1)


def _ome_xml(path: Path, file: Any) -> str:
    """All that the file says, in OME's words; what cannot be read of it is no reason to refuse the pixels."""
    try:
        return str(file.ome_metadata(tiff_file_name=path.name).to_xml())
    except Exception as error:
        warnings.warn(f"{path}: its metadata beyond axes and pixel size cannot be read ({error}).", stacklevel=2)
        return ""
