"""Images to write, and whether they come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noise2same import io


def noise(shape: tuple[int, ...], dtype: str = "uint16") -> np.ndarray:
    values = np.random.default_rng(0).normal(100, 20, shape)
    return values.clip(0, 255).astype(dtype)


def copy(image: io.Image, path: Path, dtype: Any = None) -> io.Image:
    """Write an image again, in pieces along its first axis, and read the result."""
    with io.create(path, image, dtype) as out:
        for index in range(image.shape[0]):
            out[index] = image.data[index]
    return io.read(path)


def copy_all(path: Path, target: Path) -> None:
    """Write all images of a file into another."""
    images = io.open_images(path)
    parts, whole = io.series.places([image.path for image in images if image.path], target)
    for image, part in zip(images, parts, strict=True):
        with io.create(part, image) as out:
            out[...] = image.data[...]
    if whole is not None:
        io.series.join(whole, parts, images)


def assert_same(copied: io.Image, image: io.Image) -> None:
    assert (copied.axes, copied.shape, copied.dtype, copied.unit) == (image.axes, image.shape, image.dtype, image.unit)
    assert copied.pixel_size == pytest.approx(image.pixel_size, rel=1e-6)
    np.testing.assert_array_equal(copied.data[...], image.data[...])
