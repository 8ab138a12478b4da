"""Noisy pictures to try the page with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from noise2same import io
from noise2same.noise.samples import samples

SAMPLES = {"Photograph": "color", "Gray picture": "gray", "Volume": "volume"}
"""What they are called on the page, and among the samples."""

STEPS, DARK = 100, 150
"""Steps of 16 bits for each gray value, and the gray values below zero that noise reaches."""


def write_sample(name: str, folder: Path) -> Path:
    """Write a sample as a TIFF of 16 bits, which has room for its noise, and return the file."""
    sample = samples()[SAMPLES[name]]
    path = folder / f"{SAMPLES[name]}.tif"
    image = io.wrap((STEPS * (sample.noisy + DARK)).clip(0, 65535).astype(np.uint16), sample.axes)
    with io.create(path, image) as out:
        out[...] = image.data[...]
    return path
