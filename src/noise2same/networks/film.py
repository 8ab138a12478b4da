"""A network for films: each frame is denoised with those around it, at about the cost of a picture."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from noise2same.networks.unet import UNet


class Film(nn.Module):
    """Takes each frame through a network for pictures, with means of the frames before and after as more channels.

    The frames next to it come one by one, those farther away as means over twice as many each time: 1, 2, 4, 8, ...
    So a long time is seen through few channels, and what changes fast is still seen frame by frame. In the middle is
    the best linear estimate of the frame from all of them (`weights`), which has much less noise: a network that has
    learned from pictures takes that for its picture.

    Parameters
    ----------
    unet : UNet
        In 2D, for C × (2 `scales` + 3) channels, of which the middle C are its output.
    scales : int
        Means on either side of a frame.

    Examples
    --------
    >>> film = Film(UNet(2, 7, outputs=1, features=4, levels=3, block="plain"), scales=2)
    >>> film(torch.zeros(1, 1, 9, 16, 16)).shape
    torch.Size([1, 1, 9, 16, 16])
    >>> film.reach[0]
    3
    """

    weights: Tensor

    def __init__(self, unet: UNet, scales: int) -> None:
        super().__init__()
        self.unet, self.scales = unet, scales
        self.channels, self._seen = unet.outputs, unet.channels
        alone = torch.zeros(2 * scales + 1)
        alone[scales] = 1
        self.register_buffer("weights", alone)

    @property
    def multiple(self) -> tuple[int, ...]:
        """Stride along T, Y, X."""
        return (1, *self.unet.multiple)

    @property
    def reach(self) -> tuple[int, ...]:
        """Frames and pixels, to either side, that an output pixel may depend on."""
        return (frames_of(self.scales), *self.unet.reach)

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
        around = neighbors(x, self.scales, frames)
        middle = self.scales
        best = torch.tensordot(around[:, :-1], self.weights, ([1], [0]))
        seen = [*around[:, : middle + 1].unbind(1), best, around[:, -1], *around[:, middle + 1 : -1].unbind(1)]
        size, count = len(x), best.shape[2]
        y: Tensor = self.unet(torch.cat(seen, 1).transpose(1, 2).flatten(0, 1))
        return y.unflatten(0, (size, count)).transpose(1, 2)


def set_weights(network: nn.Module, weights: Sequence[float]) -> None:
    """Give all networks for films in a network the weights of the frames around."""
    for module in network.modules():
        if isinstance(module, Film):
            module.weights.copy_(torch.tensor(weights))


def frames_of(scales: int) -> int:
    """Frames on either side of a frame that so many means are taken of."""
    return 2**scales - 1


def scales_of(frames: int) -> int:
    """Means that it takes to see so many frames on either side."""
    return frames.bit_length()


def neighbors(x: Tensor, scales: int, frames: slice = slice(None)) -> Tensor:
    """Means over the frames around each frame, in order of time, and over all of them.

    Where a film begins or ends, a mean is over the frames that are there; one without any is that of nearer frames.

    Parameters
    ----------
    x : Tensor, (B, C, T, Y, X)
        The film.
    scales : int
        Means on either side: over 1, 2, 4, ... frames.
    frames : slice
        Which frames to do it for.

    Returns
    -------
    Tensor, (B, 2 scales + 2, C, T, Y, X)
        The frame itself is in the middle of the first 2 scales + 1.
    """
    reach = frames_of(scales)
    chosen = range(*frames.indices(x.shape[2]))
    start = max(0, chosen[0] - reach)
    x = x[:, :, start : chosen[-1] + 1 + reach]
    length, at = x.shape[2], torch.arange(chosen[0] - start, chosen[-1] + 1 - start, device=x.device)
    sums = torch.cat([torch.zeros_like(x[:, :, :1]), x.cumsum(2)], 2)

    def mean(first: Tensor, last: Tensor, otherwise: Tensor) -> Tensor:
        low, high = first.clamp(0, length), (last + 1).clamp(0, length)
        count = (high - low).clamp(min=0)[:, None, None]
        return torch.where(count > 0, (sums[:, :, high] - sums[:, :, low]) / count.clamp(min=1), otherwise)

    now = x[:, :, at]
    before, after = [now], [now]
    for near, far in ((2**scale, 2 ** (scale + 1) - 1) for scale in range(scales)):
        before.append(mean(at - far, at - near, before[-1]))
        after.append(mean(at + near, at + far, after[-1]))
    return torch.stack([*reversed(before), *after[1:], mean(at - reach, at + reach, now)], 1)


def best_linear_weights(films: Sequence[Tensor], variance: float, scales: int) -> tuple[Tensor, float]:
    """Weights of the means around a frame that estimate it best, and the error that is left of what is without them.

    The noise of other frames is independent of this one's, so that its covariance with them is that of the signal.

    Parameters
    ----------
    films : sequence of Tensor, (1, C, T, Y, X)
        Normalized.
    variance : float
        Of the noise.
    scales : int
        Means on either side.

    Returns
    -------
    weights : Tensor, (2 scales + 1,)
        Of the means around a frame. Their sum is 1, so that what does not change keeps its brightness.
    share : float
        Mean squared error with all frames, as a share of that with the best weight of the frame alone.
    """
    products, count = torch.zeros(2 * scales + 1, 2 * scales + 1, dtype=torch.float64), 0
    for film in films:
        around = neighbors(film, scales)[:, :-1].transpose(0, 1).flatten(1).double()
        products += around @ around.T
        count += around.shape[1]
    products /= max(count, 1)
    signal = products[scales].clone()
    signal[scales] = power = (signal[scales] - variance).clamp(min=1e-12)
    ridge = RIDGE * products.diagonal().mean() * torch.eye(len(products), dtype=torch.float64)
    weights = torch.linalg.solve(products + ridge, signal)
    left = (power - weights @ signal).clamp(min=0)
    share = float(left / (power * variance / (power + variance)))
    return (weights / weights.sum().clamp(min=LEAST_SUM)).float(), share


AT_ONCE = 2**18
"""Pixels of frames that go through the network at once in prediction."""
LEAST_SUM = 0.1
"""Of the weights, before they are divided by it."""
RIDGE = 1e-6
"""Added to the diagonal, as a share of its mean: films whose frames are all equal have no inverse."""
