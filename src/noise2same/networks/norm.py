"""Batch norm whose statistics are those of the global batch, also where several processes train one network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from noise2same import ranks


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """`nn.BatchNorm2d` over the batches of all processes."""

    def forward(self, x: Tensor) -> Tensor:
        return _normalized(self, x) if self.training and ranks.several() else super().forward(x)


class GlobalBatchNorm3d(nn.BatchNorm3d):
    """`nn.BatchNorm3d` over the batches of all processes."""

    def forward(self, x: Tensor) -> Tensor:
        return _normalized(self, x) if self.training and ranks.several() else super().forward(x)


def _normalized(norm: nn.BatchNorm2d | nn.BatchNorm3d, x: Tensor) -> Tensor:
    """Normalize a batch by the statistics of all processes' batches, which join the running ones.

    torch's `SyncBatchNorm` does so on GPUs only.
    """
    mean, variance = torch.batch_norm_update_stats(x.detach(), None, None, 0.0)  # ten times as fast as var_mean
    here = torch.stack([torch.ones_like(mean), mean, variance + mean.square()]).double() * (x.numel() / x.shape[1])
    count, first, second = ranks.reduced(here)  # 64 bits: the difference below would lose digits
    mean, variance = first / count, second / count - (first / count).square()
    assert norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None
    assert norm.momentum is not None
    norm.num_batches_tracked.add_(1)
    unbiased = variance * count / (count - 1)
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
    norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), norm.momentum)
    scale = (variance + norm.eps).rsqrt()
    normalized: Tensor = _Normalized.apply(
        x, norm.weight, norm.bias, mean.to(norm.weight.dtype), scale.to(norm.weight.dtype), float(count[0])
    )
    return normalized


class _Normalized(torch.autograd.Function):
    """(x − mean) · scale · weight + bias; the gradient knows that mean and scale are statistics of all x.

    Written out, because autograd would pass over the images four times as often.
    """

    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor, count: float
    ) -> Tensor:
        context.save_for_backward(x, weight, mean, scale)
        context.count = count
        slope = weight * scale
        return torch.addcmul(_along(bias - mean * slope, x), x, _along(slope, x))

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, scale = context.saved_tensors
        sums, products = _wide(gradient).sum(_pixels(x)), _wide(gradient * x).sum(_pixels(x))
        products = (products - mean * sums) * scale  # of the gradient and the normalized values
        all_sums, all_products = ranks.reduced(torch.stack([sums, products])) / context.count
        slope, tilt = weight * scale, weight * scale.square() * all_products
        flat = mean * tilt - slope * all_sums
        into = torch.addcmul(_along(flat, x), gradient, _along(slope, x)).addcmul_(x, _along(-tilt, x))
        return into, products, sums, None, None, None


def _wide(x: Tensor) -> Tensor:
    """In 32 bits at least, in which sums over many pixels are exact enough."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _pixels(x: Tensor) -> list[int]:
    """All axes but that of the channels."""
    return [axis for axis in range(x.ndim) if axis != 1]


def _along(values: Tensor, x: Tensor) -> Tensor:
    """One value a channel, in the shape and type of images."""
    return values.to(x.dtype).reshape(1, -1, *[1] * (x.ndim - 2))
