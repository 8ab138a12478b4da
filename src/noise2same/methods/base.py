"""What a method is: a small class that turns (network, batch) into named loss terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noise2same.config import Config
from noise2same.data.normalize import Normalization
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.networks.unet import UNet
from noise2same.noise.model import NoiseModel


@dataclass(frozen=True)
class Facts:
    """What is known of the training images; all intensities are in normalised units."""

    dims: int
    channels: int
    sigma: tuple[float, ...] = (0.0,)
    """Standard deviation of the noise, told or estimated: the root of its mean variance. One for each channel, or one
    for all; so are the next three."""
    slope: tuple[float, ...] = (0.0,)
    """By how much the variance of the noise grows with the intensity."""
    scale: tuple[float, ...] = (1.0,)
    """Standard deviation of the images in their own units: what a normalised unit is worth."""
    black: tuple[float, ...] = (0.0,)
    """Where the value 0 of the images lies."""
    low: float = -1.0
    high: float = 1.0
    """The ends of the range of the data."""
    kind: str = "unknown"
    """Kind of the noise, as `noise.diagnose` names it."""
    usable: bool = False
    """Whether a noise model is better to train by than the level of the noise alone."""
    correlation: tuple[tuple[float, ...], ...] = ()
    """Of the noise along each spatial axis at the lags 1, 2, ... as far as there is any; empty if it is independent."""
    normalization: Normalization = field(default_factory=lambda: Normalization((0.0,), (1.0,)))
    """What the images were normalised with."""

    @property
    def noise(self) -> NoiseModel:
        """The noise in normalised units."""
        offsets = tuple(s**2 for s in self.sigma)
        slopes = self.slope if len(self.slope) == len(offsets) else self.slope * len(offsets)
        none, one = (0.0,) * len(offsets), (1.0,) * len(offsets)
        return NoiseModel(slopes, offsets, none, one, self.correlation, self.kind)

    def variance(self, image: Tensor, strength: Tensor | None = None) -> Tensor:
        """Variance of the noise at each pixel of images, (B, C, [Z,] Y, X), in some of which it is stronger (`Batch`).

        Its mean in each channel is σ², because the mean of all images is 0.
        """
        return self.noise.variance(image, strength)


class Method:
    """Base of all methods; one from outside the package is a subclass named by an entry point `noise2same.methods`.

    Parameters
    ----------
    config : Config
        Settings of the model.
    facts : Facts
        What is known of the images.
    """

    needs: ClassVar[str] = "noisy images"
    """What it learns from, for the list of methods."""
    when: ClassVar[str] = ""
    """When to use it, in one line."""
    settings: ClassVar[frozenset[str]] = frozenset()
    """Which of `METHOD_SETTINGS` it reads; another one that is set is an error."""
    noise_models: ClassVar[tuple[str, ...]] = ("auto", "none")
    """Those it can be told."""
    dims: ClassVar[tuple[int, ...]] = (2, 3)
    supervised: ClassVar[bool] = False
    """Whether it learns to predict target images."""
    noisy_target: ClassVar[bool] = False
    """Whether the targets have noise as strong as that of the images."""
    full_precision: bool = False
    """Whether its loss needs 32 bits, as a finite difference does; otherwise a GPU may compute it in bfloat16."""
    trained: ClassVar[bool] = True
    """Whether it learns at all; if not, `denoise` is what it does."""

    def __init__(self, config: Config, facts: Facts) -> None:
        if facts.dims not in self.dims:
            hint = ": give axes with S instead of Z to take them plane by plane." if facts.dims == 3 else "."
            raise InputError(f"{config.method} takes {self.dims[0]}D images only, not {facts.dims}D ones{hint}")
        self.config, self.facts = config, facts
        self.adapts = False
        """Whether training may begin with a starter network (`starter.py`): where that measures better."""
        self.warm = False
        """Whether the network to be trained has been trained before."""

    def __str__(self) -> str:
        """How it takes the noise, to be added to the line that training begins with; starts with "; "."""
        return ""

    def network(self) -> nn.Module:
        """Untrained network for these settings and images; what its forward returns is the denoised image."""
        c = self.config
        return UNet(self.facts.dims, self.facts.channels, features=c.features, levels=c.levels, block=c.block)

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Loss terms of one batch by name; their sum is the loss."""
        raise NotImplementedError

    def denoise(self, image: NDArray[Any]) -> NDArray[Any]:
        """Whole image of shape (C, [Z,] Y, X), in its own units, denoised by a method that is not trained."""
        raise NotImplementedError


METHOD_SETTINGS = (
    "sigma",
    "lambda_inv",
    "invariance",
    "fill",
    "fill_sigma",
    "mask_density",
    "separate_passes",
    "structure",
    "gain",
    "alpha",
)
"""Fields of `Config` that belong to some methods only."""


def by_channel(values: Sequence[float] | Tensor, like: Tensor) -> Tensor:
    """One value a channel, or one for all, to be combined with images of shape (B, C, [Z,] Y, X): (C, 1, ...)."""
    return torch.as_tensor(values, dtype=like.dtype, device=like.device).reshape(-1, *[1] * (like.ndim - 2))


def channel_sums(values: Tensor) -> Tensor:
    """(B, C, [Z,] Y, X) -> sums of each channel, (C,)."""
    return values.transpose(0, 1).flatten(1).sum(1)


def mean_square(difference: Tensor, where: Tensor | None) -> Tensor:
    """Mean of the squares over the pixels `where` is true, or over all; 0 where there is none."""
    if where is None:
        return difference.square().mean()
    return (difference.square() * where).sum() / where.sum().clamp(min=1)
