"""Leica LIF, read only: each image of the project. Plain pixels are read from the file itself, box by box."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io import ome_new, units
from noise2same.io.extras import load
from noise2same.io.image import Decoded, Image, Pieces, lazily
from noise2same.io.raw import Raw
from noise2same.io.readonly import DEFAULT_OUTPUT, refusing
from noise2same.io.rearranged import Rearranged

suffixes = (".lif",)
default_output = DEFAULT_OUTPUT
check = create = refusing("LIF")

AXES = {"M": "S", "λ": "C", "S": "C"}  # tiles are independent images, wavelengths and colors are channels
COLORS = {"Red": "#ff0000", "Green": "#00ff00", "Blue": "#0000ff", "Cyan": "#00ffff", "Magenta": "#ff00ff"}
COLORS |= {"Yellow": "#ffff00", "Gray": "#ffffff", "Grey": "#ffffff"}


@contextmanager
def _open(path: Path) -> Iterator[list[Any]]:
    """The images of a file that are pictures."""
    with load("liffile", "microscopes", path).LifFile(path) as file:
        images = [image for image in file.images if not image.is_flim and {"X"} < set(image.sizes)]
        if not images:
            raise InputError(f"{path} holds no image.")
        yield images


def count(path: Path) -> int:
    with _open(path) as images:
        return len(images)


def read(path: Path, number: int = 0) -> Image:
    with _open(path) as images:
        image = images[number]
        stored, sizes = _axes(image), _sizes(image)
        data: Decoded | Pieces = _pixels(path, image, number, stored)
        axes = _ordered(stored)
        lens = ome_new.Lens(*(_setting(image, key) for key in ("ObjectiveName", "Magnification", "NumericalAperture")))
        known = {at: _described(one) for at, one in enumerate(images) if "S" not in _axes(one) and _axes(one)}
        original, total = image.parent.xml_header(), len(images)
    details: dict[str, Any] = {"flavour": "ome"}
    if number in known:  # OME-XML has no place for the others' axes
        xml = ome_new.document(list(known.values()), lens, original, "leica-microsystems.com/lif")
        details |= {"ome_xml": xml, "number": list(known).index(number)}
    return Image(data, axes, sizes, "micrometer" if set(sizes) & set("XYZ") else "", path, details, total - 1)


def _ordered(axes: str) -> str:
    """The axes in the order that OME-Zarr demands, but for colors."""
    return axes if axes.endswith("YXC") else "".join(letter for letter in "STCZYX" if letter in axes)


def _pixels(path: Path, image: Any, number: int, axes: str) -> Decoded | Pieces:
    block = image.memory_block
    if "S" in image.sizes or block.frames or block.size != image.nbytes:
        return Decoded(path, image.shape, image.dtype, partial(_decode, number=number))
    raw = Raw(path, block.offset, image.shape, image.dtype)
    return lazily(Rearranged(raw, axes, _ordered(axes)) if axes else raw, path)


def _decode(path: Path, number: int) -> NDArray[Any]:
    with _open(path) as images:
        pixels: NDArray[Any] = images[number].asarray()
        return pixels


def _axes(image: Any) -> str:
    """'' if not all are known. A section along Z has no Y of its own."""
    axes = "".join(AXES.get(letter, letter) for letter in image.dims)
    axes = axes.replace("Z", "Y") if "Y" not in axes else axes
    return axes if set(axes) <= set("STCZYX") and len(set(axes)) == len(axes) else ""


def _sizes(image: Any) -> dict[str, float]:
    """Distance of pixels in micrometers, which are meters in the file, and of times in seconds."""
    found = {}
    for letter, places in image.coords.items():
        if letter in "TZYX" and len(places) > 1:
            step = abs(float(places[1] - places[0]))
            found[letter] = (step, "s") if letter == "T" else (float(f"{step * 1e6:.10g}"), "µm")
    if "Y" not in image.sizes and "Z" in found:
        found["Y"] = found.pop("Z")
    return units.combine(found)[0]


def _described(image: Any) -> ome_new.Described:
    dyes = []
    for node in image.xml_element.findall("./Data/Image/ImageDescription/Channels/ChannelDescription"):
        told = {one.findtext("Key"): one.findtext("Value") for one in node.iterfind("ChannelProperty")}
        table = node.get("LUTName", "")
        dyes.append(ome_new.Dye(told.get("DyeName") or table, COLORS.get(table, "")))
    stamps = image.timestamps
    date = "" if stamps is None or not len(stamps) else np.datetime_as_string(stamps[0], unit="s")
    dtype = np.dtype(image.dtype).newbyteorder("=")
    axes = _axes(image)
    shape = tuple(image.shape[axes.index(letter)] for letter in _ordered(axes))
    return ome_new.Described(image.name, _ordered(axes), shape, dtype, _sizes(image), dyes, str(date))


def _setting(image: Any, key: str) -> str:
    """A setting of the microscope, wherever the file has it."""
    return next((node.get(key, "") for node in image.xml_element.iter() if node.get(key)), "")
