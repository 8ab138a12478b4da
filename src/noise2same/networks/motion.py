"""Motion between frames: how far what is in one lies in others, and the others with that taken back."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

FARTHEST = 4
"""Pixels of half size from one frame to the next, along each axis, that are looked for."""
TILE = 16
"""Side, in pixels of half size, of the tiles that are compared; they overlap by half."""
STRIDE = TILE
"""Pixels of full size from tile to tile."""
AROUND = 7
"""Tiles a side whose common motion is looked for first. On panning scenes with much noise, the pretrained network's
output was better with 7 than with 3 and 5 by 0.5 and 0.1 dB, and worse than with 9 by 0.1 dB (means of the development
seeds 2, 4, 6 and 8; `benchmarks/films.md` has another)."""
SHARED = 3
"""Tiles a side that share what is left of their motion, between pixels. Others were not tried."""
EVIDENT = 5.0
"""Standard errors by which tiles have to differ less at another place, to have moved there. In white noise, 1 of 100
tiles moves; with 4, 2 do, and with 6, slow pans under much noise are missed."""
INDEPENDENT = 57
"""Pixels of a tile that are as good as independent: all of them, by the 4.5 that each 3 × 3 mean has in common."""


def reach(frames: int) -> int:
    """Pixels, to either side, that a pixel of a frame may depend on that was followed over so many frames.

    They are the next tile, those that move with it, what is compared beyond them, and what it may have moved by.
    """
    return STRIDE * (1 + AROUND // 2) + TILE + 2 * (FARTHEST + 1) + 2 * FARTHEST * frames


@torch.no_grad()
def displacements(frames: Tensor, others: Tensor) -> Tensor:
    """How far what is in each tile of the frames has moved in the others, in pixels.

    First it is the motion of all that is around, and then that of the tile alone where it is evident that it differs.
    Tiles without evident motion have moved by 0.

    Parameters
    ----------
    frames, others : Tensor, (N, Y, X)
        Sides are multiples of `STRIDE`.

    Returns
    -------
    Tensor, (N, 2, Y / STRIDE, X / STRIDE)
        Along Y and X, at the center of each tile.
    """
    count = 2 * FARTHEST + 1
    here, there = _half(frames), _half(others)
    errors = _errors(here, there, [(y, x) for y in range(count) for x in range(count)], FARTHEST)
    found = torch.full_like(errors[:, 0], count**2 // 2, dtype=torch.long)
    moved = torch.zeros_like(errors[:, :2])
    for tiles in (AROUND, 1):
        together = _mean(errors, tiles)
        best, place, least = _lowest(together, count)
        chance = 2 / (INDEPENDENT * ((tiles + 1) / 2) ** 2) ** 0.5  # standard error of a difference; tiles overlap
        evident = together.gather(1, found[:, None])[:, 0] > least * (1 + EVIDENT * chance)
        found, moved = torch.where(evident, best, found), torch.where(evident[:, None], place, moved)
    return _refined(here, there, 2 * moved)


class Motion:
    """How all frames of films move, from each to the one after it and to the one before.

    Parameters
    ----------
    film : Tensor, (N, T, Y, X)
        At least two frames, whose sides are multiples of `STRIDE`.
    start : int
        Number of the first frame.
    """

    def __init__(self, film: Tensor, start: int = 0) -> None:
        self.film, self.start, count = film, start, len(film)
        earlier, later = film[:, :-1].flatten(0, 1), film[:, 1:].flatten(0, 1)
        self.ahead = displacements(earlier, later).unflatten(0, (count, -1))
        self.back = displacements(later, earlier).unflatten(0, (count, -1))

    def follow(self, frames: range, step: int, count: int) -> Iterator[Tensor]:
        """Frames one step away from some frames, two steps, and so on, taken to where their contents are in these.

        Beyond the end of a film, it is the last of its frames.

        Parameters
        ----------
        frames : range
            Numbers of the frames to do it for.
        step : int
            1 for the frames after them, −1 for those before.
        count : int
            Number of steps.

        Yields
        ------
        Tensor, (N, frames, Y, X)
        """
        at, size = torch.tensor(frames, device=self.film.device) - self.start, (len(self.film), len(frames))
        here = _half(self.film[:, at].flatten(0, 1))
        by, first, last = (self.ahead, 0, -2) if step > 0 else (self.back, 1, -1)
        moved = by.new_zeros(len(here), *by.shape[2:])
        for steps in range(count):
            now = (at + step * steps).clamp(first, self.film.shape[1] + last)
            moved = moved + _sampled(by[:, now - first].flatten(0, 1), moved / STRIDE, "bilinear")  # of the tiles there
            there = self.film[:, now + step].flatten(0, 1)
            moved = moved if steps == 0 else _refined(here, _half(there), moved)
            yield moved_back(there, moved).unflatten(0, size)


def moved_back(frames: Tensor, by: Tensor) -> Tensor:
    """Frames (N, Y, X) whose contents are taken back by `displacements`, which change smoothly from tile to tile."""
    height, width = frames.shape[-2:]
    shifts = functional.interpolate(by, size=(height, width), mode="bilinear", align_corners=False)
    return _sampled(frames[:, None], shifts, "bicubic")[:, 0]


def _sampled(values: Tensor, shifts: Tensor, mode: str) -> Tensor:
    """Values (N, C, Y, X) at places that are shifted by so many of their own pixels."""
    height, width = values.shape[-2:]
    rows, columns = (torch.arange(size, device=values.device) + 0.5 for size in (height, width))
    places = torch.stack(
        [2 * (columns + shifts[:, 1]) / width - 1, 2 * (rows[:, None] + shifts[:, 0]) / height - 1], -1
    )
    return functional.grid_sample(values, places, mode=mode, padding_mode="border", align_corners=False)


@torch.no_grad()
def _refined(frames: Tensor, others: Tensor, moved: Tensor) -> Tensor:
    """Displacements, of frames of half size, with what is left once they are taken back; those of 0 stay."""
    around = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    errors = _errors(frames, moved_back(others[:, 0], moved / 2)[:, None], around, 1)
    here, above, below, left, right = _mean(errors, SHARED).unbind(1)
    rest = torch.stack([_vertex(above, here, below)[0], _vertex(left, here, right)[0]], 1)
    return torch.where((moved != 0).any(1, keepdim=True), moved + 2 * rest, moved)


def _errors(frames: Tensor, others: Tensor, places: list[tuple[int, int]], margin: int) -> Tensor:
    """Mean squared differences of tiles, (N, places, Y, X), where the others are moved to places within a margin."""
    height, width = frames.shape[-2:]
    there = functional.pad(others, (margin,) * 4, mode="replicate")
    return torch.cat([_tiles((frames - there[..., y : y + height, x : x + width]).square()) for y, x in places], 1)


def _lowest(errors: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of errors at count × count places: the number of the best, where it is between pixels, and its error there."""
    least, best = errors.min(1)
    row, column = best // count, best % count

    def error(y: Tensor, x: Tensor) -> Tensor:
        return errors.gather(1, (y.clamp(0, count - 1) * count + x.clamp(0, count - 1))[:, None])[:, 0]

    down, lower = _vertex(error(row - 1, column), least, error(row + 1, column))
    right, still_lower = _vertex(error(row, column - 1), least, error(row, column + 1))
    middle = count // 2
    return best, torch.stack([row - middle + down, column - middle + right], 1), (least - lower - still_lower).clamp(0)


def _half(frames: Tensor) -> Tensor:
    """(N, 1, Y, X) of half size, with means over 3 × 3 of its pixels."""
    small = functional.avg_pool2d(frames[:, None], 2)
    return functional.avg_pool2d(functional.pad(small, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def _tiles(values: Tensor) -> Tensor:
    """Means over tiles."""
    return functional.avg_pool2d(values, TILE, stride=TILE // 2, padding=TILE // 4, count_include_pad=False)


def _mean(errors: Tensor, tiles: int) -> Tensor:
    """Means over so many tiles a side."""
    return functional.avg_pool2d(errors, tiles, stride=1, padding=tiles // 2, count_include_pad=False)


def _vertex(before: Tensor, least: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Where between pixels the parabola through three errors is lowest, and by how much it is lower there."""
    curvature = (before - 2 * least + after).clamp(min=1e-12)
    inside = (before > least) & (after > least)
    slope = torch.where(inside, 0.5 * (before - after), 0.0)
    return slope / curvature, slope.square() / (2 * curvature)
