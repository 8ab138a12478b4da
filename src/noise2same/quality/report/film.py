"""What a report shows of a film: its frames one by one, a line of it over time, and traces of its liveliest places."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noise2same.quality.film import FilmPart, liveliest, liveliness, traces_at
from noise2same.quality.report import charts
from noise2same.quality.report.pictures import Picture, fitted, picture
from noise2same.quality.report.views import Array, grey_range

if TYPE_CHECKING:
    from noise2same.quality.assess import Assessment

FRAMES = 32
"""Frames that are shown at most: with the sides and quality below, about a megabyte."""
LONGEST, LEAST = 240, 360
"""Longest side of each of the two pictures of a frame in pixels, and least width at which both are shown."""
QUALITY = 70
"""Of these pictures as JPEG."""
PLACES = 4
"""Traces that are drawn."""
LINE = 3
"""Rows that a kymograph averages, in pixels."""


def show_film(film: FilmPart, assessment: Assessment, colours: Sequence[str]) -> str:
    """HTML of the section on a film."""
    ratios = [_standing_out(channel) for channel in film.noisy]
    channel = int(np.argmax(ratios))
    lively = liveliness(film.noisy[channel])
    places = liveliest(lively, PLACES)
    name = assessment.channels[channel].name if len(assessment.channels) > 1 else ""
    return f"""<section aria-labelledby="film-title">
<h2 id="film-title">Over time</h2>
{_frames(film, assessment, colours, places)}
<div class="pair">{_traces(film, channel, places, name)}{_kymograph(film, channel, places[0][0], name)}</div>
</section>
"""


def _standing_out(film: NDArray[np.float32]) -> float:
    """How far the liveliest place of a channel is above the usual."""
    lively = liveliness(film)
    usual = float(np.median(np.abs(lively)))
    return float(lively.max()) / usual if usual > 0 else 0.0


def _frames(film: FilmPart, assessment: Assessment, colours: Sequence[str], places: list[tuple[int, int]]) -> str:
    """Frames before and after, side by side, with a slider for the time."""
    length, height, width = film.noisy.shape[1:]
    chosen = np.unique(np.linspace(0, length - 1, min(length, FRAMES)).round().astype(int))
    grey = grey_range(_plane(film.clean[:, chosen].reshape(len(film.clean), -1, width)))
    images = [_frame(film, int(number), grey, colours) for number in chosen]
    pictures = "".join(
        f'<img src="{_uri(image)}" alt="Frame {film.start + number + 1}, noisy and denoised" '
        f'data-frame="{film.start + number + 1}" width="{image.shape[1]}" height="{image.shape[0]}"'
        f"{' hidden' if at else ''}>"
        for at, (number, image) in enumerate(zip(chosen, images, strict=True))
    )
    marks = "".join(_mark(number, *place, height, width) for number, place in enumerate(places, 1))
    total = film.total
    return f"""<figure class="film" style="--ratio: {2 * width / height:.4f}">
<div class="frames" id="frames">{pictures}{marks}
<span class="tag left">noisy</span><span class="tag right">denoised</span></div>
<div class="time"><button type="button" id="play" aria-pressed="false">Play</button>
<input type="range" id="frame" min="0" max="{len(chosen) - 1}" step="1" value="0" aria-label="Frame">
<output id="number">frame {film.start + 1} of {total}</output></div>
<figcaption>{_part(film, assessment, len(chosen))}Both sides have the same contrast in all frames. The numbers mark the
places that change most in the noisy film; noise does not count, because it differs from frame to frame.</figcaption>
</figure>"""


def _plane(channels: NDArray[np.float32]) -> Array:
    """(C, Y, X) -> (Y, X, C), with 0 for what is unknown."""
    plane: Array = np.nan_to_num(np.moveaxis(channels, 0, -1), posinf=0.0, neginf=0.0)
    return plane


def _frame(film: FilmPart, number: int, grey: tuple[Array, Array], colours: Sequence[str]) -> Picture:
    """One frame, noisy and denoised side by side."""
    before, after = (
        picture(fitted(_plane(part[:, number]), LONGEST), grey, colours) for part in (film.noisy, film.clean)
    )
    repeats = max(1, -(-LEAST // (2 * before.shape[1])))
    both = np.concatenate([before, after], axis=1)
    return both.repeat(repeats, axis=0).repeat(repeats, axis=1)


def _uri(image: Picture) -> str:
    import imagecodecs

    return f"data:image/jpeg;base64,{b64encode(imagecodecs.jpeg_encode(image, level=QUALITY)).decode()}"


def _mark(number: int, y: int, x: int, height: int, width: int) -> str:
    """The number of a place, in both pictures of a frame."""
    top = (y + 0.5) / height
    sides = ((x + 0.5) / width / 2, (x + 0.5) / width / 2 + 0.5)
    return "".join(f'<b class="place" style="left: {left:.3%}; top: {top:.3%}">{number}</b>' for left in sides)


def _part(film: FilmPart, assessment: Assessment, shown: int) -> str:
    """Say which frames and pixels are shown, if not all are."""
    length, height, width = film.noisy.shape[1:]
    every = shown == film.total
    which = "all frames" if every else f"{shown} frames, evenly spread from {film.start + 1} to {film.start + length}"
    places = ["the middle slice"] if "Z" in assessment.sizes else []
    if (height, width) != (assessment.sizes["Y"], assessment.sizes["X"]):
        places.append(f"the middle {height} × {width} pixels")
    return "" if every and not places else f"Shown: {', '.join([which, *places])}. "


def _traces(film: FilmPart, channel: int, places: list[tuple[int, int]], name: str) -> str:
    before, after = (traces_at(part[channel], places) for part in (film.noisy, film.clean))
    draw = partial(charts.draw_traces, before=before, after=after, start=film.start + 1)
    chart = charts.svg(draw, "Brightness over time at the liveliest places, before and after")
    where = f", in {escape(name)}" if name else ""
    return f"""<figure>{chart}<figcaption>Brightness over time at the numbered places, means over 6 × 6 pixels{where}.
The denoised line should run through the middle of the noisy one, at its peaks too.</figcaption></figure>"""


def _kymograph(film: FilmPart, channel: int, row: int, name: str) -> str:
    """One line of the film, time downwards, before and after."""
    top = max(0, min(row - LINE // 2, film.noisy.shape[2] - LINE))
    before, after = (_plane(part[channel, :, top : top + LINE].mean(axis=1)[None]) for part in (film.noisy, film.clean))
    grey = grey_range(after)
    gap = np.full((len(before), max(2, before.shape[1] // 64), 1), grey[0])
    lines = np.concatenate([before, gap, after], axis=1)
    both = picture(fitted(lines.repeat(max(1, lines.shape[1] // 3 // len(lines)), axis=0), 2 * LONGEST + 2), grey)
    where = f", in {escape(name)}" if name else ""
    y = film.corner[0] + row
    return f"""<figure><img class="pixels" src="{_uri(both)}" width="{both.shape[1]}" height="{both.shape[0]}"
alt="Kymograph of the row {y}, noisy and denoised"><figcaption>Kymograph: row {y}, through the liveliest place,
with time downwards; noisy at the left, denoised at the right{where}. What happens in a few frames should be as short at
the right as at the left.</figcaption></figure>"""
