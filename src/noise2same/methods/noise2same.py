"""Noise2Same: the paper's method."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from noise2same import ranks
from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods.base import Architecture, DataProfile, Method, Settings, channel_sums, mean_square
from noise2same.methods.masking import FillOption, draw_mask, fill_of
from noise2same.noise.model import NoiseModel

LEAST_WEIGHT = 1e-3
"""Of the invariance term, where no noise was found: without it, the network copies its input. Not measured."""


class Noise2SameSettings(Settings):
    """Settings of `noise2same`."""

    lambda_inv: Annotated[
        Literal["auto"] | Annotated[float, Field(gt=0)],
        Field(description="Weight of the invariance term; 2 is Theorem 1; auto is Theorem 2's 2σ, at most 2."),
    ] = "auto"
    fill: FillOption = "donut"
    fill_sigma: Annotated[
        float, Field(gt=0, description="Standard deviation of fill=gaussian; that of the images is 1.")
    ] = 0.2
    mask_density: Annotated[
        float, Field(gt=0, le=0.5, description="Fraction of the pixels of a patch that are masked.")
    ] = 0.1
    separate_passes: Annotated[
        bool, Field(description="Two forward passes with batch statistics of their own, instead of one.")
    ] = False


class Noise2Same(Method):
    r"""Noise2Same (Xie, Wang, Ji, NeurIPS 2020, eq. 6): a self-supervised upper bound of the supervised loss.

    .. math:: \|f(x)-x\|^2/m + \lambda_{inv}\,\big(\|f(x)_J-f(x_{J^c})_J\|^2/|J|\big)^{1/2}

    The first term reconstructs the noisy image x. The second keeps f from copying it, by making f(x) on the masked
    pixels J depend little on x there. Gradients flow through both passes.

    :math:`\lambda_{inv}` is 2 by Theorem 1 for images of unit variance, and :math:`2\sigma` by Theorem 2 for noise of
    standard deviation :math:`\sigma`. "auto" is Theorem 2 with the noise level given or estimated, at most 2. Where
    channels have noise of different levels, the loss is the mean of their bounds.
    """

    name = "noise2same"
    when = "the paper's method: no clean images, no pairs, no noise model"
    uses = frozenset({"sigma", "noise_extent"})
    passes = 2
    Settings = Noise2SameSettings
    paper_settings = {  # noqa: RUF012 (a ClassVar of the base)
        "lambda_inv": 2.0,
        "fill": "gaussian",
        "mask_density": 0.005,
        "separate_passes": True,
    }

    def __init__(self, settings: Any, profile: DataProfile, architecture: Architecture | None = None) -> None:
        super().__init__(settings, profile, architecture)
        given = settings.lambda_inv
        self.lambda_inv = (
            theorem_2(profile.noise) if given == "auto" else given if isinstance(given, tuple) else (given,)
        )
        """Of each channel, or one for all."""
        self.fill = fill_of(settings.fill, settings.fill_sigma)

    @classmethod
    def check(cls, settings: Any, config: Config) -> None:
        if config.sigma is not None and settings.lambda_inv != "auto":
            raise InputError("sigma sets lambda_inv to 2 sigma: give one of them, not both.")

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Terms "reconstruction" and "invariance" of a batch of shape (B, C, [Z,] Y, X)."""
        x = batch.x
        j, _, masked = draw_mask(x, self.settings.mask_density, self.profile.noise_extent, self.fill, generator)
        if batch.valid is not None:
            j = j & batch.valid
        if self.settings.separate_passes:
            f_x, f_masked = network(x), network(masked)
        else:
            f_x, f_masked = network(torch.cat([x, masked])).chunk(2)
        return {
            "reconstruction": mean_square(f_x - x, batch.valid),
            "invariance": invariance(f_x - f_masked, j, x.new_tensor(self.lambda_inv)),
        }


def theorem_2(noise: NoiseModel, strength: float = 1.0) -> tuple[float, ...]:
    """Weight of the invariance term in each channel for noise in normalized units: 2σ, at most Theorem 1's 2.

    Where the noise differs between pixels or images, σ² is its mean variance: `strength` times that of `noise`.
    """
    return tuple(min(max(2 * sigma * math.sqrt(strength), LEAST_WEIGHT), 2.0) for sigma in noise.sigma)


def invariance(difference: Tensor, j: Tensor, weights: Tensor) -> Tensor:
    r"""Second term of equation 6. The root is that of the mean over all processes' pixels.

    Parameters
    ----------
    difference : Tensor, (B, C, [Z,] Y, X)
        Of the outputs with and without the masked pixels.
    j : Tensor of bool, as `difference`
        The masked pixels.
    weights : Tensor, (1,) or (C,)
        :math:`\lambda_{inv}`: one for all channels together, or one for each; then it is the mean of their terms.
    """
    sums = channel_sums if len(weights) > 1 else torch.sum
    squares, count = ranks.total(torch.stack([sums(difference.square() * j), sums(j.to(difference.dtype))]))
    roots = (squares / count.clamp(min=1) + 1e-12).sqrt()  # the gradient of a bare root is infinite at 0
    return (weights * roots * count).sum() / count.sum().clamp(min=1)
