"""How long a cell will take: the operations of its network, times its steps, by what a machine does in a second."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from noise2same.config import Config
from noise2same.methods import Facts, find
from noise2same.paper.datasets import Dataset, Split
from noise2same.paper.reproduce.cells import Cell
from noise2same.paper.reproduce.plan import PROTOCOLS, Preset

RATES: dict[Preset, float] = {"cpu": 6e10, "paper": 2e13}
"""Operations a second in training: of one core as measured here, and of a GPU such as an A100 as a guess."""
BACKWARD = 3
"""A step costs about so many forward passes."""
SIDE = 16
"""Of the patch whose operations are counted."""


def hours(cell: Cell, preset: Preset) -> tuple[int, float]:
    """Steps of a cell, and about how long they take; nothing for what is not trained."""
    if cell.method == "noisy":
        return 0, 0.0
    config = Config.of(**cell.settings(stand_in()))
    if not find(config).trained:
        return 0, 0.0
    protocol, steps = PROTOCOLS[cell.dataset], config.steps or 0
    passes = 2 if config.method == "noise2same" else 1
    pixels = BACKWARD * steps * passes * config.batch_of(protocol.dims) * math.prod(config.patch_of(protocol.dims))
    each = _operations(config.method, protocol.dims, protocol.channels, config.block, config.features)
    return steps, pixels * each / RATES[preset] / 3600


@cache
def _operations(method: str, dims: int, channels: int, block: Any, features: int) -> float:
    """Of one pass of a pixel through a method's network."""
    config = Config(method=method, block=block, features=features)
    small = torch.zeros(1, channels, *(SIDE,) * dims)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        find(config)(config, Facts(dims, channels)).network()(small)
    return counter.get_total_flops() / SIDE**dims


def stand_in() -> Dataset:
    """What settings can be made of without the data."""
    noisy = Split([np.eye(8)], [np.eye(8)])
    return Dataset("", "YX", noisy, noisy, {"": noisy}, 1.0)
