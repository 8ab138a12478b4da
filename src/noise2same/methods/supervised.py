"""The supervised methods: an upper limit of what the others can reach, and the way to go where targets exist."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from noise2same.data.patches import Batch
from noise2same.methods.base import Method, mean_square


class Noise2True(Method):
    r"""Supervised training: :math:`\|f(x) - y\|^2/m` with the clean image y."""

    name = "noise2true"
    needs = "noisy images and clean targets"
    when = "clean partners of the noisy images exist"
    supervised = True

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Term "supervised" of a batch of shape (B, C, [Z,] Y, X)."""
        assert batch.target is not None, "a supervised method is given targets"
        return {"supervised": mean_square(network(batch.x) - batch.target, batch.valid)}


class Noise2Noise(Noise2True):
    r"""Noise2Noise (Lehtinen et al., ICML 2018): :math:`\|f(x) - x'\|^2/m` with a second noisy image x' of the same y.

    The noise of x' is independent of that of x and has zero mean, so that the minimum is the one for clean targets.
    """

    name = "noise2noise"
    needs = "two noisy images of each scene"
    when = "everything was imaged twice"
    noisy_target = True
