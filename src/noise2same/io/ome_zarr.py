"""Zarr 2 and 3: OME-NGFF images (0.4 and 0.5), of which the full resolution is read, and plain arrays."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr

from noise2same.errors import InputError
from noise2same.io import units
from noise2same.io.image import Image, Pieces

suffixes = (".zarr",)
default_output = ""

_ZARR_FORMATS: dict[str, Literal[2, 3]] = {"0.4": 2, "0.5": 3}  # by version of NGFF
_TYPES = {"T": "time", "C": "channel", "Z": "space", "Y": "space", "X": "space"}


def read(path: Path) -> Image:
    node: Any = zarr.open(str(path), mode="r")
    if isinstance(node, zarr.Array):
        return _read_plain(path, node)
    attributes, others = _ome(node), 0
    if "bioformats2raw.layout" in attributes and "0" in node:  # a collection of images: take the first
        others = sum(name.isdigit() for name in node) - 1
        node = node["0"]
        attributes = _ome(node)
    if "multiscales" not in attributes:
        arrays = ", ".join(sorted(name for name, _ in node.arrays())) or "none"
        raise InputError(
            f"{path} is a Zarr group without an OME-NGFF image; name one of its arrays ({arrays}) instead."
        )
    multiscale = attributes["multiscales"][0]
    level = multiscale["datasets"][0]
    array = node[level["path"]]
    if not isinstance(array, zarr.Array):
        raise InputError(f"{path} is damaged: its OME-NGFF metadata names '{level['path']}', which is not an array.")

    named = [axis if isinstance(axis, dict) else {"name": axis} for axis in multiscale.get("axes", [])]
    axes = "".join(str(axis["name"]).upper() for axis in named)
    if len(axes) != array.ndim or not set(axes) <= set(_TYPES):
        axes = ""
    scale = np.ones(array.ndim)
    for transforms in (level.get("coordinateTransformations", []), multiscale.get("coordinateTransformations", [])):
        for transform in transforms:
            scale = scale * transform["scale"] if transform.get("type") == "scale" else scale
    found = {
        letter: (float(size), axis.get("unit", "")) for letter, size, axis in zip(axes, scale, named, strict=False)
    }
    sizes, unit = units.combine(found)
    version = str(attributes.get("version", multiscale.get("version", "0.4")))
    details = {"ngff": "0.5" if version >= "0.5" else "0.4", "omero": attributes.get("omero"), **_storage(array)}
    return Image(Pieces(array, path), axes, sizes, unit, path, details, others)


def _read_plain(path: Path, array: zarr.Array[Any]) -> Image:
    attributes: dict[str, Any] = dict(array.attrs)
    named = attributes.get("axes") or attributes.get("_ARRAY_DIMENSIONS")
    named = named or getattr(array.metadata, "dimension_names", None) or ""
    axes = "".join(str(name) for name in named).upper()
    if len(axes) != array.ndim or not set(axes) <= set("STCZYX"):
        axes = ""
    details = {"ngff": "", "attributes": attributes, **_storage(array)}
    sizes, unit = attributes.get("pixel_size", {}), attributes.get("unit", "")
    return Image(Pieces(array, path), axes, sizes, unit, path, details)


def _ome(group: zarr.Group) -> dict[str, Any]:
    attributes = group.attrs.asdict()
    ome = attributes.get("ome", attributes)  # 0.5 has all of it under this key, 0.4 has it at the top
    return dict(ome) if isinstance(ome, dict) else {}


def _storage(array: zarr.Array[Any]) -> dict[str, Any]:
    return {
        "zarr_format": array.metadata.zarr_format,
        "chunks": array.chunks,
        "shards": array.shards,
        "compressors": array.compressors,  # of a shard: those of the chunks inside it
    }


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    """Holds everything."""


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[zarr.Array[Any]]:
    details = like.details
    # NGFF has no axis for samples and demands this order: other data becomes a plain array that names its axes
    ordered = like.axes == "".join(letter for letter in "TCZYX" if letter in like.axes)
    version = details.get("ngff", "0.5") if ordered else ""
    zarr_format: Literal[2, 3] = _ZARR_FORMATS.get(version, details.get("zarr_format", 3))
    options: dict[str, Any] = {"shape": like.shape, "dtype": dtype, "fill_value": 0}
    options |= _stored_alike(like, zarr_format, dtype)
    options["dimension_names"] = [letter.lower() for letter in like.axes] if zarr_format == 3 else None
    if version:
        group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
        group.attrs.update(_attributes(like, version))
        if zarr_format == 2:
            options["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
        yield group.create_array("0", **options)
    else:
        own = {"axes": like.axes, "pixel_size": like.pixel_size, "unit": like.unit}
        attributes = {**details.get("attributes", {}), **own}
        yield zarr.create_array(str(path), zarr_format=zarr_format, attributes=attributes, **options)


def _stored_alike(like: Image, zarr_format: Literal[2, 3], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Chunks, shards and compressors of the Zarr array that `like` was read from, as far as they can be used."""
    chunks = like.details.get("chunks", ())
    if len(chunks) != len(like.shape):
        return {"chunks": _chunks(like.axes, like.shape)}
    if like.details.get("zarr_format") != zarr_format:
        return {"chunks": chunks}
    compressors = like.details["compressors"]
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
    return {"chunks": chunks, "shards": like.details["shards"], "compressors": compressors}


def _attributes(like: Image, version: str) -> dict[str, Any]:
    axes = []
    for letter in like.axes:
        axis = {"name": letter.lower(), "type": _TYPES[letter]}
        unit = "second" if letter == "T" else like.unit
        if letter in like.pixel_size and unit:
            axis["unit"] = unit
        axes.append(axis)
    scale = [float(like.pixel_size.get(letter, 1.0)) for letter in like.axes]
    level = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}
    ome: dict[str, Any] = {"multiscales": [{"name": "image", "axes": axes, "datasets": [level]}]}
    if like.details.get("omero"):
        ome["omero"] = like.details["omero"]
    if version == "0.5":
        return {"ome": {"version": version, **ome}}
    ome["multiscales"][0]["version"] = version
    return ome


def _chunks(axes: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    side = 256 if "Z" in axes else 1024
    most = {"Z": 32, "Y": side, "X": side, "C": 4 if axes.endswith("C") else 1}
    return tuple(min(size, most.get(letter, 1)) for letter, size in zip(axes, shape, strict=True))
