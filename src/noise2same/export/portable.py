"""All that stands between raw pixels and clean ones as one module, which other programs can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from noise2same.data.normalize import Normalization
from noise2same.data.stabilize import root, square
from noise2same.errors import InputError
from noise2same.methods.laine import Noise
from noise2same.networks.blindspot import BlindSpot
from noise2same.networks.separate import Separate
from noise2same.networks.unet import UNet
from noise2same.prediction import flux
from noise2same.prediction.blend import WINDOWS, Blend
from noise2same.prediction.blocks import Grid, round_up
from noise2same.prediction.engines import folded
from noise2same.prediction.predict import over_turns

FLAT = 1e-12
"""Variance, as a share of the squared mean, below which a channel counts as constant: what 32 bits leave of it."""


class Portable(nn.Module):
    """Raw pixels (B, C, [Z,] Y, X) of any size, in 32-bit floats -> clean ones, in the same units.

    It computes what `prediction.predict` does with a whole image that has no NaN, without a loop over blocks and
    without anything that depends on sizes, so that it can be traced once for all of them.

    Parameters
    ----------
    network : Module
        Trained; one of those that `check_network` knows.
    normalization : Normalization or None
        Statistics to normalize with; None for those of each image by itself.
    channels : int
        Of the images.
    blend : Blend, optional
        Of output and input.
    tta : bool
        Average over the eight rotations and flips in the YX plane.
    """

    mean: Tensor
    std: Tensor
    smooth: Tensor

    def __init__(
        self, network: nn.Module, normalization: Normalization | None, channels: int, blend: Blend | None, tta: bool
    ) -> None:
        super().__init__()
        check_network(network)
        self.network, self.blend, self.tta = folded(network), blend, tta
        self.multiple = Grid.of(self.network, ()).multiple
        self.dims, self.channels = len(self.multiple), channels
        own = Normalization((0.0,) * channels, (1.0,) * channels)
        self.fixed = normalization
        self.scale = own if normalization is None else normalization
        for name in ("mean", "std"):
            values = torch.tensor(getattr(self.scale, name), dtype=torch.float32)
            self.register_buffer(name, values.reshape(1, -1, *(1,) * self.dims))
        if self.scale.stabilizer is not None:
            weights = torch.exp(-0.5 * (torch.arange(-flux.REACH, flux.REACH + 1) / flux.WIDTH) ** 2)
            self.register_buffer("smooth", weights / weights.sum())
        self.eval().requires_grad_(False)

    @property
    def reach(self) -> tuple[int, ...]:
        """Pixels along each spatial axis, to either side, that an output pixel depends on."""
        margins = [(0,) * self.dims if self.blend is None else self.blend.reach(self.dims)]
        if self.scale.stabilizer is not None:
            margins.append(flux.margin(self.dims))
        size = (1,) * self.dims
        return Grid.of(self.network, size, tuple(map(sum, zip(*margins, strict=True)))).reach

    @property
    def smallest(self) -> tuple[int, ...]:
        """Size of the smallest image of which it is known to be right."""
        sides = [tuple(step + 1 for step in self.multiple), *(() if self.blend is None else WINDOWS[self.dims])]
        return tuple(map(max, zip(*sides, strict=True)))

    @property
    def halo(self) -> tuple[int, ...]:
        """Pixels to cut from each side of a tile: as many as its reach, and multiples of its stride."""
        return tuple(map(round_up, self.reach, self.multiple))

    def forward(self, image: Tensor) -> Tensor:
        own = image if self.scale.stabilizer is None else self._each_channel(root, image)
        mean, std = (self.mean, self.std) if self.fixed is not None else statistics(own)
        x = (own - mean) / std
        for axis, step in enumerate(self.multiple, start=2):
            x = mirrored(x, axis, step)
        y = over_turns(self.network, x) if self.tta else self.network(x)
        if self.blend is not None:
            y = torch.lerp(x, y, self._weight(x, y, mean, std))
        y = _cut(y, image) * std
        if self.scale.stabilizer is None:
            return y + mean
        clean = self._each_channel(square, y + mean)
        return flux.give_back(clean, self._smoothed(image - clean), y)

    def _weight(self, x: Tensor, y: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        assert self.blend is not None
        if self.fixed is not None:
            return self.blend.weight(x, y, self.fixed)
        return self.blend.weight(x * std + mean, y * std + mean, self.scale)  # the same in any units

    def _each_channel(self, transform: Callable[[Any, float, float], Any], values: Tensor) -> Tensor:
        """Apply a function of the stabilized scale, with the gain of each channel."""
        scale = self.scale.stabilizer
        assert scale is not None
        gains = zip(values.unbind(1), scale.a, scale.b, strict=True)
        return torch.stack([transform(channel, a, b) for channel, a, b in gains], 1)

    def _smoothed(self, removed: Tensor) -> Tensor:
        """Gaussian filter along Y and X, as of `flux.keep_flux`."""
        side = 2 * flux.REACH + 1
        convolve = nn.functional.conv2d if self.dims == 2 else nn.functional.conv3d
        for axis in (self.dims, self.dims + 1):
            shape = [self.channels, 1, *(side if other == axis else 1 for other in range(2, self.dims + 2))]
            kernel = self.smooth.reshape([1, 1, *shape[2:]]).expand(shape)
            removed = convolve(repeated(removed, axis, flux.REACH), kernel, groups=self.channels)
        return removed


def check_network(network: nn.Module) -> None:
    """Raise InputError for a network of which is not known how other programs are to run it."""
    networks = list(network.networks) if type(network) is Separate else [network]
    known = all(type(one) in (UNet, BlindSpot) or isinstance(one, Noise) for one in networks)
    if not known or any(isinstance(one, UNet) and one.outputs != one.channels for one in networks):
        kind = type(network).__name__
        raise InputError(
            f"This model cannot be exported: other programs cannot be told how to run its network ({kind}); "
            "denoise with noise2same itself."
        )


def statistics(image: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel of each image, as `Normalization.measure` has them."""
    pixels = list(range(2, image.ndim))
    mean = image.mean(pixels, keepdim=True)
    variance = (image - mean).square().mean(pixels, keepdim=True)
    return mean, torch.where(variance > FLAT * mean.square(), variance, torch.ones_like(variance)).sqrt()


@torch.jit.script_if_tracing  # a trace would keep the sizes of the image that it was made with
def mirrored(x: Tensor, axis: int, step: int) -> Tensor:
    """Mirror an axis at its far end until it is a multiple of `step`, as `data.padding.reflect_to` does."""
    last = x.size(axis) - 1
    period = torch.full([1], 2 * last, device=x.device).clamp(min=1)
    place = torch.arange((last + step) // step * step, device=x.device) % period
    return x.index_select(axis, last - (place - last).abs())


@torch.jit.script_if_tracing
def repeated(x: Tensor, axis: int, margin: int) -> Tensor:
    """Mirror an axis at both ends, the pixels there being seen twice, as scipy's filters do."""
    size = x.size(axis)
    place = torch.arange(-margin, size + margin, device=x.device) % torch.full([1], 2 * size, device=x.device)
    return x.index_select(axis, torch.minimum(place, 2 * size - 1 - place))


def _cut(x: Tensor, like: Tensor) -> Tensor:
    """The first pixels along each spatial axis, as many as another image has."""
    for axis in range(2, x.ndim):
        x = x.narrow(axis, 0, like.shape[axis])
    return x
