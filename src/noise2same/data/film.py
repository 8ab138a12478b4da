"""Films: time as an axis that a network looks along, and crops to measure what stays from frame to frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from noise2same.data import axes as ax
from noise2same.io import Image

CROPS, SIDE, FRAMES = 4, 48, 512
"""Crops of a film that are measured, their side in pixels, and their frames at most."""


def is_film(image: Image) -> bool:
    """Whether an image has several frames in order of time."""
    return "T" in image.axes and image.shape[image.axes.index("T")] > 1 and not {"S", "Z"} <= set(image.axes)


def along_time(image: Image) -> Image:
    """An image whose depth is time: T becomes Z, and each slice of a volume in time a film of its own (S).

    A picture becomes a film of one frame.
    """
    axes = image.axes.replace("Z", "S").replace("T", "Z")
    if "T" in image.axes:
        return replace(image, axes=axes)
    return replace(image, data=np.asarray(image.data)[None], axes=f"Z{axes}")


@overload
def along_times(images: list[Image]) -> list[Image]: ...
@overload
def along_times(images: None) -> None: ...
@overload
def along_times(images: list[Image] | None) -> list[Image] | None: ...
def along_times(images: list[Image] | None) -> list[Image] | None:
    """As `along_time`, for each of several images, if there are any."""
    return None if images is None else list(map(along_time, images))


def read_crops(images: Sequence[Image]) -> list[NDArray[np.float32]]:
    """A few crops of films, (1, C, T, Y, X), evenly spread over all of them."""
    every = [sample for image in images for sample in ax.samples(image.data, along_time(image).axes)]
    crops = []
    for number in range(CROPS):
        sample = every[number * len(every) // CROPS]
        length, height, width = sample.size
        row, column = (
            (2 * part + 1) * size // 4 for part, size in zip(divmod(number, 2), (height, width), strict=True)
        )
        start = max(0, length - FRAMES) // 2
        region = [slice(start, start + FRAMES)]
        region += [slice(max(0, at - SIDE // 2), max(0, at - SIDE // 2) + SIDE) for at in (row, column)]
        crops.append(sample.read(*region).astype(np.float32))
    return crops
