"""Zeiss CZI, read only: scenes, of which each may be a mosaic of tiles, that are put together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io import ome_new, units
from noise2same.io.extras import load
from noise2same.io.image import Image, lazily
from noise2same.io.planes import Planes, ReadPlane
from noise2same.io.readonly import DEFAULT_OUTPUT, refusing

suffixes = (".czi",)
default_output = DEFAULT_OUTPUT
check = create = refusing("CZI")

TYPES = {"Gray8": "uint8", "Gray16": "uint16", "Gray32": "uint32", "Gray32Float": "float32", "Gray64Float": "float64"}
COLORS = {"Bgr24": "uint8", "Bgr48": "uint16", "Bgr96Float": "float32"}
# axes that a file may have beside T, C and Z, which are taken for independent images (S): views, phases, lights
FURTHER = {"V": "view", "H": "phase", "I": "illumination", "R": "rotation", "B": "block"}


class _Scene(Planes):
    """The pixels of a scene: where it begins along all axes of the file, and which of these are its outer ones."""

    def __init__(self, path: Path, scene: int | None, starts: dict[str, int], outer: str, *what: Any) -> None:
        super().__init__(*what)
        self._path, self._scene, self._starts, self._outer = path, scene, starts, outer

    @contextmanager
    def _opened(self) -> Iterator[ReadPlane]:
        first = {letter: start for letter, start in self._starts.items() if letter not in "XY"}
        with _open(self._path) as file:

            def read(place: tuple[int, ...], rows: slice, columns: slice) -> NDArray[Any]:
                plane = first | {letter: first[letter] + at for letter, at in zip(self._outer, place, strict=True)}
                corner = (self._starts["X"] + columns.start, self._starts["Y"] + rows.start)
                box = (*corner, columns.stop - columns.start, rows.stop - rows.start)
                pixels = file.read(roi=box, plane=plane, scene=self._scene)
                return pixels[..., 0] if self._inner == 2 else pixels[..., ::-1]  # which are blue, green, red

            yield read


def _open(path: Path) -> AbstractContextManager[Any]:
    opened: AbstractContextManager[Any] = load("pylibCZIrw.czi", "microscopes", path).open_czi(str(path))
    return opened


def count(path: Path) -> int:
    with _open(path) as file:
        return len(_scenes(file))


def read(path: Path, number: int = 0) -> Image:
    with _open(path) as file:
        scenes = _scenes(file)
        ranges = {letter: range(*ends) for letter, ends in file.total_bounding_box_no_pyramid.items()}
        kinds = [file.pixel_types[channel] for channel in ranges.get("C", [0])]
        xml = file.raw_metadata
    color = kinds[0] in COLORS
    if not all(kind in TYPES for kind in kinds) and not (color and len(kinds) == 1):
        raise InputError(f"{path} has channels of type {' and '.join(kinds)}, which are not read; export OME-TIFF.")
    outer = "".join(letter for letter in (*FURTHER, *"TCZ") if len(ranges.get(letter, ())) > 1)
    axes = "".join("S" if letter in FURTHER else letter for letter in outer) + ("YXC" if color else "YX")
    if axes.count("S") > 1:
        named = " and ".join(FURTHER[letter] for letter in outer if letter in FURTHER)
        raise InputError(f"{path} has several axes beside T, C and Z ({named}), which are not read; export OME-TIFF.")
    dtype = np.result_type(*((TYPES | COLORS)[kind] for kind in kinds))
    shapes = [(*(len(ranges[k]) for k in outer), box.h, box.w, *((3,) if color else ())) for _, box in scenes]
    scene, box = scenes[number]
    starts = {letter: span.start for letter, span in ranges.items()} | {"X": box.x, "Y": box.y}
    pixels = _Scene(path, scene, starts, outer, shapes[number], dtype, 3 if color else 2)
    sizes, details = _described(path, xml, axes, shapes, dtype)
    details["number"] = number
    unit = "micrometer" if sizes else ""
    return Image(lazily(pixels, path), axes, sizes, unit, path, details, len(scenes) - 1)


def _scenes(file: Any) -> list[tuple[int | None, Any]]:
    """Number and rectangle of each scene, at full resolution; a file without scenes is one."""
    scenes = sorted(file.scenes_bounding_rectangle_no_pyramid.items())
    return scenes or [(None, file.total_bounding_rectangle_no_pyramid)]


def _described(
    path: Path, xml: str, axes: str, shapes: list[tuple[int, ...]], dtype: np.dtype[Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Pixel size in micrometers, and the details that carry the metadata on."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        root = ElementTree.Element("ImageDocument")
    found = {node.get("Id", ""): (_micrometers(_text(node, "Value")), "µm") for node in root.iter("Distance")}
    interval = root.find(".//Dimensions/T/Positions/Interval/Increment")
    if interval is not None:
        found["T"] = (float(interval.text or 0), "s")
    sizes, _ = units.combine({letter: size for letter, size in found.items() if letter in axes})
    names = [node.get("Name", "") for node in root.iterfind(".//Dimensions/S/Scenes/Scene")]
    date = _text(root, ".//Information/Image/AcquisitionDateAndTime") or _text(root, ".//Document/CreationDate")
    images = [
        ome_new.Described(
            names[number] if number < len(names) else f"{path.stem} {number}" if len(shapes) > 1 else path.stem,
            *(axes, shape, dtype, sizes, _dyes(root), date),
        )
        for number, shape in enumerate(shapes)
    ]
    lens = next(root.iter("Objective"), ElementTree.Element("Objective"))
    told = ome_new.Lens(lens.get("Name", ""), _text(lens, "NominalMagnification"), _text(lens, "LensNA"))
    return sizes, {"ome_xml": ome_new.document(images, told, xml, "zeiss.com/czi"), "flavour": "ome"}


def _dyes(root: ElementTree.Element) -> list[ome_new.Dye]:
    colors = {
        node.get("Id"): _text(node, "Color")[-6:].lower()
        for node in root.iterfind(".//DisplaySetting/Channels/Channel")
    }
    dyes = []
    for node in root.iterfind(".//Information/Image/Dimensions/Channels/Channel"):
        color = colors.get(node.get("Id"))
        name = node.get("Name") or _text(node, "Fluor")
        waves = (_text(node, "ExcitationWavelength"), _text(node, "EmissionWavelength"))
        dyes.append(ome_new.Dye(name, f"#{color}" if color else "", *waves))
    return dyes


def _micrometers(meters: str) -> float:
    """A length without the digits that the change of its unit adds."""
    return float(f"{float(meters or 0) * 1e6:.10g}")


def _text(node: ElementTree.Element, path: str) -> str:
    """What an element inside another says; '' if it is not there."""
    return (node.findtext(path) or "").strip()
