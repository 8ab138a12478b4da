"""How long a cell will take: the operations of its network, times its steps, by what a machine does in a second."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from noise2same.networks.blindspot import BlindSpot
from noise2same.networks.unet import UNet
from noise2same.paper.datasets import Dataset, Split
from noise2same.paper.reproduce.cells import Cell
from noise2same.paper.reproduce.protocols import PROTOCOLS, Preset

RATES: dict[Preset, float] = {"cpu": 6e10, "paper": 2e13}
"""Operations a second in training: of one core as measured here, and of a GPU such as an A100 as a guess."""
FEATURES: dict[Preset, int] = {"cpu": 16, "paper": 96}
"""Of the network, which has three levels."""
PATCHES: dict[Preset, int] = {"cpu": 8, "paper": 64}
"""Of 64×64 pixels, or as many voxels, in a step. On a CPU, losses of two passes have half as many."""
TWO_PASSES = ("noise2same", "projected", "auto")
BACKWARD = 3
"""A step costs about so many forward passes."""
SIDE = 16
"""Of the patch whose operations are counted."""


def hours(cell: Cell, preset: Preset) -> tuple[int, float]:
    """Steps of a cell, and about how long they take; nothing for what is not trained."""
    if not cell.trained:
        return 0, 0.0
    settings, protocol = cell.settings(stand_in()), PROTOCOLS[cell.dataset]
    passes = 2 if preset == "paper" and settings["method"] in TWO_PASSES else 1
    pixels = BACKWARD * settings["steps"] * passes * PATCHES[preset] * 64**2
    each = _operations(settings["method"] == "laine", protocol.dims, protocol.channels, preset)
    return settings["steps"], pixels * each / RATES[preset] / 3600


@cache
def _operations(blind: bool, dims: int, channels: int, preset: Preset) -> float:
    """Of one pass of a pixel through the network."""
    features = FEATURES[preset]
    network: nn.Module
    if blind:
        network = BlindSpot(dims, channels, channels, features=features, levels=3)
    else:
        network = UNet(dims, channels, features=features, levels=3, block="residual" if preset == "paper" else "plain")
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, channels, *(SIDE,) * dims))
    return counter.get_total_flops() / SIDE**dims


def stand_in() -> Dataset:
    """What settings can be made of without the data."""
    noisy = Split([np.eye(8)], [np.eye(8)])
    return Dataset("", "YX", noisy, noisy, {"": noisy}, 1.0)
