"""Networks made ready for prediction."""

from __future__ import annotations

from copy import deepcopy

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from noise2same.networks.unet import Conv, Norm


def folded(network: nn.Module) -> nn.Module:
    """Copy in evaluation mode, each batch norm that follows a convolution folded into its weights."""
    network = deepcopy(network).eval().requires_grad_(False)
    for sequence in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for i in range(len(sequence) - 1):
            first, second = sequence[i], sequence[i + 1]
            if isinstance(first, Conv) and isinstance(second, Norm):
                sequence[i], sequence[i + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return network
