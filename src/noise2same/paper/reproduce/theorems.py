"""Both theorems' sides in the middle of a training run."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from noise2same.denoiser import Denoiser
from noise2same.device import pick
from noise2same.paper.analysis import as_function, bound
from noise2same.paper.datasets import Dataset

SIDE, DRAWS, SUBSETS = 64, 32, 4
"""Of the crop of a validation image that they are measured on; draws of the noise; sets J of pixels."""


def both_theorems(model: Denoiser, dataset: Dataset, *, sigma: float) -> dict[str, float]:
    """Left and right sides of Theorems 1 and 2 for Gaussian noise of `sigma`, and the true error, per pixel.

    All are in units of the variance of the noisy images; "left" is the left side of both.
    """
    assert model.network is not None
    f = as_function(model.network)
    mean, std = (float(value[0]) for value in (model.normalization.mean, model.normalization.std))
    clean = np.asarray(dataset.validation.clean[0], np.float32)[:SIDE, :SIDE]
    y = torch.from_numpy((clean - mean) / std)[None, None].to(pick())
    level = sigma / std

    def noise(image: Tensor, generator: torch.Generator) -> Tensor:
        return image + level * torch.randn(image.shape, generator=generator, device=image.device)

    # normalised images have variance 1 in all, which is all that Theorem 1 assumes of the noise
    first, second = (bound(f, y, noise, sigma=s, draws=DRAWS, subsets=SUBSETS) for s in (1.0, level))
    return {
        "error": second.left.value - level**2,
        "left": second.left.value,
        "theorem 1": first.right.value,
        "theorem 2": second.right.value,
    }
