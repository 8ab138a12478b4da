"""PNG with 8 or 16 bits: grey or RGB, with or without alpha; a palette becomes RGB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np

from noise2same.errors import InputError
from noise2same.io.image import Image


def read(path: Path) -> Image:
    data = imagecodecs.png_decode(path.read_bytes())
    details = {}
    if data.ndim == 3 and data.shape[2] in (2, 4):
        details["alpha"] = data[..., -1]
        data = data[..., 0] if data.shape[2] == 2 else data[..., :3]
    return Image(data, "YXC"[: data.ndim], path=path, details=details)


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if like is None:
        return
    if dtype not in (np.uint8, np.uint16):
        raise InputError(f"{path}: PNG holds uint8 and uint16 only, not {dtype}; write .tif or .npy instead.")
    if like.axes != "YX" and not (like.axes == "YXC" and like.shape[2] == 3):
        raise InputError(
            f"{path}: PNG holds one grey (YX) or RGB (YXC) image, not axes '{like.axes}' of shape {like.shape}; "
            "write .tif or .zarr instead."
        )


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    out = np.zeros(like.shape, dtype)
    yield out
    alpha = like.details.get("alpha")
    if alpha is not None and alpha.dtype == dtype and alpha.shape == out.shape[:2]:
        out = np.dstack([out, alpha])
    path.write_bytes(imagecodecs.png_encode(out))
