"""The starter networks: trained on other pictures with noise of many kinds, so that nobody begins with random weights.

`tools/pretrain.py` in the repository made them. They are ordinary models.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import torch
from torch import Tensor, nn

from noise2same.model_file import read_model
from noise2same.networks.unet import Conv, UNet, Up

NAMES = {1: "grey", 3: "colour"}
"""By the number of channels."""
FEATURES, LEVELS = 16, 3
"""Of the pretrained U-Nets; one that is several times as wide begins as the same function."""


def exists(dims: int, channels: int, features: int, levels: int, block: str) -> bool:
    """Whether there are weights for 2D images with so many channels, and a U-Net of this size."""
    return dims == 2 and channels in NAMES and block == "plain" and levels == LEVELS and features % FEATURES == 0


def begin(network: nn.Module) -> bool:
    """Give a new network the weights of the starter with its layers, if there is one; whether there is.

    A network that is several times as wide begins as the same function.
    """
    if not isinstance(network, UNet) or len(network.multiple) != 2 or network.channels not in NAMES:
        return False
    with as_file(files("noise2same") / "networks" / "weights" / f"{NAMES[network.channels]}.safetensors") as path:
        _, weights = read_model(path)
    own = network.state_dict()
    if own.keys() != weights.keys():
        return False
    times = own["head.0.weight"].shape[1] // weights["head.0.weight"].shape[1]
    if times > 1:
        weights = broadened(network, weights, times)
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in weights.items()}:
        return False
    network.load_state_dict(weights)
    return True


def broadened(network: UNet, weights: dict[str, Tensor], times: int) -> dict[str, Tensor]:
    """Weights of a narrow network -> of one `times` as wide with the same outputs (Net2Net, Chen et al. 2016).

    Each feature map is there so many times. What a layer takes of the copies adds up to what it took of the one, but
    in unequal shares at random, or all copies would learn the same.
    """
    generator = torch.Generator().manual_seed(0)
    wide = dict(weights)
    for name, module in network.named_modules():
        if not isinstance(module, Conv | Up | nn.BatchNorm2d):
            continue
        inputs, outputs = (0, 1) if isinstance(module, Up) else (1, 0)
        for key in (f"{name}.{own}" for own in module.state_dict()):
            value = wide[key]
            if value.ndim and module is not network.head[-1]:
                value = value.repeat_interleave(times, outputs if value.ndim > 1 else 0)
            if value.ndim > 1 and value.shape[inputs] > network.channels:
                value = value.repeat_interleave(times, inputs)
                shares = torch.rand(value.shape, generator=generator).unflatten(inputs, (-1, times))
                value = value * (shares / shares.sum(inputs + 1, keepdim=True)).flatten(inputs, inputs + 1)
            wide[key] = value
    return wide
