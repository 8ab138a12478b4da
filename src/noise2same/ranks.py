"""Sums over all processes that train one network, as if their patches were one batch.

Every process computes the loss of the global batch from such sums, so all have the same loss. The gradient of a sum is
the sum of the gradients that all processes have for it; DDP's mean over the processes then is the gradient of the loss
of the global batch. A loss without such sums is the mean of the processes' losses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed


def several() -> bool:
    """Whether several processes train one network."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def total(values: Tensor) -> Tensor:
    """Sum over all processes, through which gradients flow; the values themselves if there is but one process."""
    return _Total.apply(values) if several() else values


def ratio(numerator: Tensor, count: Tensor) -> Tensor:
    """Sum over all processes of `numerator`, for each of `count`, which is at least 1. Both are of the same shape."""
    above, below = total(torch.stack([numerator, count.to(numerator.dtype)]))
    return above / below.clamp(min=1)


def reduced(values: Tensor) -> Tensor:
    """Sum over all processes, as a new tensor without a gradient."""
    summed = values.detach().clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(summed)
    return summed


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        return reduced(values)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return reduced(gradients[0])
