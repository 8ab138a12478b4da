"""The convolutional blind-spot network: its output depends on all pixels but the one in its place."""

from __future__ import annotations

from itertools import chain, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from noise2same.networks.unet import CONV, POOL, Conv

SLOPE = 0.1  # of the leaky ReLU below zero


class BlindSpot(nn.Module):
    """Network with a blind spot by construction (Laine et al., NeurIPS 2019), for images of any size.

    Along each spatial axis the image and its mirror image pass a `HalfPlane` network that looks towards lower indices
    only. Its features, moved on by one pixel, depend on what lies strictly before that pixel; mirrored back, what lies
    strictly after it. The four half-planes, or six half-spaces in 3D, hold together every pixel but this one, and 1×1
    convolutions, which see no neighbors, merge their features.

    In 2D one half-plane network serves all directions. In 3D one serves Y and X, and another Z, whose pixels are
    usually farther apart.

    Parameters
    ----------
    dims : {2, 3}
        Number of spatial dimensions.
    channels : int
        Channels of the image; the spot is blind for all of them.
    outputs : int
        Channels of the output.
    features : int
        Feature maps of the encoders; the decoders have twice as many.
    levels : int
        Number of resolutions; each is half of the one above, in all spatial dimensions.
    """

    def __init__(self, dims: int, channels: int, outputs: int, *, features: int, levels: int) -> None:
        super().__init__()
        self.multiple = (2 ** (levels - 1),) * dims  # the grid starts at each direction's own end of the image
        self.lateral = HalfPlane(dims, channels, features, levels)
        self.axial = HalfPlane(dims, channels, features, levels) if dims == 3 else None
        conv, self.width = CONV[dims], 2 * features
        last = conv(self.width, outputs, 1)
        self.merge = nn.Sequential(conv(2 * dims * self.width, self.width, 1), nn.LeakyReLU(SLOPE, inplace=True), last)
        self.apply(_he)
        nn.init.kaiming_normal_(last.weight, nonlinearity="linear")

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, [Z,] Y, X) of any size -> (B, outputs, [Z,] Y, X)."""
        directions: list[Tensor] = []
        for axis in range(2, x.ndim):
            half = self.lateral if self.axial is None or axis > 2 else self.axial
            along = x.movedim(axis, 2)
            forth, back = half(torch.cat([along, along.flip(2)])).unflatten(0, (2, -1)).unbind()
            directions += [forth.movedim(2, axis), back.flip(2).movedim(2, axis)]
        return self.merge(torch.cat(directions, 1))

    @property
    def reach(self) -> tuple[int, ...]:
        """Pixels along each spatial axis, to either side, that an output pixel may depend on."""
        return (self.lateral.reach,) * len(self.multiple)

    @property
    def values_per_pixel(self) -> int:
        """Values that prediction holds at once for each pixel, at most.

        In the finest decoder of a direction and its mirror image: its input, that with padding, and the output. Beside
        them wait the outputs of the other directions.
        """
        return self.width * (10 + 4 * len(self.multiple))


class HalfPlane(nn.Module):
    """U-Net whose output in row j of the first spatial axis depends on rows before j, and on all of the other axes.

    Each convolution sees rows j−2 to j. Pooling is of rows 2k−1 and 2k, so that row k of the coarser level, which
    returns to rows 2k and 2k+1 of the finer, does not bring them their successors. At last, rows move on by one.

    No padding may show a pixel to itself, as a reflection would. Rows after the last are never seen, whatever they are.
    Rows before the first repeat it, which all rows may see but the first, and that sees only zeros once rows have moved
    on. The other axes are free to repeat their ends. With zeros for all of these, a network trained on patches of 32
    pixels made of a larger image something worse than the noisy one.
    """

    def __init__(self, dims: int, channels: int, features: int, levels: int) -> None:
        super().__init__()
        widths = [channels, *[features] * (levels - 1), 2 * features]
        self.encoder = nn.ModuleList(HalfConvs(dims, *ends) for ends in pairwise(widths))
        self.decoder = nn.ModuleList(HalfConvs(dims, 3 * features, 2 * features) for _ in range(levels - 1))
        self.pool = POOL[dims](2, padding=(1, *(0,) * (dims - 1)))
        self.stride = 2 ** (levels - 1)

    @property
    def reach(self) -> int:
        """Rows before its own that an output row may depend on; it reaches less far along the other axes.

        A coarse row of level l is 2^l fine ones. Each pooling and upsampling brings two rows of its level more, and
        rows move on by one at last.
        """
        blocks = chain(enumerate(self.encoder), enumerate(self.decoder))
        steps = sum(2**level * block.reach for level, block in blocks if isinstance(block, HalfConvs))
        return steps + 2 * (self.stride - 1) + 1

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, along, ...) -> (B, 2·features, along, ...)."""
        spatial = x.shape[2:]
        missing = [-size % self.stride for size in reversed(spatial)]
        x = functional.pad(x, [end for size in missing for end in (0, size)], mode="replicate")
        if x.device.type != "mps":
            x = x.contiguous(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
        kept = []
        for encode in self.encoder[:-1]:
            kept.append(encode(x))
            x = self.pool(kept[-1]).narrow(2, 0, kept[-1].shape[2] // 2)
        x = self.encoder[-1](x)
        for decode in self.decoder:
            x = decode(torch.cat([functional.interpolate(x, scale_factor=2.0), kept.pop()], 1))
        for axis, size in enumerate(spatial[1:], start=3):
            x = x.narrow(axis, 0, size)
        return functional.pad(x.narrow(2, 0, spatial[0] - 1), (*(0, 0) * (x.ndim - 3), 1, 0))


class HalfConvs(nn.Module):
    """Two convolutions 3×3(×3) that see rows up to j of the first spatial axis, each with a leaky ReLU."""

    def __init__(self, dims: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = CONV[dims](inputs, outputs, 3)
        self.second = CONV[dims](outputs, outputs, 3)

    @property
    def reach(self) -> int:
        """Rows before its own, at its own level, that an output row depends on."""
        return sum(conv.kernel_size[0] - 1 for conv in (self.first, self.second))

    def forward(self, x: Tensor) -> Tensor:
        x = functional.pad(x, (*(2, 2) * (x.ndim - 3), 4, 0), mode="replicate")
        for conv in (self.first, self.second):
            x = functional.leaky_relu(conv(x), SLOPE, inplace=True)
        return x


def _he(module: nn.Module) -> None:
    if isinstance(module, Conv):
        nn.init.kaiming_normal_(module.weight, a=SLOPE)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
