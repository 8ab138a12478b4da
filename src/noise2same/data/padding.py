"""Padding by reflection to any size, for images smaller than a patch or not a multiple of the network's stride."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def reflect_to(image: Tensor, smallest: Sequence[int]) -> Tensor:
    """Mirror (N, C, [Z,] Y, X) at its far ends, as often as it takes, until it is at least as large as `smallest`.

    Unlike `torch.nn.functional.pad` it can add more than the image is long, and mirrors booleans too.
    """
    for axis, edge in enumerate(smallest, start=2):
        while (size := image.shape[axis]) < edge:
            added = min(edge - size, max(1, size - 1))
            mirrored = image.narrow(axis, max(0, size - 1 - added), added).flip(axis)
            image = torch.cat([image, mirrored], axis)
    return image


def on_multiples(function: Callable[[Tensor], Tensor], x: Tensor, multiple: Sequence[int]) -> Tensor:
    """Apply to `x` a function that keeps sizes but takes multiples only: reflected beyond its end, and cut again."""
    spatial = x.shape[2:]
    x = function(reflect_to(x, [-(-size // step) * step for size, step in zip(spatial, multiple, strict=True)]))
    for axis, size in enumerate(spatial, start=2):
        x = x.narrow(axis, 0, size)
    return x
