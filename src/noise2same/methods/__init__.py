"""The methods: each turns (network, batch) into named loss terms, whose sum is minimised.

A method is one file here and one line in `METHODS`.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from noise2same.config import Config
from noise2same.methods.noise2same import Noise2Same
from noise2same.patches import Batch


class Method(Protocol):
    """What training needs of a method."""

    def __init__(self, config: Config, sigma: float) -> None:
        """Take settings from `config` and the noise level `sigma`, told or estimated, in normalised units."""

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Loss terms of one batch by name; their sum is the loss."""


METHODS: dict[str, type[Method]] = {"noise2same": Noise2Same}
