"""Animated GIF and WebP, read only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from noise2same.io.film import Frames, image_of, refuse
from noise2same.io.image import Image

suffixes = (".gif", ".webp")
default_output = ".ome.tif"

check = create = refuse


def read(path: Path) -> Image:
    with Pillow.open(path, formats=["GIF", "WEBP"]) as picture:
        count, (width, height) = getattr(picture, "n_frames", 1), picture.size
        picture.load()
        seconds = float(picture.info.get("duration", 0)) / 1000
    return image_of(_Animation(path, count, (height, width, 3), np.uint8), seconds)


class _Animation(Frames):
    def frames(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        with Pillow.open(self.path, formats=["GIF", "WEBP"]) as picture:
            for number in range(start, stop):
                picture.seek(number)
                yield np.asarray(picture.convert("RGB"))
