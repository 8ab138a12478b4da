"""What the fast preset was chosen from: settings and networks, one thread each, as many at once as there are cores.

Each candidate changes the preset in one way, with the projected loss, from scratch and to the end of the budget. It is
trained on BSD's Train400 (σ = 25), and tested on every third image of BSD68. "auto" rows are presets as users have
them: with the pretrained network, the loss that the plan chooses, and early stopping unless the row says otherwise.
Other seeds show what is chance. Networks that lost are written down here and not in the package.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import record
import torch
from torch import Tensor, nn

from noise2same import Config, Denoiser
from noise2same.data.padding import on_multiples
from noise2same.methods import Method
from noise2same.methods.projected import Projected
from noise2same.networks.unet import Conv, UNet
from noise2same.quality.metrics import psnr


def unet(method: Method, channels: int = 1, **shape: Any) -> UNet:
    """U-Net of the settings, of another shape."""
    size = method.architecture
    return UNet(2, channels, features=size.features, levels=size.levels, block=size.block, **shape)


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


def shaped(make: Callable[[Method], nn.Module]) -> dict[str, Any]:
    """The projected loss with another network."""
    return {"method": type("Shaped", (Projected,), {"name": "shaped", "network": lambda self: make(self)})}


CANDIDATES: dict[str, dict[str, Any]] = {
    "fast": {},
    "fast, auto": {"preset": "fast"},
    "fast, auto, no early stopping": {"preset": "fast", "early_stopping": False},
    "best, auto, no early stopping": {"preset": "best"},
    "fast, seed 1": {"seed": 1},
    "fast, seed 2": {"seed": 2},
    "8 features": {"features": 8},
    "24 features": {"features": 24},
    "32 features": {"features": 32},
    "2 levels": {"levels": 2},
    "4 levels": {"levels": 4},
    "residual blocks": {"block": "residual"},
    "no skip at full resolution": shaped(partial(unet, finest_skip=False)),
    "blur-pool": shaped(partial(unet, blur_pool=True)),
    "depthwise": shaped(depthwise),
    "depthwise, 32 features": {"features": 32, **shaped(depthwise)},
    "pixel-unshuffled, 32 features": {"features": 32, **shaped(Unshuffled)},
    "batches of 2": {"batch": 2},
    "batches of 8": {"batch": 8},
    "16 patches of 32": {"patch": 32, "batch": 16},
    "1 patch of 128": {"patch": 128, "batch": 1},
    "learning rate 1e-3": {"learning_rate": 1e-3},
    "learning rate 6e-3": {"learning_rate": 6e-3},
    "noise2same (eq. 6)": {"method": "noise2same"},
    "5 % masked": {"mask_density": 0.05},
    "20 % masked": {"mask_density": 0.2},
    "Gaussian fill": {"fill": "gaussian"},
}
"""Options of each candidate; one that names a preset is taken as it is."""


def measure(name: str, minutes: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    _, noisy, test, test_noisy = record.bsd68()
    own = CANDIDATES[name]
    base = {} if "preset" in own else {"method": "projected", **record.FAIR}
    model = Denoiser(Config.of(minutes=minutes, **base | own)).fit(noisy, progress=False)
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
    text = f"# Choosing the fast preset\n\nBSD68, σ = 25: at most {arguments.minutes:g} minutes, on one thread each."
    record.write(arguments.name, rows, text)


if __name__ == "__main__":
    main()
