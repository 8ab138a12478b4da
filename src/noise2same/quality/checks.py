"""Whether a denoised image can be trusted: six checks, seven of a film, that need no clean image, and one verdict.

Limits were chosen on the development images of `benchmarks/trust.py`, and are measured there on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noise2same import markup
from noise2same.data import axes as ax
from noise2same.errors import InputError
from noise2same.noise.diagnose import CONFIDENT, Diagnosis
from noise2same.quality import risk
from noise2same.quality.film import FilmPart, changes_lost
from noise2same.quality.residual import (
    BLOCK,
    SCALES,
    Array,
    Blocks,
    blocks_of_channels,
    by_brightness,
    remaining,
    seams,
)

Word = Literal["trust", "check", "do not trust"]
WORDS: tuple[Word, ...] = ("trust", "check", "do not trust")
"""From best to worst."""
COLORS: dict[Word, str] = {"trust": "seagreen", "check": "goldenrod", "do not trust": "firebrick"}
"""Of the line beside a verdict in a notebook."""
MAX_RELATIVE_ERROR = 0.25
"""Relative standard error of the squared error from which on no PSNR is given."""
MIN_BLOCKS = 16
"""Blocks of 16 × 16 pixels that a judgment needs."""
MIN_GAIN = 1.0
"""dB by which a result must be closer to the clean image, at the lower end of the interval, to pass."""
CERTAIN = 3.0
"""Standard errors by which the changes in time must be above their limit."""
TRAIN = "Train longer, with more --steps."


@dataclass(frozen=True)
class Check:
    """One thing that can be wrong with a denoised image."""

    name: str
    """Such as "noise removed"."""
    word: Word
    """What follows from this check alone."""
    sentence: str
    """The finding for a person, with its number."""
    advice: str
    """What to do about it, in a sentence; "" if it is passed."""
    value: float
    limit: float
    """From where on the value is a reason to look."""


@dataclass(frozen=True)
class Verdict:
    """What to think of a denoised image, the reason first."""

    word: Word
    reason: str
    """One to three sentences."""
    psnr: tuple[float, float, float] | None
    """Estimated PSNR in dB of the worst channel, and the ends of its 95 % interval; None where it is not known."""
    checks: tuple[Check, ...]
    data_range: float | None = None
    """The span of intensities that the PSNR refers to."""
    advice: str = ""
    """What to do next; "" beside "trust"."""

    def _repr_html_(self) -> str:
        psnr = ""
        if self.psnr is not None:
            value, low, high = self.psnr
            psnr = markup.paragraph(f"Estimated PSNR {value:.1f} dB ({low:.1f} to {high:.1f}).")
        rows = [(check.name, check.word, check.sentence) for check in self.checks]
        told = markup.heading(self.word.capitalize()) + markup.paragraph(f"{self.reason} {self.advice}".strip()) + psnr
        return markup.framed(COLORS[self.word], told + markup.folded("every check", markup.table(rows)))


@dataclass(frozen=True)
class Rule:
    """Limits of a check, its sentences, in which {} stands for the value, and what to do."""

    name: str
    check_from: float
    """Limit from which on the result is to be checked,"""
    distrust_from: float | None
    """and from which on it is not to be trusted; None if this check alone never says so."""
    fine: str
    bad: str
    advice: str

    def apply(
        self, values: Sequence[float], names: Sequence[str], allowance: float = 0.0, *, cap: bool = False
    ) -> Check:
        """Check the highest, which is the worst, of the channels' values.

        Parameters
        ----------
        values, names : sequence
            One for each channel.
        allowance : float
            By how much chance alone can raise the value: limits are raised by it.
        cap : bool
            Say "check" at most.
        """
        worst = int(np.argmax(values))
        value = float(values[worst])
        limits = [limit + allowance for limit in (self.check_from, self.distrust_from) if limit is not None]
        word = WORDS[min(sum(value >= limit for limit in limits), 1 if cap else 2)]
        passed = word == "trust"
        sentence = _in_channel((self.fine if passed else self.bad).format(value), names, worst, passed)
        return Check(self.name, word, sentence, "" if passed else self.advice, value, limits[0])


REMOVED = "noise removed"
LEFT_FROM = {"in flat areas": 0.18, "as coarse grain": 0.27, "in dark areas": 0.3, "in bright areas": 0.3}
"""Share of the noise that is left, from where on the result is to be checked, by where it is measured."""
MUCH_LEFT = 0.65
"""Share of the noise that is left from which on the result is not to be trusted."""
LOST = Rule(
    "detail kept",
    check_from=1.05,
    distrust_from=10.0,
    fine="What was removed looks like noise alone.",
    bad="Image structure was removed with the noise: what was removed is {:.1f} times as uneven as noise.",
    advice="Look at what was removed; if that structure matters to you, train longer (--steps) or lower --strength.",
)
SHIFT = Rule(
    "brightness kept",
    check_from=0.08,
    distrust_from=0.5,
    fine="Mean intensities are kept: they shift by at most {:.1%} of the noise level.",
    bad="Mean intensities shifted, at some brightness by {:.0%} of the noise level.",
    advice="Measure intensities in the noisy image, or train longer (--steps), with --channels separate if there are"
    " several.",
)
SEAMS = Rule(
    "no tile borders",
    check_from=0.5,
    distrust_from=None,
    fine="No straight line crosses the result that the input does not have.",
    bad="A straight line that the input does not have crosses the result (strength {:.1f}), such as a tile's border.",
    advice="Look for a line along rows or columns; denoise the image in one piece or with more overlap.",
)
CHANGES = Rule(
    "changes in time kept",
    check_from=0.1,
    distrust_from=0.5,
    fine="Changes in time are kept where the film is liveliest.",
    bad="{:.0%} of the changes in time were removed with the noise where the film is liveliest.",
    advice="Look at the traces in the report, measure changes in the noisy film, and train longer (--steps) or lower"
    " --strength.",
)
CLOSER = "closer to the clean image"
ASSUMED = "noise as assumed"
UNUSUAL = {
    "impulse": (
        "Single pixels were replaced (hot pixels, salt and pepper), which changes mean intensities.",
        "Remove hot pixels with a median filter first, and do not measure intensities.",
    ),
    "clipped": (
        "Pixel values were cut off at an end of their range, which changes mean intensities.",
        "Record with an offset or without saturation if you can, and do not measure intensities here.",
    ),
    "quantised": (
        "The steps between gray values are as large as the noise.",
        "Save the images with more bits if you can.",
    ),
    "unknown": (
        "The noise fits no model, so the other checks are rough.",
        "Look closely at what was removed, and use the raw file if this one was processed.",
    ),
}
"""Kinds of noise that the theory does not cover: what is wrong, and what to do."""
RAW = "Use the camera's raw file instead, developed without denoising, sharpening or JPEG; else judge it by eye."
SHARED = "Train on the image itself (--steps); if grains stay, set --noise-extent to their size in pixels."


def judge(
    noisy: ArrayLike,
    clean: ArrayLike,
    axes: str,
    *,
    diagnosis: Diagnosis,
    response: risk.Response | None = None,
    data_range: float | None = None,
    probed_pixels: int = risk.PROBED_PIXELS,
    names: Sequence[str] = (),
    photograph: bool = False,
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
        That the PSNR refers to; by default 255 for uint8, else the denoised channel's max − min.
    probed_pixels : int
        Pixels that are given to `response`, at most.
    names : sequence of str, optional
        What the channels are called; by default they are counted.
    photograph : bool
        Whether it is a picture of a camera, for the words.
    """
    noisy, clean = np.asarray(noisy), np.asarray(clean)
    if noisy.shape != clean.shape:
        raise InputError(
            f"the noisy image has shape {noisy.shape} but the denoised one {clean.shape}: they must agree."
        )
    axes = ax.check(axes, noisy.shape, name="the noisy image")
    if not (np.isfinite(diagnosis.sigma) and diagnosis.sigma > 0):
        unknown = "The noise could not be measured, so the result cannot be judged."
        return Verdict("check", unknown, None, (), advice="Give the noise level with --sigma, or judge it by eye.")
    x, f, noise = ax.to_network(noisy, axes), ax.to_network(clean, axes), diagnosis.noise
    names = names or [f"channel {n}" for n in range(1, x.shape[1] + 1)]
    measured = blocks_of_channels(x, f, noise)
    if min(map(len, measured)) == 0:
        raise InputError("the images have no region of known pixels that is large enough to judge.")
    probed = None
    if response is not None and noise.sure_holds:
        probed = risk.probe(x, f, noise, response, probed_pixels)
    risks = None if probed is None else risk.estimate_risks(measured, probed)
    assumed = _check_noise(diagnosis, min(map(len, measured)), photograph)
    checks = _check_residual(measured, diagnosis, names, cap=assumed.word != "trust")
    if risks is not None:
        checks.insert(0, _check_gain(risks, names))
    spans = [data_range or _span(noisy.dtype, f[:, c]) for c in range(x.shape[1])]
    return _verdict([*checks, SEAMS.apply(seams(x, f), names), assumed], risks, diagnosis, spans)


def judge_film(verdict: Verdict, film: FilmPart, diagnosis: Diagnosis, names: Sequence[str]) -> Verdict:
    """Add to the verdict on frames of a film whether its changes in time were kept, in the worst channel."""
    if not verdict.checks or not diagnosis.sigma > 0:
        return verdict
    noise = diagnosis.noise
    pairs = zip(film.noisy, film.clean, strict=True)
    found = [changes_lost(x, f, noise.channel(c)) for c, (x, f) in enumerate(pairs)]
    shares = [-1.0 if lost is None else lost.share for lost in found]
    chance = CERTAIN * max((lost.error for lost in found if lost is not None), default=0.0)
    check = CHANGES.apply(shares, names, chance, cap=diagnosis.correlated)
    if not any(found):
        check = replace(
            check, sentence="Too little changes in time, beside the noise, to tell whether it is kept.", value=0.0
        )
    checks = (*verdict.checks[:-1], check, verdict.checks[-1])
    if WORDS.index(check.word) > WORDS.index(verdict.word):
        return replace(verdict, word=check.word, reason=check.sentence, checks=checks, advice=check.advice)
    if check.word != "trust" and check.word == verdict.word:
        advice = f"{verdict.advice} {check.advice}".strip()
        return replace(verdict, reason=f"{verdict.reason} {check.sentence}", checks=checks, advice=advice)
    return replace(verdict, checks=checks)


def _in_channel(sentence: str, names: Sequence[str], which: int, passed: bool) -> str:
    return sentence if passed or len(names) == 1 else f"{sentence[:-1]}, in {names[which]}."


def decibel(power: float, of: float) -> float:
    """Ratio of two powers in dB."""
    return float(10 * np.log10(power / of))


def _span(dtype: np.dtype[Any], channel: NDArray[Any]) -> float:
    """Data range of a channel whose truth is not known."""
    if dtype == np.uint8:
        return 255.0
    known = channel[np.isfinite(channel)].astype(np.float64)
    return float(np.ptp(known)) if known.size else 0.0


def _check_gain(risks: Sequence[risk.Risk], names: Sequence[str]) -> Check:
    """Check by how much the worst channel is closer to the clean image: in doubt, look; do not trust what is not."""
    worst = int(np.argmin([one.noise / one.high for one in risks]))
    low, high = (decibel(risks[worst].noise, end) for end in (risks[worst].high, risks[worst].low))
    word: Word = "do not trust" if high <= 0 else "check" if low < MIN_GAIN else "trust"
    sentence, advice = f"The result is closer to the clean image than the input, by at least {low:.1f} dB.", ""
    if word != "trust":
        sentence = f"The result may be no better than the input: its PSNR changed by {low:+.1f} to {high:+.1f} dB."
        if word == "do not trust":
            sentence = f"The result is no better than the input: its PSNR changed by at most {high:+.1f} dB."
        advice = f"{TRAIN} Or lower --strength."
    return Check(CLOSER, word, _in_channel(sentence, names, worst, word == "trust"), advice, low, MIN_GAIN)


def _check_residual(
    channels: Sequence[Blocks], diagnosis: Diagnosis, names: Sequence[str], *, cap: bool
) -> list[Check]:
    """Check what was removed, the worst channel of each; with `cap`, say "check" at most."""
    usual = np.array([_power_of_means(diagnosis, scale) for scale in SCALES])
    powers = [_local_powers(some) / usual for some in channels]
    scales = [risk.recalibrate_variance(some).scale for some in channels]
    drifts, chance = zip(*(_drift(some) for some in channels), strict=True)
    lost = [power.max() / scale for power, scale in zip(powers, scales, strict=True)]
    return [
        _check_left([_left(*pair) for pair in zip(channels, powers, strict=True)], names, cap=cap),
        LOST.apply(lost, names, 3 * np.sqrt(2 / min(map(len, channels))) * SCALES[0] / BLOCK, cap=cap),
        SHIFT.apply(drifts, names, max(chance), cap=cap),
    ]


def _check_left(channels: Sequence[dict[str, float]], names: Sequence[str], *, cap: bool) -> Check:
    """Check how much noise is left, where it is most for that place."""
    worst, where = max(
        ((c, place) for c, shares in enumerate(channels) for place in shares),
        key=lambda found: channels[found[0]][found[1]] / LEFT_FROM[found[1]],
    )
    share, limit = channels[worst][where], LEFT_FROM[where]
    word = WORDS[min((share >= limit) + (share >= MUCH_LEFT), 1 if cap else 2)]
    if word == "trust":
        return Check(
            REMOVED, word, f"Little of the noise is left (at most {max(0, share):.0%} {where}).", "", share, limit
        )
    sentence = _in_channel(f"{share:.0%} of the noise is left {where}.", names, worst, passed=False)
    advice = f"{TRAIN} If the noise level was misjudged, give it with --sigma."
    return Check(REMOVED, word, sentence, advice, share, limit)


def _left(some: Blocks, powers: Array) -> dict[str, float]:
    """Share of the noise's standard deviation that is left, by where it is measured."""
    levels = by_brightness(some)
    shares = [1 - float(np.sqrt(some.square[level].mean())) for level in levels]
    most = int(np.argmax(shares))
    bright = "in bright areas" if most >= len(levels) / 2 else "in dark areas"
    return {
        "in flat areas": remaining(some),
        "as coarse grain": 1 - float(np.sqrt(max(0.0, powers[0]))),  # in the means over 2 × 2 pixels
        bright: shares[most],
    }


def _local_powers(some: Blocks) -> Array:
    """Variance of the residual's means over squares of each of `SCALES`, 1 for white noise."""
    powers: Array = some.local.mean(axis=0) - (np.array(SCALES) * some.mean.mean()) ** 2
    return powers


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
    levels = by_brightness(some)
    means = [abs(float(some.mean[level].mean())) for level in levels]
    return max(means), 4 / (BLOCK * np.sqrt(min(map(len, levels))))


def _check_noise(diagnosis: Diagnosis, blocks: int, photograph: bool) -> Check:
    """Check what the other checks assume of the noise; the first that does not hold counts."""
    strongest = max((abs(rho) for lags in diagnosis.correlation.values() for rho in lags), default=0.0)
    sentence = advice = ""
    if blocks < MIN_BLOCKS:
        sentence = f"The image is too small to be judged reliably: it has only {blocks} blocks of 16 × 16 pixels."
        advice = "Judge a larger part of the image, or several images that were taken alike."
    elif diagnosis.correlated:
        source = ", as in most photographs that a camera developed" if photograph else ""
        sentence = (
            f"Neighboring pixels share noise (correlation {strongest:.2f}){source}: some of it stays and looks like"
            " structure."
        )
        advice = RAW if photograph else SHARED
    elif diagnosis.kind in UNUSUAL:
        sentence, advice = UNUSUAL[diagnosis.kind]
    elif diagnosis.confidence < CONFIDENT:
        sentence = "The image has too few flat areas to measure its noise, so the other checks are rough."
        advice = "Give the noise level with --sigma if you know it."
    word: Word = "check" if sentence else "trust"
    fine = "The noise is of a known kind and independent from pixel to pixel."
    return Check(ASSUMED, word, sentence or fine, advice, diagnosis.confidence, CONFIDENT)


def _verdict(
    checks: Sequence[Check], risks: Sequence[risk.Risk] | None, diagnosis: Diagnosis, spans: Sequence[float]
) -> Verdict:
    """Take the worst word, and the first checks that say it; a PSNR only where estimates of it were shown to be right.

    That is beside "trust" and "check", for Gaussian noise: of real photon noise, they were several dB off.
    """
    word = max((check.word for check in checks), key=WORDS.index)
    known = risks is not None and word != "do not trust" and diagnosis.kind == "gaussian"
    psnr, span = (_psnr(risks, spans) if known and risks else None) or (None, None)
    in_order = sorted(checks, key=lambda check: check.name != ASSUMED)  # which explains the others
    failed = [check for check in in_order if check.word == word][:2] if word != "trust" else []
    reasons = [check.sentence for check in failed]
    if word == "trust":
        reasons = ["The noise was removed, and no sign was found that image structure was removed with it."]
        reasons += [check.sentence for check in checks if check.name == CLOSER]
    advice = " ".join(dict.fromkeys(check.advice for check in failed))
    return Verdict(word, " ".join(reasons), psnr, tuple(checks), span, advice)


def _psnr(risks: Sequence[risk.Risk], spans: Sequence[float]) -> tuple[tuple[float, float, float], float] | None:
    """PSNR of the worst channel, the ends of its interval in dB, and its span; None where one is too uncertain."""
    if min(spans) <= 0 or max(one.relative_error for one in risks) >= MAX_RELATIVE_ERROR:
        return None
    worst = max(range(len(risks)), key=lambda c: risks[c].value / spans[c] ** 2)
    value, high, low = (
        decibel(spans[worst] ** 2, end) for end in (risks[worst].value, risks[worst].low, risks[worst].high)
    )
    return (value, low, high), spans[worst]
