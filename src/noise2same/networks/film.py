"""A network for films: each frame is denoised with those around it, at about the cost of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from noise2same.networks.unet import UNet

SCALES = 7
"""Means on either side of a frame: over 1, 1, 2, 4, 8, 16 and 32 frames."""
FRAMES = 2 ** (SCALES - 1)
"""Frames on either side that they are taken of, at most."""
INPUTS = 2 * SCALES + 3
"""What the network sees of each channel: the means, the frame, its best linear estimate and the mean of all."""
MIDDLE = SCALES + 1
"""Which of them is the linear estimate."""
AT_ONCE = 2**18
"""Pixels of frames that go through the network at once in prediction."""


@dataclass(frozen=True)
class Statistics:
    """What a network for films is told of them: how much frames have in common, and how much they spread.

    Parameters
    ----------
    weights : tuple of float
        Of the means around a frame, in order of time, whose sum is the best linear estimate of the frame.
    spreads : tuple of float
        Standard deviation of each of the `INPUTS`.
    share : float
        Mean squared error of that estimate, as a share of the one of the best multiple of the frame alone.
    """

    weights: tuple[float, ...]
    spreads: tuple[float, ...]
    share: float


class Film(nn.Module):
    """Takes each frame through a network for pictures, with means of the frames before and after as more channels.

    The frames next to it come one by one, those farther away as means over twice as many each time. So a long time is
    seen through few channels, and what changes fast is still seen frame by frame. In the middle is the best linear
    estimate of the frame from all of them, which has much less noise: a network that has learned from pictures takes
    that for its picture. Each of these is divided by its own spread, and the result multiplied by that of the middle.

    Parameters
    ----------
    unet : UNet
        In 2D, for C × `INPUTS` channels, of which the middle C are its output.
    frames : int
        Frames to look at on either side, up to `FRAMES`.

    Examples
    --------
    >>> film = Film(UNet(2, INPUTS, outputs=1, features=4, levels=3, block="plain"), frames=5)
    >>> film(torch.zeros(1, 1, 9, 16, 16)).shape
    torch.Size([1, 1, 9, 16, 16])
    >>> film.reach[0]
    5
    """

    weights: Tensor
    spreads: Tensor

    def __init__(self, unet: UNet, frames: int) -> None:
        super().__init__()
        self.unet, self.frames = unet, frames
        self.channels = unet.outputs
        self.register_buffer("weights", functional.one_hot(torch.tensor(SCALES), 2 * SCALES + 1).float())
        self.register_buffer("spreads", torch.ones(INPUTS))

    @property
    def multiple(self) -> tuple[int, ...]:
        """Stride along T, Y, X."""
        return (1, *self.unet.multiple)

    @property
    def reach(self) -> tuple[int, ...]:
        """Frames and pixels, to either side, that an output pixel may depend on."""
        return (self.frames, *self.unet.reach)

    @property
    def values_per_pixel(self) -> int:
        """Values that prediction holds at once for each pixel of the input, at most.

        They are the film and its sums; what is held for the few frames that go through the network at once is little.
        """
        return 6 * self.channels

    def forward(self, x: Tensor, frames: slice = slice(None)) -> Tensor:
        """(B, C, T, Y, X) -> the same shape; frames that are not asked for come back as they are."""
        if torch.is_grad_enabled():
            y = self._frames(x, frames)
        else:
            every = range(*frames.indices(x.shape[2]))
            step = max(1, AT_ONCE // (x.shape[-2] * x.shape[-1]))
            parts = [slice(every[i], every[min(i + step, len(every)) - 1] + 1) for i in range(0, len(every), step)]
            y = torch.cat([self._frames(x, part) for part in parts], 2)
        if y.shape == x.shape:
            return y
        whole = x.clone()
        whole[:, :, frames] = y
        return whole

    def _frames(self, x: Tensor, frames: slice) -> Tensor:
        """Some frames of a film, denoised."""
        seen = inputs(neighbors(x, self.frames, frames), self.weights) / self.spreads[:, None, None, None, None]
        size, count = len(x), seen.shape[3]
        y: Tensor = self.unet(seen.permute(0, 3, 1, 2, 4, 5).flatten(0, 1).flatten(1, 2))
        return y.unflatten(0, (size, count)).transpose(1, 2) * self.spreads[MIDDLE]


def tell(network: nn.Module, found: Sequence[Statistics]) -> None:
    """Give a network for films what was measured on them: of all channels together, or of each channel its own."""
    films = [module for module in network.modules() if isinstance(module, Film)]
    for film, one in zip(films, found[1:] if len(films) > 1 else found[:1], strict=True):
        film.weights.copy_(torch.tensor(one.weights))
        film.spreads.copy_(torch.tensor(one.spreads))


def neighbors(x: Tensor, limit: int, frames: slice = slice(None)) -> Tensor:
    """Means over the frames around each frame, in order of time, and over all of them.

    Where a film begins or ends, a mean is over the frames that are there; one without any is that of nearer frames.

    Parameters
    ----------
    x : Tensor, (B, C, T, Y, X)
        The film.
    limit : int
        Frames to look at on either side, at most.
    frames : slice
        Which frames to do it for.

    Returns
    -------
    Tensor, (B, 2 SCALES + 2, C, T, Y, X)
        The frame itself is in the middle of the first 2 SCALES + 1.
    """
    chosen = range(*frames.indices(x.shape[2]))
    start = max(0, chosen[0] - limit)
    x = x[:, :, start : chosen[-1] + 1 + limit]
    length, at = x.shape[2], torch.arange(chosen[0] - start, chosen[-1] + 1 - start, device=x.device)
    sums = torch.cat([torch.zeros_like(x[:, :, :1]), x.cumsum(2)], 2)

    def mean(first: Tensor, last: Tensor, otherwise: Tensor) -> Tensor:
        low, high = first.clamp(0, length), (last + 1).clamp(0, length)
        count = (high - low).clamp(min=0)[:, None, None]
        return torch.where(count > 0, (sums[:, :, high] - sums[:, :, low]) / count.clamp(min=1), otherwise)

    now = x[:, :, at]
    before, after = [now], [now]
    for near, far in WINDOWS:
        far = min(far, limit)
        before.append(mean(at - far, at - near, before[-1]))
        after.append(mean(at + near, at + far, after[-1]))
    return torch.stack([*reversed(before), *after[1:], mean(at - limit, at + limit, now)], 1)


WINDOWS = [(1, 1), *((2**scale // 2 + 1, 2**scale) for scale in range(1, SCALES))]
"""First and last frame of each mean, counted from the frame."""


def inputs(around: Tensor, weights: Tensor) -> Tensor:
    """What the network sees, (B, INPUTS, C, T, Y, X): the `neighbors`, with their linear estimate in the middle."""
    best = torch.einsum("bn...,n->b...", around[:, :-1], weights.to(around)).unsqueeze(1)
    return torch.cat([around[:, :MIDDLE], best, around[:, -1:], around[:, MIDDLE:-1]], 1)


def measure(films: Sequence[Tensor], variance: float, limit: int) -> Statistics:
    """What there is to tell a network for films.

    The noise of other frames is independent of this one's, so that its covariance with them is that of the signal. It
    is that of means over `BIN` × `BIN` pixels: the network takes the finer noise away by itself, and weights that are
    best for single pixels would blur what changes for the sake of that noise.

    Parameters
    ----------
    films : sequence of Tensor, (1, C, T, Y, X)
        Normalized.
    variance : float
        Of the noise.
    limit : int
        Frames to look at on either side, at most.
    """
    products, count = torch.zeros(2 * SCALES + 1, 2 * SCALES + 1, dtype=torch.float64), 0
    squares = torch.zeros(INPUTS, dtype=torch.float64)
    every = [neighbors(film, limit) for film in films]
    for around in every:
        coarse = functional.avg_pool2d(around[:, :-1].flatten(0, 3), BIN).unflatten(0, around[:, :-1].shape[:4])
        coarse = coarse.transpose(0, 1).flatten(1).double()
        products += coarse @ coarse.T
        count += coarse.shape[1]
    weights, share = best_linear_weights(products / max(count, 1), variance / BIN**2)
    for around in every:
        squares += inputs(around, weights.float()).double().square().mean((0, 2, 3, 4, 5)) / len(every)
    spreads = squares.sqrt().clamp(min=LEAST_SPREAD)
    return Statistics(tuple(weights.tolist()), tuple(spreads.tolist()), share)


def best_linear_weights(products: Tensor, variance: float | Tensor) -> tuple[Tensor, float]:
    """Weights of the means around a frame that estimate it best, and the share of the error that is left.

    Parameters
    ----------
    products : Tensor, (2 SCALES + 1, 2 SCALES + 1)
        Mean products of the means, noise included.
    variance : float
        Of the noise of a frame.

    Returns
    -------
    weights : Tensor, (2 SCALES + 1,)
        Their sum is 1, so that what does not change keeps its brightness.
    share : float
        Mean squared error, as a share of that with the best weight of the frame alone.
    """
    signal = products[SCALES].clone()
    signal[SCALES] = power = (signal[SCALES] - variance).clamp(min=1e-12)
    ridge = RIDGE * products.diagonal().mean() * torch.eye(len(products), dtype=products.dtype)
    weights = torch.linalg.solve(products + ridge, signal)
    left = (power - weights @ signal).clamp(min=0)
    share = float(left / (power * variance / (power + variance)).clamp(min=1e-12))
    return weights / weights.sum().clamp(min=LEAST_SUM), share


BIN = 4
"""Side in pixels of the means whose covariance is measured. On calcium-like films of −13 and −20 dB, 4 was better than
1 by 0.2 and 0.0 dB of the pretrained network's output, and than 8 by 0.3 and 0.1 dB."""
LEAST_SUM = 0.1
"""Of the weights, before they are divided by it."""
LEAST_SPREAD = 1e-3
"""Of what the network sees: films without any contrast have none."""
RIDGE = 1e-6
"""Added to the diagonal, as a share of its mean: films whose frames are all equal have no inverse."""
