"""Opened images to what training needs: normalized arrays, their targets, and which pixels count."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from noise2same.data.film import Frames
from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.data.patches import Patches
from noise2same.data.sampling import read_boxes
from noise2same.data.stabilize import Stabilizer
from noise2same.errors import InputError
from noise2same.io import Image

MAX_VALUES = 2**28
"""Of larger training sets, evenly spread boxes with about this many values are read.

Training then takes up to 4 GB (benchmarks/memory.md)."""


@dataclass(frozen=True)
class TrainingData:
    """Images or boxes of them, of shape (1, C, [Z,] Y, X), as read and normalized."""

    raw: list[NDArray[Any]]
    """In the images' own units, with their NaN and infinite pixels."""
    images: list[NDArray[np.float32]]
    """Normalized; pixels that were NaN or infinite have their neighbors' value."""
    targets: list[NDArray[np.float32]] | None
    """What to predict from each image, in the same units; None where nothing but the noisy images is known."""
    valid: list[NDArray[np.bool_]] | None
    """False on NaN and infinite pixels; None where there are none."""
    normalization: Normalization
    """Statistics of all images together."""
    scale: Normalization
    """What a normalized unit is worth: the statistics of all images together, or the mean of those of each image."""

    @property
    def dims(self) -> int:
        """Number of spatial dimensions."""
        return self.images[0].ndim - 2

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.images[0].shape[1])

    @property
    def pixels(self) -> int:
        """Number of pixels of all images."""
        return sum(math.prod(image.shape[2:]) for image in self.images)

    def range(self) -> tuple[float, float]:
        """Lowest and highest normalized value."""
        return min(float(image.min()) for image in self.images), max(float(image.max()) for image in self.images)

    def on_scale(self, stabilizer: Stabilizer) -> TrainingData:
        """The same images and targets on a stabilized scale, by the statistics of all of them together."""
        scale = Normalization.measure(self.raw, stabilizer)

        def again(images: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
            return [scale.apply(self.normalization.undo(image, np.dtype(np.float64))) for image in images]

        targets = None if self.targets is None else again(self.targets)
        return replace(self, images=again(self.images), targets=targets, normalization=scale, scale=scale)

    def patches(
        self,
        patch: Sequence[int],
        batch: int,
        *,
        strengths: Sequence[float] | None = None,
        held_out: float = 0.0,
        seed: int = 0,
        context: int = 0,
    ) -> Patches:
        """Where batches are drawn from; the arguments are those of `Patches`."""
        return Patches(
            _tensors(self.images),
            patch=patch,
            batch=batch,
            targets=None if self.targets is None else _tensors(self.targets),
            valid=None if self.valid is None else _tensors(self.valid),
            strengths=strengths,
            held=held_out,
            seed=seed,
            context=context,
        )


def read_training_data(
    images: list[Image],
    targets: list[Image] | None = None,
    *,
    normalization: Literal["dataset", "image"] = "dataset",
    box: Sequence[int] | None = None,
    on_unreadable: Callable[[InputError], None] | None = None,
) -> TrainingData:
    """Read, fill in, measure and normalize the training images and, by the same statistics, their targets.

    Parameters
    ----------
    images, targets : list of Image
        Opened images, and what to predict from each.
    normalization : {"dataset", "image"}
        By the statistics of all images together, or of each image by itself.
    box : sequence of int, optional
        As for `read_boxes`.
    on_unreadable : callable, optional
        As for `read_boxes`; not with targets, which each image needs.
    """
    raw = read_boxes(images, MAX_VALUES, box=box, on_unreadable=on_unreadable if targets is None else None)
    filled, finite = _finite(raw)
    if not any(ok.any() for ok in finite):
        raise InputError(f"{images[0].name} has no finite pixel: there is nothing to learn from; use another image.")
    if all((image == image.flat[0]).all() for image in filled):
        raise InputError(f"{images[0].name} is constant: there is nothing to learn from; use another image.")
    wanted = None
    if targets is not None:
        wanted, known = _finite(read_boxes(targets, MAX_VALUES, box=box))
        finite = [ok & also for ok, also in zip(finite, known, strict=True)]
    bad = sum(int((~ok).sum()) for ok in finite)
    if bad:
        kinds = "NaN or infinite pixels"
        if any(isinstance(image.data, Frames) for image in images):
            kinds = "pixels of frames without a picture, NaN or infinite"
        warnings.warn(f"{bad} {kinds} are left out of training.", stacklevel=6)
    pooled = Normalization.measure(raw)
    scales = [pooled] * len(raw) if normalization == "dataset" else [Normalization.measure([box]) for box in raw]
    mean, std = (tuple(np.mean([getattr(scale, name) for scale in scales], axis=0)) for name in ("mean", "std"))
    return TrainingData(
        raw,
        [scale.apply(box) for scale, box in zip(scales, filled, strict=True)],
        None if wanted is None else [scale.apply(box) for scale, box in zip(scales, wanted, strict=True)],
        finite if bad else None,
        pooled,
        Normalization(mean, std),
    )


def _finite(boxes: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], list[NDArray[np.bool_]]]:
    """Boxes with their NaN and infinite pixels filled in, and where they were finite."""
    filled, masks = zip(*map(fill_invalid, boxes), strict=True)
    finite = [np.broadcast_to(True, box.shape) if ok is None else ok for box, ok in zip(boxes, masks, strict=True)]
    return list(filled), finite


def _tensors(arrays: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
