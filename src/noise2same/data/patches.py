"""Images on the device to augmented training batches: one random draw, one gather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from noise2same.data.padding import reflect_to

SMALLEST = 16
BLOCK = 8
"""Side of the blocks of pixels that are kept out of training: longer than the noise of most images is correlated."""


class Batch(NamedTuple):
    """Patches of shape (B, C, [Z,] Y, X), in normalised units."""

    x: Tensor
    """The noisy patches."""
    target: Tensor | None = None
    """What a supervised method learns to predict, aligned with `x`."""
    valid: Tensor | None = None
    """False on pixels that must not enter a loss: without a value, or kept out of training; None where all may."""
    held: Tensor | None = None
    """True on pixels that are kept out of training, and have a value; None where none is."""
    filled: Tensor | None = None
    """True where a pixel was NaN or infinite, and has its neighbors' value instead; None where none was."""
    strength: Tensor | None = None
    """Variance of the noise in each patch as a share of what is usual, (B, 1, 1, 1[, 1]); None where all are alike."""
    around: tuple[Tensor, Tensor] | None = None
    """Frames of a film before and after the patches, which a network may see too; None where there are none."""

    def bind(self, network: Any) -> Any:
        """The network as a function of the patches alone, in a film with the frames around them."""
        if self.around is None:
            return network
        before, after = self.around
        frames = slice(before.shape[2], before.shape[2] + self.x.shape[2])

        def call(x: Tensor) -> Tensor:
            times = len(x) // len(self.x)
            first, last = (part.repeat(times, *[1] * (x.ndim - 1)) for part in (before, after))
            return network(torch.cat([first, x, last], 2), frames)[:, :, frames]

        return call


class Patches:
    """Random patches of a list of images, each position of each image equally likely.

    All images lie end to end in one array of pixels, so that any mix of sizes is served by one gather. Rotations by 90°
    and flips in the YX plane are done in the indices and cost nothing.

    Parameters
    ----------
    images : sequence of Tensor
        Normalised noisy images of shape (N, C, [Z,] Y, X), with the same C; N and the sizes may differ.
    patch : sequence of int
        Size of a patch, ([Z,] Y, X) with Y = X. It shrinks to what the images have, because an image that is mirrored
        to fill a patch shows a masked pixel its own noise in the mirror; only images smaller than the largest, or than
        `SMALLEST` pixels a side, still are.
    batch : int
        Number of patches drawn at once.
    targets : sequence of Tensor, optional
        One for each image and of its shape.
    valid : sequence of Tensor of bool, optional
        One for each image and of its shape, False on pixels to ignore.
    strengths : sequence of float, optional
        Variance of the noise in each image as a share of what is usual.
    held : float
        Share of the pixels to keep out of training, so that a network cannot overfit the noise of all; none, if
        the images are too small. They are blocks of `BLOCK` pixels a side, and are still seen as neighbors of others.
    seed : int
        Of these blocks.
    context : int
        Frames of a film before and after a patch that are drawn with it. Patches are drawn one by one then.
    """

    def __init__(
        self,
        images: Sequence[Tensor],
        *,
        patch: Sequence[int],
        batch: int,
        targets: Sequence[Tensor] | None = None,
        valid: Sequence[Tensor] | None = None,
        strengths: Sequence[float] | None = None,
        held: float = 0.0,
        seed: int = 0,
        context: int = 0,
    ) -> None:
        self.context, batch = context, 1 if context else batch
        largest = [max(sizes) for sizes in zip(*(image.shape[2:] for image in images), strict=True)]
        edge = min(patch[-1], max(SMALLEST, min(largest[-2:])))
        self.patch, self.batch = (*map(min, patch[:-2], largest[:-2]), edge, edge), batch
        self.device = images[0].device
        self.pixels = self._end_to_end(images)
        self.targets = None if targets is None else self._end_to_end(targets)
        self.filled = None if valid is None else ~self._end_to_end(valid)
        blocks = held_blocks([image.shape for image in images], held, torch.Generator().manual_seed(seed))
        self.held = None if blocks is None else self._end_to_end(blocks)
        sizes = [
            [max(size, edge) for size, edge in zip(image.shape[2:], self.patch, strict=True)]
            for image in images
            for _ in range(len(image))
        ]
        self.sizes = torch.tensor(sizes, device=self.device)
        self.strengths = None if strengths is None else torch.tensor(strengths, dtype=torch.float32)
        if self.strengths is not None:
            counts = torch.tensor([len(image) for image in images])
            self.strengths = self.strengths.repeat_interleave(counts).to(self.device)
        pixels = self.sizes.prod(1)
        self.offsets = pixels.cumsum(0) - pixels
        self.corners = self.sizes - torch.tensor(self.patch, device=self.device) + 1
        self.last = self.corners.prod(1).cumsum(0)
        self.positions = int(self.last[-1])

    def to(self, device: torch.device) -> None:
        """Move all images to `device`, where batches are then drawn."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value.to(device))
        self.device = device

    def draw(self, generator: torch.Generator, count: int | None = None, *, held: bool = False) -> Batch:
        """Draw the next batch, or `count` patches.

        They are to train on, or `held`, where the pixels that are kept out of training are the valid ones.
        """
        index, image = self._indices(generator, self.batch if count is None else count)
        around = self._around(index, image) if self.context else None
        x = self._gather(self.pixels, index)
        target, filled, kept = (
            None if pixels is None else self._gather(pixels, index) for pixels in (self.targets, self.filled, self.held)
        )
        valid = None if filled is None else ~filled
        if kept is not None:
            kept, others = (part.expand_as(x) if valid is None else part & valid for part in (kept, ~kept))
            valid = kept if held else others
        strength = None if self.strengths is None else self.strengths[image].reshape(-1, *[1] * (x.ndim - 1))
        return Batch(x, target, valid, kept, filled, strength, around)

    def _around(self, index: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        """The frames before and after one patch, as far as the film has them."""
        length, *plane = self.sizes[int(image)].tolist()
        size, count = math.prod(plane), index.shape[1]
        first = int(index[0, 0, 0, 0] - self.offsets[int(image)]) // size
        whole = torch.arange(max(0, first - self.context), min(length, first + count + self.context))
        every = index[:, :1] + (whole.to(index.device) - first)[None, :, None, None] * size
        at = first - int(whole[0])
        seen = self._gather(self.pixels, every)
        return seen[:, :, :at], seen[:, :, at + count :]

    def _image(self, pixels: Tensor, n: int) -> Tensor:
        """One of all images, from `_end_to_end`: (1, C, [Z,] Y, X)."""
        size, offset = self.sizes[n].tolist(), int(self.offsets[n])
        return pixels[offset : offset + math.prod(size)].unflatten(0, size).movedim(-1, 0).unsqueeze(0)

    def _indices(self, generator: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        """Positions in the array of all pixels of a random, augmented batch, (B, [Z,] Y, X), and the images, (B,)."""
        device, edge = self.device, self.patch[-1]
        place = torch.randint(self.positions, (count,), generator=generator, device=device)
        image = torch.searchsorted(self.last, place, right=True)
        place = place - (self.last[image] - self.corners[image].prod(1))
        sizes, corners = self.sizes[image], self.corners[image]
        strides: list[Tensor] = []
        start, stride = self.offsets[image], torch.ones_like(image)
        for axis in reversed(range(len(self.patch))):
            strides.insert(0, stride)
            start = start + (place % corners[:, axis]) * stride
            place = place // corners[:, axis]
            stride = stride * sizes[:, axis]
        flip_y, flip_x, turn = torch.randint(2, (3, count, 1), generator=generator, device=device)
        steps = torch.arange(edge, device=device)
        rows, columns = strides[-2][:, None], strides[-1][:, None]
        y = torch.where(flip_y > 0, edge - 1 - steps, steps) * torch.where(turn > 0, columns, rows)
        x = torch.where(flip_x > 0, edge - 1 - steps, steps) * torch.where(turn > 0, rows, columns)
        index = start[:, None, None] + y[:, :, None] + x[:, None, :]
        if len(self.patch) == 3:
            z = torch.arange(self.patch[0], device=device) * strides[0][:, None]
            index = index[:, None] + z[:, :, None, None]
        return index, image

    def _gather(self, pixels: Tensor, index: Tensor) -> Tensor:
        return pixels[index.flatten()].unflatten(0, tuple(index.shape)).movedim(-1, 1)

    def _end_to_end(self, images: Sequence[Tensor]) -> Tensor:
        """Images (N, C, [Z,] Y, X) -> all their pixels, (pixels, C)."""
        return torch.cat([reflect_to(image, self.patch).movedim(1, -1).flatten(0, -2) for image in images])


def held_blocks(shapes: Sequence[Sequence[int]], share: float, generator: torch.Generator) -> list[Tensor] | None:
    """True on a share of the blocks of images (N, C, [Z,] Y, X), as (N, 1, [Z,] Y, X); None if there are too few."""
    grids = [(shape[0], *(-(-size // BLOCK) for size in shape[2:])) for shape in shapes]
    counts = [math.prod(grid) for grid in grids]
    chosen = torch.randperm(sum(counts), generator=generator) < int(share * sum(counts))
    if not chosen.any():
        return None
    masks = []
    for shape, grid, part in zip(shapes, grids, chosen.split(counts), strict=True):
        mask = part.reshape(grid)
        for axis, size in enumerate(shape[2:], 1):
            mask = mask.repeat_interleave(BLOCK, axis).narrow(axis, 0, size)
        masks.append(mask.unsqueeze(1))
    return masks
