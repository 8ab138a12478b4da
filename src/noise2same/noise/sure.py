r"""Stein's unbiased risk estimate (SURE): the error against unknown clean images, from noisy ones.

.. math:: E\|f(x)-y\|^2 = E\|f(x)-x\|^2 - E\sigma_j^2 + 2\,Cov(f_j, x_j), \quad
          Cov(f_j, x_j) = E[\sigma_j^2\,\partial f_j/\partial x_j]

(equation 1 of the paper and Stein's identity) for independent Gaussian noise of the variance :math:`\sigma_j^2` at
pixel j. For noise whose variance grows with the intensity it holds to first order; for photons to second order, if the
variance is that half-way between x and y (`midpoint_variance`).

The derivative is measured: all pixels are changed a little, each up or down at random, so that the effect on an
output of other pixels than its own is zero on average. Noise that is correlated, with :math:`\rho_{jk}` between the
pixels j and k, has

.. math:: Cov(f_j, x_j) = E\Big[\sum_k \rho_{jk}\,\sigma_j\sigma_k\,\partial f_j/\partial x_k\Big] ,

which one change measures too, if the pixels around each pixel change with it in proportion to their correlation.

This is the only estimator of the covariance: the SURE loss, early stopping and the verdict call it.
`docs/noise-model.md` derives both equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from noise2same import ranks
from noise2same.noise.model import NoiseModel

BLOCK = {2: (16, 16), 3: (4, 8, 8)}
"""Pixels whose covariances are averaged, ([Z,] Y, X): few enough for the signal to vary little, enough for a mean."""
SIZE = 0.1
"""Size of the change in standard deviations of the noise: far above rounding, and too small to be exploited.

A changed pixel has noise of the variance 1 + SIZE². Where that shows, a network learns to keep small deviations and to
reverse large ones, which looks like less covariance than it is: with 0.5, it ended below the bound after 20 minutes.
"""


def midpoint_variance(noise: NoiseModel, x: Tensor, f_x: Tensor, strength: Tensor | None = None) -> Tensor:
    """Variance of the noise at the intensity half-way between noisy and denoised images, (B, C, [Z,] Y, X)."""
    return noise.variance((x + f_x) / 2, strength)


def perturb(
    variance: Tensor, correlation: Sequence[Sequence[float]], valid: Tensor | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw a small random change of images.

    Parameters
    ----------
    variance : Tensor, (B, C, [Z,] Y, X)
        Variance of the noise at each pixel.
    correlation : sequence of sequence of float
        Of the noise (`NoiseModel.correlation`); empty if it is independent.
    valid : Tensor of bool, as `variance`, optional
        Pixels to change; None for all.
    generator : torch.Generator
        Of the signs.

    Returns
    -------
    change : Tensor
        `SIZE` standard deviations of the noise, up or down: the change of each pixel by itself.
    perturbation : Tensor
        What to add to the images: the change, and in correlated noise that of the neighbors that goes with it.
    """
    sign = 2.0 * torch.randint(2, variance.shape, generator=generator, device=variance.device) - 1
    change = SIZE * variance.sqrt() * sign
    if valid is not None:
        change = change * valid
    return change, _with_neighbors(change, variance, correlation)


def covariance(change: Tensor, response: Tensor) -> Tensor:
    """Estimate of Cov(f_j, x_j) at each pixel, from its change and from what that changed in its output."""
    return change * response / SIZE**2


def mean_positive_covariance(covariances: Tensor, valid: Tensor | None) -> Tensor:
    """Mean of covariances (B, C, [Z,] Y, X) over all processes' valid pixels, blocks of a negative sum counted as 0.

    The best output never moves against the noise; but where the variance is overestimated, a loss would reward it.
    """
    count = covariances.new_tensor(covariances.numel()) if valid is None else valid.sum()
    return ranks.ratio(block_sums(covariances).relu().sum(), count)


def block_sums(values: Tensor) -> Tensor:
    """Sums of values of shape (B, C, [Z,] Y, X) over the pixels of each `BLOCK`, smaller ones at the borders."""
    dims = values.ndim - 2
    pool = functional.avg_pool2d if dims == 2 else functional.avg_pool3d
    block = tuple(map(min, BLOCK[dims], values.shape[2:]))
    options: Any = {"kernel_size": block, "ceil_mode": True, "divisor_override": 1}
    return pool(values, **options)


def _with_neighbors(change: Tensor, variance: Tensor, correlation: Sequence[Sequence[float]]) -> Tensor:
    """The change of all pixels that goes with the change of each: the correlation is a product over the axes."""
    if not any(correlation):
        return change
    std = variance.sqrt()
    spread = (change / std).flatten(0, 1).unsqueeze(1)
    dims = change.ndim - 2
    convolve = functional.conv2d if dims == 2 else functional.conv3d
    for axis, lags in enumerate(correlation):
        kernel = torch.tensor([*reversed(lags), 1.0, *lags], dtype=change.dtype, device=change.device)
        shape = [len(kernel) if other == axis else 1 for other in range(dims)]
        spread = convolve(spread, kernel.reshape(1, 1, *shape), padding=[length // 2 for length in shape])
    return std * spread.reshape(change.shape)
