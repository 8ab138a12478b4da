"""Zarr 2 and 3: OME-NGFF images (0.4 and 0.5) with their resolution levels, and plain arrays."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr

from noise2same.errors import InputError
from noise2same.io import ngff, ome, pyramid
from noise2same.io.chunks import Chunked
from noise2same.io.image import Image
from noise2same.io.remote import store_options

suffixes = (".zarr",)
default_output = ""

COLLECTION = "bioformats2raw.layout"
"""Attribute of a group of several images."""
OME_XML = "OME/METADATA.ome.xml"
"""Where a store has its OME-XML."""
# attributes of a group that are written anew, or are of what is not written; all others are kept
NGFF_KEYS = ("ome", "multiscales", "omero", "version", "labels", "image-label", "plate", "well", COLLECTION)
_ZARR_FORMATS: dict[str, Literal[2, 3]] = {"0.4": 2, "0.5": 3}  # by version of NGFF


def read(path: Path, number: int = 0) -> Image:
    node: Any = zarr.open(str(path), mode="r", **store_options(path))
    if isinstance(node, zarr.Array):
        return _read_plain(path, node)
    attributes, others = ngff.ome(node.attrs.asdict()), 0
    if _is_collection(node):
        others = _images(node) - 1
        node = node[str(number)]
        if isinstance(node, zarr.Array):
            return replace(_read_plain(path, node), others=others)
        attributes = ngff.ome(node.attrs.asdict())
    if "multiscales" not in attributes:
        raise _no_image(path, node, attributes)
    others += len(attributes["multiscales"]) - 1
    multiscale = attributes["multiscales"][0]
    levels = _levels(path, node, multiscale)
    first, dims = levels[0], levels[0].ndim
    axes = ngff.axes_of(multiscale, dims)
    details = {"ngff": ngff.version(attributes), "omero": attributes.get("omero"), "multiscale": multiscale}
    details["further"] = {key: value for key, value in node.attrs.asdict().items() if key not in NGFF_KEYS}
    details["levels"] = [_storage(level) for level in levels]
    details |= _read_xml(path, number)
    return Image(Chunked(first, path), axes, *ngff.sizes_of(multiscale, axes, dims), path, details, others)


def count(path: Path) -> int:
    node: Any = zarr.open(str(path), mode="r", **store_options(path))
    return _images(node) if _is_collection(node) else 1


def _is_collection(node: Any) -> bool:
    """Whether a group has images of numbers 0, 1 and so on, as bioformats2raw writes them."""
    return isinstance(node, zarr.Group) and COLLECTION in ngff.ome(node.attrs.asdict()) and "0" in node


def _images(group: zarr.Group) -> int:
    return next(number for number in itertools.count() if str(number) not in group)


def _no_image(path: Path, node: zarr.Group, attributes: dict[str, Any]) -> InputError:
    wells, fields = (attributes.get(kind, {}).get(name) for kind, name in (("plate", "wells"), ("well", "images")))
    if wells:
        return InputError(
            f"{path} is a plate of {len(wells)} wells: name its images, such as {path}/{wells[0]['path']}/0."
        )
    if fields:
        return InputError(f"{path} is a well of {len(fields)} fields: name one, such as {path}/{fields[0]['path']}.")
    arrays = ", ".join(sorted(name for name, _ in node.arrays())) or "none"
    return InputError(f"{path} is a Zarr group without an OME-NGFF image; name one of its arrays ({arrays}) instead.")


def _levels(path: Path, group: zarr.Group, multiscale: dict[str, Any]) -> list[zarr.Array[Any]]:
    """The full resolution and those further ones that are means of it; others are left out, with a warning."""
    levels: list[zarr.Array[Any]] = []
    for number, level in enumerate(multiscale["datasets"]):
        found = group.get(level["path"])
        fits = isinstance(found, zarr.Array) and (not levels or found.ndim == levels[0].ndim)
        if not levels and not fits:
            raise InputError(
                f"{path} is damaged: its OME-NGFF metadata names '{level['path']}', which is not an array."
            )
        if not fits or (levels and pyramid.factors(levels[-1].shape, found.shape) is None):  # type: ignore[union-attr]
            warnings.warn(
                f"{path}: its resolution level {number} cannot be made by means, and is left out.", stacklevel=2
            )
            break
        levels.append(found)  # type: ignore[arg-type]
    return levels


def _read_plain(path: Path, array: zarr.Array[Any]) -> Image:
    attributes: dict[str, Any] = dict(array.attrs)
    named = attributes.get("axes") or attributes.get("_ARRAY_DIMENSIONS")
    named = named or getattr(array.metadata, "dimension_names", None) or ""
    axes = "".join(str(name) for name in named).upper()
    if len(axes) != array.ndim or not set(axes) <= set("STCZYX"):
        axes = ""
    details = {"ngff": "", "attributes": attributes, "levels": [_storage(array)]}
    sizes, unit = attributes.get("pixel_size", {}), attributes.get("unit", "")
    return Image(Chunked(array, path), axes, sizes, unit, path, details)


def _storage(array: zarr.Array[Any]) -> dict[str, Any]:
    return {
        "shape": array.shape,
        "zarr_format": array.metadata.zarr_format,
        "chunks": array.chunks,
        "shards": array.shards,
        "compressors": array.compressors,  # of a shard: those of the chunks inside it
    }


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    """Holds everything."""


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[zarr.Array[Any]]:
    first, *further = new_store(path, like, dtype)
    yield first
    for level in further:
        for box in pyramid.boxes(first, level):
            pyramid.fill(first, level, box)
        first = level


def join(path: Path, parts: Sequence[Path], likes: Sequence[Image]) -> None:
    """A collection as bioformats2raw writes it, of links to the files of the parts where the disk has them."""
    formats = {zarr.open(str(part), mode="r").metadata.zarr_format for part in parts}
    zarr_format: Literal[2, 3] = 2 if formats == {2} else 3
    told = {COLLECTION: 3}
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    group.attrs.update(told if zarr_format == 2 else {"ome": {"version": "0.5", **told}})
    for number, part in enumerate(parts):
        own = shutil.ignore_patterns("OME")  # the collection has that of all images
        shutil.copytree(part, path / str(number), ignore=own, copy_function=_link)
    if _write_xml(path, likes, [read(part).dtype for part in parts]):
        group["OME"].attrs.update({"ome": {"version": "0.5", "series": [str(number) for number in range(len(parts))]}})


def _read_xml(path: Path, number: int) -> dict[str, Any]:
    """The OME-XML of a store, or of the collection that it is in, and which of its images this is."""
    inside = path.name.isdecimal()
    for place, at in ((path, number), *(((path.parent, int(path.name)),) if inside else ())):
        file = place / OME_XML
        if file.is_file() and file.stat().st_size <= ome.MOST:
            return {"ome_xml": file.read_text("utf-8", errors="replace"), "number": at}
    return {}


def _write_xml(path: Path, likes: Sequence[Image], dtypes: Sequence[np.dtype[Any]]) -> bool:
    """Write what the images' file says in OME-XML, where bioformats2raw has it; False if it says nothing."""
    xml = likes[0].details.get("ome_xml")
    if not xml or any(like.details.get("ome_xml") != xml for like in likes):
        return False
    written = [
        ome.Written(math.prod(like.shape), like.axes, like.shape, dtype, like.details.get("number", 0))
        for like, dtype in zip(likes, dtypes, strict=True)
    ]
    try:
        text, _ = ome.carry(xml, written, likes[0].note, in_tiff=False)
    except ValueError as error:
        warnings.warn(f"{likes[0].name}: its OME metadata is not in the output: {error}.", stacklevel=2)
        return False
    group = zarr.open_group(str(path), mode="a")
    group.require_group("OME")
    (path / OME_XML).write_bytes(text)
    return True


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a disk that has none
        shutil.copy2(source, target)


def new_store(path: Path, like: Image, dtype: np.dtype[Any]) -> list[zarr.Array[Any]]:
    """Make a store for an image, without pixels; the arrays of its levels, the full resolution first."""
    details = like.details
    # NGFF has no axis for samples and demands this order: other data becomes a plain array that names its axes
    ordered = like.axes == "".join(letter for letter in "TCZYX" if letter in like.axes)
    version = details.get("ngff", "0.5") if ordered else ""
    levels = details.get("levels") or [{}]
    zarr_format: Literal[2, 3] = _ZARR_FORMATS.get(version, levels[0].get("zarr_format", 3))
    options: dict[str, Any] = {"dtype": dtype, "fill_value": 0}
    options["dimension_names"] = [letter.lower() for letter in like.axes] if zarr_format == 3 else None
    if not version:
        options |= {"shape": like.shape, **_stored_alike(like, levels[0], zarr_format, dtype)}
        own = {"axes": like.axes, "pixel_size": like.pixel_size, "unit": like.unit}
        own |= {"noise2same": like.note} if like.note else {}
        attributes = {**details.get("attributes", {}), **own}
        return [zarr.create_array(str(path), zarr_format=zarr_format, attributes=attributes, **options)]
    if zarr_format == 2:
        options["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    shapes = [like.shape, *(level["shape"] for level in levels[1:])]
    group.attrs.update(ngff.attributes(like, version, shapes))
    arrays = []
    for number, (shape, level) in enumerate(zip(shapes, levels, strict=True)):
        alike = _stored_alike(like, level, zarr_format, dtype)
        arrays.append(group.create_array(str(number), shape=shape, **options, **alike))
    _write_xml(path, [like], [dtype])
    return arrays


def open_store(path: Path) -> list[zarr.Array[Any]]:
    """The arrays of a store that `new_store` made, to be filled further."""
    node: Any = zarr.open(str(path), mode="r+")
    if isinstance(node, zarr.Array):
        return [node]
    levels = ngff.ome(node.attrs.asdict())["multiscales"][0]["datasets"]
    return [node[level["path"]] for level in levels]


def _stored_alike(
    like: Image, level: dict[str, Any], zarr_format: Literal[2, 3], dtype: np.dtype[Any]
) -> dict[str, Any]:
    """Chunks, shards and compressors of the Zarr array that a level was read from, as far as they can be used."""
    chunks = level.get("chunks", ())
    if len(chunks) != len(like.shape):
        return {"chunks": _chunks(like.axes, like.shape)}
    if level.get("zarr_format") != zarr_format:
        return {"chunks": chunks}
    compressors = level["compressors"]
    try:  # some settings can be read but not written, and some only for pixels of another type
        trial = zarr.create_array(
            {}, shape=(8, 8), chunks=(8, 8), dtype=dtype, zarr_format=zarr_format, compressors=compressors
        )
        trial[...] = np.arange(64).reshape(8, 8).astype(dtype)
        trial[...]
    except Exception as error:
        text = f"{like.name}: its compression cannot be written ({error}); the output has Zarr's default one."
        warnings.warn(text, stacklevel=2)
        compressors = "auto"
    return {"chunks": chunks, "shards": level["shards"], "compressors": compressors}


def _chunks(axes: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    side = 256 if "Z" in axes else 1024
    most = {"Z": 32, "Y": side, "X": side, "C": 4 if axes.endswith("C") else 1}
    return tuple(min(size, most.get(letter, 1)) for letter, size in zip(axes, shape, strict=True))
