"""TIFF: ImageJ, OME and plain; also big, compressed, tiled and many pages."""

from __future__ import annotations

import logging
import math
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from logging.handlers import BufferingHandler
from pathlib import Path
from threading import Lock
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import tifffile
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.files import reserve
from noise2same.io import exif, ome, units
from noise2same.io.image import LAZY_BYTES, Decoded, Image, Part, Pieces, Sliceable
from noise2same.io.mapped import Filled
from noise2same.io.raw import Raw

suffixes = (".tif", ".tiff")
default_output = ""

BIG_BYTES = 2**32 - 2**25  # larger files need BigTIFF, which ImageJ does not read
LOSSLESS = {5: "lzw", 8: "zlib", 32946: "zlib", 50000: "zstd", 34925: "lzma", 32773: "packbits"}
MAX_TAGS = 4096  # of a page; more are a sign of damage, on which tifffile ends too
# what ImageJ says of the layout of its pixels, which is written anew; all else it says is kept
IMAGEJ_LAYOUT = (
    "ImageJ",
    "images",
    "channels",
    "slices",
    "frames",
    "hyperstack",
    "unit",
    "spacing",
    "finterval",
    "axes",
)
CALIBRATION = ("cf", "c0", "c1", "vunit")  # of values, which tifffile writes itself for int16
# tags of the first page that are kept beside those of EXIF: document, page, computer, XMP and IPTC
TEXT_OR_BYTES = (tifffile.DATATYPE.BYTE, tifffile.DATATYPE.ASCII, tifffile.DATATYPE.UNDEFINED)
KEPT_TAGS = (269, 285, 316, 700, 33723, *exif.KEPT)
IMAGEJ_UNITS = {"micrometer": "um", "inch": "inch", "angstrom": "angstrom"}
OME_DTYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float32", "float64")
# what tifffile only logs, and then goes on with fewer pages or with zeros
_DAMAGE = re.compile(
    r"page offset|offset to .*page|corrupt|circular|missing|reshape|suspicious number|no pages", re.IGNORECASE
)

_LOG_LOCK = Lock()


def read(path: Path, number: int = 0) -> Image:
    with _opened(path) as tif:
        images = _images(tif)
        series = images[number]
        page = series.keyframe
        offset = _check_complete(path, tif, series)
        if page.photometric == tifffile.PHOTOMETRIC.PALETTE and not (tif.is_imagej or tif.is_ome):
            raise InputError(f"{path} has a palette, so its pixels are not intensities; convert it to grey or RGB.")
        axes, found, own = _metadata(tif, series, number)
        details = _details(tif, page) | {"exif": b"" if tif.is_ome or tif.is_imagej else exif.of_tiff(path)}
        details |= {"planar": series.axes.endswith("SYX"), "number": number}
    whole = _pixels(path, tif, series, offset)
    data: Decoded | Pieces | Part = whole
    rgba = page.photometric == tifffile.PHOTOMETRIC.RGB and page.extrasamples and axes.endswith("YXC")
    if rgba and whole.shape[-1] == 4:
        details["alpha"], data = Part(whole, 3), Part(whole, slice(0, 3))
    sizes, unit = own or units.combine(found)
    return Image(data, axes, sizes, unit, path, details, len(images) - 1)


def count(path: Path) -> int:
    with _opened(path) as tif:
        return len(_images(tif))


@contextmanager
def _opened(path: Path) -> Iterator[tifffile.TiffFile]:
    """A file whose pages can be looked at; InputError if it is damaged, also at the end for what is found later."""
    _check_pages(path)
    with _messages() as messages, tifffile.TiffFile(path) as tif:
        _check_named_files(path, tif)
        if not tif.series:
            raise InputError(f"{path} is truncated or corrupt: it has no complete image; copy or export it again.")
        yield tif
    _check_messages(path, messages)


def _images(tif: tifffile.TiffFile) -> list[tifffile.TiffPageSeries]:
    """The series of a file without previews, which are marked as reduced images."""
    return [series for series in tif.series if not series.keyframe.is_reduced] or list(tif.series)


def _pixels(
    path: Path, tif: tifffile.TiffFile, series: tifffile.TiffPageSeries, offset: int | None
) -> Decoded | Pieces:
    """The pixels of a series, which follow each other from `offset` on if that is known."""
    index = tif.series.index(series)
    if series.size * series.dtype.itemsize <= LAZY_BYTES:
        return Decoded(path, series.shape, series.dtype, partial(_decode, index=index))
    if offset is None:
        return Pieces(_zarr(path, index), path)
    return Pieces(Raw(path, offset, series.shape, series.dtype.newbyteorder(tif.byteorder)), path)


def _decode(path: Path, index: int) -> NDArray[Any]:
    with _messages() as messages:
        data = tifffile.imread(path, series=index)
    _check_messages(path, messages)
    return data


def _check_messages(path: Path, messages: list[str]) -> None:
    if any(map(_DAMAGE.search, messages)):
        raise InputError(f"{path} is truncated or corrupt: parts of the image are missing; copy or export it again.")


@contextmanager
def _messages() -> Iterator[list[str]]:
    """What tifffile logs, without the names of files in it, collected here instead of printed.

    One file at a time: the log does not say which file it is of.
    """
    messages: list[str] = []
    handler = BufferingHandler(capacity=1_000_000)
    handler.setLevel(logging.WARNING)
    logger = logging.getLogger("tifffile")
    with _LOG_LOCK:
        propagate, logger.propagate = logger.propagate, False
        logger.addHandler(handler)
        try:
            yield messages
            messages += [re.sub(r"<tifffile[^>]*>", "", record.getMessage()) for record in handler.buffer]
        finally:
            logger.removeHandler(handler)
            logger.propagate = propagate


def _check_pages(path: Path) -> None:
    """Raise InputError if the list of pages runs in a circle, on which tifffile may go round for ever."""
    with path.open("rb") as file:
        start = file.read(16)
        order: Literal["little", "big"] = "big" if start[:2] == b"MM" else "little"
        number = partial(int.from_bytes, byteorder=order)
        big = number(start[2:4]) == 43
        count, entry, link = (8, 20, 8) if big else (2, 12, 4)  # bytes of a number of tags, of a tag, and of an offset
        place, seen = number(start[8:16] if big else start[4:8]), set()
        while place:
            if place in seen:
                raise InputError(f"{path} is corrupt: its list of pages runs in a circle; copy or export it again.")
            seen.add(place)
            file.seek(place)
            file.seek(place + count + entry * min(number(file.read(count)), MAX_TAGS))
            place = number(file.read(link))


def _check_named_files(path: Path, tif: tifffile.TiffFile) -> None:
    """Raise InputError if OME metadata has planes in what is not a plain file beside this one, before it is opened."""
    try:
        root = ElementTree.fromstring(tif.ome_metadata or "")
    except ElementTree.ParseError:  # or no OME-TIFF at all: tifffile opens no other file
        return
    for node in (node for node in root.iter() if node.tag.endswith("UUID") and node.text != root.get("UUID")):
        name = node.get("FileName", "")
        other = path.with_name(name) if name and Path(name).name == name else None
        if other is None or (os.path.exists(other) and not other.is_file()):
            raise InputError(
                f"{path} has pixels in {name or 'a file'}, which is not a file beside it; export it again."
            )


def _check_complete(path: Path, tif: tifffile.TiffFile, series: tifffile.TiffPageSeries) -> int | None:
    """Where the pixels follow each other; None if they do not. InputError if some are missing."""
    elsewhere = False
    for page in series.pages:
        if page is None:
            raise InputError(f"{path} is incomplete: planes are missing, or are in other files that are not there.")
        ends = [start + count for start, count in zip(page.dataoffsets, page.databytecounts, strict=True)]
        fewer = len(ends) < math.prod(series.keyframe.chunked)  # strips or tiles than the size takes
        if fewer or max(ends, default=0) > page.parent.filehandle.size:
            raise _truncated(path if page.parent is tif else page.parent.filehandle.path)
        elsewhere |= page.parent is not tif
    if series.dataoffset is None:
        return None
    if elsewhere:  # tifffile would look for them in this file
        raise InputError(f"{path} has its pixels in another file; open that.")
    if series.dataoffset + series.size * series.dtype.itemsize > path.stat().st_size:
        raise _truncated(path)
    return series.dataoffset


def _truncated(path: str | Path) -> InputError:
    return InputError(f"{path} is truncated: it ends before its pixels do; copy or export it again.")


def _zarr(path: Path, index: int) -> Any:
    import zarr

    return zarr.open_array(tifffile.imread(path, aszarr=True, series=index, level=0), mode="r")


def _metadata(
    tif: tifffile.TiffFile, series: tifffile.TiffPageSeries, number: int
) -> tuple[str, dict[str, tuple[float, str]], tuple[dict[str, float], str] | None]:
    """Axes ('' if unknown), sizes with their units as the file has them, and the same from a file of our own."""
    # S is tifffile's letter for the samples of a colour pixel; with C beside it, it is not clear which is which
    axes = "" if {"S", "C"} <= set(series.axes) else series.axes.replace("S", "C")
    if not set(axes) <= set("TCZYX"):
        axes = ""
    if tif.is_ome and series.kind == "ome":
        return axes, _ome_sizes(tif.ome_metadata or "", number), None
    shaped = [one for one in tif.series if one.kind == "shaped"]
    told = (tif.shaped_metadata or ())[shaped.index(series)] if series in shaped else {}
    own = told.get("noise2same")
    if own and len(own["axes"]) == series.ndim:
        return own["axes"], {}, (own["pixel_size"], own["unit"])
    found = _resolution(series.keyframe)
    imagej = tif.imagej_metadata or {}
    if imagej:
        unit = str(imagej.get("unit", found["X"][1] if found else ""))
        found = {letter: (value, unit) for letter, (value, _) in found.items()}
        found["Z"] = (float(imagej.get("spacing", 1.0)), unit)
        if unit in ("", "pixel", "pixels") and "spacing" not in imagej:
            del found["Z"]
        if "finterval" in imagej:
            found["T"] = (float(imagej["finterval"]), "s")
    return axes, found, None


def _resolution(page: tifffile.TiffPage) -> dict[str, tuple[float, str]]:
    if "XResolution" not in page.tags or "YResolution" not in page.tags:
        return {}
    unit = {2: "inch", 3: "centimeter"}.get(int(page.resolutionunit), "")
    # fractions of 32-bit integers: digits past the ninth are not the file's
    sizes = {letter: 1 / value for letter, value in zip("XY", page.resolution, strict=True) if value > 0}
    return {letter: (float(f"{size:.8g}"), unit) for letter, size in sizes.items()} if len(sizes) == 2 else {}


def _ome_sizes(xml: str, number: int) -> dict[str, tuple[float, str]]:
    nodes = [node for node in ElementTree.fromstring(xml).iter() if node.tag.split("}")[-1] == "Pixels"]
    pixels = nodes[min(number, len(nodes) - 1)]
    found = {}
    for letter in "ZYX":
        if f"PhysicalSize{letter}" in pixels.attrib:
            unit = pixels.get(f"PhysicalSize{letter}Unit", "µm")
            with suppress(ValueError):  # what is no number is no reason to refuse the pixels
                found[letter] = (float(pixels.attrib[f"PhysicalSize{letter}"]), unit)
    if "TimeIncrement" in pixels.attrib:
        with suppress(ValueError):
            found["T"] = (float(pixels.attrib["TimeIncrement"]), pixels.get("TimeIncrementUnit", "s"))
    return found


def _details(tif: tifffile.TiffFile, page: tifffile.TiffPage) -> dict[str, Any]:
    imagej = tif.imagej_metadata or {}
    return {
        "flavour": "ome" if tif.is_ome else "imagej" if tif.is_imagej else "plain",
        "compression": LOSSLESS.get(int(page.compression)),
        "predictor": int(page.predictor) > 1,
        "photometric": int(page.photometric),
        "colormap": page.colormap,
        "icc": page.iccprofile,
        "imagej": {key: value for key, value in imagej.items() if key not in IMAGEJ_LAYOUT},
        "tags": [kept for kept in map(_kept_tag, page.tags.values()) if kept is not None],
        "software": "" if page.software.startswith("tifffile") else page.software,
        "description": "" if page.is_ome or page.is_imagej else _description(page),
        "ome_xml": tif.ome_metadata,
    }


def _description(page: tifffile.TiffPage) -> str:
    """What people wrote: tifffile's own description is the second, if they did."""
    return "" if page.is_shaped and not page.description1 else page.description


def _kept_tag(tag: tifffile.TiffTag) -> tuple[int, int, int, Any, bool] | None:
    """A tag as tifffile writes it again; None if it is not kept, or has not the kind of value that it should have."""
    value = tag.value.encode() if isinstance(tag.value, str) else tag.value
    plain = isinstance(value, int) or (isinstance(value, bytes) and tag.dtype in TEXT_OR_BYTES)
    return (tag.code, int(tag.dtype), tag.count, value, True) if tag.code in KEPT_TAGS and plain else None


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    """Holds everything, if need be as plain TIFF."""


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    like = _as_stored(like)
    alpha: Any = like.details.get("alpha")
    colour = like.axes.endswith("YXC") and like.shape[-1] == 3
    keeps_alpha = colour and alpha is not None and alpha.dtype == dtype and alpha.shape == like.shape[:-1]
    shape = (*like.shape[:-1], 4) if keeps_alpha else like.shape
    options = _options(_flavour(path, like, dtype), like, shape, dtype)
    _carry_ome([like], [shape], [dtype], [options])
    compressed = "compression" in options
    out: Any
    if compressed:
        out = _collect(path, shape, dtype)
    else:
        out = tifffile.memmap(path, shape=shape, dtype=dtype, **options).view(Filled)
        reserve(path)
    if keeps_alpha:
        step = max(1, LAZY_BYTES // (alpha.dtype.itemsize * math.prod(alpha.shape[1:])))
        for start in range(0, len(out), step):
            out[start : start + step, ..., 3] = alpha[start : start + step]
    yield out[..., :3] if keeps_alpha else out
    if compressed:
        tifffile.imwrite(path, _pages(out, options), shape=shape, dtype=dtype, **options)
    else:
        out.flush()
    if like.details.get("exif") and not options.get("bigtiff"):  # no photograph is that large
        exif.append(path, like.details["exif"])


def join(path: Path, parts: Sequence[Path], likes: Sequence[Image]) -> None:
    """OME-TIFF with several images where it can hold all of them, else plain TIFF."""
    wholes = [_whole(part) for part in parts]
    likes = [_as_stored(like) for like in likes]
    pairs = list(zip(likes, wholes, strict=True))
    flavours = {_flavour(path, like, whole.dtype, several=True) for like, whole in pairs}
    flavour = "ome" if flavours == {"ome"} else "plain"
    options = [_options(flavour, like, whole.shape, whole.dtype) for like, whole in pairs]
    _carry_ome(likes, [whole.shape for whole in wholes], [whole.dtype for whole in wholes], options)
    size = sum(math.prod(whole.shape) * whole.dtype.itemsize for whole in wholes)
    with tifffile.TiffWriter(path, bigtiff=size >= BIG_BYTES, ome=options[0].pop("ome")) as file:
        for whole, told in zip(wholes, options, strict=True):
            for key in ("ome", "bigtiff"):  # of the file
                told.pop(key, None)
            told["extratags"] = [tag for tag in told["extratags"] if tag[0] not in exif.POINTERS.values()]
            file.write(_pages(whole, told), shape=whole.shape, dtype=whole.dtype, **told)


def _whole(path: Path) -> Decoded | Pieces:
    """All samples of the pixels of a file that has one image."""
    with _opened(path) as tif:
        return _pixels(path, tif, tif.series[0], tif.series[0].dataoffset)


def _pages(whole: Sliceable, options: dict[str, Any]) -> Iterator[NDArray[Any]]:
    """What tifffile writes one after the other."""
    last = 3 if "planarconfig" in options else 2
    for place in np.ndindex(whole.shape[:-last]):
        yield whole[place]
        if isinstance(whole, Filled):
            whole.release()


def _as_stored(like: Image) -> Image:
    """The image with its file's own axes where the user called one S: that says how to treat it, not what it is."""
    stored = like.details.get("stored_axes") or ""
    own = like.details.get("ome_xml") and "S" in like.axes and len(stored) == len(like.axes)
    return replace(like, axes=stored) if own else like


def _collect(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Where pixels wait for compression: in memory or, if there are many, in a file that loses its name at once."""
    size = int(np.prod(shape)) * dtype.itemsize
    if size <= LAZY_BYTES:
        return np.zeros(shape, dtype)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".") as file:
        out = Filled(file, dtype, "w+", shape=shape)
        reserve(Path(file.name))
        return out


def _flavour(path: Path, like: Image, dtype: np.dtype[Any], *, several: bool = False) -> str:
    """ImageJ stays ImageJ where it can hold the data, else OME where that can, else plain TIFF, which holds all."""
    wanted = like.details.get("flavour", "ome" if like.unit else "plain")
    if ".ome." in path.name or (several and wanted == "imagej"):
        wanted = "ome"
    colour = like.axes.endswith("YXC")
    axes = like.axes[:-1] if colour else like.axes
    single = any(size == 1 for letter, size in zip(like.axes, like.shape, strict=True) if letter not in "YX")
    # both forget axes of length one when read again; neither has samples
    if wanted == "plain" or single or not axes.endswith("YX") or "S" in axes or (colour and like.shape[-1] != 3):
        return "plain"
    size = int(np.prod(like.shape)) * dtype.itemsize
    ordered = axes == "".join(letter for letter in "TZCYX" if letter in axes)
    if wanted == "imagej" and ordered and size < BIG_BYTES and dtype.char in ("B" if colour else "BHhf"):
        return "imagej"
    return "ome" if dtype.name in OME_DTYPES and not (colour and "C" in axes) else "plain"


def _options(flavour: str, like: Image, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
    """How tifffile is to write an image."""
    details, sizes = like.details, like.pixel_size
    colour = like.axes.endswith("YXC")
    # tifffile's letters: I for our samples, S for the samples of a colour pixel
    axes = like.axes.replace("S", "I")
    axes = axes[:-1] + "S" if colour else axes
    options: dict[str, Any] = {"metadata": {"axes": axes}, "photometric": "minisblack"}
    if colour:
        options |= {"photometric": "rgb" if like.shape[-1] == 3 else "minisblack", "planarconfig": "contig"}
    elif details.get("photometric") == tifffile.PHOTOMETRIC.MINISWHITE:
        options["photometric"] = "miniswhite"
    if details.get("compression"):
        predictor = details.get("predictor", False) and (dtype.kind == "f" or dtype.itemsize < 8)
        options |= {"compression": details["compression"], "predictor": predictor}
    options["extratags"] = list(details.get("tags") or [])
    made_by = "; ".join(filter(None, (details.get("software"), like.note)))
    if made_by:
        options["software"] = made_by.encode()
    if flavour == "imagej":
        _imagej_options(options, like, dtype)
    elif flavour == "ome":
        _ome_options(options, like)
    else:
        if like.details.get("ome_xml"):
            _warn_of_loss(like, f"it has no place for axes {like.axes} of shape {like.shape} and type {dtype}")
        options["ome"] = False
        if details.get("description"):
            options["description"] = details["description"].encode()
        options["metadata"]["noise2same"] = {"axes": like.axes, "pixel_size": sizes, "unit": like.unit}
        unit = "inch" if like.unit == "inch" else "centimeter"
        size = [units.convert(sizes[letter], like.unit, unit) for letter in "XY" if letter in sizes]
        if len(size) == 2 and all(size):
            options |= {"resolution": tuple(1 / value for value in size if value), "resolutionunit": unit.upper()}
        if details.get("exif"):
            own = {tag[0] for tag in options["extratags"]}
            options["extratags"] += [tag for tag in exif.tags(details["exif"]) if tag[0] not in own]
    if details.get("icc") and flavour != "imagej":
        options["iccprofile"] = details["icc"]
    if flavour != "imagej":
        described = len(details.get("ome_xml") or "")
        options["bigtiff"] = math.prod(shape) * dtype.itemsize + described >= BIG_BYTES
    return options


def _ome_options(options: dict[str, Any], like: Image) -> None:
    """What is known of the image."""
    axes, sizes = options["metadata"]["axes"], like.pixel_size
    if like.details.get("planar") and axes.endswith("CYX"):  # colour in planes stays that
        axes = axes[:-3] + "SYX"
        kind = "rgb" if like.details["photometric"] == tifffile.PHOTOMETRIC.RGB else "minisblack"
        options |= {"photometric": kind, "planarconfig": "separate", "metadata": {"axes": axes}}
    options["ome"] = True
    for letter in "ZYX":
        if letter in sizes:
            options["metadata"][f"PhysicalSize{letter}"] = sizes[letter]
            options["metadata"][f"PhysicalSize{letter}Unit"] = units.symbol(like.unit) or "pixel"
    if "T" in sizes:
        options["metadata"] |= {"TimeIncrement": sizes["T"], "TimeIncrementUnit": "s"}
    if like.note:
        options["metadata"]["CommentAnnotation"] = {"Namespace": ome.OURS, "Value": like.note}


def _carry_ome(
    likes: Sequence[Image],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[np.dtype[Any]],
    options: Sequence[dict[str, Any]],
) -> None:
    """Put what the file of the input said, if it was OME-TIFF too, in place of what is known of the images."""
    xml = likes[0].details.get("ome_xml")
    if not options[0]["ome"] or not xml or any(like.details.get("ome_xml") != xml for like in likes):
        return
    written = [
        ome.Written(_values(like), told["metadata"]["axes"], shape, dtype, like.details.get("number", 0))
        for like, told, shape, dtype in zip(likes, options, shapes, dtypes, strict=True)
    ]
    try:
        description, left_out = ome.carry(xml, written, likes[0].note)
    except ValueError as error:
        _warn_of_loss(likes[0], str(error))
        return
    if left_out:
        axes = likes[0].axes
        _warn_of_loss(likes[0], f"it was read with other axes ({axes})", f"of each {' and '.join(left_out)}")
    for told in options:
        told |= {"ome": False, "metadata": None}
    options[0]["description"] = description


def _values(like: Image) -> int:
    """How many values its file has, with those of an alpha channel."""
    alpha = like.details.get("alpha")
    return math.prod(like.shape) + (0 if alpha is None else math.prod(alpha.shape))


def _warn_of_loss(like: Image, reason: str, what: str = "beyond axes and pixel size") -> None:
    warnings.warn(f"{like.name}: its OME metadata {what} is not in the output: {reason}.", stacklevel=1)


def _imagej_options(options: dict[str, Any], like: Image, dtype: np.dtype[Any]) -> None:
    sizes = like.pixel_size
    options |= {"imagej": True, "ome": False}
    kept = like.details.get("imagej", {})
    kept = {key: value for key, value in kept.items() if key not in CALIBRATION or dtype == like.dtype != np.int16}
    options["metadata"] |= kept
    if like.note:
        options["metadata"]["Info"] = f"{kept.get('Info', '')}\nnoise2same = {like.note}\n".lstrip("\n")
    if {"Y", "X"} <= sizes.keys():
        options["resolution"] = (1 / sizes["X"], 1 / sizes["Y"])
    if like.unit:
        unit = IMAGEJ_UNITS.get(like.unit, units.symbol(like.unit))
        options["metadata"]["unit"] = unit.encode("ascii", "replace").decode()  # its text is ASCII
    if "Z" in sizes:
        options["metadata"]["spacing"] = sizes["Z"]
    if "T" in sizes:
        options["metadata"]["finterval"] = sizes["T"]
    if like.details.get("colormap") is not None and dtype == np.uint8 and "C" not in like.axes:
        options |= {"photometric": "palette", "colormap": like.details["colormap"]}
