r"""The error of a denoised image, estimated without the clean one: equation 1 with the covariance by `noise.sure`.

.. math:: E\|f-y\|^2 = E\|f-x\|^2 - s\,v + 2\,s\,E[v\,\partial f/\partial x]

The error is a small part of the noise's variance v, which must be right within a percent or two. So the scale s of what
was diagnosed is measured once more on the residual, which is much plainer than the noisy image: where the denoised one
is flat and the residual white, the residual is the noise without what the denoiser let through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from noise2same.noise.model import NoiseModel
from noise2same.noise.sure import covariance, perturb
from noise2same.quality.residual import BLOCK, Array, Blocks, blocks, by_brightness, crops, remaining

Response = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Denoises a crop of a noisy image, (C, [Z,] Y, X) in the image's units, to the same shape and units, unrounded.

Test-time augmentation can be left out, which is eight times faster: the derivative of an average over orientations is
the average of their derivatives, and these hardly differ.
"""

SEED = 2010_11706
"""Of the change. Synthetic noise that was made with the same seed would be correlated with it."""
PROBED_PIXELS = 2**16
"""Pixels of a channel that are denoised once more with a small change, at most."""
DIAGNOSED_REL_SE = 0.07
"""Relative standard error of the noise's variance as diagnosed on small images (Train400)."""
RECALIBRATED_REL_SE, QUIET_REL_SE = 0.02, 0.25
"""The same after recalibration on many quiet blocks (Kodak24), and what √n of n quiet blocks divide (Train400)."""
RESIDUAL_WEIGHT = 0.7
"""Weight of the residual against the diagnosis in the recalibrated variance (Set12, Kodak24)."""
BLOCK_MEDIAN = (1 - 2 / (9 * BLOCK**2)) ** 3
"""Median of the mean square of a block of white noise with the variance 1 (Wilson and Hilferty)."""
MAX_BLOCK_DEVIATION = 2.5
"""Standard deviations above the mean from which on the mean square of a block is not that of noise alone."""
MAX_CORRECTION = 0.3
"""Relative correction of the variance beyond which residual and diagnosis contradict each other."""
MIN_BLOCKS = 8
"""Blocks that a measurement needs."""
MAX_MISMATCH = 0.1
"""Mean squared difference, in units of the noise's variance, up to which two results are of the same denoiser."""


@dataclass(frozen=True)
class VarianceScale:
    """By which factor the noise's variance differs from the diagnosed one."""

    scale: float
    error: float
    """Relative standard error."""


@dataclass(frozen=True)
class Risk:
    """Estimated mean squared error against the clean image, in the image's units squared."""

    value: float
    deviation: float
    """Standard error of the value."""
    noise: float
    """Mean variance of the noise: the error of the noisy image."""
    left: float = 0.0
    """Error of the noise that is seen to be left in the result alone; it contradicts a value far below it."""

    @property
    def low(self) -> float:
        """Lower end of the 95 % confidence interval, above 0."""
        return max(self.value - 1.96 * self.deviation, 0.1 * self.value)

    @property
    def high(self) -> float:
        """Upper end of the 95 % confidence interval."""
        return max(self.value + 1.96 * self.deviation, self.left)

    @property
    def relative_error(self) -> float:
        """Standard error of the value, relative to it; infinite where it was shown to be wrong."""
        wrong = self.value <= 0 or self.left > self.value + 1.96 * self.deviation
        return float("inf") if wrong else self.deviation / self.value


def probe(
    noisy: NDArray[Any], clean: NDArray[Any], noise: NoiseModel, response: Response, pixels: int = PROBED_PIXELS
) -> list[Blocks] | None:
    """Measure how a denoiser responds to a small random change of noisy images.

    Parameters
    ----------
    noisy, clean : ndarray, (N, C, [Z,] Y, X)
        The images and what the denoiser made of them.
    noise : NoiseModel
        In the images' units.
    response : callable
        The denoiser, which denoises each crop twice.
    pixels : int
        Pixels of a channel that the crops have together, at most.

    Returns
    -------
    list of Blocks, or None
        The blocks of the crops with their derivatives, for each channel; None if `clean` is not what the denoiser
        makes of the noisy images, or no pixel is known.
    """
    generator = torch.Generator().manual_seed(SEED)
    found: list[list[Blocks]] = [[] for _ in range(noisy.shape[1])]
    for crop in crops(noisy.shape, pixels):
        x, f = noisy[crop].astype(np.float64), clean[crop].astype(np.float64)
        known = np.isfinite(x) & np.isfinite(f)
        if not known.any():
            continue
        f = np.where(known, f, f[known].mean())
        filled, variance = np.where(known, x, f), noise.variance(f)
        before = _response(response, filled)
        if np.mean((before - f)[known] ** 2) > MAX_MISMATCH * np.mean(variance):
            return None
        change, perturbation = perturb(torch.from_numpy(variance), noise.correlation, None, generator)
        after = _response(response, filled + perturbation.numpy())
        derivative = covariance(change, torch.from_numpy(after - before)).numpy() / variance
        for channel, *arrays in zip(found, x[0], f[0], variance[0], derivative[0], strict=True):
            channel.append(blocks(*arrays))
    return [Blocks.join(parts) for parts in found] if found[0] else None


def _response(response: Response, crop: Array) -> Array:
    """Denoise (1, C, [Z,] Y, X)."""
    return np.asarray(response(crop[0].astype(np.float32)), dtype=np.float64)[None]


def recalibrate_variance(measured: Blocks, let_through: float = 0.0) -> VarianceScale:
    """Scale of the variance: between what the diagnosis says, 1, and what the residual of quiet blocks does.

    In quiet blocks the residual is the noise without what the denoiser let through, which is as much as the covariance
    of output and noise if the denoiser is as good there as one can be. Lost texture makes the residual of a block
    stronger, never weaker, so blocks above the distribution of noise are left out. Where residual and diagnosis are far
    apart, one of them is wrong, but not known which: their distance then is the error.

    Parameters
    ----------
    measured : Blocks
        Of a channel.
    let_through : float
        Share of the noise that the denoiser lets through in quiet blocks.
    """
    quiet = measured[measured.quiet()]
    square = float(np.median(quiet.square)) / BLOCK_MEDIAN if len(quiet) else 0.0
    for _ in range(3):
        quiet = quiet[quiet.square < square * (1 + MAX_BLOCK_DEVIATION * np.sqrt(2) / BLOCK)]
        square = float(quiet.square.mean()) if len(quiet) else 0.0
    if len(quiet) < MIN_BLOCKS or let_through >= 1:
        return VarianceScale(1.0, DIAGNOSED_REL_SE)
    correction = square / (1 - let_through) - 1
    if abs(correction) > MAX_CORRECTION:
        return VarianceScale(1.0, max(DIAGNOSED_REL_SE, abs(correction)))
    error = float(np.hypot(RECALIBRATED_REL_SE, QUIET_REL_SE / np.sqrt(len(quiet))))
    return VarianceScale(1 + RESIDUAL_WEIGHT * correction, error)


def estimate_risks(measured: Sequence[Blocks], probed: Sequence[Blocks]) -> list[Risk] | None:
    """Estimate the error of each channel from all of its blocks and from those that were probed; None if too few."""
    if min(map(len, [*measured, *probed])) < MIN_BLOCKS:
        return None
    return [_risk_of_channel(whole, part) for whole, part in zip(measured, probed, strict=True)]


def _risk_of_channel(whole: Blocks, part: Blocks) -> Risk:
    quiet = part[part.quiet()]
    recalibrated = recalibrate_variance(whole, float(quiet.derivative.mean()) if len(quiet) else 0.0)
    noise = recalibrated.scale * float(whole.variance.mean())
    let_through = noise * float(np.average(part.derivative, weights=part.variance))
    excess = whole.variance * (whole.square - recalibrated.scale)
    deviation = float(np.sqrt(excess.var() / len(whole) + (recalibrated.error * (noise - 2 * let_through)) ** 2))
    value = max(float(excess.mean()) + 2 * let_through, let_through**2 / noise)  # by Cauchy and Schwarz
    return Risk(value, deviation, noise, noise * _seen_left(whole))


def _seen_left(whole: Blocks) -> float:
    """Error of the noise that is seen to be left, over its variance: at levels of brightness, or in flat areas."""
    levels = by_brightness(whole)
    left = [max(0.0, 1 - float(np.sqrt(whole.square[level].mean()))) ** 2 for level in levels]
    everywhere = np.average(left, weights=[whole.variance[level].sum() for level in levels])
    return max(float(everywhere), remaining(whole) ** 2)
