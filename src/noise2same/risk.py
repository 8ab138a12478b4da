r"""The error against clean images that nobody has, from noisy ones: equation 1 of the paper and Stein's identity.

.. math:: E\|f(x)-y\|^2 = E\|f(x)-x\|^2 - E\sigma_j^2 + 2\,Cov(f_j, x_j), \quad
          Cov(f_j, x_j) = E[\sigma_j^2\,\partial f_j/\partial x_j]

for independent noise that is Gaussian with the variance :math:`\sigma_j^2` at pixel j, and to first order for noise
whose variance grows with the intensity. The derivative is measured: a few pixels J are changed a little, at random.
"""

from __future__ import annotations

import torch
from torch import Tensor

from noise2same.masking import stratified

SIZE = 0.5
"""Of the change, in standard deviations of the noise: small, but far above rounding."""


def small_change(
    x: Tensor, variance: Tensor, density: float, valid: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Random change of the shape of `x`, of `SIZE` times the noise on a sparse set of pixels J and 0 on all others."""
    j = stratified(x.shape, density, generator)
    if valid is not None:
        j &= valid
    return SIZE * variance.sqrt() * torch.randn(x.shape, generator=generator, device=x.device) * j


def covariance(change: Tensor, response: Tensor, variance: Tensor) -> Tensor:
    """Mean covariance of output and noise of a mean variance, by what an output's response to a change is.

    The derivatives' mean has the weights of the squared change, and so of the noise's own variance.
    """
    return variance * (change * response).sum() / change.square().sum().clamp(min=1e-12)
