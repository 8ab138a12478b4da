"""A network for films: each frame is denoised with those around it, at about the cost of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from noise2same.networks import motion
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
FOLLOWED = 4
"""Frames on either side that are moved back in scenes that move. On four panning scenes, the pretrained network's
output was 0.2 dB better with 4 than with 2, and with 8 and 16 as good."""


@dataclass(frozen=True)
class Statistics:
    """What a network for films is told of them: how much frames have in common, and how much they spread.

    Parameters
    ----------
    weights : tuple of float
        Of the means around a frame, in order of time, whose sum is the best linear estimate of the frame.
    spreads : tuple of float
        Standard deviation of each of the `INPUTS`.
    variance : float
        Of the noise.
    moves : bool
        Whether the nearest frames of a frame are to be taken to where their contents are in it.
    share : float
        Mean squared error of that estimate, as a share of the one of the best multiple of the frame alone.
    """

    weights: tuple[float, ...]
    spreads: tuple[float, ...]
    variance: float
    moves: bool
    share: float


class Film(nn.Module):
    """Takes each frame through a network for pictures, with means of the frames before and after as more channels.

    The frames next to it come one by one, those farther away as means over twice as many each time. So a long time is
    seen through few channels, and what changes fast is still seen frame by frame. In the middle is the best linear
    estimate of the frame from all of them, which has much less noise: a network that has learned from pictures takes
    that for its picture. Each of these is divided by its own spread, and the result multiplied by that of the middle.

    Where a place is brighter or darker than it was, as it flashes or something moves away, the frames of that time have
    less weight in the estimate. In scenes that move, the nearest frames are moved back first.

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
    variance: Tensor
    moves: Tensor

    def __init__(self, unet: UNet, frames: int) -> None:
        super().__init__()
        self.unet, self.frames = unet, frames
        self.channels = unet.outputs
        self.register_buffer("weights", functional.one_hot(torch.tensor(SCALES), 2 * SCALES + 1).float())
        self.register_buffer("spreads", torch.ones(INPUTS))
        self.register_buffer("variance", torch.ones(()))
        self.register_buffer("moves", torch.zeros(()))

    @property
    def multiple(self) -> tuple[int, ...]:
        """Stride along T, Y, X."""
        return (1, *((motion.STRIDE,) * 2 if self.moves else self.unet.multiple))

    @property
    def reach(self) -> tuple[int, ...]:
        """Frames and pixels, to either side, that an output pixel may depend on."""
        beyond = motion.reach(FOLLOWED) if self.moves else 0
        return (self.frames, *(pixels + COMPARED + beyond for pixels in self.unet.reach))

    @property
    def values_per_pixel(self) -> int:
        """Values that prediction holds at once for each pixel of the input, at most.

        They are the film and its sums; what is held for the few frames that go through the network at once is little.
        """
        return 6 * self.channels

    def forward(self, x: Tensor, frames: slice = slice(None)) -> Tensor:
        """(B, C, T, Y, X) -> the same shape; frames that are not asked for come back as they are."""
        moving = motion_of(x, self.frames, frames) if self.moves else None
        if torch.is_grad_enabled():
            y = self._frames(x, frames, moving)
        else:
            every, sums = range(*frames.indices(x.shape[2])), sums_of(x)
            step = max(1, AT_ONCE // (x.shape[-2] * x.shape[-1]))
            parts = [slice(every[i], every[min(i + step, len(every)) - 1] + 1) for i in range(0, len(every), step)]
            y = torch.cat([self._frames(x, part, moving, sums) for part in parts], 2)
        if y.shape == x.shape:
            return y
        whole = x.clone()
        whole[:, :, frames] = y
        return whole

    def _frames(self, x: Tensor, frames: slice, moving: motion.Motion | None, sums: Tensor | None = None) -> Tensor:
        """Some frames of a film, denoised."""
        around = neighbors(x, self.frames, frames, moving, sums)
        seen = inputs(around, self.weights, self.variance) / self.spreads[:, None, None, None, None]
        size, count = len(x), seen.shape[3]
        y: Tensor = self.unet(seen.permute(0, 3, 1, 2, 4, 5).flatten(0, 1).flatten(1, 2))
        return y.unflatten(0, (size, count)).transpose(1, 2) * self.spreads[MIDDLE]


def tell(network: nn.Module, found: Sequence[Statistics]) -> None:
    """Give a network for films what was measured on them: of all channels together, or of each channel its own."""
    films = [module for module in network.modules() if isinstance(module, Film)]
    for film, one in zip(films, found[1:] if len(films) > 1 else found[:1], strict=True):
        film.weights.copy_(torch.tensor(one.weights))
        film.spreads.copy_(torch.tensor(one.spreads))
        film.variance.fill_(one.variance)
        film.moves.fill_(one.moves)


def sums_of(x: Tensor) -> Tensor:
    """Sums over the frames before each frame of a film, (B, C, T, Y, X), and over all: (B, C, T + 1, Y, X)."""
    return torch.cat([torch.zeros_like(x[:, :, :1]), x.cumsum(2)], 2)


def neighbors(
    x: Tensor,
    limit: int,
    frames: slice = slice(None),
    moving: motion.Motion | None = None,
    sums: Tensor | None = None,
) -> Tensor:
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
    moving : Motion, optional
        How they move (`motion_of`): the nearest frames are first taken to where their contents are in the frame.
    sums : Tensor, optional
        Those of the film (`sums_of`), if they are there already.

    Returns
    -------
    Tensor, (B, 2 SCALES + 2, C, T, Y, X)
        The frame itself is in the middle of the first 2 SCALES + 1.
    """
    chosen = range(*frames.indices(x.shape[2]))
    length, at = x.shape[2], torch.tensor(chosen, device=x.device)
    sums = sums_of(x) if sums is None else sums

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
    around = torch.stack([*reversed(before), *after[1:], mean(at - limit, at + limit, now)], 1)
    return around if moving is None else _moved_back(around, limit, chosen, moving)


WINDOWS = [(1, 1), *((2**scale // 2 + 1, 2**scale) for scale in range(1, SCALES))]
"""First and last frame of each mean, counted from the frame."""
COUNTS = torch.tensor([float(far - near + 1) for near, far in [*reversed(WINDOWS), (0, 0), *WINDOWS]])
"""Frames of each mean around a frame, in order of time."""


def motion_of(x: Tensor, limit: int, frames: slice = slice(None)) -> motion.Motion | None:
    """How some frames of a film, (B, C, T, Y, X), move, and those beside them; None if there is only one."""
    chosen, followed = range(*frames.indices(x.shape[2])), min(FOLLOWED, limit)
    start, stop = max(0, chosen[0] - followed), min(x.shape[2], chosen[-1] + 1 + followed)
    if stop - start < 2:
        return None
    return motion.Motion(_padded(x[:, :, start:stop], motion.STRIDE).unflatten(0, (-1, stop - start)), start)


def _moved_back(around: Tensor, limit: int, frames: range, moving: motion.Motion) -> Tensor:
    """The `neighbors`, whose means over the nearest frames are those of frames that are moved back."""
    followed = min(FOLLOWED, limit)
    before = (torch.tensor(frames, device=around.device) - moving.start)[:, None, None]
    for step, there in ((-1, before), (1, moving.film.shape[1] - 1 - before)):
        nearer = around[:, SCALES]
        moved = [_cropped(frame, nearer) for frame in moving.follow(frames, step, followed)]
        for scale, (near, far) in enumerate(WINDOWS, 1):
            if near > followed:
                break
            parts = [frame * (there >= steps) for steps, frame in enumerate(moved[near - 1 : far], near)]
            count = there.clamp(max=min(far, followed)) - near + 1
            nearer = torch.where(count > 0, torch.stack(parts).sum(0) / count.clamp(min=1), nearer)
            around[:, SCALES + step * scale] = nearer
    return around


def _padded(x: Tensor, multiple: int) -> Tensor:
    """(B, C, T, Y, X) as (N, Y, X), whose sides are multiples of a number."""
    height, width = x.shape[-2:]
    flat = x.reshape(-1, 1, height, width)
    return functional.pad(flat, (0, -width % multiple, 0, -height % multiple), mode="replicate")[:, 0]


def _cropped(flat: Tensor, like: Tensor) -> Tensor:
    """The inverse of `_padded`."""
    height, width = like.shape[-2:]
    return flat[..., :height, :width].reshape(like.shape)


def inputs(around: Tensor, weights: Tensor, variance: Tensor) -> Tensor:
    """What the network sees, (B, INPUTS, C, T, Y, X): the `neighbors`, with an estimate of the frame in the middle.

    That is their weighted mean, whose weights are those of each place (`locally`).
    """
    means = around[:, :-1]
    best = (means * locally(means, weights.to(means), variance)).sum(1, keepdim=True)
    return torch.cat([around[:, :MIDDLE], best, around[:, -1:], around[:, MIDDLE:-1]], 1)


def locally(means: Tensor, weights: Tensor, variance: Tensor) -> Tensor:
    """Weights of the means around a frame at each pixel, whose sum is 1.

    From the nearest frames to the farthest, each mean is compared, over squares of `COMPARED` pixels a side, with all
    that is nearer and was trusted. If they differ by more than the noise explains, its weight falls: as if the
    difference were more noise.
    """
    flat = functional.avg_pool2d(_padded(means.flatten(1, 2), 2)[:, None], 2)
    wide = functional.avg_pool2d(functional.pad(flat, (1,) * 4, mode="replicate"), 3, stride=1)[:, 0]
    coarse = wide.reshape(*means.shape[:4], *wide.shape[-2:])
    total, frames = coarse[:, SCALES].clone(), torch.ones_like(coarse[:, SCALES])
    trusted = torch.ones_like(coarse)
    for scale in range(1, SCALES + 1):
        near, count = total / frames, float(COUNTS[SCALES + scale])
        explained = UNEXPECTED * variance * (1 / count + 1 / frames) / COMPARED**2
        usual = variance / BIN**2 / count
        for one in (SCALES - scale, SCALES + scale):
            trust = usual / (usual + ((coarse[:, one] - near).square() - explained).clamp(min=0))
            trusted[:, one] = trust
            total, frames = total + trust * count * coarse[:, one], frames + trust * count
    local = weights[:, None, None, None, None] * trusted
    local = local / local.sum(1, keepdim=True)
    large = functional.interpolate(local.flatten(0, 3)[:, None], scale_factor=2)[:, 0]
    return _cropped(large, means)


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
    variance = max(variance, LEAST_SPREAD**2)
    every = [neighbors(film, limit) for film in films]
    weights, share = _linear(every, variance)
    followed = [neighbors(film, limit, moving=motion_of(film, limit)) for film in films]
    better_weights, better_share = _linear(followed, variance)
    moves = better_share < WORTH_FOLLOWING * share
    if moves:
        every, weights, share = followed, better_weights, better_share
    told = (weights.float(), torch.tensor(variance))
    squares = torch.stack([inputs(around, *told).double().square().mean((0, 2, 3, 4, 5)) for around in every])
    spreads = squares.mean(0).sqrt().clamp(min=LEAST_SPREAD)
    return Statistics(tuple(weights.tolist()), tuple(spreads.tolist()), variance, moves, share)


def _linear(every: Sequence[Tensor], variance: float) -> tuple[Tensor, float]:
    """`best_linear_weights` of the `neighbors` of films."""
    products, count = torch.zeros(2 * SCALES + 1, 2 * SCALES + 1, dtype=torch.float64), 0
    for around in every:
        means = around[:, :-1]
        coarse = functional.avg_pool2d(means.flatten(0, 3)[:, None], BIN).reshape(*means.shape[:4], -1)
        coarse = coarse.transpose(0, 1).flatten(1).double()
        products += coarse @ coarse.T
        count += coarse.shape[1]
    return best_linear_weights(products / max(count, 1), variance / BIN**2)


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
        None is negative, and their sum is 1, so that what does not change keeps its brightness.
    share : float
        Mean squared error, as a share of that with the best weight of the frame alone.
    """
    signal = products[SCALES].clone()
    signal[SCALES] = power = (signal[SCALES] - variance).clamp(min=1e-12)
    ridge = RIDGE * products.diagonal().mean() * torch.eye(len(products), dtype=products.dtype)
    weights = torch.linalg.solve(products + ridge, signal)
    left = (power - weights @ signal).clamp(min=0)
    share = float(left / (power * variance / (power + variance)).clamp(min=1e-12))
    weights = weights.clamp(min=0)
    weights[SCALES] = weights[SCALES].clamp(min=LEAST_WEIGHT)
    return weights / weights.sum(), share


BIN = 4
"""Side in pixels of the means whose covariance is measured. On calcium-like films of −13 and −20 dB, 4 was better than
1 by 0.2 and 0.0 dB of the pretrained network's output, and than 8 by 0.3 and 0.1 dB."""
COMPARED = 6
"""Side in pixels of the means by which a frame is compared with others: about that of a cell. Not measured."""
UNEXPECTED = 6.0
"""Times the noise's own mean square, beyond which a difference counts. On a calcium-like film of −14 dB, 4, 8 and 16
kept 68, 64 and 55 % of the height of transients with PSNRs of 34.24, 34.33 and 34.27 dB."""
WORTH_FOLLOWING = 0.9
"""Share of a frame's error that may be left, beside that without following motion, for it to be followed. Panning
scenes had 0.44 to 0.62; still ones, calcium-like films and real ones of cells, in which little moves, 0.95 to 1.01."""
LEAST_WEIGHT = 1e-3
"""Of the frame itself."""
LEAST_SPREAD = 1e-3
"""Of what the network sees: films without any contrast have none."""
RIDGE = 1e-6
"""Added to the diagonal, as a share of its mean: films whose frames are all equal have no inverse."""
