"""Motion between frames: how far what is in one lies in another, and the other with that taken back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

FARTHEST = 4
"""Pixels of half size, along each axis, that are looked for."""
TILE = 16
"""Side, in pixels of half size, of the tiles that are compared; they overlap by half."""
STRIDE = TILE
"""Pixels of full size from tile to tile."""
EVIDENT = 0.4
"""Share of the mean squared difference of two tiles that may be left at the best place, for one to have moved there.

Where there is white noise alone, 1 of 1,000 tiles has less; with 0.5, 18 have."""
REACH = STRIDE + TILE + 2 * (FARTHEST + 1) + 2 * FARTHEST
"""Pixels, to either side, that a moved pixel may depend on: the next tile, all of it, what it may move by, and did."""


@torch.no_grad()
def displacements(frames: Tensor, others: Tensor) -> Tensor:
    """How far what is in each tile of the frames has moved in the others, in pixels.

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
    here, there = _half(frames), functional.pad(_half(others), (FARTHEST,) * 4, mode="replicate")
    height, width = here.shape[-2:]
    count = 2 * FARTHEST + 1
    errors = torch.cat(
        [
            _tiles((here - there[..., y : y + height, x : x + width]).square())
            for y in range(count)
            for x in range(count)
        ],
        1,
    )
    least, best = errors.min(1)
    row, column = best // count, best % count

    def error(y: Tensor, x: Tensor) -> Tensor:
        return errors.gather(1, (y.clamp(0, count - 1) * count + x.clamp(0, count - 1))[:, None])[:, 0]

    down, lower = _vertex(error(row - 1, column), least, error(row + 1, column))
    right, still_lower = _vertex(error(row, column - 1), least, error(row, column + 1))
    evident = least - lower - still_lower < EVIDENT * errors[:, count**2 // 2]
    moved = torch.stack([row - FARTHEST + down, column - FARTHEST + right], 1)
    return torch.where(evident[:, None], 2 * moved, 0.0)


def moved_back(frames: Tensor, by: Tensor) -> Tensor:
    """Frames (N, Y, X) whose contents are taken back by `displacements`, which change smoothly from tile to tile."""
    height, width = frames.shape[-2:]
    shifts = functional.interpolate(by, size=(height, width), mode="bilinear", align_corners=False)
    rows, columns = (torch.arange(size, device=frames.device) + 0.5 for size in (height, width))
    places = torch.stack(
        [2 * (columns + shifts[:, 1]) / width - 1, 2 * (rows[:, None] + shifts[:, 0]) / height - 1], -1
    )
    pixels = functional.grid_sample(frames[:, None], places, mode="bicubic", padding_mode="border", align_corners=False)
    return pixels[:, 0]


def _half(frames: Tensor) -> Tensor:
    """(N, 1, Y, X) of half size, with means over 3 × 3 of its pixels."""
    small = functional.avg_pool2d(frames[:, None], 2)
    return functional.avg_pool2d(functional.pad(small, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def _tiles(values: Tensor) -> Tensor:
    """Means over tiles."""
    return functional.avg_pool2d(values, TILE, stride=TILE // 2, padding=TILE // 4, count_include_pad=False)


def _vertex(before: Tensor, least: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Where between pixels the parabola through three errors is lowest, and by how much it is lower there."""
    curvature = (before - 2 * least + after).clamp(min=1e-12)
    inside = (before > least) & (after > least)
    slope = torch.where(inside, 0.5 * (before - after), 0.0)
    return slope / curvature, slope.square() / (2 * curvature)
