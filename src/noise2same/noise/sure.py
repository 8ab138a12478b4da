r"""The error against clean images that nobody has, from noisy ones: equation 1 of the paper and Stein's identity.

.. math:: E\|f(x)-y\|^2 = E\|f(x)-x\|^2 - E\sigma_j^2 + 2\,Cov(f_j, x_j), \quad
          Cov(f_j, x_j) = E[\sigma_j^2\,\partial f_j/\partial x_j]

for independent noise that is Gaussian with the variance :math:`\sigma_j^2` at pixel j, and to first order for noise
whose variance grows with the intensity; to second order for photons, if the variance is that half-way between x and y,
and for noise that is more skewed, or less, if it is that nearer to x, or to y (`between`).
The derivative is measured: all pixels are changed a little, each up or down at random, so that what an output feels of
other pixels than its own is zero on average.

Noise that is correlated, with :math:`\rho_{jk}` between the pixels j and k, has

.. math:: Cov(f_j, x_j) = E\Big[\sum_k \rho_{jk}\,\sigma_j\sigma_k\,\partial f_j/\partial x_k\Big] ,

which one change measures too, if the pixels around each pixel change with it in proportion to their correlation.

Of any noise that can be drawn, with x' and x'' equal to x but for new draws on a sparse set of pixels J,

.. math:: Cov(f_j, x_j) = \tfrac12 E[(f(x')_j - f(x'')_j)(x'_j - x''_j)] .

`docs/noise-model.md` derives all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

BLOCK = {2: (16, 16), 3: (4, 8, 8)}
"""Pixels that are taken together, ([Z,] Y, X): few enough that the signal varies little, and enough for an average."""
SIZE = 0.1
"""Of the change, in standard deviations of the noise: far above rounding, and too small to be exploited.

A changed pixel has noise of the variance 1 + SIZE². Where that shows, a network learns to keep small deviations and to
reverse large ones, which looks like less covariance than it is: with 0.5, it ended below the bound after 20 minutes.
"""
OUTLIER = 6.0
"""Standard deviations beyond which a pixel's deviation is taken for a structure that is not learned yet."""


def between(x: Tensor, f_x: Tensor, slope: Tensor, honest: Tensor | None) -> Tensor:
    """The image at which noise has the variance that Stein's identity wants, as far from f(x) as noise is skewed.

    Parameters
    ----------
    x, f_x : Tensor, (B, C, [Z,] Y, X)
        Noisy and denoised image.
    slope : Tensor, (C, 1, ...)
        Of the variance over the intensity, in each channel or one for all.
    honest : Tensor of bool, as `x`, optional
        Pixels to measure the skewness at, best those not trained on: noise that is learned by heart looks skewed.
    """
    noise = x - f_x
    return f_x + skewness(noise, slope, honest) / 2 * noise


def skewness(noise: Tensor, slope: Tensor, where: Tensor | None) -> Tensor:
    """Third moment of noise over that of photon noise of the same variance, whose slope it is; from 0 to 1.5.

    1 for photons alone, less where a detector adds noise of its own, and more where it multiplies them, as electron- or
    photomultipliers do: 1.5 in theory. Outliers do not count.
    """
    squares = noise.square()
    usual = squares <= OUTLIER**2 * squares.mean()
    if where is not None:
        usual = usual & where
    squares = squares * usual
    skewed = (squares * noise).sum() / (slope.clamp(min=1e-6) * squares).sum().clamp(min=1e-12)
    return skewed.clamp(0.0, 1.5)


def small_change(variance: Tensor, valid: Tensor | None, generator: torch.Generator) -> Tensor:
    """A change by `SIZE` times the noise of a variance, up or down at random; 0 where `valid` is not true."""
    sign = 2.0 * torch.randint(2, variance.shape, generator=generator, device=variance.device) - 1
    change = SIZE * variance.sqrt() * sign
    return change if valid is None else change * valid


def shared(change: Tensor, variance: Tensor, correlation: Sequence[Sequence[float]]) -> Tensor:
    """The change of all pixels that goes with the change of each, by the noise they share.

    Parameters
    ----------
    change : Tensor, (B, C, [Z,] Y, X)
        Change of each pixel by itself.
    variance : Tensor, as `change`
        Variance of the noise.
    correlation : sequence of sequence of float
        For each spatial axis, the autocorrelation of the noise at the lags 1, 2, ...; that of two pixels is the product
        over the axes.
    """
    std = variance.sqrt()
    spread = (change / std).flatten(0, 1).unsqueeze(1)
    dims = change.ndim - 2
    convolve = functional.conv2d if dims == 2 else functional.conv3d
    for axis, lags in enumerate(correlation):
        kernel = torch.tensor([*reversed(lags), 1.0, *lags], dtype=change.dtype, device=change.device)
        shape = [len(kernel) if other == axis else 1 for other in range(dims)]
        spread = convolve(spread, kernel.reshape(1, 1, *shape), padding=[length // 2 for length in shape])
    return std * spread.reshape(change.shape)


def covariance(change: Tensor, response: Tensor, variance: Tensor, *, positive: bool = False) -> Tensor:
    """Mean covariance of output and noise of a mean variance, by what an output's response to a change is.

    The derivatives' mean has the weights of the squared change, and so of the noise's own variance.

    Parameters
    ----------
    change, response : Tensor, (B, C, [Z,] Y, X)
        Change of each pixel by itself, and of its output.
    variance : Tensor, ()
        Mean variance of the noise.
    positive : bool
        Whether a block of pixels (`block_sums`) counts as 0 where it is negative. If not, any shape will do.
    """
    products = change * response
    if positive:
        products = block_sums(products).relu()
    return variance * products.sum() / change.square().sum().clamp(min=1e-12)


def block_sums(values: Tensor) -> Tensor:
    """Sums of values of shape (B, C, [Z,] Y, X) over the pixels of each `BLOCK`, smaller ones at the borders."""
    dims = values.ndim - 2
    pool = functional.avg_pool2d if dims == 2 else functional.avg_pool3d
    block = tuple(map(min, BLOCK[dims], values.shape[2:]))
    options: Any = {"kernel_size": block, "ceil_mode": True, "divisor_override": 1}
    return pool(values, **options)


def covariance_of_draws(one: Tensor, f_one: Tensor, other: Tensor, f_other: Tensor, j: Tensor) -> Tensor:
    """Mean covariance of output and noise, from two images that differ by a draw of the noise on J, and the outputs."""
    return 0.5 * ((f_one - f_other) * (one - other) * j).sum() / j.sum().clamp(min=1)
