"""Films: time as an axis that a network looks along, frames that were lost, and crops to measure what stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from noise2same.data import axes as ax
from noise2same.io import Image, Sliceable

CROPS, SIDE, FRAMES = 4, 64, 256
"""Crops of a film that are measured, their side in pixels, and their frames at most."""
LOOKED_AT = 64
"""Frames, and side of their middle in pixels, that are read at once to find lost frames."""
BOX = (512, 64, 64)
"""Largest box of a film that is trained on, along T, Y, X: long, so that frames have others around them."""


def is_film(image: Image) -> bool:
    """Whether an image has several frames in order of time."""
    return "T" in image.axes and image.shape[image.axes.index("T")] > 1


def along_time(image: Image) -> Image:
    """An image whose depth is time: T becomes Z, and each slice of a volume in time a film of its own (S).

    It has not both S and Z. A picture becomes a film of one frame. Frames that show nothing are NaN (`Frames`).
    """
    axes = image.axes.replace("Z", "S").replace("T", "Z")
    if "T" not in image.axes:
        return replace(image, data=np.asarray(image.data)[None], axes=f"Z{axes}")
    lost = lost_frames(image)
    return replace(image, data=Frames(image.data, image.axes.index("T"), lost) if lost else image.data, axes=axes)


@overload
def along_times(images: list[Image]) -> list[Image]: ...
@overload
def along_times(images: None) -> None: ...
@overload
def along_times(images: list[Image] | None) -> list[Image] | None: ...
def along_times(images: list[Image] | None) -> list[Image] | None:
    """As `along_time`, for each of several images, if there are any."""
    return None if images is None else list(map(along_time, images))


class Frames:
    """A film whose lost frames are NaN, so that they are filled from the frames around and not trained on.

    Parameters
    ----------
    film : Sliceable
        The film as it is.
    axis : int
        Which of its axes is time.
    lost : sequence of int
        Which frames are lost.
    """

    def __init__(self, film: Sliceable, axis: int, lost: Sequence[int]) -> None:
        self.film, self.axis, self.lost = film, axis, tuple(lost)
        self.shape, self.ndim = film.shape, film.ndim
        self.dtype: np.dtype[Any] = np.result_type(np.float32, film.dtype)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        keys = key if isinstance(key, tuple) else (key,)
        pixels = np.asarray(self.film[key])
        cut = keys[self.axis] if len(keys) > self.axis else slice(None)
        frames = np.arange(self.shape[self.axis])[cut]
        gone = np.flatnonzero(np.isin(frames, self.lost))
        if gone.size:
            pixels = pixels.astype(self.dtype)
            pixels[(slice(None),) * self.axis + (gone,)] = np.nan
        return pixels


def lost_frames(image: Image) -> list[int]:
    """Frames of a film that show nothing: all their pixels have one value, as zero, or are not finite.

    A film that shows nothing at all has lost none.
    """
    if not is_film(image):
        return []
    length = image.shape[image.axes.index("T")]
    lost = []
    for start in range(0, length, LOOKED_AT):
        some = _frames(image, slice(start, start + LOOKED_AT), middle=True)
        suspects = [start + at for at, frame in enumerate(some) if _is_plain(frame)]
        lost += [at for at in suspects if _is_plain(next(iter(_frames(image, slice(at, at + 1)))))]
    return lost if len(lost) < length else []


def _frames(image: Image, frames: slice, *, middle: bool = False) -> Iterator[NDArray[Any]]:
    """Some frames of a film, or the middle of each."""
    cuts = [slice(None)] * len(image.shape)
    cuts[image.axes.index("T")] = frames
    if middle:
        for letter in "YX":
            axis = image.axes.index(letter)
            start = max(0, image.shape[axis] - LOOKED_AT) // 2
            cuts[axis] = slice(start, start + LOOKED_AT)
    yield from np.moveaxis(np.asarray(image.data[tuple(cuts)]), image.axes.index("T"), 0)


def _is_plain(frame: NDArray[Any]) -> bool:
    finite = frame[np.isfinite(frame)] if frame.dtype.kind == "f" else frame
    return finite.size == 0 or (finite.size == frame.size and bool((finite == finite.flat[0]).all()))


def read_crops(images: Sequence[Image]) -> list[NDArray[np.float32]]:
    """A few crops of films, (1, C, T, Y, X), evenly spread over all of them."""
    every = [sample for image in map(along_time, images) for sample in ax.samples(image.data, image.axes)]
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
