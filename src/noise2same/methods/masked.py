"""The mask-based blind-spot methods: predict the pixels of J from an image in which they were replaced."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.methods.base import Facts, Method, mean_square
from noise2same.methods.masking import fill_of, stratified
from noise2same.networks.unet import UNet


class Masked(Method):
    r"""Masked training (Xie et al. 2020, eq. 3): the network sees :math:`x_{J^c}` and is asked for :math:`x_J`.

    .. math:: \|f(x_{J^c})_J - x_J\|^2 / |J|

    Every patch is masked, and only J enters the loss. Prediction uses the whole image, x_J included.
    """

    settings = frozenset({"mask_density"})
    fill: ClassVar[str]

    def __init__(self, config: Config, facts: Facts) -> None:
        super().__init__(config, facts)
        self.replace = fill_of(config.fill or self.fill, config.fill_sigma)

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Term "masked", the mean square over J, of a batch of shape (B, C, [Z,] Y, X)."""
        j = stratified(batch.x.shape, self.config.mask_density, generator)
        if batch.valid is not None:
            j &= batch.valid
        return {"masked": mean_square(network(self.replace(batch.x, j, generator)) - batch.x, j)}


class Noise2Void(Masked):
    """Noise2Void (Krull et al., CVPR 2019): masked training with uniform pixel selection in a window of 5 pixels."""

    when = "a baseline; pixels are replaced by random neighbours"
    fill = "ups"


class Noise2Void2(Masked):
    """N2V2 (Höck et al., ECCV 2022): the local mean as fill, blur-pooling, no skip at full resolution.

    The changes of the network rid Noise2Void of its checkerboard.
    """

    when = "a baseline without Noise2Void's checkerboard"
    fill = "mean"

    def network(self) -> nn.Module:
        """U-Net with plain blocks, blur-pooling and no skip at the finest level."""
        c = self.config
        return UNet(
            self.facts.dims,
            self.facts.channels,
            features=c.features,
            levels=c.levels,
            block="plain",
            finest_skip=False,
            blur_pool=True,
        )


class Noise2Self(Masked):
    """Noise2Self (Batson and Royer, ICML 2019): masked training with random values, or the donut, as fill."""

    when = "a baseline; fill=random, gaussian (the paper's Noise2Self-Noise) or donut"
    settings = frozenset({"mask_density", "fill", "fill_sigma"})
    fill = "random"
