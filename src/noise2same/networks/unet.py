"""The U-Net, in two and three dimensions, with the paper's residual blocks or plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from noise2same.data.padding import on_multiples
from noise2same.networks.norm import GlobalBatchNorm2d, GlobalBatchNorm3d

Conv = nn.Conv2d | nn.Conv3d
Up = nn.ConvTranspose2d | nn.ConvTranspose3d
Norm = nn.BatchNorm2d | nn.BatchNorm3d
CONV: dict[int, type[Conv]] = {2: nn.Conv2d, 3: nn.Conv3d}
UP: dict[int, type[Up]] = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
NORM: dict[int, type[Norm]] = {2: GlobalBatchNorm2d, 3: GlobalBatchNorm3d}
POOL: dict[int, type[nn.Module]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}
BASE = {2: (3.0, 3.0), 3: (1.0, 3.0, 3.0)}  # pixels of blur along ([Z,] Y, X); planes of a stack lie farther apart
MOMENTUM = 0.003  # of the paper's batch norm: a decay of 0.997


class UNet(nn.Module):
    """Encoder and decoder with concatenated skips between levels; the input itself is never added to the output.

    With plain blocks a blurred copy of it is, so that brightness and hue are right before anything is learned; learned
    from scratch, they need thousands of steps, and rare colours come out as common ones until then. The copy holds a
    fiftieth of the noise of the pixel in its place.

    Parameters
    ----------
    dims : {2, 3}
        Number of spatial dimensions.
    channels : int
        Channels of the input.
    outputs : int, optional
        Channels of the output, by default those of the input. Fewer are the middle ones, such as the frame in the
        middle of several.
    features : int
        Feature maps at the finest level, doubled at each coarser one.
    levels : int
        Number of resolutions; each is half of the one above, in all spatial dimensions.
    block : {"plain", "residual"}
        "plain": two times convolution, batch norm, ReLU; max-pooling; the blurred image added at the end.
        "residual": the paper's network, with one pre-activation residual block a level, strided convolutions down and
        a batch-normalised head.
    finest_skip : bool
        Whether the finest level has a skip, which N2V2 found to pass on the checkerboard of masked training.
    blur_pool : bool
        Blur after max-pooling, so that coarser levels do not alias.
    """

    def __init__(
        self,
        dims: int,
        channels: int,
        *,
        features: int,
        levels: int,
        block: Literal["plain", "residual"],
        finest_skip: bool = True,
        blur_pool: bool = False,
        outputs: int | None = None,
    ) -> None:
        super().__init__()
        conv, up = CONV[dims], UP[dims]
        residual = block == "residual"
        make = Residual if residual else plain
        widths = [features * 2**level for level in range(levels)]
        self.multiple, self.channels = (2 ** (levels - 1),) * dims, channels
        self.features, self.outputs = features, channels if outputs is None else outputs
        self.stem = conv(channels, features, 3, padding=1) if residual else nn.Identity()
        self.encoder = nn.ModuleList([make(dims, features if residual else channels, features)])
        self.down, self.up, self.decoder = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        pool = BlurPool(dims) if blur_pool else POOL[dims](2)
        self.skips = [finest_skip, *[True] * levels][: levels - 1]
        for fine, coarse, skip in zip(widths, widths[1:], self.skips, strict=False):
            self.down.append(conv(fine, coarse, 2, stride=2) if residual else pool)
            self.encoder.append(make(dims, coarse if residual else fine, coarse))
            self.up.append(up(coarse, fine, 2, stride=2))
            self.decoder.append(make(dims, 2 * fine if skip else fine, fine))
        head: list[nn.Module] = [NORM[dims](features, momentum=MOMENTUM), nn.ReLU()] if residual else []
        self.head = nn.Sequential(*head, conv(features, self.outputs, 1))
        self.base = None if residual else Blur(BASE[dims])
        if residual:
            self.apply(_glorot)

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, [Z,] Y, X) of any size -> (B, outputs, [Z,] Y, X)."""
        return self.with_base(on_multiples(self.layers, x, self.multiple).to(x.dtype), x)

    def with_base(self, y: Tensor, x: Tensor) -> Tensor:
        """What the layers make of `x`, and the blurred copy of it that plain blocks add."""
        if self.base is None:
            return y
        with torch.autocast(x.device.type, enabled=False):  # brightness in full precision
            return y + self.base(x.narrow(1, (self.channels - self.outputs) // 2, self.outputs))

    @property
    def reach(self) -> tuple[int, ...]:
        """Pixels along each spatial axis, to either side, that an output pixel may depend on.

        A coarse pixel of level l is 2^l fine ones, which is what each step of a convolution there reaches.
        """
        levels = zip(self.encoder, [*self.decoder, None], [*self.down, None], strict=True)
        steps = sum(2**level * sum(_reach(module) for module in modules) for level, modules in enumerate(levels))
        layers = _reach(self.stem) + steps + self.multiple[0] - 1  # from one end of the coarsest pixel to the other
        blur = (0,) * len(self.multiple) if self.base is None else self.base.reach
        return tuple(max(layers, along) for along in blur)

    @property
    def values_per_pixel(self) -> int:
        """Values that prediction holds at once for each pixel of the input, at most.

        That is in the finest decoder: the skip, the upsampled features, both together, and what two layers of a plain
        block make of them. Residual blocks keep their input and the normalized one too.
        """
        return self.features * (6 if self.base is not None else 10)

    def layers(self, x: Tensor) -> Tensor:
        """All convolutions, for sizes that are multiples of the stride."""
        if x.device.type != "mps":
            x = x.contiguous(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
        x = self.encoder[0](self.stem(x))
        kept = []
        for down, encode, skip in zip(self.down, self.encoder[1:], self.skips, strict=True):
            kept.append([x] if skip else [])
            x = encode(down(x))
        for up, decode in zip(reversed(self.up), reversed(self.decoder), strict=True):
            x = decode(torch.cat([up(x), *kept.pop()], 1))
        return self.head(x)


def _reach(module: nn.Module | None) -> int:
    """Pixels of its own level, to either side, by which a layer or a block reaches farther than pooling alone."""
    match module:
        case nn.Sequential():
            return sum(_reach(inner) for inner in module)
        case Residual():
            return _reach(module.branch)
        case BlurPool():
            return 1
        case nn.Conv2d() | nn.Conv3d() if module.stride[0] == 1:
            return module.kernel_size[0] // 2
    return 0  # of one pixel, or of the 2×2(×2) that one coarse pixel is


def plain(dims: int, inputs: int, outputs: int) -> nn.Sequential:
    """Two times convolution, batch norm, ReLU."""
    conv, norm = CONV[dims], NORM[dims]
    return nn.Sequential(
        conv(inputs, outputs, 3, padding=1, bias=False),
        norm(outputs),
        nn.ReLU(inplace=True),
        conv(outputs, outputs, 3, padding=1, bias=False),
        norm(outputs),
        nn.ReLU(inplace=True),
    )


class Blur(nn.Module):
    """Gaussian blur with standard deviations along ([Z,] Y, X) in pixels; the image goes on beyond its borders."""

    def __init__(self, sigmas: Sequence[float]) -> None:
        super().__init__()
        for axis, sigma in enumerate(sigmas):
            weights = torch.exp(-0.5 * (torch.arange(-round(2 * sigma), round(2 * sigma) + 1) / sigma) ** 2)
            shape = [-1 if other == axis else 1 for other in range(len(sigmas))]
            self.register_buffer(f"kernel{axis}", (weights / weights.sum()).reshape(1, 1, *shape))

    @property
    def reach(self) -> tuple[int, ...]:
        """Pixels along each spatial axis, to either side, that an output pixel depends on."""
        return tuple(kernel.numel() // 2 for kernel in self.buffers())

    def forward(self, x: Tensor) -> Tensor:
        convolve = functional.conv2d if x.ndim == 4 else functional.conv3d
        for kernel in self.buffers():
            beyond = [size // 2 for size in reversed(kernel.shape[2:]) for _ in range(2)]
            padded = functional.pad(x, beyond, mode="replicate")
            x = convolve(padded, kernel.expand(x.shape[1], *kernel.shape[1:]), groups=x.shape[1])
        return x


class Residual(nn.Module):
    """Pre-activation residual block: x + convolutions(x), the shortcut projected where the widths differ."""

    def __init__(self, dims: int, inputs: int, outputs: int) -> None:
        super().__init__()
        conv, norm = CONV[dims], NORM[dims]
        self.shortcut = conv(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        self.branch = nn.Sequential(
            norm(inputs, momentum=MOMENTUM),
            nn.ReLU(),
            conv(inputs, outputs, 3, padding=1),
            norm(outputs, momentum=MOMENTUM),
            nn.ReLU(),
            conv(outputs, outputs, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.branch(x)


class BlurPool(nn.Module):
    """Halve the resolution without aliasing: the largest of 2×2 neighbors, then every other pixel of its blur.

    The blur is the binomial [1, 2, 1]/4 along each axis (Zhang: Making convolutional networks shift-invariant again).
    """

    kernel: Tensor

    def __init__(self, dims: int) -> None:
        super().__init__()
        binomial = torch.tensor([0.25, 0.5, 0.25])
        kernel = reduce(lambda made, one: made.unsqueeze(-1) * one, [binomial] * (dims - 1), binomial)
        self.register_buffer("kernel", kernel[None, None])

    def forward(self, x: Tensor) -> Tensor:
        dims, channels = x.ndim - 2, x.shape[1]
        pool, convolve = (
            (functional.max_pool2d, functional.conv2d) if dims == 2 else (functional.max_pool3d, functional.conv3d)
        )
        largest = pool(functional.pad(x, (0, 1) * dims, mode="replicate"), 2, stride=1)
        padded = functional.pad(largest, (1, 1) * dims, mode="replicate")
        return convolve(padded, self.kernel.expand(channels, *self.kernel.shape[1:]), stride=2, groups=channels)


def _glorot(module: nn.Module) -> None:
    if isinstance(module, Conv | Up):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
