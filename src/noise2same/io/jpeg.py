"""JPEG. It is written only where a name asks for it, as it adds artefacts of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from noise2same.errors import InputError
from noise2same.io import exif, units
from noise2same.io.image import Decoded, Image

suffixes = (".jpg", ".jpeg")
default_output = ".png"

QUALITY = 95  # of 100, with colors at full resolution: what Pillow calls the highest that is of use


def read(path: Path) -> Image:
    content = path.read_bytes()
    if not content.startswith(b"\xff\xd8"):  # a picture of another kind under this name: only its pixels show it
        data = _decode(path)
        return Image(data, "YXC"[: data.ndim], path=path)
    _check_complete(content)
    with exif.quiet(), Pillow.open(path, formats=["JPEG"]) as picture:  # reads the header only
        width, height = picture.size
        colors = () if picture.mode == "L" else (3,)
        across, down = picture.info.get("dpi", (0, 0))
        if picture.getexif().get(exif.ORIENTATION, 1) >= 5:
            width, height, across, down = height, width, down, across
        details = {"flavour": "plain", "exif": exif.upright(picture.info.get("exif", b"").removeprefix(exif.MARK))}
        details["icc"] = b"" if picture.mode == "CMYK" else picture.info.get("icc_profile", b"")
    shape = (height, width, *colors)
    sizes = {letter: 1 / float(dots) for letter, dots in (("Y", down), ("X", across)) if dots > 1}
    unit = "inch" if sizes else ""
    return Image(Decoded(path, shape, np.uint8, _decode), "YXC"[: len(shape)], sizes, unit, path, details)


def _decode(path: Path) -> NDArray[Any]:
    # turned upright, which `exif.upright` notes
    with exif.quiet():
        data = imageio.imread(path, plugin="pillow", rotate=True)
        if data.ndim == 3 and data.shape[2] == 4:  # CMYK
            data = imageio.imread(path, plugin="pillow", rotate=True, mode="RGB")
    return data


def _check_complete(content: bytes) -> None:
    """Raise ValueError if a file ends before the marker that ends its pixels. Previews before them have their own."""
    place = 2
    while content[place : place + 2] != b"\xff\xda":  # segments of metadata: marker, length, content
        length = int.from_bytes(content[place + 2 : place + 4], "big")
        if content[place : place + 1] != b"\xff" or length < 2:
            raise ValueError("no pixels")
        place += 1 if content[place + 1] == 255 else 2 + length  # markers may begin with several of 255
    if content.find(b"\xff\xd9", place) < 0:  # within the pixels, a byte of 255 is never followed by this one
        raise ValueError("it ends before its pixels do")


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if like is None:
        return
    if dtype != np.uint8:
        raise InputError(f"{path}: JPEG holds uint8 only, not {dtype}; write .png or .tif instead.")
    if like.axes != "YX" and not (like.axes == "YXC" and like.shape[2] == 3):
        raise InputError(
            f"{path}: JPEG holds one grey (YX) or RGB (YXC) image, not axes '{like.axes}' of shape {like.shape}; "
            "write .tif or .zarr instead."
        )


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    warnings.warn(
        f"JPEG of quality {QUALITY} adds artefacts of its own to a denoised image; .png has none.", stacklevel=1
    )
    out = np.zeros(like.shape, dtype)
    yield out
    kept: dict[str, Any] = {"quality": QUALITY, "subsampling": 0}
    if like.details.get("icc"):
        kept["icc_profile"] = like.details["icc"]
    if like.details.get("exif"):
        kept["exif"] = exif.MARK + like.details["exif"]
    if like.note:
        kept["comment"] = like.note
    dots = [units.convert(like.pixel_size.get(letter, 0.0), like.unit, "inch") for letter in "XY"]
    if all(dots):
        kept["dpi"] = tuple(1 / size for size in dots if size)
    Pillow.fromarray(out).save(path, "JPEG", **kept)
