"""What the fast preset was chosen from: settings and networks, one thread each, as many at once as there are cores.

Each candidate changes the preset in one way, without a noise model, from scratch and to the end of the budget, and is
trained on BSD's Train400 (σ = 25), tested on every third image of BSD68. "As it is" a preset begins with a trained
network, may use a noise model and ends when it is done. Other seeds show what is chance. Networks that lost are written
down here and not in the package.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import record
import torch
from torch import Tensor, nn

from noise2same import Config, Denoiser
from noise2same.data.padding import on_multiples
from noise2same.data.patches import Batch
from noise2same.methods import Method
from noise2same.methods.noise2same import Noise2Same
from noise2same.networks.unet import Conv, UNet
from noise2same.quality.metrics import psnr


def unet(method: Method, channels: int = 1, **shape: Any) -> UNet:
    """U-Net of the settings, of another shape."""
    c = method.config
    return UNet(2, channels, features=c.features, levels=c.levels, block=c.block, **shape)


def depthwise(method: Method) -> nn.Module:
    """U-Net whose 3×3 convolutions of many channels are one for each channel, and one of 1×1 that mixes them."""
    network = unet(method)
    for sequence in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for i, conv in enumerate(sequence):
            if isinstance(conv, Conv) and conv.kernel_size == (3, 3) and conv.in_channels > 1:
                inputs, outputs = conv.in_channels, conv.out_channels
                alone = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False)
                sequence[i] = nn.Sequential(alone, nn.Conv2d(inputs, outputs, 1, bias=False))
    return network


class Unshuffled(nn.Module):
    """U-Net of half the resolution, in which each 2×2 pixels are four channels of one."""

    multiple = (8, 8)

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.PixelUnshuffle(2), unet(method, 4), nn.PixelShuffle(2))

    def forward(self, x: Tensor) -> Tensor:
        return on_multiples(self.inner, x, self.multiple)


def compiled(method: Method) -> nn.Module:
    """The U-Net, compiled by PyTorch at its first step, within the budget."""
    network = unet(method)
    network.compile()
    return network


def growing(size: Callable[[float], tuple[int, int]]) -> type[Noise2Same]:
    """Noise2Same with patches of a number and side that `size` tells from the share of the budget that is used."""

    class Growing(Noise2Same):
        began: float | None = None

        def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
            assert self.config.minutes is not None
            self.began = self.began or time.monotonic()
            count, edge = size((time.monotonic() - self.began) / (60 * self.config.minutes))
            part = Batch(*(None if one is None else one[:count, ..., :edge, :edge] for one in batch))
            return super().__call__(network, part, generator)

    return Growing


def shaped(make: Callable[[Method], nn.Module]) -> type[Noise2Same]:
    """Noise2Same with another network."""
    return type("Shaped", (Noise2Same,), {"network": lambda self: make(self)})


CANDIDATES: dict[str, tuple[dict[str, Any], type[Noise2Same]]] = {
    "fast": ({}, Noise2Same),
    "fast as it is": ({"preset": "fast"}, Noise2Same),
    "best as it is": ({"preset": "best"}, Noise2Same),
    "fast, never content": ({"preset": "fast", "early_stop": False}, Noise2Same),
    "best, never content": ({"preset": "best", "early_stop": False}, Noise2Same),
    "fast, seed 1": ({"seed": 1}, Noise2Same),
    "fast, seed 2": ({"seed": 2}, Noise2Same),
    "8 features": ({"features": 8}, Noise2Same),
    "24 features": ({"features": 24}, Noise2Same),
    "32 features": ({"features": 32}, Noise2Same),
    "2 levels": ({"levels": 2}, Noise2Same),
    "4 levels": ({"levels": 4}, Noise2Same),
    "residual blocks": ({"block": "residual"}, Noise2Same),
    "no skip at full resolution": ({}, shaped(partial(unet, finest_skip=False))),
    "blur-pool": ({}, shaped(partial(unet, blur_pool=True))),
    "depthwise": ({}, shaped(depthwise)),
    "depthwise, 32 features": ({"features": 32}, shaped(depthwise)),
    "pixel-unshuffled, 32 features": ({"features": 32}, shaped(Unshuffled)),
    "compiled": ({}, shaped(compiled)),
    "batches of 2": ({"batch": 2}, Noise2Same),
    "batches of 8": ({"batch": 8}, Noise2Same),
    "batches of 2, 4, then 8": ({"batch": 8}, growing(lambda share: (2 ** (1 + int(3 * min(share, 0.99))), 64))),
    "16 patches of 32": ({"patch": 32, "batch": 16}, Noise2Same),
    "1 patch of 128": ({"patch": 128, "batch": 1}, Noise2Same),
    "16 patches of 32, then 4 of 64": ({"batch": 16}, growing(lambda share: (16, 32) if share < 0.5 else (4, 64))),
    "learning rate 1e-3": ({"learning_rate": 1e-3}, Noise2Same),
    "learning rate 6e-3": ({"learning_rate": 6e-3}, Noise2Same),
    "learning rate halved ten times": ({"schedule": "halving"}, Noise2Same),
    "equation 6": ({"invariance": "whole"}, Noise2Same),
    "5 % masked": ({"mask_density": 0.05}, Noise2Same),
    "20 % masked": ({"mask_density": 0.2}, Noise2Same),
    "Gaussian fill": ({"fill": "gaussian"}, Noise2Same),
    "λ = 2": ({"lambda_inv": 2.0}, Noise2Same),
    "no weight average": ({"ema": 0.0}, Noise2Same),
    "batch norm never settles": ({"settle": 1.0}, Noise2Same),
}
"""What each changes in the settings, and the method, where that is changed too; a preset that is named, as it is."""


class Candidate(Denoiser):
    """A denoiser whose method is given as a class."""

    def __init__(self, name: str, minutes: float) -> None:
        settings, self._changed = CANDIDATES[name]
        plain = {} if "preset" in settings else {"noise_model": "none", **record.FAIR}
        super().__init__(Config(minutes=minutes, **plain, **settings))

    @property
    def method(self) -> type[Method]:
        return self._changed


def measure(name: str, minutes: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    _, noisy, test, test_noisy = record.bsd68()
    model = Candidate(name, minutes).fit(noisy, progress=False)
    scores = [psnr(y, model.denoise(x), data_range=255) for y, x in zip(test[::3], test_noisy[::3], strict=True)]
    steps, used = model.summary["steps"], model.summary["seconds"] / 60
    return {"candidate": name, "PSNR (dB)": round(float(np.mean(scores)), 2), "steps": steps, "minutes": round(used, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    parser.add_argument("--name", default="presets", help="of the files that are written")
    arguments = parser.parse_args()
    rows = record.side_by_side(partial(measure, minutes=arguments.minutes), arguments.candidates)
    text = f"# Choosing a preset\n\nBSD68, σ = 25: at most {arguments.minutes:g} minutes, on one thread each."
    record.write(arguments.name, rows, text)


if __name__ == "__main__":
    main()
