"""Make the network that films begin with: `python tools/pretrain_film.py --state FOLDER --minutes 60`.

It learns, supervised, from films that are made up at each step of the pictures that `tools/pretrain.py` keeps in
FOLDER/crops.npy: a background that stands still or moves, a thing that moves before it, places that light up and fade,
cuts. It begins with the network for single pictures. A run that was killed goes on from where it was.

The network that ships is of three runs of 41, 28 and 30 minutes on a busy machine, each from the last (`--begin`).
In the first, frames had the same weights everywhere; in the first two, all errors counted alike.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from pretrain import OUT, PATCH, SIZE, between, noise_of, prepared
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from noise2same import Config, Denoiser
from noise2same.data.normalize import Normalization
from noise2same.files import replacing
from noise2same.model_file import read_model
from noise2same.networks.film import BIN, FRAMES, MIDDLE, SCALES, WINDOWS, Film, best_linear_weights, inputs
from noise2same.networks.pretrained import with_more_inputs

DRAWN = 4
"""Frames that stand for all those of a mean, in which a scene that moves is drawn."""
CHANGES = 4.0
"""Weight of an error where the film changes by much more than the noise, beside 1 elsewhere."""
SAVE = 120.0
"""Seconds between two states: what a killed run loses at most."""


def times(first: int, last: int) -> tuple[list[list[float]], list[int]]:
    """The frames that stand for each mean around a frame, in order of time, and how many frames it is over.

    Of a film that begins at `first` and ends at `last`, counted from the frame.
    """
    sides: list[list[tuple[list[float], int]]] = []
    for sign, end in ((-1, -first), (1, last)):
        side = [([0.0], 1)]
        for near, far in WINDOWS:
            far = min(far, end)
            if far < near:
                side.append(side[-1])
                continue
            count = far - near + 1
            step = count / min(count, DRAWN)
            side.append(([sign * (near - 0.5 + (i + 0.5) * step) for i in range(min(count, DRAWN))], count))
        sides.append(side)
    means = [*reversed(sides[0]), *sides[1][1:]]
    return [drawn for drawn, _ in means], [count for _, count in means]


def shifted(picture: Tensor, at: Tensor) -> Tensor:
    """Pieces (N, PATCH, PATCH) of a picture (Y, X) whose top left corners are `at` (N, 2), between pixels too."""
    grid = torch.arange(PATCH)
    rows, columns = (2 * (at[:, axis, None] + grid + 0.5) / picture.shape[axis] - 1 for axis in (0, 1))
    where = torch.stack([columns[:, None, :].expand(-1, PATCH, -1), rows[:, :, None].expand(-1, -1, PATCH)], -1)
    every = picture[None, None].expand(len(at), -1, -1, -1)
    return functional.grid_sample(every, where, mode="bicubic", padding_mode="reflection", align_corners=False)[:, 0]


def blob(generator: torch.Generator, low: float, high: float) -> Tensor:
    """A soft spot (PATCH, PATCH), 0 to 1."""
    radius, (cy, cx), edge = (
        float(between(low, high, (1,), generator)),
        (torch.rand(2, generator=generator) * PATCH).tolist(),
        float(between(0.3, 3, (1,), generator)),
    )
    stretch = float(between(0.6, 1.6, (1,), generator))
    grid = torch.arange(PATCH, dtype=torch.float32)
    distance = (((grid[:, None] - cy) * stretch) ** 2 + ((grid[None] - cx) / stretch) ** 2).sqrt()
    spot = torch.sigmoid((radius - distance) / edge * 2)
    ring = float(torch.rand(1, generator=generator)) if radius > 3 else 0.0
    return spot * (1 - ring * torch.exp(-((distance / (0.5 * radius)) ** 2)))


def trace(at: Tensor, generator: torch.Generator) -> Tensor:
    """Brightness over time, at any times: events that rise fast and fade, or a slow change; about 0 to 1."""

    def one(low: float, high: float) -> float:
        return float(between(low, high, (1,), generator))

    if torch.rand(1, generator=generator) < 0.2:
        period, phase = one(4, 400), 2 * math.pi * float(torch.rand(1, generator=generator))
        return 0.5 + 0.5 * torch.sin(2 * math.pi * at / period + phase)
    fade, rise = one(1.5, 60), one(0.3, 3)
    rate = one(0.2, 4) / (2 * FRAMES)
    count = int(torch.poisson(torch.tensor(rate * 4 * FRAMES), generator=generator))
    onsets = (torch.rand(count, generator=generator) * 4 - 3) * FRAMES
    if torch.rand(1, generator=generator) < 0.5:  # one that matters for the frame itself
        onsets = torch.cat([onsets, torch.randn(1, generator=generator) * fade])
    since = (at[:, None] - onsets[None]).clamp(min=0)
    size = 0.3 + torch.rand(len(onsets), generator=generator)
    return ((torch.exp(-since / fade) - torch.exp(-since / rise)) * size).sum(1)


def scene(images: Tensor, at: Tensor, generator: torch.Generator) -> Tensor:
    """A film of one scene (N, PATCH, PATCH) at the times `at`, in 0 to 255 or somewhat more."""

    def chance(share: float) -> bool:
        return float(torch.rand(1, generator=generator)) < share

    def picture() -> Tensor:
        number, turns = (int(torch.randint(below, (1,), generator=generator)) for below in (len(images), 4))
        turned = torch.rot90(images[number, 0].float(), turns)
        return turned.flip(1) if chance(0.5) else turned

    taken_back = torch.zeros(len(at))  # how far single frames are still off, after motion was taken back
    if chance(0.7):
        taken_back = 0.25 * torch.randn(len(at), generator=generator)
    near = (at != 0) & (at.abs() <= 2)

    def path(speed: float) -> Tensor:
        angle = 2 * math.pi * torch.rand(1, generator=generator)
        steady = at[:, None] * torch.stack([angle.sin(), angle.cos()], 1) * speed
        if chance(0.3):  # there and back
            period = between(8, 100, (1,), generator)
            steady = torch.sin(2 * math.pi * at[:, None] / period) * period / 6 * steady.sign() * speed
        shaken = torch.randn((len(at), 2), generator=generator) * (0.5 * speed if chance(0.3) else 0.0)
        whole = steady + shaken
        return torch.where(near[:, None], taken_back[:, None], whole) if taken_back.any() else whole

    still = chance(0.55)
    speed = 0.0 if still else float(between(0.05, 6, (1,), generator))
    start = torch.rand(2, generator=generator) * (SIZE - PATCH)
    if still:
        film = shifted(picture(), start[None]).expand(len(at), -1, -1).clone()
    else:
        film = shifted(picture(), start + path(speed))
    if chance(0.35):  # a thing that moves before it
        speed = float(between(0.05, 5, (1,), generator))
        along = path(speed)
        thing, shape = picture(), blob(generator, 3, 14)
        shape = functional.pad(shape[None], (SIZE // 2 - PATCH // 2,) * 4)[0]
        corner = torch.full((2,), SIZE / 2 - PATCH / 2)
        mask = shifted(shape, corner - along).clamp(0, 1)
        film = torch.lerp(film, shifted(thing, start - along), mask)
    if chance(0.6 if still else 0.15):  # places that light up
        contrast = float(film.std()) + 5
        if chance(0.5):  # dimly seen otherwise
            film = film.mean() + (film - film.mean()) * float(torch.rand(1, generator=generator))
        for _ in range(int(torch.randint(1, 12, (1,), generator=generator))):
            amount = contrast * float(between(0.2, 5, (1,), generator))
            film = film + amount * trace(at, generator)[:, None, None] * blob(generator, 1.5, 12)
    if chance(0.1):  # bleaching
        film = film * torch.exp(-at / between(50, 1000, (1,), generator))[:, None, None]
    return film.clamp(min=0)


def sample(images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """What a network sees (INPUTS, PATCH, PATCH), what it should say and the weight of its error, (1, PATCH, PATCH).

    Where a frame differs from those far from it, an error counts more: the mean over time would be a good answer almost
    everywhere, but changes are what films are made for.
    """

    def end() -> int:
        cut = float(torch.rand(1, generator=generator)) < 0.15
        return int(between(1, FRAMES, (1,), generator) - 1 + torch.rand(1, generator=generator)) if cut else FRAMES

    drawn, counts = times(-end(), end())
    at = torch.tensor([moment for mean in drawn for moment in mean])
    film = scene(images, at, generator)
    if float(torch.rand(1, generator=generator)) < 0.05:  # another scene from some time on
        cut = float(between(0.5, FRAMES, (1,), generator)) * (1 if torch.rand(1, generator=generator) < 0.5 else -1)
        beyond = (at > cut) if cut > 0 else (at < cut)
        film = torch.where(beyond[:, None, None], scene(images, at, generator), film)
    means = torch.stack([part.mean(0) for part in film.split([len(mean) for mean in drawn])])
    clean = means[SCALES]
    gain, sigma = (float(value) for value in noise_of(clean[None, None], generator))
    if float(torch.rand(1, generator=generator)) < 0.5:  # much more noise, of which time takes much away
        more = float(between(1, 8, (1,), generator))
        gain, sigma = gain * more**2, sigma * more
    count = torch.tensor(counts, dtype=torch.float32)[:, None, None]
    x = means
    if gain > 0:
        x = gain / count * torch.poisson(means * count / gain, generator=generator)
    x = x + sigma / count.sqrt() * torch.randn(x.shape, generator=generator)
    for one in range(len(counts)):  # where a mean repeats a nearer one, so does its noise
        nearer = one + 1 if one < SCALES else one - 1
        if one != SCALES and drawn[one] == drawn[nearer]:
            x[one] = x[SCALES] if nearer == SCALES else x[nearer]
    whole = torch.tensor([counts[i] for i in distinct(drawn)])[:, None, None]
    together = (x[distinct(drawn)] * whole).sum(0, keepdim=True) / whole.sum()
    around = torch.cat([x, together])[None, :, None, None]
    variance = gain * float(clean.mean()) + sigma**2

    # The weights are those of a whole film, of which this patch is a part: elsewhere there is more that stands still.
    mean = clean.mean()
    coarse = functional.avg_pool2d((means - mean)[:, None], BIN).flatten(1).double()
    products = coarse @ coarse.T / coarse.shape[1]
    elsewhere = float(between(0.05, 2, (1,), generator)) * products[SCALES, SCALES]
    elsewhere = elsewhere if float(torch.rand(1, generator=generator)) < 0.5 else 0.0
    noise = torch.diag(1 / count.flatten().double()) * variance / BIN**2
    weights, _ = best_linear_weights(products + elsewhere + noise, variance / BIN**2)
    seen = inputs(around - mean, weights.float(), torch.tensor(variance))[0, :, 0, 0]
    spreads = (seen.square().mean((1, 2)) + elsewhere).sqrt().clamp(min=0.2)
    spreads = spreads * between(0.8, 1.25, (1,), generator)
    seen, wanted = seen / spreads[:, None, None], (clean - mean) / spreads[MIDDLE]
    shift = 0.3 * torch.randn(1, generator=generator)  # of the patch in its film
    level = float((weights.square() / count.flatten()).sum() * variance) ** 0.5 / float(spreads[MIDDLE])
    contrast = max(float(wanted.std()), 0.2)
    change = (clean - means[[0, -1]].mean(0)).abs() / spreads[MIDDLE]
    weight = (1 + CHANGES * change / (change + level)) / (max(level, 0.02) ** 1.1 * contrast**0.9)
    return seen + shift, wanted[None] + shift, weight[None]


def distinct(drawn: list[list[float]]) -> list[int]:
    """Which means are none that repeats a nearer one."""
    found = [SCALES]
    for side in (range(SCALES - 1, -1, -1), range(SCALES + 1, 2 * SCALES + 1)):
        last = drawn[SCALES]
        for one in side:
            if drawn[one] != last:
                found.append(one)
            last = drawn[one]
    return found


class Films(IterableDataset):
    """Samples without end."""

    def __init__(self, images: Tensor, seed: int) -> None:
        self.images, self.seed = images, seed

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        torch.set_num_threads(1)
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            made = sample(self.images, generator)
            if all(bool(part.isfinite().all()) for part in made):
                yield made


def main() -> None:
    """Train what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--state", type=Path, default=Path("pretrain"), help="folder with crops.npy, to keep the run in"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the model")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--features", type=int, default=16, help="feature maps at the finest level")
    parser.add_argument("--batch", type=int, default=8, help="patches per step")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate at its highest")
    parser.add_argument("--begin", type=Path, help="model to begin with; by default the network for pictures")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    images = torch.from_numpy(prepared(given.state / "crops.npy", lambda: iter(()), "grey"))
    config = Config(method="noise2true", normalization="image", features=given.features, seed=given.seed, time=FRAMES)
    model = Denoiser(config)
    model.axes, model.channels, model.normalization = "TYX", 1, Normalization((0.0,), (1.0,))
    network = model.new_network()
    assert isinstance(network, Film)
    if given.begin is None:
        grey = read_model(OUT / f"grey{given.features}.safetensors")[1]
        network.unet.load_state_dict(with_more_inputs(grey, network.unet.state_dict()))
    else:
        network.load_state_dict(read_model(given.begin)[1])
    average = deepcopy(network).requires_grad_(False).eval()
    network.eval()  # batch norm has its statistics
    optimizer = torch.optim.Adam(network.parameters(), lr=given.rate, fused=True)
    state, steps, seconds = given.state / f"film{given.features}.pt", 0, 0.0
    if state.exists():
        kept = torch.load(state, weights_only=True)
        network.load_state_dict(kept["network"])
        average.load_state_dict(kept["average"])
        optimizer.load_state_dict(kept["optimizer"])
        steps, seconds = kept["steps"], kept["seconds"]
    loader = DataLoader(Films(images, given.seed + steps), given.batch, num_workers=1, prefetch_factor=4)
    saved = time.monotonic()
    started, shown, losses = saved - seconds, saved, []
    for seen, wanted, weight in loader:
        done = seconds / 60 / given.minutes
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = given.rate * min(1.0, (steps + 1) / 200) * 0.5 * (1 + math.cos(math.pi * done))
        errors = (network.unet(seen) - wanted).square() * weight
        optimizer.zero_grad()
        errors.mean().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        steps += 1
        with torch.no_grad():
            decay = min(0.999, (1 + steps) / (10 + steps))
            for old, new in zip(average.parameters(), network.parameters(), strict=True):
                old.lerp_(new, 1 - decay)
        losses.append(float(errors.detach().mean()))
        now = time.monotonic()
        seconds = now - started
        if now - shown > 60:
            print(time.strftime("%H:%M:%S"), "steps", steps, "loss", round(float(np.mean(losses)), 4), flush=True)
            shown, losses = now, []
        if now - saved > SAVE or seconds / 60 >= given.minutes:
            kept = {"network": network.state_dict(), "average": average.state_dict()}
            kept |= {"optimizer": optimizer.state_dict(), "steps": steps, "seconds": seconds}
            with replacing(state) as partial:
                torch.save(kept, partial)
            saved = now
    model.network = average
    model.summary = {"steps": steps, "seconds": round(seconds), "interrupted": False}
    model.save(given.out / "film.safetensors")


if __name__ == "__main__":
    main()
