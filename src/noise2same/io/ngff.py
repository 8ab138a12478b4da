"""The metadata of OME-NGFF, versions 0.4 and 0.5: what an image says of its axes, sizes and levels, and ours."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from noise2same.io import units
from noise2same.io.image import Image

TYPES = {"T": "time", "C": "channel", "Z": "space", "Y": "space", "X": "space"}


def ome(attributes: dict[str, Any]) -> dict[str, Any]:
    """What the attributes of a group say of OME: 0.5 has it under a key of its own, 0.4 at the top."""
    found = attributes.get("ome", attributes)
    return dict(found) if isinstance(found, dict) else {}


def version(attributes: dict[str, Any]) -> str:
    """'0.4' or '0.5', by what `ome` returns."""
    first = attributes["multiscales"][0]
    return "0.5" if str(attributes.get("version", first.get("version", "0.4"))) >= "0.5" else "0.4"


def axes_of(multiscale: dict[str, Any], dims: int) -> str:
    """Axes as letters; '' if they are not as many as dimensions, or not all known to us."""
    axes = "".join(str(axis["name"]).upper() for axis in _named(multiscale))
    return axes if len(axes) == dims and set(axes) <= set(TYPES) else ""


def sizes_of(multiscale: dict[str, Any], axes: str, dims: int) -> tuple[dict[str, float], str]:
    """Size of a pixel of the first level by axis, and its unit."""
    scale = np.ones(dims)
    for transforms in (
        multiscale["datasets"][0].get("coordinateTransformations", []),
        multiscale.get("coordinateTransformations", []),
    ):
        for transform in transforms:
            scale = scale * transform["scale"] if transform.get("type") == "scale" else scale
    named = zip(axes, scale, _named(multiscale), strict=False)
    return units.combine({letter: (float(size), axis.get("unit", "")) for letter, size, axis in named})


def _named(multiscale: dict[str, Any]) -> list[dict[str, Any]]:
    return [axis if isinstance(axis, dict) else {"name": axis} for axis in multiscale.get("axes", [])]


def attributes(like: Image, version: str, shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Attributes of the group of an image with levels of these shapes, which are named 0, 1 and so on.

    What the metadata of the input says of the same levels is kept.
    """
    stored = like.details.get("multiscale") or {}
    if axes_of(stored, len(like.axes)) != like.axes:  # another format, or axes that the user told
        stored = {}
    kept = ("name", "coordinateTransformations")
    multiscale: dict[str, Any] = {"name": "image"} | {key: deepcopy(stored[key]) for key in kept if stored.get(key)}
    multiscale["axes"] = _axes(like, stored)
    outer = next((step["scale"] for step in multiscale.get("coordinateTransformations", []) if "scale" in step), None)
    scale = [float(like.pixel_size.get(letter, 1.0)) for letter in like.axes]
    scale = scale if outer is None else [own / factor for own, factor in zip(scale, outer, strict=True)]
    multiscale["datasets"] = []
    for number, shape in enumerate(shapes):
        wider = [own * full / n for own, full, n in zip(scale, shapes[0], shape, strict=True)]
        told = [level.get("coordinateTransformations") for level in stored.get("datasets", [])][number : number + 1]
        steps = deepcopy(told[0]) if told and told[0] else [{"type": "scale", "scale": wider}]
        multiscale["datasets"].append({"path": str(number), "coordinateTransformations": steps})
    if len(shapes) > 1:
        multiscale["type"] = "mean"
    ome: dict[str, Any] = {"multiscales": [multiscale]}
    if like.details.get("omero"):
        ome["omero"] = like.details["omero"]
    further = dict(like.details.get("further") or {})
    if like.note:
        further["noise2same"] = like.note
    if version == "0.5":
        return {**further, "ome": {"version": version, **ome}}
    multiscale["version"] = version
    return {**further, **ome}


def _axes(like: Image, stored: dict[str, Any]) -> list[dict[str, Any]]:
    axes = []
    for number, letter in enumerate(like.axes):
        axis = {"name": letter.lower(), "type": TYPES[letter]}
        unit = "second" if letter == "T" else like.unit
        if stored:
            unit = _named(stored)[number].get("unit", "")
        if unit and (stored or letter in like.pixel_size):
            axis["unit"] = unit
        axes.append(axis)
    return axes
