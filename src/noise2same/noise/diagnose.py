"""What kind of noise it is, how strong, and whether it is independent from pixel to pixel; from noisy images alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noise2same import markup
from noise2same.data.sampling import evenly_spread
from noise2same.noise.correlation import correlation, thinned
from noise2same.noise.defects import examine
from noise2same.noise.frames import along_time, measure_changes
from noise2same.noise.level import Levels, Line, fit, has_huge_range, measure
from noise2same.noise.model import PARAMETRIC, NoiseModel

CONFIDENT = 0.5
"""From here on a Gaussian or Poisson–Gaussian noise model of the diagnosed level describes the noise."""
SMALLEST = 16
"""Images with fewer pixels a side are not diagnosed."""
PIXELS = 2**20
"""About how many pixels are looked at; in each channel, which would else seem noisier or steadier beside others."""
BOX = {2: (256, 256), 3: (8, 128, 128)}
"""Largest part of an image that is looked at as one, in 2D and 3D."""

# Limits, chosen on Train400 and Set12 with benchmarks/diagnosis.py; what they limit is in `Diagnosis.evidence`.
IMPULSES = 0.003
CLIPPED = 0.02
STEP = 1.0
ERROR = 0.5
MISFIT = 0.3
VARIATION = 0.35
READ_OUT = 0.25
# What makes a level uncertain, chosen on odd pictures of Kodak24 at half size, Train400, and real fluorescence.
DOUBT = 0.15
"""Relative error of the variance from which on it may be several times too high."""
FEW, MANY = 2.0, 3.5
"""Blocks without texture, as multiples of those that are kept in any case.

Up to the first, the level may be texture's, and pixels that are alike too; from the second on, the noise is known."""

MOVED = 1.01
"""Variance by changes between frames over that of frames, from which on something moves.

Chosen on panning films of even seeds (benchmarks/film_noise.py)."""

ADVICE = {
    "gaussian": "This is the simplest case for a denoiser.",
    "poisson": "It comes from counting photons: a longer exposure makes it weaker.",
    "poisson-gaussian": "It comes from counting photons and from reading them out: a longer exposure makes it weaker.",
    "impulse": "Single pixels have lost their values, so estimates of the error do not hold for these images.",
    "clipped": "Much of the noise is cut off at an end of the range of values: dark areas appear too bright, or bright"
    " ones too dark. If you can, record with an offset or without saturation.",
    "quantised": "The steps between gray values are as large as the noise: if you can, save the images with more bits.",
    "unknown": "It fits no known noise model, so estimates of the error do not hold: look closely at the result.",
}
UNSURE = (
    " The images have too few flat areas for a reliable estimate: give the noise level with --sigma if you know it."
)


@dataclass(frozen=True)
class Diagnosis:
    """What the noise of some images is, with the evidence in numbers. Intensities are in the images' own units."""

    kind: str
    """gaussian, poisson, poisson-gaussian, impulse, clipped, quantised or unknown."""
    sigma: float
    """Root of the mean variance of the noise over the images."""
    sigma_normalized: float
    """The same in units of the images' standard deviation."""
    a: float
    """Slope of the noise-level function: the variance at intensity y is a·y + b."""
    b: float
    correlated: bool
    """Whether neighboring pixels share noise, against what every theorem of the paper assumes."""
    correlation: dict[str, tuple[float, ...]]
    """Autocorrelation of the noise along each spatial axis ("Z", "Y", "X"), at the lags 1, 2, 3, ..."""
    extent: dict[str, int]
    """For each spatial axis, the largest lag at which the noise is still correlated; 0 where it is independent."""
    confidence: float
    """From 0 to 1: how sure kind and level are; from `CONFIDENT` on they are."""
    evidence: dict[str, float]
    """What kind and confidence rest on.

    ``impulses`` and ``clipped`` are shares of pixels (see `defects.Values`), ``step`` is that between grey values over
    sigma, ``photon_step`` the same over a (1 where each photon is counted), ``slope_in_errors`` is a over its standard
    error, ``variation`` the change of the variance from the 5th to the 95th percentile of the image over its mean (in a
    huge range, up to the brightest level),
    ``read_out`` is b over the mean variance, ``error`` the relative standard error of the variance, ``misfit`` the
    distance of the measured levels from the line, and ``correlation`` the largest one over what passes as none.
    """
    advice: str
    """What to do about it, in a sentence."""
    levels: tuple[tuple[float, float], ...] = ()
    """Brightness and noise variance of the flattest places, which the noise-level function is fitted to."""
    channels: tuple[dict[str, float], ...] = ()
    """sigma, a, b and certain (see `NoiseModel`) of each channel, and mean and std of its pixels.

    Those above are the means of the noisy ones."""
    steady: bool = False
    """Whether the noise is equally strong in dark and bright places, and its level is sure."""
    certain: float = 1.0
    """Share of the noise's variance that is noise for certain; the rest may be fine structure of the image."""
    from_frames: bool = False
    """Whether the level is that of the differences of frames that follow each other, which texture does not change."""
    along_time: tuple[float, ...] = ()
    """Autocorrelation of the noise from frame to frame, at the lags 1, 2, ..., as far as frames share it."""

    def _repr_html_(self) -> str:
        from noise2same.noise.describe import paragraph

        figures = {
            "kind": self.kind,
            "standard deviation": f"{self.sigma:.4g}",
            "variance at intensity y": f"{self.a:.4g} · y + {self.b:.4g}",
            "shared by neighbors": "yes" if self.correlated else "no",
            "confidence": f"{self.confidence:.2f} of 1",
        }
        return markup.paragraph(paragraph(self)) + markup.table(figures.items())

    def shared(self) -> tuple[tuple[float, ...], ...]:
        """Autocorrelation along each spatial axis as far as there is any; empty if the noise is independent."""
        reaches = self.extent.items() if self.correlated else ()
        return tuple(self.correlation[axis][:reach] for axis, reach in reaches)

    @property
    def noise(self) -> NoiseModel:
        """The noise of each channel, in the images' units; a channel without noise takes the mean of the noisy ones.

        Without `channels`, there is one value for all: the mean intensity is where a·y + b is sigma².
        """
        noisy = [one for one in self.channels if one["sigma"] > 0]
        pooled = {
            "a": self.a,
            "b": self.b,
            "mean": (self.sigma**2 - self.b) / self.a if self.a > 0 else 0.0,
            "std": self.sigma / self.sigma_normalized if self.sigma_normalized > 0 else 1.0,
            "certain": self.certain,
        }
        if noisy:
            pooled |= {
                name: float(np.mean([one[name] for one in noisy])) for name in ("mean", "std") if name in noisy[0]
            }
        found = [pooled | one if one["sigma"] > 0 else pooled for one in self.channels] or [pooled]
        a, b, mean, std, certain = (tuple(one[name] for one in found) for name in ("a", "b", "mean", "std", "certain"))
        return NoiseModel(a, b, mean, std, self.shared(), self.kind, self.confidence, certain, self.along_time)


def diagnose(slabs: Sequence[NDArray], film: Sequence[NDArray] = ()) -> Diagnosis:
    """Diagnose the noise of images, or of slabs of them, that were taken alike.

    Parameters
    ----------
    slabs : sequence of ndarray, each (1, C, [Z,] Y, X)
        In the images' own units; NaN and infinite pixels do not count. Of more than about a million pixels, as many in
        evenly spread boxes are looked at.
    film : sequence of ndarray, each (C, T, Y, X), optional
        Consecutive frames of the same images, as `frames.read_runs` reads them: where most of them stays the same, they
        tell the level better than any single frame, and whether frames share noise.
    """
    axes = "ZYX"[-(slabs[0].ndim - 2) :] if slabs else "YX"
    boxes = _boxes([slab for slab in slabs if min(slab.shape[-2:]) >= SMALLEST])
    if not boxes:
        few = f"With fewer than {SMALLEST} pixels a side, noise cannot be told from signal."
        return replace(_unknown(axes, few), channels=())
    found = [_of_channel([box[c] for box in boxes], axes, [run[c] for run in film]) for c in range(len(boxes[0]))]
    noisy = [one for one in found if one.sigma > 0] or found
    return replace(
        _combined(noisy) if len(noisy) > 1 else noisy[0],
        channels=tuple(
            {"sigma": one.sigma, "a": one.a, "b": one.b, "certain": one.certain}
            | _statistics([box[c] for box in boxes])
            for c, one in enumerate(found)
        ),
    )


def _boxes(slabs: list[NDArray]) -> list[NDArray]:
    """Evenly spread parts of slabs (1, C, [Z,] Y, X) with about `PIXELS` pixels in all, each (C, Z, Y, X)."""
    share = PIXELS / max(1, sum(slab[0, 0].size for slab in slabs))
    chosen = evenly_spread([slab.shape[2:] for slab in slabs], share, BOX)
    boxes = [slabs[number][0][:, *region] for number, region in chosen]
    return [box.reshape(len(box), -1, *box.shape[-2:]) for box in boxes]


def _statistics(boxes: list[NDArray]) -> dict[str, float]:
    """Mean and standard deviation of one channel's pixels."""
    known = np.concatenate([box[np.isfinite(box)] for box in boxes]).astype(np.float64)
    return {"mean": float(known.mean()), "std": float(known.std())} if known.size else {"mean": 0.0, "std": 1.0}


def _of_channel(boxes: list[NDArray], axes: str, film: list[NDArray]) -> Diagnosis:
    """Diagnose parts of one channel, each (Z, Y, X), with runs of frames of it, each (T, Y, X)."""
    finite = [box for box in boxes if np.isfinite(box).mean() > 0.5]
    if not finite:
        return _unknown(axes, "Most pixels are NaN or infinite, so nothing can be said about the noise.")
    levels = measure(finite)
    pixels = np.concatenate([box[np.isfinite(box)] for box in finite]).astype(np.float64)
    if levels is None or not levels.variance.any():
        return _unknown(axes, "The images are constant or have no noise, so there is nothing to measure.")
    line = white = fit(levels)
    found = correlation(finite, line, axes)
    correlated = any(found.extent.values())
    independent = levels
    if correlated:
        levels = measure([part for box in finite for part in thinned(box, found.extent)]) or levels
        line = fit(levels)
    shared = along_time(film)
    changes = None if shared else _of_changes(film, found.extent, pixels, line)
    if changes is not None:
        levels, line = changes, fit(changes)
    variance = float(line.at(pixels.mean()))
    if variance == 0:
        return _unknown(axes, "The images have no noise that could be measured.")
    certain = float(np.exp(-((line.error / DOUBT) ** 2)) / (1 + 2 * line.misfit))
    if correlated:
        least = independent.variance.min() / variance * np.exp(-((white.error / DOUBT) ** 2))
        certain = min(float(least), certain)
    certain = _certain(levels, certain)
    sigma, std = variance**0.5, float(pixels.std())
    values = examine(finite)
    dark, bright = np.quantile(pixels, (0.05, 0.95))
    if has_huge_range(pixels, float(line.at(np.median(pixels))) ** 0.5):
        bright = max(bright, levels.brightness.max())  # of stars, which are fewer
    evidence = {
        "impulses": values.impulses,
        "clipped": values.clipped,
        "step": values.step / sigma,
        "photon_step": values.step / line.slope if line.slope > 0 else 0.0,
        "slope_in_errors": line.slope / line.slope_error if line.slope_error > 0 else 0.0,
        "variation": float(line.slope * (bright - dark) / variance),
        "read_out": line.intercept / variance,
        "error": line.error,
        "misfit": line.misfit,
        "correlation": found.strength,
    }
    a = max(0.0, line.slope)
    b = line.intercept if a > 0 else variance
    kind = _kind(evidence)
    confidence = _confidence(kind, correlated, evidence)
    return Diagnosis(
        kind=kind,
        sigma=sigma,
        sigma_normalized=sigma / std if std > 0 else 0.0,
        a=a,
        b=b,
        correlated=correlated,
        correlation=found.lags,
        extent=found.extent,
        confidence=confidence,
        evidence=evidence,
        advice=_advice(kind, found.extent, confidence) + _advice_on_frames(shared),
        levels=tuple(zip(levels.brightness.tolist(), levels.variance.tolist(), strict=True)),
        steady=_steady(kind, evidence),
        certain=certain,
        from_frames=changes is not None,
        along_time=shared,
    )


def _of_changes(film: list[NDArray], extent: dict[str, int], pixels: NDArray, line: Line) -> Levels | None:
    """Levels by the changes from frame to frame; None where too much moves, or the range of brightness is huge.

    What moves can only add to their variance: they are not better if they have more of it than `line`, that of frames.
    """
    if has_huge_range(pixels, float(line.at(np.median(pixels))) ** 0.5):
        return None
    inside = {axis: extent.get(axis, 0) for axis in "YX"}
    levels = measure_changes([part for run in film for part in thinned(run, inside)])
    if levels is None or not levels.variance.any() or levels.blocks.sum() < MANY * levels.fewest.sum():
        return None
    middle = pixels.mean()
    return levels if fit(levels).at(middle) <= MOVED * line.at(middle) else None


def _certain(levels: Levels, textured: float) -> float:
    """Share of the variance that is noise for certain; `textured` is that in an image full of texture.

    Noise is found in every place without texture. Where there are many such places, it is known.
    """
    known = np.clip((levels.blocks.sum() / levels.fewest.sum() - FEW) / (MANY - FEW), 0, 1)
    return float(known + (1 - known) * textured)


def _counts_photons(evidence: dict[str, float]) -> bool:
    """Whether the steps between values are single photons, so that neither they nor many zeros are a flaw."""
    return 0.5 < evidence["photon_step"] < 2


def _kind(evidence: dict[str, float]) -> str:
    if evidence["impulses"] > max(IMPULSES, evidence["clipped"] / 7):
        return "impulse"
    if evidence["step"] > STEP and not _counts_photons(evidence):
        return "quantised"
    if evidence["clipped"] > CLIPPED and not _counts_photons(evidence):
        return "clipped"
    if evidence["misfit"] > MISFIT or evidence["variation"] < -VARIATION:
        return "unknown"
    if evidence["variation"] < VARIATION:
        return "gaussian"
    return "poisson" if evidence["read_out"] < READ_OUT else "poisson-gaussian"


def _confidence(kind: str, correlated: bool, evidence: dict[str, float]) -> float:
    """How sure it is that a model describes the noise, which is independent from pixel to pixel."""
    limits = {"impulses": IMPULSES, "correlation": 1.0, "error": ERROR, "misfit": MISFIT}
    if not _counts_photons(evidence):
        limits |= {"clipped": CLIPPED, "step": STEP}
    return _sure(evidence, limits) * (1.0 if kind in PARAMETRIC and not correlated else 0.4)


def _steady(kind: str, evidence: dict[str, float]) -> bool:
    even = kind in ("gaussian", "clipped", "quantised") and evidence["variation"] < VARIATION
    return even and _sure(evidence, {"error": ERROR, "misfit": MISFIT}) >= CONFIDENT


def _sure(evidence: dict[str, float], limits: dict[str, float]) -> float:
    """Product over all that could be wrong: each takes away up to a half as it comes near its limit."""
    return float(np.prod([1 - min(1.0, evidence[name] / limit) ** 2 / 2 for name, limit in limits.items()]))


def _advice(kind: str, extent: dict[str, int], confidence: float) -> str:
    axes = [axis for axis, reach in extent.items() if reach]
    if axes:
        return (
            f"Pixels share noise with others up to {max(extent.values())} pixels away along {' and '.join(axes)}."
            " Shared noise looks like structure, so much of it may stay in the result."
        )
    return ADVICE[kind] + (UNSURE if kind in PARAMETRIC and confidence < CONFIDENT else "")


def _advice_on_frames(shared: tuple[float, ...]) -> str:
    if not shared:
        return ""
    return (
        f" Frames share noise with those up to {len(shared)} before and after, as in films that were interpolated,"
        " averaged or compressed: if you can, use the film as it was recorded."
    )


def _combined(channels: list[Diagnosis]) -> Diagnosis:
    """One diagnosis for several channels: means, the most common kind, and the least confidence."""
    kinds = [one.kind for one in channels]
    kind = max(kinds, key=kinds.count)
    extent = {axis: max(one.extent[axis] for one in channels) for axis in channels[0].extent}
    confidence = min(one.confidence for one in channels)
    shared = max((one.along_time for one in channels), key=len)
    return replace(
        channels[0],
        kind=kind,
        sigma=float(np.mean([one.sigma**2 for one in channels])) ** 0.5,
        sigma_normalized=float(np.mean([one.sigma_normalized**2 for one in channels])) ** 0.5,
        a=float(np.mean([one.a for one in channels])),
        b=float(np.mean([one.b for one in channels])),
        correlated=any(extent.values()),
        correlation={axis: _mean([one.correlation[axis] for one in channels]) for axis in extent},
        extent=extent,
        confidence=confidence,
        evidence={name: float(np.mean([one.evidence[name] for one in channels])) for name in channels[0].evidence},
        advice=_advice(kind, extent, confidence) + _advice_on_frames(shared),
        levels=tuple(point for one in channels for point in one.levels),
        steady=all(one.steady for one in channels),
        certain=float(np.mean([one.certain for one in channels])),
        from_frames=all(one.from_frames for one in channels),
        along_time=shared,
    )


def _mean(lags: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(float(np.mean(values)) for values in zip(*lags, strict=False))


def _unknown(axes: str, reason: str) -> Diagnosis:
    nothing: dict[str, tuple[float, ...]] = dict.fromkeys(axes, ())
    channels = ({"sigma": 0.0, "a": 0.0, "b": 0.0, "certain": 0.0, "mean": 0.0, "std": 1.0},)
    extent = dict.fromkeys(axes, 0)
    return Diagnosis("unknown", 0.0, 0.0, 0.0, 0.0, False, nothing, extent, 0.0, {}, advice=reason, channels=channels)
