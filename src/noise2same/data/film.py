"""Films: time as an axis that a network looks along, frames that were lost, and crops to measure what stays."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from noise2same.data import axes as ax
from noise2same.io import Image, Sliceable
from noise2same.io.raw import expanded

CROPS, SIDE, FRAMES = 4, 64, 256
"""Crops of a film that are measured, their side in pixels, and their frames at most."""
LOOK, AT_ONCE = 32, 64
"""Side in pixels of the four crops of each frame, and frames, that are read at once to find lost frames and levels."""
SQUARE = 8
"""Side in pixels of the means by which levels of frames are compared. Not measured."""
FLICKER = 4.0
"""Standard errors of a frame's level that levels have to spread by, to be taken for more than chance. Set by
reasoning: chance gives 1; a lamp that flickers by 4 % gave 10 in a film with σ = 25."""
BOX = (512, 64, 64)
"""Largest box of a film that is trained on, in frames and pixels along T, Y, X: long, so that frames have others around
them. Not measured."""


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
    lost, levels = _scan(image)
    if not lost and levels is None:
        return replace(image, axes=axes)
    return replace(image, data=Frames(image.data, image.axes.index("T"), lost, levels), axes=axes)


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
    """A film as networks see it: lost frames are NaN, and all have the same level.

    So lost frames are filled from the frames around and not trained on, and frames can be compared although a lamp
    flickers or a dye bleaches. What is done to the result brings both back.

    Parameters
    ----------
    film : Sliceable
        The film as it is.
    axis : int
        Which of its axes is time.
    lost : sequence of int
        Which frames are lost.
    levels : ndarray, optional
        What each frame is brighter than others, of the shape of the film but 1 along Y and X.
    """

    def __init__(self, film: Sliceable, axis: int, lost: Sequence[int], levels: NDArray[np.float32] | None) -> None:
        self.film, self.axis, self.lost, self.levels = film, axis, tuple(lost), levels
        self.shape, self.ndim = film.shape, film.ndim
        self.dtype: np.dtype[Any] = np.result_type(np.float32, film.dtype)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        keys = expanded(key, self.ndim)
        pixels = np.asarray(self.film[tuple(keys)])
        if self.levels is not None:
            pixels = pixels.astype(self.dtype) - np.broadcast_to(self.levels, self.shape)[tuple(keys)]
        frames = np.arange(self.shape[self.axis])[keys[self.axis]]
        gone = np.flatnonzero(np.isin(frames, self.lost))
        if gone.size:
            pixels = pixels.astype(self.dtype)
            pixels[(slice(None),) * self.axis + (gone,)] = np.nan
        return pixels


def lost_frames(image: Image) -> list[int]:
    """Frames of a film that show nothing: all their pixels have one value, as zero, or are not finite.

    A film that shows nothing at all has lost none.
    """
    return _scan(image)[0] if is_film(image) else []


def _scan(image: Image) -> tuple[list[int], NDArray[np.float32] | None]:
    """The lost frames and the levels of a film."""
    time = image.axes.index("T")
    lost, seen = [], []
    for at, look in enumerate(_looks(image)):
        seen.append(_coarse(look))
        if _is_plain(look):
            cuts = [slice(at, at + 1) if axis == time else slice(None) for axis in range(len(image.shape))]
            if _is_plain(np.asarray(image.data[tuple(cuts)])):
                lost.append(at)
    if len(lost) == len(seen):
        return [], None
    coarse = np.stack(seen)
    coarse[lost] = np.nan
    return lost, _levels(image, coarse)


def _levels(image: Image, coarse: NDArray[np.float64]) -> NDArray[np.float32] | None:
    """How much brighter each frame is than the mean of all; None where that is no more than chance.

    It is the median over places, so that what happens in a few of them does not count.

    Parameters
    ----------
    image : Image
        The film.
    coarse : ndarray, (T, ..., places)
        Brightness of some places in each frame.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all of a frame, or a place, may be NaN
        apart = coarse - np.nanmean(coarse, axis=0)
        levels = np.nanmedian(apart, axis=-1)
        spread = 1.4826 * np.nanmedian(np.abs(apart - levels[..., None]), axis=-1)
        chance = 1.2533 * np.nanmedian(spread) / coarse.shape[-1] ** 0.5  # standard error of a median
        flickers = bool(np.nanstd(levels) > FLICKER * chance)
    if not flickers:
        return None
    axes = [letter for letter in image.axes if letter not in "TYX"]
    order = ["T", *axes, "Y", "X"]
    shape = [1 if letter in "YX" else image.shape[image.axes.index(letter)] for letter in order]
    full = np.nan_to_num(levels, nan=0.0, posinf=0.0, neginf=0.0).reshape(shape)
    return full.transpose([order.index(letter) for letter in image.axes]).astype(np.float32)


def _looks(image: Image) -> Iterator[NDArray[Any]]:
    """Some of the pixels of each frame of a film, (..., Y, X): four crops, one beside the other, or a small frame."""
    time, rows, columns = (image.axes.index(letter) for letter in "TYX")
    height, width = image.shape[rows], image.shape[columns]
    corners = [(0, 0)]
    if min(height, width) > 2 * LOOK:
        corners = [(y * height // 4 - LOOK // 2, x * width // 4 - LOOK // 2) for y in (1, 3) for x in (1, 3)]
    for start in range(0, image.shape[time], AT_ONCE):
        parts = []
        for top, left in corners:
            cuts = [slice(None)] * len(image.shape)
            cuts[time] = slice(start, start + AT_ONCE)
            if len(corners) > 1:
                cuts[rows], cuts[columns] = slice(top, top + LOOK), slice(left, left + LOOK)
            parts.append(np.moveaxis(np.asarray(image.data[tuple(cuts)]), (time, rows, columns), (0, -2, -1)))
        yield from np.concatenate(parts, axis=-1)


def _coarse(look: NDArray[Any]) -> NDArray[np.float64]:
    """Means over squares of `SQUARE` pixels a side, (..., places)."""
    side = min(SQUARE, *look.shape[-2:])
    height, width = (size // side for size in look.shape[-2:])
    cut = look[..., : height * side, : width * side].astype(np.float64)
    squares = cut.reshape(*look.shape[:-2], height, side, width, side).mean(axis=(-3, -1))
    return squares.reshape(*look.shape[:-2], -1)


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
