"""Video: AVI, MP4, MOV, MKV and what else FFmpeg reads. Read only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io.extras import load
from noise2same.io.film import Frames, image_of, refuse
from noise2same.io.image import Image

suffixes = (".avi", ".mp4", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv")
default_output = ".ome.tif"

FEWER = 0.98  # of the frames that a file says it has: the last ones may be without a picture, but no more of them

check = create = refuse


def read(path: Path) -> Image:
    with _opened(path) as (container, stream):
        context, rate, told = stream.codec_context, stream.average_rate or stream.guessed_rate, int(stream.frames)
        if not told and rate and container.duration and len(container.streams) == 1:  # sound may go on for longer
            told = int(container.duration / 10**6 * rate)
        bits = max((part.bits for part in context.format.components), default=8)
        gray = context.format.name.startswith("gray") or context.format.name in ("monow", "monob")
        shape = (context.height, context.width) if gray else (context.height, context.width, 3)
    times = _times(path)
    if len(times) < FEWER * told:
        raise InputError(f"{path} is truncated: it has {len(times)} of {told} frames; copy or export it again.")
    if not times:
        raise ValueError("no frames")
    kind = {(True, True): "gray16le", (True, False): "gray", (False, True): "rgb48le", (False, False): "rgb24"}
    dtype = np.uint16 if bits > 8 else np.uint8
    frames = _Video(path, times, shape, dtype, kind[gray, bits > 8])
    return image_of(frames, float(1 / rate) if rate else 0.0)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """A file and its stream of pictures."""
    av = load("av", "video", path)
    try:
        container = av.open(str(path))
    except av.error.FFmpegError as error:
        raise ValueError(error.strerror) from error
    with container:
        if not container.streams.video:
            raise InputError(f"{path} has no pictures, but only {', '.join(one.type for one in container.streams)}.")
        stream = container.streams.video[0]
        if stream.codec_context is None:
            raise InputError(f"{path} is compressed in a way that FFmpeg cannot decode here; convert it to MP4 or AVI.")
        stream.thread_type = "AUTO"
        yield container, stream


def _times(path: Path) -> list[int]:
    """When each frame is shown, in the stream's own unit; nothing is decoded for it."""
    with _opened(path) as (container, stream):
        packets = [packet for packet in container.demux(stream) if packet.size]
        found = [_time(packet) for packet in packets]
    if None in found:
        raise InputError(f"{path} does not say when its frames are shown; convert it to MP4 or AVI.")
    return sorted(time for time in found if time is not None)


def _time(part: Any) -> int | None:
    """When a packet or a frame is shown."""
    found = part.dts if part.pts is None else part.pts
    return None if found is None else int(found)


class _Video(Frames):
    def __init__(self, path: Path, times: list[int], shape: tuple[int, ...], dtype: Any, kind: str) -> None:
        super().__init__(path, len(times), shape, dtype)
        self._times, self._kind = times, kind

    def frames(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        first, last = self._times[start], self._times[stop - 1]
        found = self._decoded(first, last, seek=start > 0)
        frame = next(found, None)
        if start > 0 and (frame is None or _time(frame) != first):  # some formats miss the key frame before it
            found = self._decoded(first, last, seek=False)
            frame = next(found, None)
        while frame is not None:
            yield frame.to_ndarray(format=self._kind)
            frame = next(found, None)

    def _decoded(self, first: int, last: int, *, seek: bool) -> Iterator[Any]:
        """The frames that are shown from one time to another; only from a key frame on they can be decoded."""
        with _opened(self.path) as (container, stream):
            if seek:
                container.seek(first, stream=stream)
            for frame in container.decode(stream):
                time = _time(frame)
                if time is not None and first <= time <= last:
                    yield frame
                if time is not None and time >= last:
                    return
