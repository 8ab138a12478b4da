"""Films, read only: frames that have to be decoded in their order, in pieces so that few of them are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io.image import Image, lazily
from noise2same.io.raw import Boxes

PROBED = 5  # frames, evenly spread, that are looked at for colors


class Frames(Boxes):
    """Frames (T, Y, X, C) of a film, or (T, Y, X) if `gray`. A format says how some that follow each other are read."""

    def __init__(self, path: Path, count: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.path = path
        self.shape, self.dtype = (count, *shape), np.dtype(dtype)

    def frames(self, start: int, stop: int) -> Iterable[NDArray[Any]]:
        """Frames from `start` on, of the shape of one."""
        raise NotImplementedError

    def _box(self, box: Any) -> NDArray[Any]:
        times, *rest = box
        out = np.empty([part.stop - part.start for part in box], self.dtype)
        number = 0
        for number, frame in enumerate(self.frames(times.start, times.stop), 1):
            out[number - 1] = frame[tuple(rest)]
        if number < len(out):
            raise EOFError(f"frame {times.start + number} is missing")
        return out

    def is_gray(self) -> bool:
        """Whether the colors of evenly spread frames are all gray."""
        chosen = np.linspace(0, self.shape[0] - 1, PROBED).round().astype(int)
        return all(np.all(frame == frame[..., :1]) for number in chosen for frame in self.frames(number, number + 1))


class Gray(Frames):
    """The one channel of a film whose colors are gray."""

    def __init__(self, colors: Frames) -> None:
        super().__init__(colors.path, colors.shape[0], colors.shape[1:-1], colors.dtype)
        self._colors = colors

    def frames(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        return (frame[..., 0] for frame in self._colors.frames(start, stop))


def image_of(frames: Frames, seconds: float) -> Image:
    """A film as an image; `seconds` is the time from frame to frame, 0 if it is not known. One frame is no film."""
    frames = Gray(frames) if len(frames.shape) == 4 and frames.is_gray() else frames
    axes = "TYXC"[: len(frames.shape)]
    sizes = {"T": seconds} if seconds > 0 else {}
    if frames.shape[0] > 1:
        return Image(lazily(frames, frames.path), axes, sizes, path=frames.path)
    return Image(lazily(Still(frames), frames.path), axes[1:], path=frames.path)


class Still(Boxes):
    """The only frame of a film."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.shape, self.dtype = frames.shape[1:], frames.dtype

    def _box(self, box: Any) -> NDArray[Any]:
        return self._frames[(0, *box)]


def refuse(path: Path, like: Image | None, dtype: np.dtype[Any]) -> NoReturn:
    """What the `check` and `create` of such a format are."""
    raise InputError(f"{path}: films are only read, as their compression would add noise; write .ome.tif or .zarr.")
