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

from noise2same import axes as ax
from noise2same.config import Config
from noise2same.errors import InputError
from noise2same.io import Image
from noise2same.methods import Facts
from noise2same.noise.estimate import NoiseLevel, noise_level
from noise2same.normalize import Normalization, fill_invalid
from noise2same.patches import Patches

PIXELS = 2**28
"""Larger training sets are represented by about this many values, taken as evenly spread slabs."""


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
    """Level of the noise in normalised units, told by the user or estimated."""

    def __str__(self) -> str:
        values = sum(slab.size for slab in self.slabs) / 1e6
        return f"{values:.2f} million values, noise level {self.noise.sigma:.2f} of the image's standard deviation"

    def facts(self) -> Facts:
        """What a method is told of the images."""
        mean, std = np.mean(self.normalization.mean), np.mean(self.normalization.std)
        _, channels, *spatial = self.slabs[0].shape
        return Facts(
            len(spatial),
            channels,
            sigma=self.noise.sigma,
            slope=self.noise.slope,
            scale=float(std),
            black=float(-mean / std),
            low=float(min(slab.min() for slab in self.slabs)),
            high=float(max(slab.max() for slab in self.slabs)),
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
        )


def prepare(images: list[Image], config: Config, targets: list[Image] | None = None) -> TrainingData:
    """Read, fill in, measure and normalise the training images and, by the same statistics, their targets."""
    raw = read_slabs(images, PIXELS, height=4 * config.patch)
    filled, finite = _finite(raw)
    if not any(ok.any() for ok in finite):
        raise InputError(f"{images[0].name} has no finite pixel: there is nothing to learn from; use another image.")
    if all((slab == slab.flat[0]).all() for slab in filled):
        raise InputError(f"{images[0].name} is constant: there is nothing to learn from; use another image.")
    wanted = None
    if targets is not None:
        wanted, known = _finite(read_slabs(targets, PIXELS, height=4 * config.patch))
        finite = [ok & also for ok, also in zip(finite, known, strict=True)]
    bad = sum(int((~ok).sum()) for ok in finite)
    if bad:
        warnings.warn(f"{bad} NaN or infinite pixels are left out of training.", stacklevel=4)
    pooled = Normalization.measure(raw)
    scales = [pooled] * len(raw) if config.normalization == "dataset" else [Normalization.measure([s]) for s in raw]
    return TrainingData(
        [scale.apply(slab) for scale, slab in zip(scales, filled, strict=True)],
        None if wanted is None else [scale.apply(slab) for scale, slab in zip(scales, wanted, strict=True)],
        finite if bad else None,
        pooled,
        level_of(raw, scales, config.sigma),
    )


def _finite(slabs: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], list[NDArray[np.bool_]]]:
    """Slabs with their NaN and infinite pixels filled in, and where they were finite."""
    filled, masks = zip(*map(fill_invalid, slabs), strict=True)
    finite = [np.broadcast_to(True, slab.shape) if ok is None else ok for slab, ok in zip(slabs, masks, strict=True)]
    return list(filled), finite


def read_slabs(images: list[Image], limit: int, height: int) -> list[NDArray[Any]]:
    """Read all images as (1, C, [Z,] Y, X) or, of more than `limit` values, evenly spread slabs of them."""
    samples = [sample for image in images for sample in ax.samples(image.data, image.axes)]
    share = limit / sum(math.prod(image.shape) for image in images)
    if share >= 1:
        return [sample.read(0, sample.size[0]) for sample in samples]
    places = [(sample, start) for sample in samples for start in range(0, sample.size[0], height)]
    chosen = np.linspace(0, len(places) - 1, max(1, int(share * len(places)))).round().astype(int)
    return [places[i][0].read(places[i][1], places[i][1] + height) for i in chosen]


def level_of(raw: list[NDArray[Any]], scales: list[Normalization], sigma: float | None) -> NoiseLevel:
    """Noise in normalised units: `sigma`, given in those of the images, or the median estimates of up to 64 slabs."""
    if sigma is not None:
        return NoiseLevel(float(np.mean([sigma / np.asarray(scale.std) for scale in scales])), 0.0)
    chosen = range(0, len(raw), -(-len(raw) // 64))
    levels = [noise_level(scales[i].apply(raw[i])) for i in chosen]
    return NoiseLevel(*map(float, np.median(levels, axis=0)))


def _tensors(arrays: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
