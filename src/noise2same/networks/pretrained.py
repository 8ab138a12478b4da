"""Pretrained networks: trained on other pictures, with clean targets, for noise of many kinds.

`tools/pretrain.py` in the repository made those for pictures, and `tools/pretrain_film.py` the one for films. They are
ordinary models, in `weights/` beside this file. A network for volumes begins with the weights of one for pictures in
its middle planes.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import torch
from torch import Tensor, nn

from noise2same.model_file import read_model
from noise2same.networks.film import Film
from noise2same.networks.separate import Separate
from noise2same.networks.unet import Conv, Norm, UNet, Up

NAMES = {1: "grey", 3: "colour"}
"""Of the pretrained networks, by their number of channels."""
WIDTHS = (32, 16)
"""Feature maps at the finest level; there is a file for each name and width."""
FILM_WIDTH = 16
"""The same of the network for films."""
LEVELS = 3
"""Of the pretrained U-Nets, which have plain blocks."""


def exists(channels: int, features: int, levels: int, block: str) -> bool:
    """Whether there are weights for a U-Net of this size; one that is several times as wide takes them too."""
    fits = any(features % width == 0 for width in WIDTHS)
    return channels in NAMES and block == "plain" and levels == LEVELS and fits


def exists_for_films(features: int, levels: int, block: str) -> bool:
    """Whether there are weights for a network of this size for films with one channel."""
    return features % FILM_WIDTH == 0 and block == "plain" and levels == LEVELS


def load_pretrained(network: nn.Module) -> bool:
    """Load pretrained weights into a new network, if there are any for its layers.

    There are for the default U-Net with one or three channels, and so for one that takes each channel by itself. If the
    network is several times as wide, the weights are widened so that it computes the same function. A network for
    volumes gets them inflated: it has to be trained.

    Returns
    -------
    bool
        Whether there are such weights; if not, the network is unchanged.
    """
    if isinstance(network, Separate):
        return all([load_pretrained(one) for one in network.networks])
    if isinstance(network, Film):
        unet = network.unet
        return exists_for_films(unet.features, len(unet.encoder), "plain") and load_weights(
            unet, _read("film", "unet.")
        )
    if not isinstance(network, UNet) or network.outputs not in NAMES:
        return False
    width = next((width for width in WIDTHS if network.features % width == 0), None)
    return width is not None and load_weights(network, _read(f"{NAMES[network.outputs]}{width}"))


def _read(name: str, within: str = "") -> dict[str, Tensor]:
    """The weights in a file of ours whose names begin with `within`, which is taken off."""
    with as_file(files("noise2same") / "networks" / "weights" / f"{name}.safetensors") as path:
        _, weights = read_model(path)
    return {key.removeprefix(within): value for key, value in weights.items() if key.startswith(within)}


def load_weights(network: UNet, weights: dict[str, Tensor]) -> bool:
    """Load the weights of a U-Net into one that is as wide, or several times as wide; False if they do not fit."""
    own = network.state_dict()
    if len(network.multiple) == 3:
        weights = inflate(weights, own)
    if own.keys() != weights.keys():
        return False
    weights = with_more_inputs(weights, own)
    times = own["head.0.weight"].shape[1] // weights["head.0.weight"].shape[1]
    if times > 1:
        weights = net2wider(network, weights, times)
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in weights.items()}:
        return False
    network.load_state_dict(weights)
    return True


def with_more_inputs(weights: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights for a network that sees more channels than it returns: zeros for those around the middle ones."""
    name = "encoder.0.0.weight"
    if name not in weights or own[name].shape[1] == weights[name].shape[1]:
        return weights
    wide = weights[name].new_zeros(weights[name].shape[0], *own[name].shape[1:])
    count = weights[name].shape[1]
    wide.narrow(1, (wide.shape[1] - count) // 2, count).copy_(weights[name])
    return weights | {name: wide}


def inflate(weights: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights for volumes made of those for pictures: a kernel is put in the middle plane of one with three planes.

    Where a layer doubles the size, both planes get the kernel. The blurred copy of the image is the volume's own.

    Parameters
    ----------
    weights : dict
        State of a network for pictures, which may be narrower.
    own : dict
        State of the network for volumes.
    """
    inflated = {name: value for name, value in own.items() if name.startswith("base.")}
    for name, value in weights.items():
        if name in inflated or name not in own:
            continue
        if value.ndim == 4:
            planes = own[name].shape[2]
            value = value.unsqueeze(2).repeat(1, 1, planes, 1, 1)
            if planes == 3:
                value[:, :, [0, 2]] = 0
        inflated[name] = value
    return inflated


def net2wider(network: UNet, weights: dict[str, Tensor], times: int) -> dict[str, Tensor]:
    """Widen the weights of a network so that it computes the same function (Net2Net, Chen et al. 2016).

    Each feature map is copied. The weights with which a layer takes the copies add up to the weight of the original,
    but in unequal random shares, because equal copies would have equal gradients and stay equal.

    Parameters
    ----------
    network : UNet
        The wide network, of which only the layers are used.
    weights : dict
        State of the narrow one.
    times : int
        Copies of each feature map.
    """
    generator = torch.Generator().manual_seed(0)
    wide = dict(weights)
    for name, module in network.named_modules():
        if not isinstance(module, Conv | Up | Norm):
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
