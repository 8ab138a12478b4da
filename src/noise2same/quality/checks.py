"""Whether a denoised image can be trusted: checks that need no clean image, and one verdict.

`docs/trust.md` says what each limit rests on; `benchmarks/trust.py` measures them on images whose truth is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noise2same.data import axes as ax
from noise2same.errors import InputError
from noise2same.noise.diagnose import CONFIDENT, Diagnosis
from noise2same.quality import risk
from noise2same.quality.residual import BLOCK, SCALES, Array, Blocks, blocks_of_channels, seams

Word = Literal["trust", "check", "do not trust"]
WORDS: tuple[Word, ...] = ("trust", "check", "do not trust")
"""From best to worst."""
OFFSET = {"impulse": "Single pixels were replaced", "clipped": "Pixel values were cut off at an end of their range"}
"""Kinds of noise whose mean is not zero, in words."""
CORRELATION = 0.1
"""Autocorrelation of noise from which on the diagnosis may call it correlated."""
FLATTEST, RICHEST = 0.05, 0.9
"""Quantiles of blocks by their fine detail: below the first they are flat, above the second rich, in most images."""
MIN_DETAIL = 0.01
"""Least variance of detail, in units of the noise's, whose contrast can be measured."""
NOISE_LIKE = 0.37
"""Correlation with the residual from which on detail in the flattest blocks is noise; texture has less."""
MAX_RELATIVE_ERROR = 0.25
"""Relative standard error of the squared error from which on no PSNR is given."""
BRIGHTNESS_LEVELS = 8
"""At each of which the means of input and output are compared."""


@dataclass(frozen=True)
class Check:
    """One thing that can be wrong with a denoised image."""

    name: str
    """Such as "remaining noise"."""
    value: float
    limit: float
    """From where on the value is a reason to look."""
    word: Word
    """What follows from this check alone."""
    sentence: str
    """The finding for a person, with its number."""


@dataclass(frozen=True)
class Verdict:
    """What to think of a denoised image, the reason first."""

    word: Word
    reason: str
    """One to three sentences."""
    psnr: tuple[float, float, float] | None
    """Estimated PSNR in dB and the ends of its 95 % confidence interval; None where it cannot be estimated."""
    checks: tuple[Check, ...]
    data_range: float | None = None
    """The span of intensities that the PSNR refers to."""


@dataclass(frozen=True)
class Rule:
    """Limits of a check and its sentences, in which {} stands for the value."""

    name: str
    higher_is_worse: bool
    check_from: float
    """Limit from which on the result is to be checked,"""
    distrust_from: float | None
    """and from which on it is not to be trusted; None if this check alone never says so."""
    fine: str
    bad: str

    def apply(self, values: Sequence[float], allowance: float = 0.0) -> Check:
        """Check the worst of the channels' values.

        Parameters
        ----------
        values : sequence of float
            One for each channel.
        allowance : float
            By how much chance alone can make the value worse: limits are widened by it.
        """
        sign = 1.0 if self.higher_is_worse else -1.0
        worst = int(np.argmax(sign * np.asarray(values)))
        value = float(values[worst])
        limits = [limit + sign * allowance for limit in (self.check_from, self.distrust_from) if limit is not None]
        word = WORDS[sum(sign * value >= sign * limit for limit in limits)]
        sentence = (self.fine if word == "trust" else self.bad).format(value)
        if len(values) > 1 and word != "trust":
            sentence = f"{sentence[:-1]} (channel {worst + 1})."
        return Check(self.name, value, limits[0], word, sentence)


# In the order in which a verdict lists them. Limits: docs/trust.md.
GAIN = Rule(
    "improvement",
    higher_is_worse=False,
    check_from=1.0,
    distrust_from=0.0,
    fine="The result is closer to the clean image than the input, by at least {:.1f} dB.",
    bad="The result may be no better than the input: the improvement in PSNR could be as low as {:+.1f} dB.",
)
SEAMS = Rule(
    "seams",
    higher_is_worse=True,
    check_from=0.5,
    distrust_from=3.0,
    fine="There are no seams between tiles (strength {:.1f}).",
    bad="A straight line that the input does not have runs across the result (strength {:.1f}): probably a seam between"
    " tiles.",
)
REMOVED = Rule(
    "output equals input",
    higher_is_worse=False,
    check_from=0.8,
    distrust_from=0.4,
    fine="What was removed is as strong as the noise ({:.0%}).",
    bad="Too little was removed: {:.0%} of the noise's strength.",
)
SMOOTHED = Rule(
    "over-smoothing",
    higher_is_worse=True,
    check_from=1.07,
    distrust_from=1.3,
    fine="No more was removed than the noise ({:.0%} of its strength).",
    bad="More was removed than the noise ({:.0%} of its strength): the result is too smooth.",
)
MEAN = Rule(
    "drift of the mean",
    higher_is_worse=True,
    check_from=0.08,
    distrust_from=0.5,
    fine="Mean intensities are kept: they shift by at most {:.1%} of the noise level.",
    bad="Mean intensities shifted, at some brightness by {:.0%} of the noise level: do not measure intensities here.",
)
LOST = Rule(
    "signal lost",
    higher_is_worse=True,
    check_from=1.05,
    distrust_from=2.0,
    fine="What was removed has no structure (it is {:.2f} times as uneven as pure noise).",
    bad="Image structure was removed with the noise: what was removed is {:.1f} times as uneven as pure noise.",
)
CONTRAST = Rule(
    "contrast of fine structure",
    higher_is_worse=False,
    check_from=0.42,
    distrust_from=None,
    fine="Fine structure keeps most of its contrast ({:.0%}).",
    bad="Fine structure keeps only {:.0%} of its contrast: the result is too smooth.",
)
PLACES = Rule(
    "signal lost in places",
    higher_is_worse=True,
    check_from=1.6,
    distrust_from=None,
    fine="Nowhere was much more removed than the noise (at most {:.1f} times its power).",
    bad="Fine structure was removed in some places: what was removed there has {:.1f} times the power of the noise.",
)
REMAINING = Rule(
    "remaining noise",
    higher_is_worse=True,
    check_from=0.15,
    distrust_from=0.5,
    fine="Little noise is left in flat areas ({:.0%}).",
    bad="{:.0%} of the noise is left in flat areas.",
)
CONFIDENCE = Rule(
    "noise model",
    higher_is_worse=False,
    check_from=CONFIDENT,
    distrust_from=None,
    fine="The kind and level of the noise are known (confidence {:.2f} of 1).",
    bad="The kind and level of the noise are uncertain (confidence {:.2f} of 1), and so are all other checks.",
)
SIZE = Rule(
    "size",
    higher_is_worse=False,
    check_from=16,
    distrust_from=1,
    fine="The image is large enough to be judged.",
    bad="The image is too small to be judged reliably: it has only {:.0f} blocks of 16 × 16 pixels.",
)


def judge(
    noisy: ArrayLike,
    clean: ArrayLike,
    axes: str,
    *,
    diagnosis: Diagnosis,
    response: risk.Response | None = None,
    data_range: float | None = None,
    probed_pixels: int = risk.PROBED_PIXELS,
) -> Verdict:
    """Judge a denoised image by the noisy one.

    Parameters
    ----------
    noisy, clean : array_like with `axes`, the same shape
        The image and what a denoiser made of it, in the same units. NaN and infinite pixels of either are left out. Of
        large images, evenly spread crops are measured. Several samples or time points are judged as one image.
    axes : str
        One letter of S, T, C, Z, Y and X per dimension.
    diagnosis : Diagnosis
        Of the noisy image.
    response : callable, optional
        The network, for crops of shape (C, [Z,] Y, X) as float32 in the image's units, such as
        ``lambda crop: model.denoise(crop, "CYX", dtype="float32", tta=False)``. Each crop is denoised twice. Without
        it there is no PSNR.
    data_range : float, optional
        That the PSNR refers to; by default 255 for uint8, else the denoised image's max − min.
    probed_pixels : int
        Pixels that are given to `response`, at most.
    """
    noisy, clean = np.asarray(noisy), np.asarray(clean)
    if noisy.shape != clean.shape:
        raise InputError(
            f"the noisy image has shape {noisy.shape} but the denoised one {clean.shape}: they must agree."
        )
    axes = ax.check(axes, noisy.shape, name="the noisy image")
    if not (np.isfinite(diagnosis.sigma) and diagnosis.sigma > 0):
        return Verdict("check", "The noise could not be measured, so the result cannot be judged.", None, ())
    x, f, noise = ax.to_network(noisy, axes), ax.to_network(clean, axes), diagnosis.noise
    measured = blocks_of_channels(x, f, noise)
    if min(map(len, measured)) == 0:
        raise InputError("the images have no region of known pixels that is large enough to judge.")
    risks = None
    if response is not None and noise.sure_holds:
        probed = risk.probe(x, f, noise, response, probed_pixels)
        risks = None if probed is None else risk.estimate_risks(measured, probed)
    checks = [SEAMS.apply(seams(x, f)), *_check_residual(measured, diagnosis), *_check_noise(diagnosis)]
    if risks is not None:
        checks.insert(0, GAIN.apply([_decibel(one.noise, one.high) for one in risks]))
    return _verdict(checks, risks, _span(noisy, clean) if data_range is None else data_range)


def _decibel(power: float, of: float) -> float:
    """Ratio of two powers in dB."""
    return float(10 * np.log10(power / of))


def _span(noisy: NDArray[Any], clean: NDArray[Any]) -> float:
    """Data range of an image whose truth is not known."""
    if noisy.dtype == np.uint8:
        return 255.0
    known = clean[np.isfinite(clean)].astype(np.float64)
    return float(np.ptp(known)) if known.size else 0.0


def _check_residual(channels: Sequence[Blocks], diagnosis: Diagnosis) -> list[Check]:
    """Check what was removed, the worst channel of each."""
    scales = [risk.recalibrate_variance(some).scale for some in channels]
    usual = np.array([_power_of_means(diagnosis, scale) for scale in SCALES])
    drifts, chance = zip(*(_drift(some) for some in channels), strict=True)
    return [
        REMOVED.apply([float(np.sqrt(some.square.mean())) for some in channels]),
        SMOOTHED.apply([np.sqrt(some.square.mean() / s) for some, s in zip(channels, scales, strict=True)]),
        MEAN.apply(drifts, max(chance)),
        LOST.apply(
            [_structure(some, usual) / s for some, s in zip(channels, scales, strict=True)],
            3 * np.sqrt(2 / min(map(len, channels))) * SCALES[0] / BLOCK,
        ),
        CONTRAST.apply([_contrast(some) for some in channels]),
        PLACES.apply([np.quantile(some.square, 0.95) / s for some, s in zip(channels, scales, strict=True)]),
        REMAINING.apply([_remaining(some) for some in channels]),
        SIZE.apply([len(some) for some in channels]),
    ]


def _structure(some: Blocks, usual: Array) -> float:
    """Variance of the residual's local means over that of noise, at the scale where this is largest."""
    return float(np.max((some.local.mean(axis=0) - (np.array(SCALES) * some.mean.mean()) ** 2) / usual))


def _remaining(some: Blocks) -> float:
    """Standard deviation of detail in the flattest blocks, in units of the noise's; 0 if it is texture."""
    flat = some[some.grain <= np.quantile(some.grain, FLATTEST)]
    deviation = float(np.sqrt(flat.grain.mean()))
    goes_with = flat.detail.mean() > NOISE_LIKE * deviation * np.sqrt(flat.square.mean())
    return deviation if goes_with or deviation > np.sqrt(flat.square.mean()) else 0.0


def _contrast(some: Blocks) -> float:
    """Share of its contrast that fine detail keeps, where there is most of it; 1 where there is hardly any.

    The detail that was lost is the regression of the residual on the detail that was kept.
    """
    rich = some[some.grain >= np.quantile(some.grain, RICHEST)]
    return 1.0 if rich.grain.mean() < MIN_DETAIL else 1 / (1 + max(0.0, rich.detail.mean() / rich.grain.mean()))


def _power_of_means(diagnosis: Diagnosis, scale: int) -> float:
    """Variance of the means of correlated noise over squares, 1 for white noise."""
    if not diagnosis.correlated:
        return 1.0
    power = 1.0
    for axis in "YX":
        lags = diagnosis.correlation.get(axis, ())
        power *= 1 + 2 * sum((1 - lag / scale) * rho for lag, rho in enumerate(lags, 1) if lag < scale)
    return max(power, 0.1)


def _drift(some: Blocks) -> tuple[float, float]:
    """Largest mean of the residual over levels of brightness, in units of the noise, and four standard errors."""
    levels = np.array_split(np.argsort(some.brightness), np.clip(len(some) // 4, 1, BRIGHTNESS_LEVELS))
    means = [abs(float(some.mean[level].mean())) for level in levels]
    return max(means), 4 / (BLOCK * np.sqrt(min(map(len, levels))))


def _check_noise(diagnosis: Diagnosis) -> list[Check]:
    """Check what the theory assumes of the noise."""
    strongest = max((abs(rho) for lags in diagnosis.correlation.values() for rho in lags), default=0.0)
    correlated, offset = diagnosis.correlated, OFFSET.get(diagnosis.kind)
    return [
        Check(
            "correlated noise",
            strongest,
            CORRELATION,
            "check" if correlated else "trust",
            f"Neighboring pixels share noise (correlation {strongest:.2f}): noise that is left looks like structure."
            if correlated
            else f"The noise is independent from pixel to pixel (correlation {strongest:.2f}).",
        ),
        Check(
            "noise with an offset",
            float(offset is not None),
            1.0,
            "trust" if offset is None else "check",
            "The noise does not change mean intensities."
            if offset is None
            else f"{offset}, which changes mean intensities: do not measure intensities here.",
        ),
        CONFIDENCE.apply([diagnosis.confidence]),
    ]


def _verdict(checks: Sequence[Check], risks: list[risk.Risk] | None, span: float) -> Verdict:
    """Take the worst word, and the first checks that say it. Beside "do not trust" there is no PSNR."""
    word = max((check.word for check in checks), key=WORDS.index)
    psnr = None if word == "do not trust" or risks is None else _psnr(risk.mean_risk(risks), span)
    reasons = [check.sentence for check in checks if check.word == word][:2]
    if word == "trust":
        reasons = ["The noise was removed, and no sign was found that image structure was removed with it."]
        if risks is not None:
            known = "about" if psnr else "at least"
            gain = min(_decibel(one.noise, one.value if psnr else one.high) for one in risks)
            worst = ", in its worst channel" if len(risks) > 1 else ""
            reasons.append(f"It is {known} {gain:.1f} dB closer to the clean image than the input{worst}.")
    return Verdict(word, " ".join(reasons), psnr, tuple(checks), None if psnr is None else span)


def _psnr(error: risk.Risk, span: float) -> tuple[float, float, float] | None:
    """PSNR and the ends of its interval, in dB; None where the error is too uncertain."""
    if error.relative_error >= MAX_RELATIVE_ERROR or span <= 0:
        return None
    return _decibel(span**2, error.value), _decibel(span**2, error.high), _decibel(span**2, error.low)
