r"""How much of the input a result keeps, so that it is not worse than the input where a network takes more than noise.

A result is :math:`x + w\,(f(x) - x)`. Its error against the clean image y,

.. math:: E\|x + w(f-x) - y\|^2 = \sigma^2 - 2w\,(\sigma^2 - Cov(f, x)) + w^2\,E\|f-x\|^2 ,

is least at :math:`w = (\sigma^2 - Cov(f, x)) / E\|f-x\|^2`. That is 1 for the best of all networks, and less for one
that takes away more than the noise. With up to twice this weight, the result is no worse than the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.data.sampling import evenly_spread
from noise2same.methods.base import by_channel, channel_sums
from noise2same.noise.model import NoiseModel
from noise2same.noise.sure import covariance, perturb

# Chosen on 246 channels of odd pictures of Kodak24 at half size and of volumes; benchmarks/safety.md has others.
TOLERANCE = 1.2
"""What a network may take away, in units of the noise's variance, which is not known more exactly."""
CHANCE = 4.0
"""Standard errors by which the mean square of noise in a window may exceed its variance."""
DARK = 0.25
"""Least variance of photon noise in the dark, as a share of that at the mean intensity.

The line a·y + b is steeper than the truth in some detectors, and falls below zero before the image is black (w2s)."""
WINDOWS = {2: ((5, 5), (17, 17)), 3: ((3, 5, 5), (5, 9, 9))}
"""Pixels along [Z,] Y, X over which it is averaged what was taken away: of a small structure, and of a region."""
BLOCK = {2: (16, 16), 3: (4, 8, 8)}
"""Blocks of which the median says what is taken away everywhere."""
PROBED_PIXELS = 2**16
"""Pixels of an image that are denoised twice to measure the blend, in crops of at most `CROP`."""
CROP = {2: (128, 128), 3: (8, 64, 64)}
"""Pixels along [Z,] Y, X."""
SEED = 1
"""Of the small change of the input that shows how much noise a network lets through."""


@dataclass(frozen=True)
class Blend:
    """The weight of a network's output in the result, at each pixel; the rest is the input.

    Parameters
    ----------
    noise : NoiseModel
        Of the image, in its own units.
    let_through : tuple of float
        Share of the noise that is left in the output of each channel, Cov(f, x) / σ².
    overall : tuple of float
        Largest weight in each channel: that of the median block.
    """

    noise: NoiseModel
    let_through: tuple[float, ...]
    overall: tuple[float, ...]

    @staticmethod
    def reach(dims: int) -> tuple[int, ...]:
        """Pixels along each spatial axis, to either side, whose output the weight of a pixel depends on."""
        return tuple(max(sides) // 2 for sides in zip(*WINDOWS[dims], strict=True))

    def weight(self, x: Tensor, f_x: Tensor, normalization: Normalization) -> Tensor:
        """Weight of the output at each pixel, from 0 to 1.

        Parameters
        ----------
        x, f_x : Tensor, (B, C, [Z,] Y, X)
            The normalized input, and what the network makes of it.
        normalization : Normalization
            What the input was normalized with.
        """
        noise, taken = self.noise.normalized(normalization), (f_x - x).square()
        weight = by_channel(self.overall, x).expand_as(x)
        for window in WINDOWS[x.ndim - 2]:
            variance = _variance(noise, _local_mean(x, window))
            best = _best_weight(_local_mean(taken, window) / variance, noise, self.let_through, math.prod(window))
            weight = torch.minimum(weight, best)
        return weight


def measure_blend(
    network: nn.Module,
    boxes: Sequence[NDArray[Any]],
    noise: NoiseModel,
    normalization: Normalization,
    device: torch.device,
) -> Blend:
    """Measure how much a network takes away from an image and how much noise it lets through, on crops of it.

    Parameters
    ----------
    network : Module
        Ready to predict on `device`.
    boxes : sequence of ndarray, (1, C, [Z,] Y, X)
        Parts of the image, in its own units.
    noise : NoiseModel
        In the same units.
    normalization : Normalization
        What the network is given its input with.
    device : torch.device
        Where to compute.
    """
    dims, inner = boxes[0].ndim - 2, noise.normalized(normalization)
    generator = torch.Generator(device).manual_seed(SEED)
    covariances, variances, ratios = [], [], []
    share = PROBED_PIXELS / sum(math.prod(box.shape[2:]) for box in boxes)
    for number, region in evenly_spread([box.shape[2:] for box in boxes], share, CROP):
        crop = fill_invalid(boxes[number][:, :, *region])[0]
        x = torch.from_numpy(normalization.apply(crop)).to(device)
        variance = inner.variance(x)
        change, perturbation = perturb(variance, inner.correlation, None, generator)
        with torch.inference_mode():
            f_x, response = network(x), network(x + perturbation)
        covariances.append(channel_sums(covariance(change, response - f_x)))
        variances.append(channel_sums(variance))
        block = tuple(map(min, BLOCK[dims], x.shape[2:]))
        ratio = _block_mean((f_x - x).square(), block) / _variance(inner, _block_mean(x, block))
        ratios.append(ratio.transpose(0, 1).flatten(1))
    let_through = (torch.stack(covariances).sum(0) / torch.stack(variances).sum(0)).clamp(0, 1)
    taken = torch.cat(ratios, 1).median(1).values.reshape(1, -1, *[1] * dims)
    shares = tuple(let_through.tolist())
    return Blend(noise, shares, tuple(_best_weight(taken, noise, shares).flatten().tolist()))


def _best_weight(taken: Tensor, noise: NoiseModel, let_through: Sequence[float], pixels: float = math.inf) -> Tensor:
    """Weight of least error, if a mean square `taken` (.., C, [Z,] Y, X) over some pixels is away, in units of σ²."""
    removable = TOLERANCE * by_channel(noise.certain, taken) * (1 - by_channel(let_through, taken))
    return ((removable + CHANCE * math.sqrt(2 / pixels)) / taken.clamp(min=1e-12)).clamp(0, 1)


def _variance(noise: NoiseModel, y: Tensor) -> Tensor:
    """Variance of the noise at intensities (B, C, [Z,] Y, X), in the dark at least `DARK` of the usual one."""
    least = DARK * by_channel([sigma**2 for sigma in noise.sigma], y)
    return torch.maximum(noise.variance(y), least)


def _local_mean(values: Tensor, window: Sequence[int]) -> Tensor:
    """Mean over the window around each pixel, of the part of it that is within (B, C, [Z,] Y, X).

    It is taken along one axis after the other, which is the same, and five times as fast for the larger windows.
    """
    pool: Any = functional.avg_pool2d if len(window) == 2 else functional.avg_pool3d
    for axis, side in enumerate(window):
        sides = [1] * len(window)
        sides[axis] = side
        beyond = [0, 0] * (len(window) - 1 - axis) + [side // 2] * 2
        line = tuple(slice(None) if at == axis + 2 else slice(1) for at in range(values.ndim))
        within = torch.ones_like(values[line])  # of a tensor, not of sizes: exports are traced, for images of any size
        values = pool(functional.pad(values, beyond), sides, 1) / pool(functional.pad(within, beyond), sides, 1)
    return values


def _block_mean(values: Tensor, block: Sequence[int]) -> Tensor:
    pool: Any = functional.avg_pool2d if len(block) == 2 else functional.avg_pool3d
    return pool(values, block)
