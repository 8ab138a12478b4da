"""Noise2Same with a noise model: the covariance that the paper bounds, computed by Stein's identity."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods.base import Method, Settings, mean_square
from noise2same.noise.sure import covariance, mean_positive_covariance, midpoint_variance, perturb


class SureSettings(Settings):
    """Settings of `sure`."""

    noise_model: Annotated[
        Literal["auto", "gaussian", "poisson", "poisson-gaussian"],
        Field(description="How the variance of the noise depends on the intensity; auto: as measured or given."),
    ] = "auto"


class Sure(Method):
    r"""Stein's unbiased risk estimate (SURE) as a loss.

    .. math:: \|f(x)-x\|^2/m + \frac{2}{m}\sum_j \sigma_j^2\,\frac{\partial f_j}{\partial x_j}

    but for a constant, this is the error against the clean image (equation 1 of the paper), where equation 6 has an
    upper bound of it. It holds for Gaussian noise of a known variance, and to second order for photon noise. The
    derivatives are measured in a second pass, on x with a small random change. Noise that neighbors share is changed
    together (`noise.sure`).
    """

    name = "sure"
    when = "the noise is Gaussian, and its level is known or measured well; auto takes it then"
    uses = frozenset({"sigma", "gain"})
    passes = 2
    full_precision = True
    Settings = SureSettings

    @classmethod
    def check(cls, settings: Any, config: Config) -> None:
        model = settings.noise_model
        if config.gain is not None and model == "gaussian":
            raise InputError("gain belongs to noise_model=poisson or poisson-gaussian, not to gaussian.")
        if model == "poisson" and config.sigma is not None:
            raise InputError("Poisson noise has no sigma but a gain: leave one out, or use poisson-gaussian.")
        if model == "poisson-gaussian" and (config.gain is None) != (config.sigma is None):
            raise InputError("noise_model=poisson-gaussian takes both gain and sigma, or neither.")

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Terms "reconstruction" and "covariance" of a batch of shape (B, C, [Z,] Y, X)."""
        x, f_x, noise = batch.x, network(batch.x), self.profile.noise
        variance = midpoint_variance(noise, x, f_x.detach(), batch.strength)
        change, perturbation = perturb(variance, noise.correlation, batch.valid, generator)
        term = mean_positive_covariance(covariance(change, network(x + perturbation) - f_x), batch.valid)
        return {"reconstruction": mean_square(f_x - x, batch.valid), "covariance": 2 * term}
