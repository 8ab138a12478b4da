"""Noise2Same: the paper's method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from noise2same.config import Config
from noise2same.masking import FILLS, stratified
from noise2same.methods.method import Facts, Method, mean_square
from noise2same.patches import Batch
from noise2same.risk import covariance, small_change

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
    standard deviation :math:`\sigma`. "auto" is Theorem 2 with the noise level told or estimated, but at most 2. Photon
    noise is stronger where the image is brighter, and there :math:`\sigma` is larger: the proof holds for each block.

    Parameters
    ----------
    config : Config
        Uses `lambda_inv`, `root`, `fill`, `mask_density`, `masked_fraction` and `separate_passes`.
    facts : Facts
        Uses `sigma` and `slope`.
    """

    when = "the default: no clean images, no pairs, no noise model"
    settings = frozenset({"sigma", "lambda_inv", "root", "fill", "mask_density", "masked_fraction", "separate_passes"})

    def __init__(self, config: Config, facts: Facts) -> None:
        super().__init__(config, facts)
        auto = config.lambda_inv == "auto"
        self.lambda_inv = min(max(2 * facts.sigma, 1e-3), 2.0) if auto else float(config.lambda_inv)
        self.noise = replace(facts, sigma=self.lambda_inv / 2, slope=facts.slope if auto else 0.0)
        own = self.settings - {"sigma"}
        self.adapts = all(getattr(config, name) == Config.model_fields[name].default for name in own)
        self.fill = FILLS[config.fill or "donut"]
        self.density = config.mask_density
        self.fraction = config.masked_fraction
        self.separate = config.separate_passes

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Terms "reconstruction" and "invariance" (the root times λ_inv) of a batch of shape (B, C, [Z,] Y, X).

        For a network that was trained before, "covariance" takes the place of "invariance".
        """
        x, valid = batch.x, batch.valid
        part = x[: max(1, round(self.fraction * len(x)))]
        if self.warm and self.adapts:
            return self._adapt(network, x, part, valid, generator)
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
        variance = self.noise.variance(f_x[: len(part)].detach())
        bound = covariance_bound(change, variance, j, local=self.config.root == "local")
        return {"reconstruction": reconstruction, "invariance": 2 * bound}

    def _adapt(
        self, network: nn.Module, x: Tensor, part: Tensor, valid: Tensor | None, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Terms for a network that was trained before: instead of its bound, the covariance itself as in `risk.py`.

        A network that starts well would be led away by the bound, whose best network leans on each pixel less than it
        should.
        """
        variance = self.noise.variance(part)
        change = small_change(part, variance, self.density, None if valid is None else valid[: len(part)], generator)
        f_x, f_changed = network(torch.cat([x, part + change])).split([len(x), len(part)])
        reconstruction = mean_square(f_x - x, valid)
        return {
            "reconstruction": reconstruction,
            "covariance": 2 * covariance(change, f_changed - f_x[: len(part)], variance.mean()),
        }


def covariance_bound(change: Tensor, variance: Tensor, where: Tensor, *, local: bool) -> Tensor:
    """Bound, per pixel, of the covariance of noise of a variance with an output that changes: Cauchy and Schwarz'.

    Over the pixels `where` is true, of all of the batch or of the block, channel and patch around each.
    """
    squares, variances, count = change.square() * where, variance * where, where.to(change.dtype)
    if not local:
        return root(squares.sum() * variances.sum()) / count.sum().clamp(min=1)
    dims = change.ndim - 2
    pool = functional.avg_pool2d if dims == 2 else functional.avg_pool3d
    options: Any = {"kernel_size": BLOCK[dims], "ceil_mode": True, "divisor_override": 1}  # sums, also at the borders
    return root(pool(squares, **options) * pool(variances, **options)).sum() / count.sum().clamp(min=1)


def root(value: Tensor) -> Tensor:
    """Square root whose gradient stays finite at zero."""
    return (value + 1e-12).sqrt()
