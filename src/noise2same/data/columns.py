"""One value a channel, in the shape of images."""

from __future__ import annotations

from typing import List  # noqa: UP035 (what torch compiles knows no other)

import torch
from torch import Tensor


@torch.jit.script_if_tracing  # or a network that is exported would keep the values on the device of this process
def columns(values: List[float], like: Tensor) -> Tensor:  # noqa: UP006
    """One value a channel, or one for all, to be combined with images of shape (B, C, [Z,] Y, X): (C, 1, ...)."""
    return torch.tensor(values, dtype=like.dtype, device=like.device).reshape([-1] + [1] * (like.dim() - 2))
