"""The noise of a set of images: what most of them have, and where it is stronger in some than in others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.noise.diagnose import Diagnosis, diagnose
from noise2same.noise.level import noise_level
from noise2same.noise.model import NoiseModel

MIN_SIDE = 96
"""Pixels a side from which on an image can be diagnosed by itself."""
PROBED = 24
"""How many of many images are looked at first."""
MAX_VARIANCE_RATIO = 2.0
"""Of the images with strong and with weak noise, up to which it is taken to be the same: estimates differ as well."""
LEAST_STRENGTH = 1e-2
"""Share of the usual variance that an image without measurable noise is given: losses divide by it. Not measured."""


def majority_diagnosis(images: list[NDArray[Any]], film: Sequence[NDArray[Any]] = ()) -> tuple[Diagnosis, bool]:
    """Diagnosis of all images together or, if pixels share noise in a few of them only, of the others.

    A few are enough to be found in all together. But to mask neighbors along with each pixel, as they need, costs the
    others more than it gains them.

    Parameters
    ----------
    images : list of ndarray, each (1, C, [Z,] Y, X)
        In their own units.
    film : sequence of ndarray, optional
        Consecutive frames of them, as for `diagnose`.

    Returns
    -------
    Diagnosis
        Of the majority.
    bool
        Whether pixels share noise in any of the images.
    """
    overall = diagnose(images, film)
    if not overall.correlated or not _tell_by_themselves(images):
        return overall, overall.correlated
    some = _subsample(images)
    independent = [image for image in some if not diagnose([image]).correlated]
    return diagnose(independent, film) if 2 * len(independent) > len(some) else overall, True


def strength_per_image(
    images: list[NDArray[np.float32]], noise: NoiseModel, *, correlated: bool
) -> tuple[float, ...] | None:
    """Variance of the noise in each image as a share of what a model says; None if they hardly differ.

    Parameters
    ----------
    images : list of ndarray, each (1, C, [Z,] Y, X)
        In the units of `noise`.
    noise : NoiseModel
        The noise of all images together.
    correlated : bool
        Whether pixels share noise in any of the images. Such noise is weak in the fine structure that `noise_level`
        looks at; a diagnosis corrects for that.
    """
    if not _tell_by_themselves(images) or max(noise.sigma) == 0:
        return None
    probed = [_strength(image, noise, correlated) for image in _subsample(images)]
    low, high = np.quantile(probed, (0.1, 0.9))
    if high <= MAX_VARIANCE_RATIO * low:
        return None
    return tuple(_strength(image, noise, correlated) for image in images)


def _tell_by_themselves(images: list[NDArray[Any]]) -> bool:
    return len(images) > 1 and min(min(image.shape[-2:]) for image in images) >= MIN_SIDE


def _subsample(images: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return images[:: max(1, len(images) // PROBED)]


def _strength(image: NDArray[np.float32], noise: NoiseModel, correlated: bool) -> float:
    middle = image.mean(axis=(0, *range(2, image.ndim))).reshape(1, -1, 1, 1)
    sigma = [one["sigma"] for one in diagnose([image]).channels] if correlated else noise_level(image).sigma
    return max(float(np.mean(np.square(sigma)) / noise.variance(middle).mean()), LEAST_STRENGTH)
