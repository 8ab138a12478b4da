"""Where to mask (a stratified random set J of pixels) and what to put there (a fill).

Everything is drawn on the device of the images, in one vectorised pass, independently for each image and channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

Fill = Callable[[Tensor, Tensor, torch.Generator], Tensor]
FillName = Literal["gaussian", "donut", "mean", "ups", "random"]
FillOption = Annotated[FillName, Field(description="What replaces the masked pixels.")]
FillSigma = Annotated[
    float, Field(gt=0, description="Standard deviation of fill=gaussian, where that of the images is 1.")
]
MaskDensity = Annotated[float, Field(gt=0, le=0.5, description="Fraction of the pixels of a patch that are masked.")]
LARGEST_SHARE = 0.2
"""Of the pixels that are hidden, where neighbors are hidden with those of J: the rest must suffice to predict them."""


def stratified(shape: Sequence[int], density: float, generator: torch.Generator) -> Tensor:
    """Draw J by stratified ("saturated") sampling: one random pixel in each box of a grid, so that J spreads evenly.

    A box holds at most 1/density pixels; its pixel is then kept with the probability that makes the expected density
    exact in two and three dimensions alike, at every position including the borders.

    Parameters
    ----------
    shape : sequence of int
        (B, C, [Z,] Y, X) of the images to mask; each image and channel gets a J of its own.
    density : float
        Expected fraction of masked pixels, in (0, 1].
    generator : torch.Generator
        Source of randomness; its device is where the mask is made.

    Returns
    -------
    mask : Tensor of bool
        True on J, of the given shape.
    """
    images, spatial = tuple(shape[:2]), tuple(shape[2:])
    dims, device = len(spatial), generator.device
    edge = max(1, int((1 / density) ** (1 / dims) + 1e-6))
    boxes = tuple(-(-size // edge) for size in spatial)
    keep = torch.rand((*images, *boxes), generator=generator, device=device) < density * edge**dims
    index = torch.zeros((*images, *boxes), dtype=torch.long, device=device)
    for axis, size in enumerate(spatial):
        within = torch.randint(edge, (*images, *boxes), generator=generator, device=device)
        first = torch.arange(boxes[axis], device=device) * edge
        position = within + first.reshape(-1, *(1 for _ in boxes[axis + 1 :]))
        keep &= position < size
        index = index * size + position.clamp_(max=size - 1)
    mask = torch.zeros((*images, *spatial), dtype=torch.uint8, device=device)
    mask.flatten(2).scatter_add_(2, index.flatten(2), keep.flatten(2).to(torch.uint8))
    return mask > 0


def draw_mask(
    x: Tensor, density: float, extent: Sequence[int], fill: Fill, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw J and hide it, with the pixels that share noise with it.

    Parameters
    ----------
    x : Tensor, (B, C, [Z,] Y, X)
        Noisy patches.
    density : float
        Expected fraction of the pixels in J; less where neighbors are hidden too.
    extent : sequence of int
        Over how many pixels along [Z,] Y, X neighbors share noise; empty or zeros if they do not.
    fill : Fill
        What replaces the pixels of J; neighbors that share noise are replaced by the mean of what is around them.

    Returns
    -------
    j, hidden : Tensor of bool
        The pixels of J, and all that are hidden for them.
    masked : Tensor
        The patches without what is hidden.
    """
    if not any(extent):
        j = stratified(x.shape, density, generator)
        return j, j, fill(x, j, generator)
    j = stratified(x.shape, min(density, LARGEST_SHARE / math.prod(2 * reach + 1 for reach in extent)), generator)
    hidden = widened(j, extent)
    return j, hidden, surroundings(x, hidden, extent)


def widened(mask: Tensor, extent: Sequence[int]) -> Tensor:
    """J with all pixels that share noise with it: those up to `extent` pixels away along each spatial axis."""
    pool = functional.max_pool2d if mask.ndim == 4 else functional.max_pool3d
    size = [2 * reach + 1 for reach in extent]
    return pool(mask.float(), size, stride=1, padding=list(extent)) > 0


def surroundings(x: Tensor, mask: Tensor, extent: Sequence[int]) -> Tensor:
    """Replace J by the mean of the pixels around it that are not in J, up to one pixel further away than `extent`."""
    window = [2 * reach + 3 for reach in extent]
    return torch.where(mask, _weighted_mean(x, mask, [1.0] * math.prod(window), window), x)


def gaussian(x: Tensor, mask: Tensor, generator: torch.Generator, sigma: float = 0.2) -> Tensor:
    """Replace J by N(0, σ²) in normalised units; 0.2 is the paper's choice (appendix, implementation details)."""
    noise = torch.randn(x.shape, generator=generator, device=x.device)
    return torch.where(mask, sigma * noise, x)


def donut(x: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """Replace J by the weighted mean of the 3×3 (3×3×3) neighborhood without its centre, in each channel by itself.

    Direct neighbors weigh 1, diagonal ones ½; in 3D faces weigh 1, edges ½ and corners 0.
    """
    weights = [{1: 1.0, 2: 0.5}.get(sum(map(abs, offset)), 0.0) for offset in product((-1, 0, 1), repeat=x.ndim - 2)]
    return torch.where(mask, _weighted_mean(x, mask, weights, (3,) * (x.ndim - 2)), x)


def mean(x: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """Replace J by the mean of the 5×5 (5×5×5) window without its centre, in each channel by itself, as in N2V2."""
    weights = [float(any(offset)) for offset in product((-2, -1, 0, 1, 2), repeat=x.ndim - 2)]
    return torch.where(mask, _weighted_mean(x, mask, weights, (5,) * (x.ndim - 2)), x)


def _weighted_mean(x: Tensor, mask: Tensor, weights: Sequence[float], window: Sequence[int]) -> Tensor:
    """Mean around each pixel with the weights of a window of this size, over the pixels that are not in J.

    Were neighbors in J counted, each would hide a part of the other's noise in the fill, where a network finds it.
    Where there is no other neighbor, it is 0.
    """
    kernel = torch.tensor(weights, device=x.device, dtype=x.dtype).reshape(1, 1, *window)
    convolve = functional.conv2d if x.ndim == 4 else functional.conv3d
    known = (~mask).to(x.dtype)
    both = torch.cat([x * known, known]).flatten(0, 1).unsqueeze(1)
    total, weight = convolve(both, kernel, padding=[edge // 2 for edge in window]).reshape(2, *x.shape)
    return total / weight.clamp(min=0.5)


def ups(x: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """Replace J by uniform pixel selection: a random pixel of the 5×5 (5×5×5) window around it, as in Noise2Void.

    The window includes the pixel itself; at a border it is clamped to the image.
    """
    where = mask.nonzero()
    source = where.clone()
    for axis in range(2, x.ndim):
        shift = torch.randint(-2, 3, (len(where),), generator=generator, device=x.device)
        source[:, axis] = (source[:, axis] + shift).clamp_(0, x.shape[axis] - 1)
    return x.index_put(tuple(where.T), x[tuple(source.T)])


def random(x: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """Replace J by values drawn uniformly from the range of the data, as in Noise2Self."""
    low, high = x.amin(), x.amax()
    values = torch.rand(x.shape, generator=generator, device=x.device)
    return torch.where(mask, low + (high - low) * values, x)


FILLS: dict[FillName, Fill] = {"gaussian": gaussian, "donut": donut, "mean": mean, "ups": ups, "random": random}


def fill_of(name: FillName, sigma: float = 0.2) -> Fill:
    """The fill of that name; `sigma` is that of a Gaussian one."""
    return partial(gaussian, sigma=sigma) if name == "gaussian" else FILLS[name]
