"""Films: time as an axis that a network looks along, frames that were lost, and crops to measure what stays."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from noise2same.data import axes as ax
from noise2same.io import Image, Sliceable
from noise2same.io.image import OnDisk
from noise2same.io.raw import expanded

CROPS, SIDE, FRAMES = 4, 64, 256
"""Crops of a film that are measured, their side in pixels, and their frames at most."""
LOOK, AT_ONCE = 32, 64
"""Side in pixels of the four crops of each frame, and about how many frames, that are read at once to find lost frames
and levels. Four crops apart from each other, as what happens in one place is no flicker."""
WHOLE_PIXELS = 2**24
"""Pixels that are read at once of frames that may be lost: 32 MB of 16 bits. Not measured."""
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


def along_time(image: Image, like: Image | None = None) -> Image:
    """An image whose depth is time: T becomes Z, and each slice of a volume in time a film of its own (S).

    It has not both S and Z. A picture becomes a film of one frame. Frames that show nothing are NaN (`Frames`).

    Parameters
    ----------
    image : Image
        The film.
    like : Image, optional
        The film that this one was made of, along time: the same frames are lost, and levels are the same.
    """
    axes = image.axes.replace("Z", "S").replace("T", "Z")
    if "T" not in image.axes:
        return replace(image, data=np.asarray(image.data)[None], axes=f"Z{axes}")
    if like is None:
        lost, levels = _scanned(image)
    else:
        lost, levels = (like.data.lost, like.data.levels) if isinstance(like.data, Frames) else ((), None)
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

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Those of the film, if it has any."""
        return chunks_of(self.film)

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


def chunks_of(film: Sliceable) -> tuple[int, ...] | None:
    """What is read and decoded at once of a film, along each axis; None where that is not known."""
    chunks = getattr(film, "chunks", None)
    return tuple(chunks) if chunks and all(isinstance(length, int) for length in chunks) else None


def lost_frames(image: Image) -> list[int]:
    """Frames of a film that show nothing: all their pixels have one value, as zero, or are not finite.

    A film that shows nothing at all has lost none.
    """
    return list(_scanned(image)[0]) if is_film(image) else []


Scan = tuple[Sequence[int], NDArray[np.float32] | None]


def _scanned(image: Image) -> Scan:
    """The lost frames and the levels of a film, which are looked for once for each file that is open.

    Those of an array are looked for each time: it may have changed since, and that is quick.
    """
    if not isinstance(image.data, OnDisk):
        return _scan(image)
    found, key = image.data.found, f"film {image.axes}"
    if key not in found:
        found[key] = _scan(image)
    scan: Scan = found[key]
    return scan


def _scan(image: Image) -> Scan:
    """The lost frames and the levels of a film."""
    lost: list[int] = []
    seen: list[NDArray[np.float64]] = []
    for start, looks in _looks(image):
        seen.append(_coarse(looks))
        lost += _lost_among(image, start + np.flatnonzero(_plain(looks)))
    coarse = np.concatenate(seen)
    if len(lost) == len(coarse):
        return [], None
    coarse[lost] = np.nan
    return lost, _levels(image, coarse)


def _lost_among(image: Image, frames: NDArray[np.intp]) -> list[int]:
    """Which of some frames show nothing in any place."""
    time, lost = image.axes.index("T"), []
    most = max(1, WHOLE_PIXELS * image.shape[time] // math.prod(image.shape))
    for run in np.split(frames, np.flatnonzero(np.diff(frames) > 1) + 1):
        for part in np.array_split(run, -(-len(run) // most) or 1):
            if part.size:
                cuts = _cuts(image, T=slice(int(part[0]), int(part[-1]) + 1))
                lost += part[_plain(np.moveaxis(np.asarray(image.data[cuts]), time, 0))].tolist()
    return lost


def _cuts(image: Image, **along: slice) -> tuple[slice, ...]:
    return tuple(along.get(letter, slice(None)) for letter in image.axes)


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


def _looks(image: Image) -> Iterator[tuple[int, NDArray[Any]]]:
    """Some of the pixels of each frame of a film, a few frames at a time: the number of the first, and (T, ..., Y, X).

    They are four crops, one beside the other, or a small frame. Of a film with chunks, each crop lies in one of them,
    and each chunk is read once.
    """
    order = [image.axes.index(letter) for letter in "TYX"]
    length, height, width = (image.shape[axis] for axis in order)
    known = chunks_of(image.data)
    frames, *sides = (known[axis] for axis in order) if known else (1, height, width)
    boxes = [(slice(0, height), slice(0, width))]
    if min(height, width) > 2 * LOOK:
        boxes = [(_look(y, height, sides[0]), _look(x, width, sides[1])) for y in (1, 3) for x in (1, 3)]
    together: dict[Any, list[tuple[slice, slice]]] = {}
    for box in boxes:
        chunk = tuple(cut.start // side for cut, side in zip(box, sides, strict=True)) if known else len(together)
        together.setdefault(chunk, []).append(box)
    step = frames * max(1, AT_ONCE // frames)
    for start in range(0, length, step):
        parts = []
        for group in together.values():
            top, left = (min(cut.start for cut in cuts) for cuts in zip(*group, strict=True))
            bottom, right = (max(cut.stop for cut in cuts) for cuts in zip(*group, strict=True))
            read = image.data[_cuts(image, T=slice(start, start + step), Y=slice(top, bottom), X=slice(left, right))]
            pixels = np.moveaxis(np.asarray(read), order, (0, -2, -1))
            parts += [pixels[..., y.start - top : y.stop - top, x.start - left : x.stop - left] for y, x in group]
        yield start, np.concatenate(parts, axis=-1)


def _look(quarter: int, size: int, chunk: int) -> slice:
    """`LOOK` pixels around a quarter of an axis, moved into the chunk that is there."""
    middle = quarter * size // 4
    first = middle // chunk * chunk
    start = max(first, min(middle - LOOK // 2, min(first + chunk, size) - LOOK))
    return slice(start, start + LOOK)


def _coarse(looks: NDArray[Any]) -> NDArray[np.float64]:
    """Means over squares of `SQUARE` pixels a side, (..., places)."""
    side = min(SQUARE, *looks.shape[-2:])
    height, width = (size // side for size in looks.shape[-2:])
    cut = looks[..., : height * side, : width * side].astype(np.float64)
    squares = cut.reshape(*looks.shape[:-2], height, side, width, side).mean(axis=(-3, -1))
    return squares.reshape(*looks.shape[:-2], -1)


def _plain(frames: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of some frames, (T, ...), have pixels of one value alone, or no finite ones."""
    flat = frames.reshape(len(frames), -1)
    plain: NDArray[np.bool_] = (flat == flat[:, :1]).all(axis=1)  # which NaN is not
    return plain | ~np.isfinite(flat).any(axis=1) if flat.dtype.kind == "f" else plain


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
