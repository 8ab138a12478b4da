"""Opened images to what training needs: normalised slabs, their targets, which pixels count, and the noise level."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from noise2same.config import Config
from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.data.patches import Patches
from noise2same.data.sampling import read_boxes
from noise2same.errors import InputError
from noise2same.io import Image
from noise2same.methods import Facts
from noise2same.noise.diagnose import Diagnosis, diagnose
from noise2same.noise.level import NoiseLevel, noise_level

PIXELS = 2**28
"""Larger training sets are represented by about this many values, taken as evenly spread boxes."""
HELD = 1 / 8
"""Share of the pixels that the stop rule judges by, and training does without."""
LARGE, SOME, UNLIKE = 96, 24, 2.0
"""For noise that differs between images: the shortest side from which on an image tells by itself, how many of many
are looked at first, and how many times the variance of most may differ before it is taken for a difference."""


@dataclass(frozen=True)
class TrainingData:
    """Normalised slabs of shape (1, C, [Z,] Y, X) and what is known of them."""

    slabs: list[NDArray[np.float32]]
    targets: list[NDArray[np.float32]] | None
    """What to predict from each slab, in the same units; None where nothing but the noisy images is known."""
    valid: list[NDArray[np.bool_]] | None
    """False on NaN and infinite pixels, which are filled in the slabs; None where there are none."""
    normalization: Normalization
    """Statistics of all slabs together."""
    noise: NoiseLevel
    """Level of the noise in each channel in normalised units, told by the user or estimated."""
    diagnosis: Diagnosis
    """What the noise looks like."""
    strengths: list[float] | None = None
    """Variance of the noise in each slab as a share of what `noise` says; None if it is the same in all."""

    def __str__(self) -> str:
        values = sum(slab.size for slab in self.slabs) / 1e6
        weakest, strongest = (math.sqrt(end(self.strengths or [1.0])) for end in (min, max))
        ends = [min(self.noise.sigma) * weakest, max(self.noise.sigma) * strongest]
        level = " to ".join(dict.fromkeys(f"{sigma:.2f}" for sigma in ends))
        return f"{values:.2f} million values, noise level {level} of the image's standard deviation"

    def facts(self) -> Facts:
        """What a method is told of the images."""
        mean, std = self.normalization.mean, self.normalization.std
        _, channels, *spatial = self.slabs[0].shape
        return Facts(
            len(spatial),
            channels,
            sigma=self.noise.sigma,
            slope=self.noise.slope,
            scale=std,
            black=tuple(-middle / unit for middle, unit in zip(mean, std, strict=True)),
            low=float(min(slab.min() for slab in self.slabs)),
            high=float(max(slab.max() for slab in self.slabs)),
            kind=self.diagnosis.kind,
            # where strength differs, so may what pixels share
            usable=self.diagnosis.usable and not (self.strengths and self.diagnosis.correlated),
            correlation=self.diagnosis.shared(),
            normalization=self.normalization,
        )

    def patches(self, config: Config) -> Patches:
        """Where batches of the slabs are drawn from."""
        dims = self.slabs[0].ndim - 2
        return Patches(
            _tensors(self.slabs),
            patch=config.patch_of(dims),
            batch=config.batch_of(dims),
            targets=None if self.targets is None else _tensors(self.targets),
            valid=None if self.valid is None else _tensors(self.valid),
            strengths=self.strengths,
            held=HELD if config.early_stop else 0.0,
            seed=config.seed,
        )


def prepare(images: list[Image], config: Config, targets: list[Image] | None = None) -> TrainingData:
    """Read, fill in, measure and normalise the training images and, by the same statistics, their targets."""
    raw = read_boxes(images, PIXELS)
    filled, finite = _finite(raw)
    if not any(ok.any() for ok in finite):
        raise InputError(f"{images[0].name} has no finite pixel: there is nothing to learn from; use another image.")
    if all((slab == slab.flat[0]).all() for slab in filled):
        raise InputError(f"{images[0].name} is constant: there is nothing to learn from; use another image.")
    wanted = None
    if targets is not None:
        wanted, known = _finite(read_boxes(targets, PIXELS))
        finite = [ok & also for ok, also in zip(finite, known, strict=True)]
    bad = sum(int((~ok).sum()) for ok in finite)
    if bad:
        warnings.warn(f"{bad} NaN or infinite pixels are left out of training.", stacklevel=4)
    pooled = Normalization.measure(raw)
    scales = [pooled] * len(raw) if config.normalization == "dataset" else [Normalization.measure([s]) for s in raw]
    slabs = [scale.apply(slab) for scale, slab in zip(scales, filled, strict=True)]
    overall = diagnose(raw)
    diagnosis = diagnosis_of_most(raw, overall)
    noise = level_of(diagnosis, slabs, scales, config)
    told = config.sigma is not None or config.gain is not None
    return TrainingData(
        slabs,
        None if wanted is None else [scale.apply(slab) for scale, slab in zip(scales, wanted, strict=True)],
        finite if bad else None,
        pooled,
        noise,
        diagnosis,
        None if told else strengths_of(slabs, noise, correlated=overall.correlated),
    )


def _finite(slabs: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], list[NDArray[np.bool_]]]:
    """Slabs with their NaN and infinite pixels filled in, and where they were finite."""
    filled, masks = zip(*map(fill_invalid, slabs), strict=True)
    finite = [np.broadcast_to(True, slab.shape) if ok is None else ok for slab, ok in zip(slabs, masks, strict=True)]
    return list(filled), finite


def level_of(
    diagnosis: Diagnosis, slabs: list[NDArray[np.float32]], scales: list[Normalization], config: Config
) -> NoiseLevel:
    """Noise in normalised units: as the user tells it in those of the images, or else as it was diagnosed."""
    mean, std = (np.mean([getattr(scale, name) for scale in scales], axis=0) for name in ("mean", "std"))
    told = config.sigma is not None or config.gain is not None
    if not told and diagnosis.sigma == 0:  # images that are too small to diagnose
        return noise_level(slabs[0])
    each = [(one["a"], one["b"]) for one in diagnosis.channels]
    if told:
        each = [(config.gain or 0.0, (config.sigma or 0.0) ** 2)] * len(mean)
    slope, offset = np.transpose(each)
    variance, slope = (slope * mean + offset) / std**2, slope / std
    if config.noise_model == "gaussian" and not told:
        slope = np.zeros_like(slope)
    if config.noise_model == "poisson" and not told:  # no variance where there is no light
        slope = variance * std / mean
    if min(*slope, *variance) < 0:
        model, middle = config.noise_model, float(np.mean(mean))
        raise InputError(f"The variance of {model} noise would be negative at the images' mean, which is {middle:.3g}.")
    return NoiseLevel(tuple(np.sqrt(variance).tolist()), tuple(slope.tolist()))


def diagnosis_of_most(slabs: list[NDArray[Any]], overall: Diagnosis) -> Diagnosis:
    """The diagnosis of all slabs together or, if pixels share noise in a few of them only, of the others.

    A few are enough to be found in all together. But to mask neighbours along with each pixel, as they need, costs the
    others more than it gains them.
    """
    if not overall.correlated or not tell(slabs):
        return overall
    some = few(slabs)
    independent = [slab for slab in some if not diagnose([slab]).correlated]
    return diagnose(independent) if 2 * len(independent) > len(some) else overall


def tell(slabs: list[NDArray[Any]]) -> bool:
    """Whether there are several slabs, each large enough to be looked at by itself."""
    return len(slabs) > 1 and min(min(slab.shape[-2:]) for slab in slabs) >= LARGE


def few(slabs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """About `SOME` of many slabs."""
    return slabs[:: max(1, len(slabs) // SOME)]


def strengths_of(slabs: list[NDArray[np.float32]], noise: NoiseLevel, *, correlated: bool) -> list[float] | None:
    """Variance of the noise in each slab as a share of what is usual; None if they differ no more than estimates do.

    Of many slabs, some are looked at first. Small ones do not tell.
    """
    if not tell(slabs) or max(noise.sigma) == 0:
        return None
    low, high = np.quantile([_strength(slab, noise, correlated) for slab in few(slabs)], (0.1, 0.9))
    return [_strength(slab, noise, correlated) for slab in slabs] if high > UNLIKE * low else None


def _strength(slab: NDArray[np.float32], noise: NoiseLevel, correlated: bool) -> float:
    """Noise that pixels share is weak in the fine structure that `noise_level` looks at; a diagnosis corrects that."""
    level, slope = (np.array(values) for values in noise)
    middle = slab.mean(axis=(0, *range(2, slab.ndim)))
    usual = np.maximum(level**2 + slope * middle, 1e-2 * level**2).mean()
    sigma = [one["sigma"] for one in diagnose([slab]).channels] if correlated else noise_level(slab).sigma
    return max(float(np.mean(np.square(sigma)) / usual), 1e-2)


def _tensors(arrays: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
