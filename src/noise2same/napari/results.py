"""Results that are layers, and how strong they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from napari.layers import Image as ImageLayer

from noise2same import io
from noise2same.data.normalize import partway
from noise2same.napari.layers import pixels_of, with_alpha

IN_MEMORY = 2**28
"""Bytes of a file up to which it is read at once."""


@dataclass(frozen=True)
class Made:
    """A result: the layer that it was made of, its own layer, and its pixels at full strength."""

    source: ImageLayer
    layer: ImageLayer
    clean: Any

    def set_strength(self, strength: float) -> None:
        """Show the part of the way from the noisy (0) to the denoised image (1)."""
        noisy = pixels_of(self.source)
        if isinstance(self.clean, np.ndarray):
            mixed = partway(noisy, self.clean, strength)
        else:
            mixed = da.map_blocks(
                partway, da.asarray(noisy).rechunk(self.clean.chunks), self.clean, strength, dtype=self.clean.dtype
            )
        self.layer.data = with_alpha(self.source, mixed)


def pixels_of_file(image: io.Image) -> Any:
    """The pixels of a file, for a layer: an array, or of a large file a Dask array that reads what is looked at."""
    bytes_ = image.dtype.itemsize * int(np.prod(image.shape, dtype=np.int64))
    if bytes_ <= IN_MEMORY:
        return np.asarray(image.data[...])
    return lazily(image)


def lazily(image: io.Image) -> Any:
    """The pixels of a file as a Dask array, in the chunks of the file or else in planes."""
    chunks = getattr(image.data, "chunks", None) or tuple(
        size if letter in "YX" else 1 for letter, size in zip(image.axes, image.shape, strict=True)
    )
    return da.from_array(image.data, chunks=chunks)


def read_result(path: str, axes: str) -> Any:
    """The pixels of a file that was written, which are read when they are looked at."""
    return lazily(io.read(path, axes))
