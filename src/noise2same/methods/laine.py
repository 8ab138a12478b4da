"""Laine et al.: a network with a blind spot, and what the noisy pixel itself says by the model of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from noise2same import ranks
from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods.base import Architecture, DataProfile, Method, Settings, by_channel, mean_square
from noise2same.networks.blindspot import BlindSpot

DARKEST = 1e-3  # expected intensity below which Poisson noise is not taken to get any weaker, in normalised units
FAINTEST = 1e-3  # level below which noise is not taken to fall, in normalised units
NARROWEST = 1e-4  # variance added to Σ_x where nothing else keeps its density finite
HASTE = 10  # α is learned so much faster than a weight: unlike σ and gain it has no estimate to start from
LEVELS = {"gaussian": "sigma", "poisson": "gain", "impulse": "alpha"}
"""The setting that says how strong the noise of each model is."""


class LaineSettings(Settings):
    """Settings of `laine`."""

    noise_model: Annotated[
        Literal["auto", "none", "gaussian", "poisson", "impulse"],
        Field(description="Kind of the noise; auto and none predict from the neighbors alone."),
    ] = "auto"
    alpha: Annotated[
        float | None, Field(gt=0, lt=1, description="Part of the pixels replaced by impulse noise; learned if unknown.")
    ] = None


class Laine(Method):
    r"""High-quality self-supervised deep image denoising (Laine et al., NeurIPS 2019).

    A `BlindSpot` network sees all pixels but x itself, and predicts mean :math:`\mu` and covariance
    :math:`\Sigma_x=A^TA`, with A upper triangular, of the clean pixel's C channels. The noise model makes of them the
    distribution of the noisy pixel, whose negative log likelihood is the loss, and into the mean of the clean pixel
    when x is known too, which is the prediction.

    "none": the prediction is :math:`\mu`, the loss :math:`\|\mu-x\|^2/m`.

    "gaussian", noise of standard deviation :math:`\sigma`: with :math:`\Sigma_y=\Sigma_x+\sigma^2I`

    .. math::
        (x-\mu)^T\Sigma_y^{-1}(x-\mu)+\log|\Sigma_y|, \qquad
        (\Sigma_x^{-1}+\sigma^{-2}I)^{-1}(\Sigma_x^{-1}\mu+\sigma^{-2}x)=x-\sigma^2\Sigma_y^{-1}(x-\mu)

    "poisson": the same, with the variance of each channel :math:`\sigma^2=g\max(\mu-b,10^{-3})`, where b is black (the
    image's own 0) and g the gain, both in normalised units.

    "impulse": with probability :math:`\alpha` a pixel is replaced by a colour drawn uniformly, of density u, from the
    range of the data. With :math:`\mathcal N=\mathcal N(x;\mu,\Sigma_x)`

    .. math::
        -\log\big(\alpha u+(1-\alpha)\mathcal N\big), \qquad
        \frac{\alpha u\,\mu+(1-\alpha)\mathcal N\,x}{\alpha u+(1-\alpha)\mathcal N}

    :math:`\sigma`, g or :math:`\alpha` is learned along with the network where the user does not give it. Learned
    :math:`\sigma` and g start from the estimate of the noise, because they hardly rise from far below, where
    :math:`\Sigma_x` has taken the noise for signal. The paper's reward of :math:`0.1\sigma` made no
    difference in short runs.
    """

    name = "laine"
    when = "the kind of noise is known: noise_model=gaussian, poisson or impulse; slower than the others"
    uses = frozenset({"sigma", "gain"})
    separable = False  # its network predicts the covariance of the channels
    full_precision = True  # what inverses of covariances need
    Settings = LaineSettings

    @classmethod
    def check(cls, settings: Any, config: Config) -> None:
        given = {"sigma": config.sigma, "gain": config.gain, "alpha": settings.alpha}
        for model, setting in LEVELS.items():
            if given[setting] is not None and settings.noise_model != model:
                raise InputError(f"laine uses {setting} with noise_model={model} only: set that, or leave it out.")

    def network(self) -> nn.Module:
        """Untrained blind-spot network, and the noise model that makes its prediction whole."""
        profile, size, model = self.profile, self.architecture, self.settings.noise_model
        if model in ("auto", "none"):
            return BlindSpot(
                profile.dims, profile.channels, profile.channels, features=size.features, levels=size.levels
            )
        if model == "impulse":
            return Impulse(size, profile, self.settings.alpha)
        return NOISES[model](size, profile)

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Term "blind", or "likelihood" of a noise model, of a batch of shape (B, C, [Z,] Y, X)."""
        x, valid = batch.x, batch.valid
        # neighbors of a pixel that was filled with their values must not see themselves there
        seen = x if batch.filled is None else x * ~batch.filled
        if not isinstance(network, Noise):
            return {"blind": mean_square(network(seen) - x, valid)}
        loss = network.loss(seen, *network.prior(seen))
        where = torch.ones_like(loss) if valid is None else valid.all(1)
        return {"likelihood": ranks.ratio((loss * where).sum(), where.sum())}


class Noise(nn.Module):
    """Blind-spot network and noise model; the forward pass is the mean of the clean image, given all of the noisy one.

    The level of the noise is a buffer where it is known, and a parameter where it is learned, so that it is stored with
    the weights.
    """

    known_level: Tensor

    def __init__(self, size: Architecture, profile: DataProfile, known: Tensor | None, guess: Tensor) -> None:
        super().__init__()
        self.channels = profile.channels
        self.outputs = [self.channels, self.channels * (self.channels + 1) // 2]
        self.network = BlindSpot(
            profile.dims, self.channels, sum(self.outputs), features=size.features, levels=size.levels
        )
        self.multiple, self.reach = self.network.multiple, self.network.reach
        self.values_per_pixel = self.network.values_per_pixel
        self.learned = known is None
        if known is None:
            self.free_level = nn.Parameter(self.unbound(guess.clamp(min=FAINTEST)))
        else:
            self.register_buffer("known_level", known)

    @property
    def level(self) -> Tensor:
        """Level of the noise: of each channel, (C,), in normalised units, or one share of the pixels, ()."""
        return self.bound(self.free_level) if self.learned else self.known_level

    def bound(self, free: Tensor) -> Tensor:
        """Any number -> a level that there can be."""
        return functional.softplus(free)

    def unbound(self, level: Tensor) -> Tensor:
        """The inverse of `bound`."""
        return level + (-(-level).expm1()).log()

    def prior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the surroundings predict of a pixel: (B, C, [Z,] Y, X) -> μ of that shape, and the C(C+1)/2 values of A.

        A is upper triangular, its values are in the order A₁₁, A₁₂, ..., A₂₂, ... along the axis of the channels.
        """
        mean, root = self.network(x).split(self.outputs, 1)
        return mean, root

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, [Z,] Y, X), noisy -> the same shape, clean."""
        return self.clean(x, *self.prior(x))

    def loss(self, x: Tensor, mean: Tensor, root: Tensor) -> Tensor:
        """Negative log likelihood of each pixel, up to a factor and a constant: (B, [Z,] Y, X)."""
        raise NotImplementedError

    def clean(self, x: Tensor, mean: Tensor, root: Tensor) -> Tensor:
        """Mean of the clean pixel when the noisy one is known too: (B, C, [Z,] Y, X)."""
        raise NotImplementedError


def each(values: Sequence[float], profile: DataProfile) -> Tensor:
    """One value for each channel, (C,), of as many or of one for all."""
    return torch.tensor(values).repeat(profile.channels // len(values))


class Gaussian(Noise):
    """Noise of one standard deviation a channel, `level`, everywhere."""

    def __init__(self, size: Architecture, profile: DataProfile) -> None:
        sigma = each(profile.noise.sigma, profile)
        super().__init__(size, profile, sigma if profile.level_given else None, sigma)

    def variance(self, mean: Tensor) -> Tensor:
        """Variance of the noise in each channel, by the mean of the clean pixel."""
        return by_channel(self.level, mean).square().clamp(min=FAINTEST**2).expand_as(mean)

    def loss(self, x: Tensor, mean: Tensor, root: Tensor) -> Tensor:
        _, distance, log_determinant = solve(root, self.variance(mean), x - mean)
        return distance + log_determinant

    def clean(self, x: Tensor, mean: Tensor, root: Tensor) -> Tensor:
        variance = self.variance(mean)
        solution, _, _ = solve(root, variance, x - mean)
        return x - variance * solution


class Poisson(Gaussian):
    """Noise whose variance is `level` times the intensity above black."""

    black: Tensor

    def __init__(self, size: Architecture, profile: DataProfile) -> None:
        scale = profile.normalization
        black = -each(scale.mean, profile) / each(scale.std, profile)  # where the images' own 0 lies
        # the mean of all images is 0, so -black is their mean intensity, and sigma² the variance that belongs to it
        guess = each(profile.noise.sigma, profile).square() / (-black).clamp(min=DARKEST)
        known = each(profile.noise.a, profile) if profile.level_given else None
        Noise.__init__(self, size, profile, known, guess)
        self.register_buffer("black", black)

    def variance(self, mean: Tensor) -> Tensor:
        return by_channel(self.level, mean) * (mean - by_channel(self.black, mean)).clamp(min=DARKEST)


class Impulse(Noise):
    """Pixels replaced, with probability `level`, by a uniform colour."""

    log_uniform: Tensor

    def __init__(self, size: Architecture, profile: DataProfile, alpha: float | None) -> None:
        super().__init__(size, profile, None if alpha is None else torch.tensor(alpha), torch.tensor(0.1))
        span = profile.high - profile.low
        self.register_buffer("log_uniform", torch.tensor(-profile.channels * math.log(span)))

    def bound(self, free: Tensor) -> Tensor:
        return (HASTE * free).sigmoid()

    def unbound(self, level: Tensor) -> Tensor:
        return level.logit() / HASTE

    def log_parts(self, x: Tensor, mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of α·u and (1−α)·N(x; μ, Σ_x) for each pixel."""
        _, distance, log_determinant = solve(root, torch.full_like(mean, NARROWEST), x - mean)
        log_normal = -(distance + log_determinant + self.channels * math.log(2 * math.pi)) / 2
        alpha = self.level
        return alpha.log() + self.log_uniform, torch.log1p(-alpha) + log_normal

    def loss(self, x: Tensor, mean: Tensor, root: Tensor) -> Tensor:
        return -torch.logaddexp(*self.log_parts(x, mean, root))

    def clean(self, x: Tensor, mean: Tensor, root: Tensor) -> Tensor:
        replaced, kept = self.log_parts(x, mean, root)
        return torch.lerp(mean, x, torch.sigmoid(kept - replaced).unsqueeze(1))


NOISES: dict[str, type[Gaussian]] = {"gaussian": Gaussian, "poisson": Poisson}


def solve(root: Tensor, variance: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Solve Σs = d at each pixel, where Σ = AᵀA + diag(variance), by its Cholesky factor L.

    Written out over the few channels, it is a handful of operations on whole images, on any device. `root` is A as
    `Noise.prior` has it, `variance` and `deviation` (d) are of shape (B, C, ...). Returns s of that shape, and of shape
    (B, ...) the distance dᵀs and log|Σ|.
    """
    count, values = deviation.shape[1], iter(root.unbind(1))
    a = {(row, column): next(values) for row in range(count) for column in range(row, count)}
    d, v, least = deviation.unbind(1), variance.unbind(1), variance.amin(1)
    lower: dict[tuple[int, int], Tensor] = {}
    half: list[Tensor] = []  # L⁻¹d
    for j in range(count):
        for i in range(j, count):
            entry = sum((a[k, i] * a[k, j] for k in range(j + 1)), torch.zeros_like(d[j]))
            entry = entry - sum(lower[i, k] * lower[j, k] for k in range(j))
            if i == j:  # never below the least variance, but for rounding
                lower[j, j] = torch.maximum(entry + v[j], least).sqrt()
            else:
                lower[i, j] = entry / lower[j, j]
        half.append((d[j] - sum(lower[j, k] * half[k] for k in range(j))) / lower[j, j])
    solution: dict[int, Tensor] = {}
    for i in reversed(range(count)):
        solution[i] = (half[i] - sum(lower[k, i] * solution[k] for k in range(i + 1, count))) / lower[i, i]
    distance = torch.stack(half).square().sum(0)
    log_determinant = 2 * torch.stack([lower[j, j].log() for j in range(count)]).sum(0)
    return torch.stack([solution[i] for i in range(count)], 1), distance, log_determinant
