"""JPEG, read only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np

from noise2same.errors import InputError
from noise2same.io.image import Image


def read(path: Path) -> Image:
    # turned upright, as what is written from it has no EXIF tag to say so
    data = imageio.imread(path, plugin="pillow", rotate=True)
    if data.ndim == 3 and data.shape[2] == 4:  # CMYK
        data = imageio.imread(path, plugin="pillow", rotate=True, mode="RGB")
    return Image(data, "YXC"[: data.ndim], path=path)


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    raise InputError(f"{path}: JPEG would add artefacts of its own to a denoised image; write .png or .tif instead.")
