"""OME-XML: what an OME-TIFF says of its image goes over to the file that is made of it.

Everything is kept as it stands, with its namespaces. Rewritten is what would be wrong of the new file: the type and the
layout of its pixels, where they are, and references to images that are not in it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4
from xml.dom import minidom
from xml.etree.ElementTree import ParseError, XMLPullParser

import numpy as np
from numpy.typing import DTypeLike

MOST = 2**24  # characters: 115,000 planes with their positions and times, in 6 s and 650 MB
PIECE = 2**16  # characters that are parsed at a time in search of channels
TYPES = {"float32": "float", "float64": "double"}  # others have NumPy's names
OURS = "noise2same"  # namespace of the annotation that says what was done
PYRAMID = "openmicroscopy.org/PyramidResolution"  # namespace of the sizes of a pyramid's levels, which are not written


@dataclass(frozen=True)
class Written:
    """An image that is written."""

    values: int
    """How many values its pixels have in the file it came from, by which the right image is known."""
    axes: str
    """Axes as tifffile spells them ('S' is the samples of a colour pixel)."""
    shape: tuple[int, ...]
    dtype: DTypeLike
    number: int = 0
    """Which image of that file it is."""


def carry(xml: str, written: Sequence[Written], note: str = "", *, in_tiff: bool = True) -> tuple[bytes, list[str]]:
    """The OME-XML of a file that is written, made from that of the file its images came from.

    Parameters
    ----------
    xml : str
        OME-XML of the file they came from.
    written : sequence of Written
        The images that are written, in their order in the file.
    note : str
        What was done to them, for an annotation of each.
    in_tiff : bool
        Whether the pixels are in the pages of the same TIFF; in a Zarr, it is metadata only.

    Returns
    -------
    xml, left_out : bytes, list of str
        The new OME-XML, and the kinds of element that do not fit other axes and had to go.

    Raises
    ------
    ValueError
        If the XML is no OME-XML, is not of these images, or is not to be trusted.
    """
    if len(xml) > MOST:
        raise ValueError(f"it has more than {MOST} characters")
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:  # no OME-XML needs them, but XML bombs do
        raise ValueError("it defines entities")
    try:
        document = minidom.parseString(xml)
        root = document.documentElement
        assert root is not None
        found = [_find(root, image) for image in written]
        _drop_other_images(root, found)
        _drop_pyramids(root)
        left_out: set[str] = set()
        first = 0
        for (_, pixels), image in zip(found, written, strict=True):
            left_out |= _describe(pixels, image.axes, image.shape, np.dtype(image.dtype), first)
            first += _planes(pixels)
            if not in_tiff:
                for node in _children(pixels, "TiffData"):
                    _remove(node)
                _insert(pixels, "MetadataOnly")
        if note:
            _annotate(root, [image for image, _ in found], note)
        if root.hasAttribute("UUID"):  # names a file, of which this is another
            root.setAttribute("UUID", f"urn:uuid:{uuid4()}")
        return document.toxml("UTF-8"), sorted(left_out)
    except ValueError:
        raise
    except Exception as error:  # anything from a parser given anything
        raise ValueError(" ".join(str(error).split())[:120] or type(error).__name__) from error


def channels_of(xml: str, number: int = 0) -> list[tuple[str, str]]:
    """Name and color ("#rrggbb") of each channel of an image, "" where there is none; nothing if unreadable.

    Channels stand before planes, of which there can be very many: these are not parsed.
    """
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        return []
    parser: Any = XMLPullParser(["start"])
    found: list[tuple[str, str]] = []
    images = 0
    try:
        for start in range(0, len(xml), PIECE):
            parser.feed(xml[start : start + PIECE])
            for _, element in parser.read_events():
                tag = element.tag.rpartition("}")[2]
                images += tag == "Image"
                if images > number + 1 or (images == number + 1 and tag in ("TiffData", "Plane")):
                    return found
                if tag == "Channel" and images == number + 1:
                    color = element.get("Color")
                    shown = "" if color is None else f"#{int(color) >> 8 & 0xFFFFFF:06x}"
                    found.append((element.get("Name") or element.get("Fluor") or "", shown))
    except (ParseError, ValueError):
        return []
    return found


def _children(node: minidom.Element, *names: str) -> list[minidom.Element]:
    """The elements right below one, of these names or of any."""
    elements = [child for child in node.childNodes if isinstance(child, minidom.Element)]
    return [child for child in elements if not names or child.localName in names]


def _remove(node: minidom.Element) -> None:
    """Take an element away, and the empty line that it would leave."""
    parent: Any = node.parentNode
    before = node.previousSibling
    if isinstance(before, minidom.Text) and not before.data.strip():
        parent.removeChild(before)
    parent.removeChild(node)


def _sizes(pixels: minidom.Element) -> dict[str, int]:
    return {letter: int(pixels.getAttribute(f"Size{letter}")) for letter in "XYZCT"}


def _planes(pixels: minidom.Element) -> int:
    """How many pages its pixels take, as `_fit_elements` wrote it."""
    return int(_children(pixels, "TiffData")[0].getAttribute("PlaneCount"))


def _samples(pixels: minidom.Element) -> int:
    """How many values of a colour pixel stand together; OME counts each of them in SizeC."""
    channels = _children(pixels, "Channel")
    return int(channels[0].getAttribute("SamplesPerPixel") or 1) if channels else 1


def _find(root: minidom.Element, written: Written) -> tuple[minidom.Element, minidom.Element]:
    """The image of this number among those with pixels in the file, as tifffile counts them; its size must be right.

    If only one image is read, those of other sizes may have no pixels here.
    """
    size = dict(zip(written.axes, written.shape, strict=True))
    images = [(image, pixels) for image in _children(root, "Image") for pixels in _children(image, "Pixels")]
    images = [(image, pixels) for image, pixels in images if _children(pixels, "TiffData", "MetadataOnly")]
    numbered = images[written.number : written.number + 1]
    for image, pixels in [*numbered, *(images if written.number == 0 else [])]:
        sizes = _sizes(pixels)
        if math.prod(sizes.values()) == written.values and (sizes["X"], sizes["Y"]) == (size["X"], size["Y"]):
            return image, pixels
    raise ValueError("it describes no image of this size")


def _drop_other_images(root: minidom.Element, kept: list[tuple[minidom.Element, minidom.Element]]) -> None:
    images = [image for image, _ in kept]
    others = [other for other in _children(root, "Image") if other not in images]
    gone = {other.getAttribute("ID") for other in others}
    further = [other for image, pixels in kept for other in _children(image, "Pixels") if other is not pixels]
    for node in [*others, *further]:
        _remove(node)
    for part in _children(root):
        references = [] if part.localName == "StructuredAnnotations" else part.getElementsByTagNameNS("*", "ImageRef")
        for reference in references:
            if reference.getAttribute("ID") in gone:
                _remove(reference)


def _drop_pyramids(root: minidom.Element) -> None:
    annotations = [node for group in _children(root, "StructuredAnnotations") for node in _children(group)]
    pyramids = [node for node in annotations if node.getAttribute("Namespace") == PYRAMID]
    gone = {node.getAttribute("ID") for node in pyramids}
    references = root.getElementsByTagNameNS("*", "AnnotationRef") if gone else []
    for node in [*pyramids, *(node for node in references if node.getAttribute("ID") in gone)]:
        _remove(node)


def _describe(pixels: minidom.Element, axes: str, shape: tuple[int, ...], dtype: np.dtype[Any], first: int) -> set[str]:
    """Make Pixels what is written, from page `first` on. Returns the kinds of element that are left out."""
    written = dict(zip(axes, shape, strict=True))
    samples = written.get("S", 1)
    sizes = {letter: written.get(letter, 1) for letter in "XYZCT"}
    left_out = _fit_elements(pixels, sizes, samples, first)
    sizes["C"] *= samples
    for letter, size in sizes.items():
        pixels.setAttribute(f"Size{letter}", str(size))
    stacked = [letter for letter in reversed(axes) if letter in "ZCT"]
    if [letter for letter in pixels.getAttribute("DimensionOrder") if letter in stacked] != stacked:
        rest = [letter for letter in "ZCT" if letter not in stacked]
        pixels.setAttribute("DimensionOrder", "".join(["XY", *stacked, *rest]))
    kind = TYPES.get(dtype.name, dtype.name)
    if pixels.getAttribute("Type") != kind:
        pixels.setAttribute("Type", kind)
        if pixels.hasAttribute("SignificantBits"):
            pixels.removeAttribute("SignificantBits")
    if pixels.hasAttribute("BigEndian"):
        pixels.setAttribute("BigEndian", str(sys.byteorder == "big").lower())
    if samples > 1:
        pixels.setAttribute("Interleaved", str(axes.endswith("S")).lower())
    return left_out


def _fit_elements(pixels: minidom.Element, sizes: dict[str, int], samples: int, first: int) -> set[str]:
    """Keep the channels and planes of Pixels that fit the sizes to be written, and say where those are in the file."""
    before, samples_before = _sizes(pixels), _samples(pixels)
    before["C"] //= samples_before
    for node in _children(pixels, "BinData", "TiffData", "MetadataOnly"):
        _remove(node)
    for plane in _children(pixels, "Plane"):
        for node in _children(plane, "HashSHA1"):  # of the pixels as they were
            _remove(node)
    changed = [letter for letter in "ZCT" if sizes[letter] != before[letter]]
    misfits = _children(pixels, "Channel") if "C" in changed else []
    misfits += _children(pixels, "Plane") if changed else []
    for node in misfits:
        _remove(node)
    channels = _children(pixels, "Channel")
    if samples > 1 and not channels:  # the only place that counts samples
        channels = [_insert(pixels, "Channel", ID=f"Channel:0:{index}") for index in range(sizes["C"])]
    if max(samples, samples_before) > 1:
        for channel in channels:
            channel.setAttribute("SamplesPerPixel", str(samples))
    _insert(pixels, "TiffData", IFD=str(first), PlaneCount=str(sizes["Z"] * sizes["C"] * sizes["T"]))
    return {str(node.localName) for node in misfits}


def _annotate(root: minidom.Element, images: list[minidom.Element], note: str) -> None:
    """Add a comment to images, which programs show; it stands where the schema wants it."""
    groups = _children(root, "StructuredAnnotations")
    if not groups:
        after: Any = _children(root, "Image")[-1].nextSibling
        groups = [_new(root, "StructuredAnnotations")]
        root.insertBefore(groups[0], after)
    used = {node.getAttribute("ID") for node in _children(groups[0])}
    name = next(name for name in (f"Annotation:noise2same-{n}" for n in count()) if name not in used)
    comment, value = _new(root, "CommentAnnotation", ID=name, Namespace=OURS), _new(root, "Value")
    value.appendChild(_document(root).createTextNode(note))
    comment.appendChild(value)
    groups[0].appendChild(comment)
    for image in images:
        image.appendChild(_new(image, "AnnotationRef", ID=name))


def _document(node: minidom.Element) -> minidom.Document:
    document = node.ownerDocument
    assert document is not None
    return document


def _new(like: minidom.Element, name: str, **attributes: str) -> minidom.Element:
    """An element in the namespace of another, which has no place yet."""
    prefix = f"{like.prefix}:" if like.prefix else ""
    node = _document(like).createElementNS(like.namespaceURI, prefix + name)
    for key, text in attributes.items():
        node.setAttribute(key, text)
    return node


def _insert(pixels: minidom.Element, name: str, **attributes: str) -> minidom.Element:
    """Add an element to Pixels behind its channels and before all else, as the schema wants it."""
    node = _new(pixels, name, **attributes)
    following = [child for child in _children(pixels) if child.localName != "Channel"]
    pixels.insertBefore(node, following[0] if following else None)
    return node
