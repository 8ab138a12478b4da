"""Noisy images to try things with, in napari's menu of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from noise2same.noise.samples import samples


def gray() -> list[Any]:
    """A gray picture with Gaussian noise."""
    return _sample("gray")


def color() -> list[Any]:
    """A color picture with Gaussian noise."""
    return _sample("color")


def volume() -> list[Any]:
    """A volume with photon noise."""
    return _sample("volume")


def _sample(name: str) -> list[Any]:
    sample = samples()[name]
    rgb = sample.axes.endswith("C")
    pixels = np.clip(sample.noisy, 0, 255).astype(np.uint8) if rgb else sample.noisy
    labels = tuple(sample.axes.removesuffix("C").lower())
    return [(pixels, {"name": f"noisy {name}", "axis_labels": labels, "rgb": rgb}, "image")]
