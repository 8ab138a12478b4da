"""The mask-based blind-spot methods: predict the pixels of J from an image in which they were replaced."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from noise2same.data.patches import Batch
from noise2same.methods.base import Architecture, DataProfile, Method, Settings, mean_square
from noise2same.methods.masking import FillName, FillOption, fill_of, stratified


class MaskedSettings(Settings):
    """Settings of the masked methods."""

    mask_density: Annotated[
        float, Field(gt=0, le=0.5, description="Fraction of the pixels of a patch that are masked.")
    ] = 0.1


class Masked(Method):
    r"""Masked training (Xie et al. 2020, eq. 3): the network sees :math:`x_{J^c}` and is asked for :math:`x_J`.

    .. math:: \|f(x_{J^c})_J - x_J\|^2 / |J|

    Every patch is masked, and only J enters the loss. Prediction uses the whole image, x_J included.
    """

    Settings = MaskedSettings
    paper_settings = {"mask_density": 0.005}  # noqa: RUF012 (a ClassVar of the base)
    fill: ClassVar[FillName]

    def __init__(self, settings: Any, profile: DataProfile, architecture: Architecture | None = None) -> None:
        super().__init__(settings, profile, architecture)
        self.replace = fill_of(self.fill)

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Term "masked", the mean square over J, of a batch of shape (B, C, [Z,] Y, X)."""
        j = stratified(batch.x.shape, self.settings.mask_density, generator)
        if batch.valid is not None:
            j &= batch.valid
        return {"masked": mean_square(network(self.replace(batch.x, j, generator)) - batch.x, j)}


class Noise2Void(Masked):
    """Noise2Void (Krull et al., CVPR 2019): masked training with uniform pixel selection in a window of 5 pixels."""

    name = "noise2void"
    when = "a baseline; pixels are replaced by random neighbors"
    fill = "ups"


class Noise2Void2(Masked):
    """N2V2 (Höck et al., ECCV 2022): the local mean as fill, blur-pooling, no skip at full resolution.

    The changes of the network rid Noise2Void of its checkerboard.
    """

    name = "noise2void2"
    when = "a baseline without Noise2Void's checkerboard"
    fill = "mean"

    def network(self) -> nn.Module:
        """U-Net with plain blocks, blur-pooling and no skip at the finest level."""
        return self.unet(block="plain", finest_skip=False, blur_pool=True)


class Noise2SelfSettings(MaskedSettings):
    """Settings of `noise2self`."""

    fill: FillOption = "random"
    fill_sigma: Annotated[
        float, Field(gt=0, description="Standard deviation of fill=gaussian; that of the images is 1.")
    ] = 0.2


class Noise2Self(Masked):
    """Noise2Self (Batson and Royer, ICML 2019): masked training with random values, or the donut, as fill."""

    name = "noise2self"
    when = "a baseline; fill=random, gaussian (the paper's Noise2Self-Noise) or donut"
    Settings = Noise2SelfSettings
    fill = "random"

    def __init__(self, settings: Any, profile: DataProfile, architecture: Architecture | None = None) -> None:
        super().__init__(settings, profile, architecture)
        self.replace = fill_of(settings.fill, settings.fill_sigma)
