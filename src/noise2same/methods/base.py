"""What a method is: a small class that computes named loss terms from a network and a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from noise2same import ranks
from noise2same.config import Config
from noise2same.data.columns import columns
from noise2same.data.normalize import Normalization
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.networks import film
from noise2same.networks.separate import Separate
from noise2same.networks.unet import UNet
from noise2same.noise.model import NoiseModel


@dataclass(frozen=True)
class DataProfile:
    """What a method is given about the training images; intensities are normalized."""

    dims: int
    channels: int
    noise: NoiseModel = field(default_factory=NoiseModel)
    """The noise, as the plan takes it to be."""
    noise_extent: tuple[int, ...] = ()
    """Over how many pixels along [Z,] Y, X neighbors share noise and are masked together; empty if they do not."""
    level_given: bool = False
    """Whether the user gave the level of the noise; if not, it was estimated."""
    low: float = -1.0
    high: float = 1.0
    """The ends of the range of the data."""
    normalization: Normalization = field(default_factory=lambda: Normalization((0.0,), (1.0,)))
    """What the images were normalized with."""
    frames: int = 0
    """Frames on either side that a network for films looks at; 0 for images that are no films."""

    def channel(self, number: int) -> DataProfile:
        """What is known of one channel."""
        scale, index = self.normalization, min(number, len(self.normalization.mean) - 1)
        one = Normalization((scale.mean[index],), (scale.std[index],))
        return replace(self, channels=1, noise=self.noise.channel(number), normalization=one)


@dataclass(frozen=True)
class Architecture:
    """Size of the network to train."""

    features: int = 16
    levels: int = 3
    block: Literal["plain", "residual"] = "plain"


class Settings(BaseModel):
    """Base of the settings that a method has for itself. Its fields are options of the command line and of Python."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Algorithm:
    """What `noise2same methods` lists: a way to denoise, trained (`Method`) or not (`classical.Classical`).

    One from outside of the package is a subclass named by an entry point `noise2same.methods`, or given as a class.
    """

    name: ClassVar[str]
    needs: ClassVar[str] = "noisy images"
    """What it learns from, for the list of methods."""
    when: ClassVar[str] = ""
    """When to use it, in one line."""
    trained: ClassVar[bool]
    """Whether it has a network to train."""
    uses: ClassVar[frozenset[str]] = frozenset()
    """Which of the settings `sigma`, `gain` and `noise_extent` it uses; another one that is set is an error."""
    Settings: ClassVar[type[Settings]] = Settings
    paper_settings: ClassVar[dict[str, Any]] = {}
    """Its own settings in the preset "paper", where they differ from its defaults."""

    @classmethod
    def check(cls, settings: Any, config: Config) -> None:
        """Raise InputError if its settings and the others contradict each other."""


class Method(Algorithm):
    """Base of all methods that train a network.

    Parameters
    ----------
    settings : Settings
        Its own settings.
    profile : DataProfile
        What is known of the images.
    architecture : Architecture
        Size of the network.
    """

    trained = True
    dims: ClassVar[tuple[int, ...]] = (2, 3)
    """Numbers of spatial dimensions that it takes."""
    supervised: ClassVar[bool] = False
    """Whether it learns to predict target images."""
    noisy_target: ClassVar[bool] = False
    """Whether the targets have noise as strong as that of the images."""
    passes: ClassVar[int] = 1
    """How often it sends each patch through the network in one step."""
    separable: ClassVar[bool] = True
    """Whether each channel can have a network of its own: its loss asks the network for nothing but its output."""
    full_precision: ClassVar[bool] = False
    """Whether its loss needs 32 bits, as a finite difference does; otherwise a GPU may compute it in bfloat16."""

    def __init__(self, settings: Any, profile: DataProfile, architecture: Architecture | None = None) -> None:
        if profile.dims not in self.dims:
            hint = ": give axes with S instead of Z to take them plane by plane." if profile.dims == 3 else "."
            raise InputError(f"{self.name} takes {self.dims[0]}D images only, not {profile.dims}D ones{hint}")
        self.settings, self.profile, self.architecture = settings, profile, architecture or Architecture()

    def new_network(self, channels: Literal["joint", "separate"]) -> nn.Module:
        """Untrained network for all channels together, or one for each of them (`Separate`)."""
        if channels == "joint":
            return self.network()
        profiles = [self.profile.channel(number) for number in range(self.profile.channels)]
        return Separate([type(self)(self.settings, one, self.architecture).network() for one in profiles])

    def network(self) -> nn.Module:
        """Untrained network for these settings and images; what its forward returns is the denoised image."""
        return self.unet(block=self.architecture.block)

    def unet(self, **options: Any) -> UNet | film.Film:
        """U-Net of the given size for these images; `options` are those of `UNet`."""
        size, profile = self.architecture, self.profile
        options |= {"features": size.features, "levels": size.levels}
        if profile.frames == 0:
            return UNet(profile.dims, profile.channels, **options)
        seen = profile.channels * film.INPUTS
        return film.Film(UNet(2, seen, outputs=profile.channels, **options), profile.frames)

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Loss terms of one batch by name; their sum is the loss."""
        raise NotImplementedError


class Classical(Algorithm):
    """Base of the methods that are not trained.

    Parameters
    ----------
    settings : Settings
        Its own settings.
    sigma : float, optional
        Standard deviation of the noise in the image's units; None to estimate it.
    """

    needs = "nothing: it is not trained"
    trained = False
    uses = frozenset({"sigma"})

    def __init__(self, settings: Any, sigma: float | None = None) -> None:
        self.settings, self.sigma = settings, sigma

    def denoise(self, image: NDArray[Any]) -> NDArray[Any]:
        """Image of shape (C, [Z,] Y, X), in its own units -> floats of the same shape and units."""
        raise NotImplementedError


def by_channel(values: Sequence[float] | Tensor, like: Tensor) -> Tensor:
    """One value a channel, or one for all, to be combined with images of shape (B, C, [Z,] Y, X): (C, 1, ...)."""
    if not isinstance(values, Tensor):
        return columns(list(values), like)
    return values.to(like).reshape(-1, *[1] * (like.ndim - 2))


def channel_sums(values: Tensor) -> Tensor:
    """(B, C, [Z,] Y, X) -> sums of each channel, (C,)."""
    return values.transpose(0, 1).flatten(1).sum(1)


def mean_square(difference: Tensor, where: Tensor | None) -> Tensor:
    """Mean of the squares over the pixels of all processes `where` is true, or over all; 0 where there is none."""
    squares = difference.square()
    if where is None:
        return ranks.ratio(squares.sum(), squares.new_tensor(squares.numel())) if ranks.several() else squares.mean()
    return ranks.ratio((squares * where).sum(), where.sum())
