"""OME-XML for images of microscopes' own files, so that what those say goes the way of all OME metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from noise2same.io import units

NAMESPACE = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
MOST_ORIGINAL = 2**22  # characters of a file's own metadata that are kept whole
_TYPES = {"float32": "float", "float64": "double"}  # others have NumPy's names


@dataclass(frozen=True)
class Lens:
    """The objective, as far as it is known."""

    name: str = ""
    magnification: str = ""
    aperture: str = ""

    def __bool__(self) -> bool:
        return bool(self.name or self.magnification or self.aperture)


@dataclass(frozen=True)
class Dye:
    """A channel: its name, its color ("#rrggbb") and wavelengths in nanometers, "" where they are not known."""

    name: str = ""
    color: str = ""
    excitation: str = ""
    emission: str = ""


@dataclass(frozen=True)
class Described:
    """An image of a file."""

    name: str
    axes: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pixel_size: dict[str, float]
    """In micrometers, T in seconds."""
    dyes: Sequence[Dye] = ()
    date: str = ""
    """As ISO 8601 has it."""


def document(images: Sequence[Described], lens: Lens, original: str, namespace: str) -> str:
    """OME-XML of the images of a file; `original` is the XML that the file has itself, kept under a namespace."""
    ElementTree.register_namespace("", NAMESPACE)
    root = Element(f"{{{NAMESPACE}}}OME")
    kept = _original(original)
    if lens:
        instrument = _add(root, "Instrument", ID="Instrument:0")
        told = {"Model": lens.name, "NominalMagnification": lens.magnification, "LensNA": lens.aperture}
        _add(instrument, "Objective", ID="Objective:0", **told)
    for number, one in enumerate(images):
        image = _add(root, "Image", ID=f"Image:{number}", Name=one.name)
        if one.date:
            _add(image, "AcquisitionDate").text = one.date
        if lens:
            _add(image, "InstrumentRef", ID="Instrument:0")
            _add(image, "ObjectiveSettings", ID="Objective:0")
        _add_pixels(image, number, one)
        if kept is not None:
            _add(image, "AnnotationRef", ID="Annotation:0")
    if kept is not None:
        annotations = _add(root, "StructuredAnnotations")
        annotation = _add(annotations, "XMLAnnotation", ID="Annotation:0", Namespace=namespace)
        _add(annotation, "Value").append(kept)
    return ElementTree.tostring(root, "unicode", xml_declaration=False)


def _add(parent: Element, name: str, **attributes: str) -> Element:
    """A new element with those of the attributes that are not empty."""
    return SubElement(parent, f"{{{NAMESPACE}}}{name}", {key: text for key, text in attributes.items() if text})


def _add_pixels(image: Element, number: int, one: Described) -> None:
    written = dict(zip(one.axes, one.shape, strict=True))
    samples = written["C"] if one.axes.endswith("YXC") else 1
    sizes = {f"Size{letter}": str(written.get(letter, 1)) for letter in "XYZCT"}
    kind = _TYPES.get(one.dtype.name, one.dtype.name)
    told = {f"PhysicalSize{letter}": repr(one.pixel_size[letter]) for letter in "XYZ" if letter in one.pixel_size}
    told |= {f"{key}Unit": units.symbol("micrometer") for key in told}
    if "T" in one.pixel_size:
        told |= {"TimeIncrement": repr(one.pixel_size["T"]), "TimeIncrementUnit": "s"}
    pixels = _add(image, "Pixels", ID=f"Pixels:{number}", DimensionOrder="XYZCT", Type=kind, **sizes, **told)
    count = written.get("C", 1) // samples
    dyes = [*one.dyes, *[Dye()] * count][:count]
    for at, dye in enumerate(dyes):
        waves = {"ExcitationWavelength": dye.excitation, "EmissionWavelength": dye.emission}
        waves |= {f"{key}Unit": "nm" for key, value in waves.items() if value}
        color = str(np.int32(np.uint32(int(dye.color[1:] + "ff", 16)))) if dye.color else ""
        per_pixel = {"SamplesPerPixel": str(samples)}
        _add(pixels, "Channel", ID=f"Channel:{number}:{at}", Name=dye.name, Color=color, **waves, **per_pixel)
    planes = count * written.get("Z", 1) * written.get("T", 1)
    _add(pixels, "TiffData", IFD="0", PlaneCount=str(planes))


def _original(text: str) -> Element | None:
    """A file's own XML, if it is small enough and XML."""
    if not text or len(text) > MOST_ORIGINAL or "<!DOCTYPE" in text or "<!ENTITY" in text:
        return None
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None
