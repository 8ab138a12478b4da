"""JPEG, read only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from noise2same.errors import InputError
from noise2same.io.image import Decoded, Image

suffixes = (".jpg", ".jpeg")
default_output = ".png"

_ORIENTATION = 274  # EXIF tag; from 5 on, height and width change places


def read(path: Path) -> Image:
    content = path.read_bytes()
    if not content.startswith(b"\xff\xd8"):  # a picture of another kind under this name: only its pixels show it
        data = _decode(path)
        return Image(data, "YXC"[: data.ndim], path=path)
    _check_complete(content)
    with Pillow.open(path, formats=["JPEG"]) as picture:  # reads the header only
        width, height = picture.size
        colors = () if picture.mode == "L" else (3,)
        if picture.getexif().get(_ORIENTATION, 1) >= 5:
            width, height = height, width
    shape = (height, width, *colors)
    return Image(Decoded(path, shape, np.uint8, _decode), "YXC"[: len(shape)], path=path)


def _decode(path: Path) -> NDArray[Any]:
    # turned upright, as what is written from it has no EXIF tag to say so
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


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> NoReturn:
    raise InputError(f"{path}: JPEG would add artefacts of its own to a denoised image; write .png or .tif instead.")


create = check
