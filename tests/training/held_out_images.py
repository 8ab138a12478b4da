"""A noisy picture and networks whose error on it is known, for the tests of this folder."""

from __future__ import annotations

import numpy as np
import torch
from skimage import data
from torch import nn

from noise2same.networks.unet import Blur

SIGMA = 0.5


def noisy_pair():
    """A normalized picture, and the same with Gaussian noise: (1, 1, 512, 512)."""
    clean = torch.from_numpy(data.camera().astype(np.float32))[None, None]
    clean = (clean - clean.mean()) / clean.std()
    return clean, clean + SIGMA * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))


class Mix(nn.Module):
    """Some of the image and the rest of its blur: the more of the image, the more of the noise and of the signal."""

    def __init__(self, share):
        super().__init__()
        self.share, self.blur = nn.Parameter(torch.tensor(share)), Blur((1.0, 1.0))

    def forward(self, x):
        return self.share * x + (1 - self.share) * self.blur(x)


class Function(nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
