"""One network for each channel, as one module: channels that have nothing in common do not disturb each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Separate(nn.Module):
    """Takes each channel through a network of its own.

    Parameters
    ----------
    networks : sequence of Module
        One for each channel, of one kind: each maps (B, 1, [Z,] Y, X) to the same shape.

    Examples
    --------
    >>> Separate([nn.Identity(), nn.ReLU()])(torch.full((1, 2, 1, 1), -1.0)).flatten().tolist()
    [-1.0, 0.0]
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor, *options: Any) -> Tensor:
        """(B, C, [Z,] Y, X) -> the same shape; `options` are for the networks."""
        parts = zip(self.networks, x.split(1, 1), strict=True)
        return torch.cat([network(part, *options) for network, part in parts], 1)

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return len(self.networks)

    @property
    def multiple(self) -> tuple[int, ...]:
        """Stride along each spatial axis."""
        return self._first.multiple

    @property
    def reach(self) -> tuple[int, ...]:
        """Pixels along each spatial axis, to either side, that an output pixel may depend on."""
        return self._first.reach

    @property
    def values_per_pixel(self) -> int:
        """Values that prediction holds at once for each pixel: those of one network, and what the others made."""
        return self._first.values_per_pixel + self.channels

    @property
    def _first(self) -> Any:
        return self.networks[0]
