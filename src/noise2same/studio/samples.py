"""Noisy pictures to try the page with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from noise2same import io
from noise2same.noise.samples import samples

SAMPLES = {"Photograph": "color", "Gray picture": "gray", "Volume": "volume"}
"""What they are called on the page, and among the samples."""


def write_sample(name: str, folder: Path) -> Path:
    """Write a sample to a file of the usual kind, and return that: a picture of 8 bits, or a stack of 16 bits."""
    sample = samples()[SAMPLES[name]]
    stack = "Z" in sample.axes
    path = folder / f"{SAMPLES[name]}.{'tif' if stack else 'png'}"
    pixels = np.clip(100 * sample.noisy, 0, 65535).astype(np.uint16) if stack else np.clip(sample.noisy, 0, 255)
    image = io.wrap(pixels if stack else pixels.astype(np.uint8), sample.axes)
    with io.create(path, image) as out:
        out[...] = image.data[...]
    return path
