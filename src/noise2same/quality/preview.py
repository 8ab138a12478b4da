"""A film before and after, side by side, as a film that any player shows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same import io
from noise2same.data import axes as ax
from noise2same.data.film import is_film
from noise2same.errors import InputError
from noise2same.quality.report.pictures import Picture, fitted, picture
from noise2same.quality.report.views import Array, grey_range

MOST_FRAMES = 240
"""Consecutive frames that are written, at most: 16 seconds."""
LONGEST = 400
"""Longest side of each of the two pictures, in pixels. WebP and GIF hold all frames in memory: at most 230 MB."""
RATE = 15
"""Frames a second."""
CONTRAST_FRAMES = 8
"""Frames that the range of gray values is taken from."""
GAP = 4
"""Pixels between the two pictures."""
PILLOW: dict[str, dict[str, Any]] = {".webp": {"quality": 80}, ".gif": {}}
"""Suffixes that Pillow writes, and its options."""
VIDEO = ".mp4"


def check_preview(path: Path, film: io.Image | None = None) -> None:
    """Raise InputError if a preview cannot be written to a file, or there is no film to show."""
    suffix = path.suffix.lower()
    if suffix != VIDEO and suffix not in PILLOW:
        raise InputError(f"--preview {path}: its name ends in .mp4, .webp or .gif; choose one of these suffixes.")
    if suffix == VIDEO and find_spec("av") is None:
        raise InputError(
            f"--preview {path}: .mp4 needs PyAV: pip install 'noise2same[video]', or choose .webp or .gif."
        )
    if film is not None and not is_film(film):
        raise InputError(
            f"--preview shows a film, but {film.name} has the axes {film.axes} and shape {film.shape}: leave it out, or"
            " give axes with T for several frames."
        )


def write_preview(path: Path, noisy: io.Image, clean: io.Image) -> str:
    """Write noisy and denoised frames side by side, with one contrast; whole or not at all.

    At most 240 consecutive frames around the middle are written, of a volume its middle slice, and each picture has at
    most 400 pixels a side.

    Returns
    -------
    str
        A sentence that says which frames these are.
    """
    import imageio.v3 as imageio

    check_preview(path, noisy)
    total = noisy.shape[noisy.axes.index("T")]
    start = max(0, total - MOST_FRAMES) // 2
    chosen = range(start, min(total, start + MOST_FRAMES))
    frames = _side_by_side(noisy, clean, chosen)
    with io.replacing(path) as temporary:
        if path.suffix.lower() == VIDEO:
            with imageio.imopen(temporary, "w", plugin="pyav", container="mp4", extension=VIDEO) as video:
                video.init_video_stream("libx264", fps=RATE, pixel_format="yuv420p")
                for frame in frames:
                    video.write_frame(_even(frame))
        else:
            options = PILLOW[path.suffix.lower()] | {"duration": 1000 // RATE, "loop": 0}
            stack = np.stack(list(frames))
            imageio.imwrite(temporary, stack, plugin="pillow", extension=path.suffix.lower(), **options)
    which = f"all {total} frames" if len(chosen) == total else f"frames {start + 1} to {chosen[-1] + 1} of {total}"
    return f"Preview written to {path}: {which}, noisy at the left, denoised at the right."


def _side_by_side(noisy: io.Image, clean: io.Image, chosen: range) -> Iterator[Picture]:
    """Pictures of frames, which are read one by one."""
    some = np.unique(np.linspace(chosen[0], chosen[-1], CONTRAST_FRAMES).round().astype(int))
    grey = grey_range(np.concatenate([_plane(clean, int(number)) for number in some]))
    colours = [channel.color for channel in io.channels(noisy)]
    for number in chosen:
        before, after = (picture(fitted(_plane(film, number), LONGEST), grey, colours) for film in (noisy, clean))
        gap = np.zeros((len(before), GAP, *before.shape[2:]), np.uint8)
        yield np.concatenate([before, gap, after], axis=1)


def _plane(film: io.Image, number: int) -> Array:
    """One frame of the first sample, (Y, X, C), of a volume its middle slice; 0 where it is unknown."""
    index = {"T": number} | ({"S": 0} if "S" in film.axes else {})
    sample = ax.Sample(film.data, film.axes, index)
    middle = sample.size[0] // 2
    pixels = sample.read(slice(middle, middle + 1))[0, :, 0] if "Z" in film.axes else sample.read()[0]
    plane: Array = np.nan_to_num(np.moveaxis(pixels, 0, -1).astype(np.float32), posinf=0.0, neginf=0.0)
    return plane


def _even(frame: Picture) -> NDArray[np.uint8]:
    """The frame in colors, with an even height and width, which H.264 needs."""
    colored = frame if frame.ndim == 3 else np.repeat(frame[..., None], 3, axis=-1)
    return np.pad(colored, ((0, len(frame) % 2), (0, frame.shape[1] % 2), (0, 0)), mode="edge")
