"""Make the networks that training begins with: `python tools/pretrain.py grey colour --pictures FOLDER --minutes 240`.

They learn, supervised, from clean pictures with noise that is drawn afresh at each step: photographs of Debian's
wallpaper packages (`pretrain_pictures.csv` beside this file says which, by whom and under which licence; get them with
`apt-get download PACKAGE` and `dpkg-deb -x PACKAGE.deb FOLDER/PACKAGE`), pictures that ship with scikit-image, and
procedural ones. None that the demo, the tests or a benchmark uses. A run repeats from its seed, and one that was killed
goes on from where it was when it is started again.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from skimage import data
from torch import Tensor, nn
from torch.nn import functional

from noise2same import Config, Denoiser
from noise2same.data.normalize import Normalization
from noise2same.files import replacing
from noise2same.model_file import read_model
from noise2same.networks.pretrained import load_weights
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.prediction.predict import predict
from noise2same.quality.metrics import psnr

HERE = Path(__file__).parent
LIST = HERE / "pretrain_pictures.csv"
OUT = HERE.parent / "src" / "noise2same" / "networks" / "weights"
AXES = {"grey": "YX", "colour": "YXC"}
LUMA = np.float32([0.299, 0.587, 0.114])
SHIPPED = ("brick", "coffee", "grass", "gravel", "immunohistochemistry", "moon", "rocket")  # with scikit-image

SIZE = 256
"""Side of a crop, whose noisy pixels give the mean and standard deviation it is normalised by."""
PATCH = 64
"""Side of what is learned of a crop in one step."""
CORRELATED, CLIPPED = 0.04, 0.06
"""Shares of the patches whose noise is slightly correlated, and that are rounded and clipped to 0 to 255."""
SETTLE = 0.1
"""Share of the run after which batch norm keeps its statistics.

Those of a small batch with noise of all levels are not the ones that it predicts with: in a trial, 700 steps with kept
statistics brought 0.2 dB more than 700 without."""
SAVE = 120.0
"""Seconds between two states: what a killed run loses at most."""
CASES = ("15", "25", "50", "photons")
"""The noise of the validation: σ in units of 0 to 255, and 10 photons for white with a read-out noise of 5."""

Array = NDArray[np.float32]


# The clean pictures


def photographs(folder: Path, use: str) -> list[Image.Image]:
    """The listed photographs to `use` ("yes" to learn from, or "validation"), in colour."""
    with LIST.open(newline="") as file:
        names = [Path(row["package"]) / row["path"] for row in csv.DictReader(file) if row["used"] == use]
    return [Image.open(folder / name).convert("RGB") for name in names]


def crops(picture: Image.Image, amount: int, rng: np.random.Generator, largest: float = 0.5) -> Iterator[Array]:
    """Pieces (SIZE, SIZE, 3), 0 to 255, at `largest` to a fifth of the size, the flat ones mostly left out.

    Half-size pictures are clean: the noise, the sharpening and the blocks of JPEG are in the finest details.
    """
    for _ in range(amount):
        pieces = []
        for _ in range(3):
            least = min(largest, max(0.2, SIZE / min(picture.size)))
            edge = min(int(SIZE / rng.uniform(least, largest)), *picture.size)
            left, top = (int(rng.integers(0, size - edge + 1)) for size in picture.size)
            box = (left, top, left + edge, top + edge)
            pieces.append(np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.LANCZOS, box), np.float32))
        yield max(pieces, key=detail) if rng.random() < 0.8 else pieces[0]


def detail(image: Array) -> float:
    """Mean difference between neighboring pixels."""
    return float(np.abs(np.diff(image, axis=0)).mean())


def dead_leaves(rng: np.random.Generator) -> Array:
    """Opaque leaves of all sizes that hide each other (SIZE, SIZE, 3), 0 to 255: the edges and scales of photographs.

    Drawn from the front to the back at twice the size, with radii of density r⁻³, a tint for the whole picture and a
    texture of 1/f noise on most leaves. See Lee, Mumford and Huang: Occlusion models for natural images, 2001.
    """
    edge = 2 * SIZE
    canvas, free = np.full((edge, edge, 3), rng.uniform(0, 255), np.float32), np.ones((edge, edge), bool)
    textures = [fractal(rng, edge, rng.uniform(0.5, 2.0)) for _ in range(3)]
    tint = rng.normal(0, 15, 3)
    smallest = rng.choice([3.0, 8.0, 20.0])
    for _ in range(4000):
        radius = min(smallest / np.sqrt(rng.uniform(1e-4, 1)), edge / 2)
        stretch, turn = rng.uniform(0.4, 1), rng.uniform(0, np.pi)
        cy, cx = rng.uniform(-radius, edge + radius, 2)
        window = tuple(slice(*(int(np.clip(c + side, 0, edge)) for side in (-radius, radius + 1))) for c in (cy, cx))
        y, x = np.ogrid[window]
        along, across = (
            (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn),
            (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn),
        )
        inside = free[window] & (along**2 + (across / stretch) ** 2 < radius**2)
        if not inside.any():
            continue
        colour = rng.uniform(0, 255) + tint + rng.normal(0, rng.choice([5, 15, 40]), 3)
        strength = rng.choice([0, 5, 15, 40])
        canvas[window][inside] = colour + strength * textures[rng.integers(3)][window][inside][:, None]
        free[window][inside] = False
        if free.mean() < 1e-3:
            break
    return shrunk(canvas, rng.uniform(0.8, 2.0))


def cells(rng: np.random.Generator) -> Array:
    """Bright blobs and fibres on a dark background (SIZE, SIZE, 3), 0 to 255: what a fluorescence microscope sees."""
    edge = 2 * SIZE
    image = np.zeros((edge, edge), np.float32)
    for _ in range(rng.integers(3, 40)):
        spots = np.zeros((edge, edge), np.float32)
        spots[tuple(rng.integers(0, edge, (2, rng.integers(1, 6))))] = 1
        spots = ndimage.gaussian_filter(spots, rng.uniform(1, 16, 2))
        image += rng.uniform(20, 200) * np.minimum(spots / spots.max() * rng.uniform(1, 4), 1)
    for _ in range(rng.integers(0, 30)):
        (y0, x0), angle, bend = rng.uniform(0, edge, 2), rng.uniform(0, 2 * np.pi), rng.normal(0, 0.02)
        turns = angle + bend * np.arange(300)
        y, x = (
            np.clip(start + np.cumsum(step), 0, edge - 1).astype(int)
            for start, step in ((y0, np.sin(turns)), (x0, np.cos(turns)))
        )
        line = np.zeros((edge, edge), np.float32)
        line[y, x] = 1
        image += rng.uniform(20, 200) * ndimage.gaussian_filter(line, rng.uniform(0.8, 2)) * 3
    grey = 10 + shrunk(image[..., None] * (0.2 + np.clip(1 + 0.3 * fractal(rng, edge, 1.5), 0, 2))[..., None], 1.0)
    return (grey * rng.uniform(0.1, 1, 3)).astype(np.float32)


def fractal(rng: np.random.Generator, edge: int, slope: float) -> Array:
    """Noise of unit variance (edge, edge) whose amplitude falls with the frequency as f to the power of -slope."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(edge), np.fft.rfftfreq(edge), indexing="ij"))
    frequency[0, 0] = np.inf
    image = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((edge, edge))) / frequency**slope, (edge, edge))
    return (image / image.std()).astype(np.float32)


def shrunk(image: Array, blur: float) -> Array:
    """Half the size, after a blur of `blur` pixels against aliasing."""
    return ndimage.gaussian_filter(image, (blur, blur, 0))[::2, ::2]


def pictures(folder: Path | None, amount: int, rng: np.random.Generator) -> Iterator[Array]:
    """About `amount` crops: three quarters of photographs, the rest of scikit-image's pictures and procedural ones.

    Without a folder, of the latter alone.
    """
    if folder is not None:
        found = photographs(folder, "yes")
        shares = np.array([detail(np.asarray(picture.reduce(3), np.float32)) for picture in found]).clip(2, 10)
        for picture, share in zip(found, shares / shares.sum(), strict=True):
            yield from crops(picture, round(0.75 * amount * share), rng)
    for name in SHIPPED:
        picture = Image.fromarray(getattr(data, name)()).convert("RGB")
        yield from crops(picture, max(1, round(0.005 * amount)), rng, largest=1.0)
    for _ in range(round(0.13 * amount)):
        yield dead_leaves(rng)
    for _ in range(round(0.08 * amount)):
        yield cells(rng)


def prepared(path: Path, make: Callable[[], Iterator[Array]], name: str) -> NDArray[np.uint8]:
    """Crops (N, C, SIZE, SIZE) for the network `name`, made once and kept in colour in the file `path`."""
    if not path.exists():
        made = np.stack([np.rint(np.clip(image, 0, 255)).astype(np.uint8) for image in make()])
        with replacing(path) as partial, partial.open("wb") as file:
            np.save(file, made)
    images = np.load(path)
    if name == "grey":
        images = np.stack([np.rint(image @ LUMA).astype(np.uint8)[..., None] for image in images])
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


# Noise


def between(low: float, high: float, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Random numbers whose logarithm is uniform."""
    return low * (high / low) ** torch.rand(shape, generator=generator)


def noise_of(clean: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Gain and σ of each sample's channels, (B, C, 1, 1) each, for clean samples (B, C, Y, X) in 0 to 255.

    Half have the σ of a camera, 5 to 75; the others 0.03 to 2 of the sample's contrast, or 0.5 to 1,000 photons in a
    pixel of mean brightness with some read-out noise.
    """
    one = (len(clean), 1, 1, 1)
    chance, kind = torch.rand(one, generator=generator), torch.rand(one, generator=generator)
    contrast = clean.std((1, 2, 3), keepdim=True).clamp(min=4)
    sigma = torch.where(kind < 0.5, between(5, 75, one, generator), contrast * between(0.03, 2, one, generator))
    gain = clean.mean((1, 2, 3), keepdim=True).clamp(min=2) / between(0.5, 1000, one, generator)
    read = gain.sqrt() * 5 * torch.rand(one, generator=generator) * (chance < 0.5)
    photons = kind > 0.7
    differ = (torch.rand(one, generator=generator) < 0.3) * torch.randn((*clean.shape[:2], 1, 1), generator=generator)
    differ = torch.exp(0.5 * differ) if clean.shape[1] > 1 else torch.ones(one)
    return torch.where(photons, gain, 0) * differ, torch.where(photons, read, sigma) * differ


def noisy(clean: Tensor, gain: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
    """Clean samples (B, C, Y, X) with Poisson-Gaussian noise, of which a few are correlated or clipped.

    Below the first PATCH rows, photons are drawn from the normal distribution, which is faster.
    """
    noise = torch.randn(clean.shape, generator=generator)
    counted = (gain > 0).any(1).flatten()
    if counted.any():
        patch, scale = clean[counted, :, :PATCH], gain[counted]
        photons = scale * torch.poisson(patch / scale, generator=generator) - patch
        exact = photons + sigma[counted] * noise[counted, :, :PATCH]
    noise *= (gain * clean + sigma**2).sqrt()
    if counted.any():
        noise[counted, :, :PATCH] = exact
    correlated, clipped = torch.rand((2, len(clean)), generator=generator) < torch.tensor([[CORRELATED], [CLIPPED]])
    for i in correlated.nonzero().flatten():
        tap = 0.5 * torch.rand(2, generator=generator)
        kernel = torch.outer(*(torch.stack([t, torch.ones(()), t]) for t in tap))
        kernel = (kernel / kernel.norm()).expand(clean.shape[1], 1, 3, 3)
        noise[i : i + 1] = functional.conv2d(noise[i : i + 1], kernel, padding=1, groups=clean.shape[1])
    x = clean + noise
    x[clipped] = x[clipped].round().clamp(0, 255)
    return x


@dataclass(frozen=True)
class Batch:
    """Normalised noisy and clean patches (B, C, PATCH, PATCH), and what the error of each is multiplied by."""

    x: Tensor
    clean: Tensor
    weight: Tensor

    @classmethod
    def draw(cls, images: Tensor, size: int, generator: torch.Generator) -> Batch:
        """Patches of random crops, turned and mirrored.

        Normalised as in prediction: by the noisy statistics of the picture around a patch, here of every fourth pixel
        of the crop along each axis, which has noise of its own.
        """

        def some(below: int) -> int:
            return int(torch.randint(below, (1,), generator=generator))

        every, chosen = SIZE // PATCH, []
        for _ in range(size):
            image = images[some(len(images))]
            top, left = some(SIZE - PATCH + 1), some(SIZE - PATCH + 1)
            overview = image[:, some(every) :: every, some(every) :: every]
            both = torch.stack([image[:, top : top + PATCH, left : left + PATCH], overview], 1)
            both = torch.rot90(both, some(4), (2, 3))
            chosen.append(both.flip(3) if some(2) else both)
        clean = torch.stack(chosen).float().flatten(2, 3)  # the patch above the overview of its crop
        dim, share = torch.rand((2, size, 1, 1, 1), generator=generator)
        clean = torch.where(dim < 0.2, clean * (0.2 + 0.8 * share), clean)
        overview = clean[:, :, PATCH:]
        gain, sigma = noise_of(overview, generator)
        x = noisy(clean, gain, sigma, generator)
        std, mean = torch.std_mean(x[:, :, PATCH:], (2, 3), keepdim=True)
        std = std.clamp(min=0.5)
        level = ((gain * overview.mean((2, 3), keepdim=True) + sigma**2).sqrt() / std).mean((1, 2, 3))
        contrast = (overview.std((2, 3), keepdim=True) / std).mean((1, 2, 3)).clamp(min=0.2)
        return cls(
            (x[:, :, :PATCH] - mean) / std,
            (clean[:, :, :PATCH] - mean) / std,
            1 / (level.clamp(min=0.02) ** 1.1 * contrast**0.9),  # about the error of a good denoiser
        )


# Training


class Run:
    """One network and all that changes while it is trained."""

    def __init__(self, name: str, images: Tensor, arguments: argparse.Namespace) -> None:
        self.name, self.images, self.arguments = name, images, arguments
        config = Config(method="noise2true", normalization="image", features=arguments.features, seed=arguments.seed)
        self.model = Denoiser(config)
        self.model.axes, self.model.channels = AXES[name], images.shape[1]
        self.model.normalization = Normalization((0.0,) * images.shape[1], (1.0,) * images.shape[1])
        self.network = self.model.new_network()
        if arguments.begin is not None:
            load_weights(self.network, read_model(arguments.begin)[1])
        self.average = deepcopy(self.network).requires_grad_(False).eval()
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=arguments.rate, fused=True)
        self.generator = torch.Generator().manual_seed(arguments.seed)
        self.steps, self.seconds = 0, 0.0
        self.network.train(arguments.begin is None)  # whose batch norm has its statistics
        self.state = arguments.state / f"{name}{arguments.features}.pt"
        if self.state.exists():
            self.load()

    def load(self) -> None:
        """Go on from the state in the file."""
        state = torch.load(self.state, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.steps, self.seconds = state["steps"], state["seconds"]
        self.network.train(state["training"])

    def save(self) -> None:
        """Write the state whole or not at all, and the model as it would be if this were the end."""
        state = {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "steps": self.steps,
            "seconds": self.seconds,
            "training": self.network.training,
        }
        with replacing(self.state) as partial:
            torch.save(state, partial)
        self.write(self.state.with_suffix(".unfinished.safetensors"))

    def write(self, path: Path) -> None:
        """Write an ordinary model file with the averaged weights."""
        self.model.network = self.average
        self.model.summary = {"steps": self.steps, "seconds": round(self.seconds), "interrupted": False}
        self.model.save(path)

    def progress(self) -> float:
        """How far it is, from 0 to 1."""
        budget = (self.steps / self.arguments.steps, self.seconds / 60 / self.arguments.minutes)
        return min(1.0, max(budget))

    def train(self, validate: Callable[[nn.Module], dict[str, float]]) -> None:
        """Train until the budget is used up."""
        forward = torch.compile(self.network) if self.arguments.compile else self.network
        saved, logged = time.monotonic(), -math.inf
        started = saved - self.seconds
        while (done := self.progress()) < 1:
            if done >= SETTLE and self.network.training:
                self.settle()
            for group in self.optimizer.param_groups:
                warm_up = min(1.0, (self.steps + 1) / 500)
                group["lr"] = self.arguments.rate * warm_up * 0.5 * (1 + math.cos(math.pi * done))
            batch = Batch.draw(self.images, self.arguments.batch, self.generator)
            errors = (forward(batch.x) - batch.clean).square().mean((1, 2, 3)) * batch.weight
            self.optimizer.zero_grad()
            errors.mean().backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimizer.step()
            self.steps += 1
            self.follow(min(0.999, (1 + self.steps) / (10 + self.steps)))
            now = time.monotonic()
            self.seconds = now - started
            if now - saved > SAVE:
                self.save()
                saved = now
            if now - logged > 60 * self.arguments.every:
                self.log({"done": done} | validate(self.average))
                logged = time.monotonic()
        self.save()
        self.log({"done": self.progress()} | validate(self.average))

    def settle(self) -> None:
        """Keep the statistics of batch norm from now on, averaged over many batches."""
        for own, averaged in zip(self.network.buffers(), self.average.buffers(), strict=True):
            own.copy_(averaged)
        self.network.eval()  # in which a U-Net differs in its batch norm alone

    @torch.no_grad()
    def follow(self, decay: float) -> None:
        """Move the averaged weights towards the present ones."""
        averages, currents = (list(net.state_dict().values()) for net in (self.average, self.network))
        for average, current in zip(averages, currents, strict=True):
            if average.is_floating_point():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(current)

    def log(self, figures: dict[str, float]) -> None:
        """Append a line to the log beside the state, and show it."""
        row = {"time": time.strftime("%H:%M:%S"), "steps": self.steps, "seconds": round(self.seconds)}
        row |= {key: round(value, 3) for key, value in figures.items()}
        path = self.state.with_suffix(".csv")
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            if new:
                writer.writeheader()
            writer.writerow(row)
        print(self.name, *(f"{key} {value}" for key, value in row.items()), flush=True)


def psnrs(network: nn.Module, images: NDArray[np.uint8], axes: str) -> dict[str, float]:
    """Mean PSNR over pictures (N, C, Y, X) for each of `CASES`, predicted as for a user, in one orientation."""
    found: dict[str, float] = {}
    for case in CASES:
        values = []
        for seed, image in enumerate(images):
            rng, clean = np.random.default_rng(seed), image.astype(np.float32)
            x = poisson_gaussian(clean, 25.5, 5, rng) if case == "photons" else gaussian(clean, float(case), rng)
            x = np.ascontiguousarray(x.transpose(1, 2, 0).squeeze())
            out = np.empty_like(x)
            predict(network, x, axes, out, normalization=None)
            values.append(psnr(clean.transpose(1, 2, 0).squeeze(), out, 255))
        found[case] = float(np.mean(values))
    return found


def parse(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(AXES), help="grey, colour; one after the other if both")
    parser.add_argument("--pictures", type=Path, help="folder of the unpacked packages; without it, no photographs")
    parser.add_argument("--state", type=Path, default=Path("pretrain"), help="folder to keep the run in")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the models")
    parser.add_argument("--steps", type=int, default=10**6, help="at most")
    parser.add_argument("--minutes", type=float, default=240.0, help="at most, in all")
    parser.add_argument("--features", type=int, default=16, help="feature maps at the finest level")
    parser.add_argument("--batch", type=int, default=4, help="patches per step")
    parser.add_argument("--begin", type=Path, help="model to begin with, at a lower rate, such as 1e-3")
    parser.add_argument("--rate", type=float, default=3e-3, help="learning rate at its highest")
    parser.add_argument("--crops", type=int, default=3000, help="to learn from")
    parser.add_argument("--every", type=float, default=5.0, help="minutes between two validations")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="a quarter faster, where there is a C++ compiler")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    """Train what the command line asks for."""
    arguments = parse(given)
    torch.set_num_threads(arguments.threads)
    arguments.state.mkdir(parents=True, exist_ok=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    folder = arguments.pictures

    def unseen() -> Iterator[Array]:
        rng = np.random.default_rng(arguments.seed + 1)
        if folder is None:
            yield from (dead_leaves(rng) for _ in range(2))
        else:
            for picture in photographs(folder, "validation"):
                yield from crops(picture, 2, rng)

    def seen() -> Iterator[Array]:
        return pictures(folder, arguments.crops, np.random.default_rng(arguments.seed))

    for name in arguments.names:
        images = torch.from_numpy(prepared(arguments.state / "crops.npy", seen, name))
        apart = prepared(arguments.state / "validation.npy", unseen, name)
        run = Run(name, images, arguments)
        run.train(lambda network, apart=apart, name=name: psnrs(network, apart, AXES[name]))
        run.write(arguments.out / f"{name}{arguments.features}.safetensors")


if __name__ == "__main__":
    main()
