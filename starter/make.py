"""Make the starter networks that training begins with: `python make.py`, an hour on 2 cores, the same from a seed.

Clean pictures that anyone may use, with noise of many kinds and levels: procedural ones (dead leaves, cells and fibres)
and crops of pictures that ship with scikit-image, but none that the demo, the tests or a benchmark uses.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import data, transform

from noise2same import Config, Denoiser
from noise2same.noise.synthesise import gaussian, poisson_gaussian

OUT = Path(__file__).parent.parent / "src" / "noise2same" / "starters"
AXES = {"grey": "YX", "colour": "YXC"}
SIZE = 192
PICTURES = ("brick", "cell", "coffee", "grass", "gravel", "hubble_deep_field", "immunohistochemistry", "moon", "rocket")

Array = NDArray[np.float32]


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
    return np.clip(shrunk(canvas, rng.uniform(0.8, 2.0)), 0, 255)


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
    return np.clip(grey * rng.uniform(0.1, 1, 3), 0, 255).astype(np.float32)


def crop(rng: np.random.Generator) -> Array:
    """A piece of one of `PICTURES` (SIZE, SIZE, 3), 0 to 255, made up to three times smaller, turned and mirrored."""
    picture = np.asarray(getattr(data, PICTURES[rng.integers(len(PICTURES))])(), np.float32)
    picture = np.repeat(picture[..., None], 3, 2) if picture.ndim == 2 else picture[..., :3]
    largest = min(picture.shape[:2])
    edge = int(rng.uniform(min(SIZE, largest), min(3 * SIZE, largest) + 1))
    top, left = (rng.integers(0, size - edge + 1) for size in picture.shape[:2])
    piece = transform.resize(picture[top : top + edge, left : left + edge], (SIZE, SIZE), anti_aliasing=edge > SIZE)
    return np.rot90(piece[:, :: rng.choice([-1, 1])], rng.integers(4)).astype(np.float32)


def fractal(rng: np.random.Generator, edge: int, slope: float) -> Array:
    """Noise of unit variance (edge, edge) whose amplitude falls with the frequency as f to the power of -slope."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(edge), np.fft.rfftfreq(edge), indexing="ij"))
    frequency[0, 0] = np.inf
    image = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((edge, edge))) / frequency**slope, (edge, edge))
    return (image / image.std()).astype(np.float32)


def shrunk(image: Array, blur: float) -> Array:
    """Half the size, after a blur of `blur` pixels against aliasing."""
    return ndimage.gaussian_filter(image, (blur, blur, 0))[::2, ::2]


def noisy(clean: Array, rng: np.random.Generator) -> Array:
    """Gaussian or Poisson-Gaussian noise of a tenth to twice the picture's own standard deviation, or nearly none."""
    level = np.exp(rng.uniform(np.log(0.05), np.log(2))) * max(5.0, float(clean.std()))
    photon = 0.0 if rng.random() < 0.6 else rng.uniform(0, 1)  # share of the variance that depends on the signal
    gain = photon * level**2 / max(1.0, float(clean.mean()))
    sigma = np.sqrt(1 - photon) * level
    return poisson_gaussian(clean, gain, sigma, rng) if photon else gaussian(clean, sigma, rng)


def pictures(count: int, rng: np.random.Generator) -> Iterator[Array]:
    """Half of them dead leaves, a sixth cells, a third crops of pictures; some in less contrast."""
    for i in range(count):
        image = (dead_leaves, cells, crop, dead_leaves, crop, dead_leaves)[i % 6](rng)
        yield image * rng.uniform(0.3, 1) if rng.random() < 0.3 else image


def with_weights_of(grey: Denoiser, colour: Denoiser) -> Denoiser:
    """A colour network that sees the mean of the channels and predicts it for each, by the weights of the grey one."""
    assert grey.network is not None
    colour.axes, colour.channels = AXES["colour"], 3
    colour.network = colour.new_network()
    weights = grey.network.state_dict()
    for name, value in colour.network.state_dict().items():
        seen = value.shape[1] if value.ndim == 4 and weights[name].shape[1] < value.shape[1] else 1
        value.copy_((weights[name] / seen).expand(value.shape))
    return colour


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(AXES), help="grey, colour; both if none is named")
    parser.add_argument("--count", type=int, default=1200, help="pictures")
    parser.add_argument("--steps", type=int, default=14_000, help="of grey; colour, which begins with it, takes half")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for them")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    options: dict[str, Any] = {"method": "noise2true", "normalization": "image", "early_stop": False}
    for name in arguments.names:
        rng = np.random.default_rng(0)
        clean = list(pictures(arguments.count, rng))
        if name == "grey":
            clean = [image @ np.float32([0.299, 0.587, 0.114]) for image in clean]
            model = Denoiser(Config(steps=arguments.steps, **options))
        else:
            model = Denoiser(Config(steps=arguments.steps // 2, learning_rate=2e-3, **options))
            model = with_weights_of(Denoiser.load(arguments.out / "grey.safetensors"), model)
        model.fit([noisy(image, rng) for image in clean], AXES[name], target=clean, resume=name == "colour")
        model.save(arguments.out / f"{name}.safetensors")


if __name__ == "__main__":
    main()
