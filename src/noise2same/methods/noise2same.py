"""Noise2Same: the paper's method."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from noise2same.config import Config
from noise2same.masking import FILLS, stratified
from noise2same.methods.method import Facts, Method, mean_square
from noise2same.patches import Batch

BLOCK = {2: (16, 16), 3: (4, 8, 8)}
"""Pixels that share a root, ([Z,] Y, X): few enough that the signal varies little, and with a dozen of J among them.

The mean of the root of n squares is by 1/(4n) too small, which smaller blocks would feel."""


class Noise2Same(Method):
    r"""Noise2Same (Xie et al. 2020, eq. 6): a self-supervised upper bound of the supervised loss.

    .. math:: \|f(x)-x\|^2/m + \lambda_{inv}\,\big(\|f(x)_J-f(x_{J^c})_J\|^2/|J|\big)^{1/2}

    The first term reconstructs the noisy image x; the second keeps f from copying it, by making f(x) on the masked
    pixels J depend little on x there. Gradients flow through both passes.

    Where the root is taken matters. One root over all of the batch (the appendix's inequality 16) gives every pixel the
    same shrinkage towards x, though flat areas want none and texture wants much. Inequality 15 has a root for each
    pixel, which one sample cannot estimate. Roots over small blocks lie between the two, so that the loss is still a
    bound, and a tighter one, which measures better (`benchmarks/presets.md`).

    :math:`\lambda_{inv}` is 2 by Theorem 1 for images of unit variance, and :math:`2\sigma` by Theorem 2 for noise of
    standard deviation :math:`\sigma`. "auto" is Theorem 2 with the noise level told or estimated, but at most 2.

    Parameters
    ----------
    config : Config
        Uses `lambda_inv`, `root`, `fill`, `mask_density`, `masked_fraction` and `separate_passes`.
    facts : Facts
        Uses `sigma`.
    """

    when = "the default: no clean images, no pairs, no noise model"
    settings = frozenset({"sigma", "lambda_inv", "root", "fill", "mask_density", "masked_fraction", "separate_passes"})

    def __init__(self, config: Config, facts: Facts) -> None:
        super().__init__(config, facts)
        self.lambda_inv = min(max(2 * facts.sigma, 1e-3), 2.0) if config.lambda_inv == "auto" else config.lambda_inv
        self.fill = FILLS[config.fill or "donut"]
        self.density = config.mask_density
        self.fraction = config.masked_fraction
        self.separate = config.separate_passes

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Terms "reconstruction" and "invariance" (the root times λ_inv) of a batch of shape (B, C, [Z,] Y, X)."""
        x, valid = batch.x, batch.valid
        part = x[: max(1, round(self.fraction * len(x)))]
        j = stratified(part.shape, self.density, generator)
        if valid is not None:
            j &= valid[: len(part)]
        masked = self.fill(part, j, generator)
        if self.separate:
            f_x, f_masked = network(x), network(masked)
        else:
            f_x, f_masked = network(torch.cat([x, masked])).split([len(x), len(part)])
        reconstruction = mean_square(f_x - x, valid)
        change = f_x[: len(part)] - f_masked
        invariance = root(mean_square(change, j)) if self.config.root == "batch" else local_root(change, j)
        return {"reconstruction": reconstruction, "invariance": self.lambda_inv * invariance}


def local_root(difference: Tensor, where: Tensor) -> Tensor:
    """Mean over the pixels `where` is true of the root mean square in the block, channel and patch around each."""
    dims = difference.ndim - 2
    pool = functional.avg_pool2d if dims == 2 else functional.avg_pool3d
    options: Any = {"kernel_size": BLOCK[dims], "ceil_mode": True, "divisor_override": 1}  # sums, also at the borders
    squares, count = pool(difference.square() * where, **options), pool(where.to(difference.dtype), **options)
    return (count * root(squares / count.clamp(min=1))).sum() / count.sum().clamp(min=1)


def root(value: Tensor) -> Tensor:
    """Square root whose gradient stays finite at zero."""
    return (value + 1e-12).sqrt()
