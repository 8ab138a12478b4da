r"""The error of a denoised image without the clean one: equation 1 with the covariance by Stein's identity.

.. math:: E\|f-y\|^2 = E\|f-x\|^2 - s\,v + 2\,s\,E[v\,\partial f/\partial x]

The error is a small part of the noise's variance v, which must be right within a percent or two. So the scale s of what
was diagnosed is measured once more on the residual, which is much plainer than the noisy image: where the denoised one
is flat and the residual white, the residual is noise alone but for what the denoiser let through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.noise.diagnose import Diagnosis
from noise2same.quality.residual import BLOCK, Blocks, Variance, blocks, crops

Response = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Denoises a piece of a noisy image, (C, [Z,] Y, X) in the image's units, to the same shape and units, unrounded."""

CHANGE = 0.1
"""Standard deviation of the change, in those of the noise. It is on all pixels, so it must not look like noise."""
SEED = 2010_11706
"""Of the change; one that nobody makes synthetic noise with, or change and noise would be the same."""
PIXELS, CHANGES = 2**18, 4
"""How many pixels of a channel are changed and denoised once more; of a small image, the same ones up to four times."""
TOLD, MEASURED = 0.04, 0.025
"""Relative standard errors of the noise's variance: as diagnosed, and with the residual of many pixels."""
WEIGHT = 0.7
"""Of the residual against the diagnosis."""
MEDIAN = (1 - 2 / (9 * BLOCK**2)) ** 3
"""Of the mean square of a block of white noise; its mean is 1."""
HIGHEST = 2.5
"""Standard deviations that the mean square of a block of noise may be above its mean."""
FARTHEST = 0.3
"""Relative correction of the variance beyond which residual and diagnosis contradict each other."""
FEWEST = 8
"""Blocks that a measurement needs."""
SAME = 0.1
"""Mean square difference, in the noise's variance, up to which two results are of the same denoiser."""


@dataclass(frozen=True)
class Level:
    """How much stronger the noise's variance is than diagnosed."""

    scale: float
    error: float
    """Relative standard error."""


@dataclass(frozen=True)
class Error:
    """Estimated mean square error against the clean image, in the image's units squared."""

    value: float
    low: float
    high: float
    """Ends of the 95 % confidence interval."""
    noise: float
    """Mean variance of the noise: the error of the noisy image."""
    uncertainty: float
    """Relative standard error of the value,"""
    deviation: float
    """and the standard error itself."""
    least: float
    """What it cannot be below, whatever was measured."""


def variances(diagnosis: Diagnosis, channels: int) -> list[Variance]:
    """The noise-level function of each channel; never below a twentieth of the mean variance, as a line may cross 0.

    A channel without noise of its own is judged by the mean of the others.
    """
    pooled = {"sigma": diagnosis.sigma, "a": diagnosis.a, "b": diagnosis.b}
    found = diagnosis.channels if len(diagnosis.channels) == channels else [pooled] * channels
    return [_line(**(one if one["sigma"] > 0 else pooled)) for one in found]


def _line(sigma: float, a: float, b: float) -> Variance:
    return lambda intensity: np.maximum(a * intensity + b, 0.05 * sigma**2)


def level(some: Blocks) -> Level:
    """Scale of the variance: between what the diagnosis says, 1, and what the residual of quiet blocks does.

    All noise is gone from those but what was let through, which is as large as the covariance of output and noise if
    the denoiser is as good there as one can be. Texture that was lost in a block makes its residual stronger,
    never weaker: blocks above the distribution of noise are left out. Where the two are far apart, one of them is
    wrong, and nobody knows which: their distance is the error.
    """
    quiet = some[some.quiet()]
    square = float(np.median(quiet.square)) / MEDIAN if len(quiet) else 0.0
    for _ in range(3):
        quiet = quiet[quiet.square < square * (1 + HIGHEST * np.sqrt(2) / BLOCK)]
        square = float(quiet.square.mean()) if len(quiet) else 0.0
    left = 1 - float(quiet.derivative.mean()) if len(quiet) >= FEWEST else 0.0
    if left <= 0:
        return Level(1.0, TOLD)
    correction = square / left - 1
    if abs(correction) > FARTHEST:
        return Level(1.0, max(TOLD, abs(correction)))
    return Level(1 + WEIGHT * correction, float(np.hypot(MEASURED, np.sqrt(2 / len(quiet)) / BLOCK)))


def ask(
    noisy: NDArray[Any], clean: NDArray[Any], variances: Sequence[Variance], response: Response
) -> list[Blocks] | None:
    """Blocks of each channel of images (N, C, [Z,] Y, X), with the denoiser's answer to a small random change.

    None if `clean` is not what the response makes of the noisy images.
    """
    rng = np.random.default_rng(SEED)
    found: list[list[Blocks]] = [[] for _ in variances]
    pieces = crops(noisy.shape, PIXELS)
    looked_at = sum(noisy[piece][:, 0].size for piece in pieces)
    changes = int(np.clip(PIXELS // looked_at, 1, CHANGES))
    for crop in pieces:
        x, f = (array[crop][0].astype(np.float64) for array in (noisy, clean))
        known = np.isfinite(x) & np.isfinite(f)
        if not known.any():
            continue
        f = np.where(known, f, f[known].mean())
        v = np.stack([variance(channel) for variance, channel in zip(variances, f, strict=True)])
        filled = np.where(known, x, f)
        first = np.asarray(response(filled.astype(np.float32)), dtype=np.float64)
        if np.mean((first - f)[known] ** 2) > SAME * np.mean(v):
            return None
        derivative = np.zeros_like(x)
        for _ in range(changes):
            change, size = rng.standard_normal(x.shape), CHANGE * np.sqrt(v)
            second = np.asarray(response((filled + size * change).astype(np.float32)), dtype=np.float64)
            derivative += change * (second - first) / size / changes
        for channel, *arrays in zip(found, x, f, v, derivative, strict=True):
            channel.append(blocks(*arrays))
    return [Blocks.join(parts) for parts in found] if found[0] else None


def errors(every: Sequence[Blocks], asked: Sequence[Blocks]) -> list[Error] | None:
    """Error of each channel of a denoised image, from its blocks: all of them, and those that were asked for.

    None if there are too few to tell.
    """
    if min(map(len, [*every, *asked])) < FEWEST:
        return None
    return [_of_channel(whole, part) for whole, part in zip(every, asked, strict=True)]


def _of_channel(whole: Blocks, part: Blocks) -> Error:
    at = level(part)
    noise = at.scale * float(whole.variance.mean())
    covariance = noise * float(np.average(part.derivative, weights=part.variance))
    excess = whole.variance * (whole.square - at.scale)
    deviation = float(np.sqrt(excess.var() / len(whole) + (at.error * (noise - 2 * covariance)) ** 2))
    least = covariance**2 / noise  # by Cauchy and Schwarz, whatever the samples say
    return _error(float(excess.mean()) + 2 * covariance, deviation, least, noise)


def mean(channels: Sequence[Error]) -> Error:
    """Error of all channels together."""
    value, least, noise = (
        float(np.mean([getattr(one, name) for one in channels])) for name in ("value", "least", "noise")
    )
    deviation = float(np.sqrt(np.sum([one.deviation**2 for one in channels]))) / len(channels)
    return _error(value, deviation, least, noise)


def _error(value: float, deviation: float, least: float, noise: float) -> Error:
    value = max(value, least)
    return Error(
        value,
        max(value - 1.96 * deviation, least),
        value + 1.96 * deviation,
        noise,
        deviation / value,
        deviation,
        least,
    )
