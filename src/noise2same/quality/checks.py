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
from noise2same.quality import risk as sure
from noise2same.quality.residual import BLOCK, SCALES, Array, Blocks, Variance, of_channels, seams

Word = Literal["trust", "check", "do not trust"]
WORDS: tuple[Word, ...] = ("trust", "check", "do not trust")
"""From best to worst."""
OFFSET = {"impulse": "Single pixels were replaced", "clipped": "Pixel values were cut off at an end of their range"}
"""Kinds of noise whose mean is not zero, in words."""
CORRELATION = 0.1
"""Autocorrelation of noise from which on the diagnosis may call it correlated."""
FLATTEST, RICHEST, STRUCTURE = 0.05, 0.9, 0.01
"""Quantiles of blocks that are flat, and rich in detail, in most images; least variance of detail, in the noise's."""
NOISY = 0.37
"""Correlation with what was taken away from which on detail in the flattest blocks is noise; texture has less."""
UNCERTAIN = 0.25
"""Relative standard error of the squared error from which on no PSNR is given."""
LEVELS = 8
"""Of brightness, at each of which the means of input and output are compared."""


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
    """One or two sentences."""
    psnr: tuple[float, float, float] | None
    """Estimated PSNR in dB and the ends of its 95 % confidence interval; None where it cannot be estimated."""
    checks: tuple[Check, ...]
    data_range: float | None = None
    """The span of intensities that the PSNR refers to."""


@dataclass(frozen=True)
class Rule:
    """Limits of a check and its words, in which {} is the value. Low values are bad if the second limit is lower."""

    name: str
    look: float
    """From where on it is a reason to look,"""
    fail: float
    """and from where on not to trust the image."""
    fine: str
    bad: str

    def apply(self, values: Sequence[float], allowance: float = 0.0) -> Check:
        """The check of the worst channel, with its limits widened by what chance alone can do."""
        sign = 1.0 if self.fail > self.look else -1.0
        worst = int(np.argmax(sign * np.asarray(values)))
        value = float(values[worst])
        limits = [limit + sign * allowance for limit in (self.look, self.fail)]
        word = WORDS[sum(sign * value >= sign * limit for limit in limits)]
        sentence = (self.fine if word == "trust" else self.bad).format(value)
        if len(values) > 1 and word != "trust":
            sentence = f"{sentence[:-1]} (channel {worst + 1})."
        return Check(self.name, value, limits[0], word, sentence)


# In the order in which they are told. Limits: docs/trust.md.
GAIN = Rule(
    "improvement",
    1.0,
    0.0,
    "It is closer to the truth than the noisy image, by {:.1f} dB at least.",
    "It may be no closer to the truth than the noisy image: the improvement is estimated to be {:.1f} dB at least.",
)
SEAMS = Rule(
    "seams",
    0.5,
    3.0,
    "There are no lines along tiles (strength {:.1f}).",
    "A straight line crosses the image that the noisy one has not (strength {:.1f}): a border between tiles?",
)
REMOVED = Rule(
    "output equals input",
    0.8,
    0.4,
    "What was taken away is as strong as the noise ({:.0%}).",
    "Too little was taken away: {:.0%} of the noise's strength.",
)
SMOOTHED = Rule(
    "over-smoothing",
    1.07,
    1.3,
    "No more was taken away than the noise ({:.0%} of its strength).",
    "More was taken away than the noise, {:.0%} of its strength: the image is too smooth.",
)
MEAN = Rule(
    "drift of the mean",
    0.08,
    0.5,
    "Intensities are kept: means shift by {:.1%} of the noise at most.",
    "Intensities shifted, at some brightness by {:.0%} of the noise: do not measure them here.",
)
LOST = Rule(
    "signal lost",
    1.05,
    2.0,
    "What was taken away has no structure (its local means vary {:.2f} times as much as those of noise).",
    "Structure was taken away: its local means vary {:.2f} times as much as those of noise.",
)
CONTRAST = Rule(
    "contrast of fine structure",
    0.42,
    -np.inf,
    "Fine structure keeps most of its contrast ({:.0%}).",
    "Fine structure keeps only {:.0%} of its contrast: the image is too smooth.",
)
PLACES = Rule(
    "signal lost in places",
    1.6,
    np.inf,
    "No place lost much more than the noise (at most {:.1f} times its power).",
    "Fine structure was taken away in places, where the loss has {:.1f} times the noise's power.",
)
REMAINING = Rule(
    "remaining noise",
    0.15,
    0.5,
    "Little noise is left in flat areas ({:.0%}).",
    "{:.0%} of the noise is left in flat areas.",
)
CONFIDENCE = Rule(
    "noise model",
    CONFIDENT,
    -np.inf,
    "Kind and level of the noise are known (confidence {:.2f}).",
    "Kind and level of the noise are uncertain (confidence {:.2f}), and so is all of this.",
)
SIZE = Rule("size", 16, 1, "The image is large enough to judge.", "The image is too small to judge: {:.0f} blocks.")


def judge(
    noisy: ArrayLike,
    clean: ArrayLike,
    axes: str,
    *,
    diagnosis: Diagnosis,
    response: sure.Response | None = None,
    data_range: float | None = None,
) -> Verdict:
    """Judge a denoised image by the noisy one.

    Parameters
    ----------
    noisy, clean : array_like with `axes`, the same shape
        The image and what a denoiser made of it, in the same units. NaN and infinite pixels of either are left out. Of
        large images, evenly spread pieces are looked at.
    axes : str
        One letter of S, T, C, Z, Y and X per dimension.
    diagnosis : Diagnosis
        Of the noisy image.
    response : callable, optional
        The network, for pieces of shape (C, [Z,] Y, X) as float32 in the image's units, such as
        ``lambda piece: model.denoise(piece, "CYX", dtype="float32", tta=False)``. It is called up to eight times;
        without it there is no PSNR.
    data_range : float, optional
        That the PSNR refers to; by default 255 for uint8, else the denoised image's max − min.
    """
    noisy, clean = np.asarray(noisy), np.asarray(clean)
    if noisy.shape != clean.shape:
        raise InputError(
            f"the noisy image has shape {noisy.shape} but the denoised one {clean.shape}: they must agree."
        )
    span = _span(noisy, clean) if data_range is None else data_range
    axes = ax.check(axes, noisy.shape, name="the noisy image")
    x, f = ax.to_network(noisy, axes), ax.to_network(clean, axes)
    if not (np.isfinite(diagnosis.sigma) and diagnosis.sigma > 0):
        return Verdict("check", "The noise could not be measured, so there is nothing to judge by.", None, ())
    variances = sure.variances(diagnosis, x.shape[1])
    looked_at = of_channels(x, f, variances)
    if min(map(len, looked_at)) == 0:
        raise InputError("the images have no region of known pixels that is large enough to judge.")
    channels = _errors(x, f, variances, looked_at, diagnosis, response)
    error = None if channels is None else sure.mean(channels)
    checks = [SEAMS.apply(seams(x, f)), *_of_residual(looked_at, diagnosis), *_of_noise(diagnosis)]
    psnr = None
    if channels is not None:
        checks.insert(0, GAIN.apply([float(10 * np.log10(one.noise / one.high)) for one in channels]))
    if error is not None and error.uncertainty < UNCERTAIN and span > 0:
        value, low, high = (float(10 * np.log10(span**2 / e)) for e in (error.value, error.high, error.low))
        psnr = value, low, high
    return _verdict(checks, psnr, span, channels)


def _span(noisy: NDArray[Any], clean: NDArray[Any]) -> float:
    if noisy.dtype == np.uint8:
        return 255.0
    known = clean[np.isfinite(clean)].astype(np.float64)
    return float(np.ptp(known)) if known.size else 0.0


def _errors(
    x: NDArray[Any],
    f: NDArray[Any],
    variances: Sequence[Variance],
    looked_at: Sequence[Blocks],
    diagnosis: Diagnosis,
    response: sure.Response | None,
) -> list[sure.Error] | None:
    """Of each channel, where the identity holds: for independent noise with a known variance."""
    if response is None or diagnosis.correlated or diagnosis.kind in ("impulse", "unknown"):
        return None
    asked = sure.ask(x, f, variances, response)
    return None if asked is None else sure.errors(looked_at, asked)


def _of_residual(channels: Sequence[Blocks], diagnosis: Diagnosis) -> list[Check]:
    """Checks of what was taken away, the worst channel of each."""
    scales = [sure.level(some).scale for some in channels]
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
    """Variance of the residual's local means around its mean, over the usual one, at the scale where that is most."""
    return float(np.max((some.local.mean(axis=0) - (np.array(SCALES) * some.mean.mean()) ** 2) / usual))


def _remaining(some: Blocks) -> float:
    """Standard deviation of what looks like noise in the flattest blocks, in that of the noise; 0 if it is texture."""
    flat = some[some.grain <= np.quantile(some.grain, FLATTEST)]
    deviation = float(np.sqrt(flat.grain.mean()))
    goes_with = flat.detail.mean() > NOISY * deviation * np.sqrt(flat.square.mean())
    return deviation if goes_with or deviation > np.sqrt(flat.square.mean()) else 0.0


def _contrast(some: Blocks) -> float:
    """By which factor fine detail is flatter than it should be, where there is most of it; 1 where there is hardly any.

    What the residual still has of the detail is its regression on it.
    """
    rich = some[some.grain >= np.quantile(some.grain, RICHEST)]
    return 1.0 if rich.grain.mean() < STRUCTURE else 1 / (1 + max(0.0, rich.detail.mean() / rich.grain.mean()))


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
    """Largest mean of the residual at a level of brightness, in units of the noise, and four standard errors of it."""
    levels = np.array_split(np.argsort(some.brightness), np.clip(len(some) // 4, 1, LEVELS))
    means = [abs(float(some.mean[level].mean())) for level in levels]
    return max(means), 4 / (BLOCK * np.sqrt(min(map(len, levels))))


def _of_noise(diagnosis: Diagnosis) -> list[Check]:
    """Checks of what the theory assumes of the noise."""
    strongest = max((abs(rho) for lags in diagnosis.correlation.values() for rho in lags), default=0.0)
    correlated, offset = diagnosis.correlated, OFFSET.get(diagnosis.kind)
    return [
        Check(
            "correlated noise",
            strongest,
            CORRELATION,
            "check" if correlated else "trust",
            f"Neighbouring pixels share noise (correlation {strongest:.2f}): what is left of it looks like structure."
            if correlated
            else f"The noise of neighbouring pixels is independent (correlation {strongest:.2f}).",
        ),
        Check(
            "noise with an offset",
            float(offset is not None),
            1.0,
            "trust" if offset is None else "check",
            "The noise does not change the mean."
            if offset is None
            else f"{offset}, which changes means: do not measure intensities here.",
        ),
        CONFIDENCE.apply([diagnosis.confidence]),
    ]


def _verdict(
    checks: Sequence[Check], psnr: tuple[float, float, float] | None, span: float, channels: list[sure.Error] | None
) -> Verdict:
    """The worst word, and the first checks that say it."""
    word = max((check.word for check in checks), key=WORDS.index)
    reasons = [check.sentence for check in checks if check.word == word][:2]
    if word == "trust":
        reasons = ["The noise is gone, and nothing was found that went with it."]
        if channels is not None:
            known = "about" if psnr else "at least"
            gain = min(10 * np.log10(one.noise / (one.value if psnr else one.high)) for one in channels)
            worst = ", in its worst channel" if len(channels) > 1 else ""
            reasons.append(f"It is {known} {gain:.1f} dB closer to the truth than the noisy image{worst}.")
    if word == "do not trust":
        psnr = None
    return Verdict(word, " ".join(reasons), psnr, tuple(checks), None if psnr is None else span)
