"""What the channels and frames of an image are called in its file, and the colors in which its channels are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from noise2same.io.image import Image
from noise2same.io.ome import channels_of

FRAMES = {"S": "sample", "T": "time point"}
PRIMARIES = {"red": "#ff0000", "green": "#00ff00", "blue": "#0000ff"}


@dataclass(frozen=True)
class Channel:
    """What a person calls a channel."""

    name: str
    """Such as "DAPI"; "channel 2" where the file has no name."""
    color: str = ""
    """As "#rrggbb"; "" where the file has none."""


def channels(image: Image) -> tuple[Channel, ...]:
    """The channels of an image, as OME-XML, OME-Zarr or ImageJ name them; red, green and blue of a photograph."""
    count = image.shape[image.axes.index("C")] if "C" in image.axes else 1
    found = _of_ome(image, count) or _of_omero(image, count) or _of_imagej(image, count)
    if not found and count == 3 and image.axes.endswith("YXC"):
        found = list(PRIMARIES.items())
    found = found or [("", "")] * count
    return tuple(Channel(name.strip() or f"channel {n}", color) for n, (name, color) in enumerate(found, 1))


def frame_name(image: Image, index: dict[str, int]) -> str:
    """One sample or time point of an image, by its label in ImageJ or else counted from 1; "" if it has neither."""
    labels = _labels(image)
    only = len(index) == 1 and len(labels) == math.prod(image.shape[image.axes.index(axis)] for axis in index)
    if only and all(image.shape[image.axes.index(axis)] == 1 for axis in "CZ" if axis in image.axes):
        return labels[next(iter(index.values()))]
    return ", ".join(f"{FRAMES[axis]} {at + 1}" for axis, at in index.items())


def _of_ome(image: Image, count: int) -> list[tuple[str, str]]:
    found = channels_of(image.details.get("ome_xml") or "", image.details.get("number", 0))
    return found if len(found) == count else []


def _of_omero(image: Image, count: int) -> list[tuple[str, str]]:
    found = (image.details.get("omero") or {}).get("channels") or []
    if len(found) != count:
        return []
    return [(str(one.get("label") or ""), _hex(str(one.get("color") or ""))) for one in found]


def _of_imagej(image: Image, count: int) -> list[tuple[str, str]]:
    """Names from the labels of planes, if all planes of a channel have the same; colors from the lookup tables."""
    labels, tables = _labels(image), image.details.get("imagej", {}).get("LUTs") or []
    by_channel = [set(labels[n::count]) for n in range(count)]
    names = [one.pop() if len(one) == 1 else "" for one in by_channel] if count > 1 else [""] * count
    colors = [_brightest(table) for table in tables] if len(tables) == count else [""] * count
    return list(zip(names, colors, strict=True)) if any(names) or any(colors) else []


def _labels(image: Image) -> Sequence[str]:
    return [str(label or "") for label in image.details.get("imagej", {}).get("Labels") or []]


def _brightest(table: Any) -> str:
    """The last color of a lookup table (3, 256); "" if it is grey."""
    red, green, blue = (int(ramp[-1]) for ramp in table)
    return "" if red == green == blue else f"#{red:02x}{green:02x}{blue:02x}"


def _hex(color: str) -> str:
    color = color.removeprefix("#").lower()
    known = len(color) == 6 and all(digit in "0123456789abcdef" for digit in color)
    return f"#{color}" if known else ""
