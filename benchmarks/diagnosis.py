"""Is the noise recognised? Kind and correlation of synthetic noise on held-out images, and of real microscopes."""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.noise.diagnose import CONFIDENT, Diagnosis, diagnose
from noise2same.noise.synthetic import gaussian, poisson_gaussian

Image = NDArray[np.float64]
KERNELS = {"independent": (1, 1), "1×3": (1, 3), "3×1": (3, 1), "3×3": (3, 3)}


def additive(sigma: float, clean: Image, rng: np.random.Generator) -> Image:
    return gaussian(clean, sigma, rng).astype(np.float64)


def photons(white: float, read_out: float, clean: Image, rng: np.random.Generator) -> Image:
    """Photon noise with so many photons at 255, and read-out noise of a share of the mean variance."""
    gain = 255 / white
    sigma = np.sqrt(gain * clean.mean() * read_out / (1 - read_out))
    return poisson_gaussian(clean, gain, sigma, rng).astype(np.float64)


def salt_and_pepper(share: float, sigma: float, clean: Image, rng: np.random.Generator) -> Image:
    noisy = np.clip(gaussian(clean, sigma, rng).astype(np.float64), 0, 255)
    return np.where(rng.random(clean.shape) < share, 255.0 * rng.integers(0, 2, clean.shape), noisy)


def dropout(share: float, sigma: float, clean: Image, rng: np.random.Generator) -> Image:
    return np.where(rng.random(clean.shape) < share, 0.0, gaussian(clean, sigma, rng).astype(np.float64))


def clipped(sigma: float, clean: Image, rng: np.random.Generator) -> Image:
    """Cut off so that each end loses 6 % of the values."""
    noisy = gaussian(clean, sigma, rng).astype(np.float64)
    return np.clip(noisy, *np.quantile(noisy, (0.06, 0.94)))


def quantised(sigma: float, steps: float, clean: Image, rng: np.random.Generator) -> Image:
    step = steps * sigma
    return step * np.round(gaussian(clean, sigma, rng).astype(np.float64) / step)


def rounded(sigma: float, clean: Image, rng: np.random.Generator) -> Image:
    """As a file of 8 bits has it."""
    return np.clip(np.round(gaussian(40 + 0.65 * clean, sigma, rng)), 0, 255).astype(np.float64)


Noise = Callable[[Image, np.random.Generator], Image]


def _with(function: Callable[..., Image], *parameters: float) -> Noise:
    return lambda clean, rng: function(*parameters, clean, rng)


SMOOTHABLE: dict[str, list[Noise]] = {
    "gaussian": [_with(additive, sigma) for sigma in (10, 25, 50)],
    "poisson": [_with(photons, white, 0) for white in (10, 30, 100)],
    "poisson-gaussian": [_with(photons, white, 0.5) for white in (10, 30, 100)],
}
INDEPENDENT: dict[str, list[Noise]] = {  # a smoothed impulse is no impulse any more
    "gaussian": [_with(rounded, sigma) for sigma in (5, 15)],
    "impulse": [
        _with(salt_and_pepper, 0.02, 10),
        _with(salt_and_pepper, 0.2, 25),
        _with(dropout, 0.05, 10),
        _with(dropout, 0.3, 25),
    ],
    "clipped": [_with(clipped, 15), _with(clipped, 40)],
    "quantised": [_with(quantised, 10, 2), _with(quantised, 20, 3)],
}


def smoothed(clean: Image, noise: Noise, size: tuple[int, int], rng: np.random.Generator) -> Image:
    """The noise averaged over neighbors, as strong as before."""
    noisy = noise(clean, rng)
    if size == (1, 1):  # values at the ends of the range stay exactly there
        return noisy
    return clean + ndimage.uniform_filter(noisy - clean, size, mode="wrap") * np.sqrt(np.prod(size))


def cases(images: list[Image], repeat: int) -> Iterator[tuple[str, str, Image]]:
    """Kind, kernel and noisy image, each of the next clean one; every noise is used `repeat` times."""
    pool, rng = itertools.cycle(images), np.random.default_rng(0)
    alone = {"independent": KERNELS["independent"]}
    for noises, kernels in ((SMOOTHABLE, KERNELS), (INDEPENDENT, alone)):
        for kind, kernel in itertools.product(noises, kernels):
            for noise in noises[kind] * repeat:
                yield kind, kernel, smoothed(next(pool), noise, kernels[kernel], rng)


def held_out() -> list[Image]:
    """Grey crops of at most 320 pixels a side of BSD68, Kodak24 and ImageNet, in an order that mixes the three."""
    files = [
        path
        for folder, pattern in (("bsd/BSD68", "*.png"), ("color/Kodak24", "*.png"), ("imagenet", "*.JPEG"))
        for path in sorted((record.DATA / folder).glob(pattern))[:68]
    ]
    read = (imageio.imread(path).astype(np.float64) for path in files)
    grey = [image.mean(axis=-1) if image.ndim == 3 else image for image in read]
    images = [np.maximum(image[:320, :320], 2) for image in grey if min(image.shape) >= 200]  # no place without light
    return [images[i] for i in np.random.default_rng(0).permutation(len(images))]


def real() -> Iterator[tuple[str, tuple[str, ...], bool, Image]]:
    """Name of the set, kinds that are right, whether it is correlated, and each of the images."""
    photon_noise = ("poisson", "poisson-gaussian")
    for path in sorted((record.DATA / "w2s24" / "avg1").glob("*.png")):
        yield "w2s", photon_noise, False, imageio.imread(path).astype(np.float64)
    for path in sorted((record.DATA / "fmd48" / "raw").glob("*.png")):
        name = path.name.split("_")[0]
        yield f"fmd {name}", photon_noise, name == "WideField", imageio.imread(path).astype(np.float64)


def summary(data: str, kernel: str, results: list[tuple[bool, bool, Diagnosis]]) -> dict[str, Any]:
    """A row of the table; each result is whether kind and correlation are right, and the diagnosis."""
    kinds, correlations, found = zip(*results, strict=True)
    return {
        "noise": data,
        "neighbors": kernel,
        "images": len(found),
        "kind right": sum(kinds),
        "called correlated": sum(one.correlated for one in found),
        "both right": sum(a and b for a, b in zip(kinds, correlations, strict=True)),
        "confident": sum(one.confidence >= CONFIDENT for one in found),
        "raw": {"kinds": dict(Counter(one.kind for one in found))},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=8, help="Images of each noise.")
    repeat = parser.parse_args().repeat
    groups: dict[tuple[str, str], list[tuple[bool, bool, Diagnosis]]] = {}
    for kind, kernel, image in cases(held_out(), repeat):
        found = diagnose([image[None, None]])
        result = found.kind == kind, found.correlated == (kernel != "independent"), found
        groups.setdefault((kind, kernel), []).append(result)
    synthetic = [one for results in groups.values() for one in results]
    rows = [summary("all synthetic", "–", synthetic)] + [summary(*name, results) for name, results in groups.items()]
    measured: dict[tuple[str, str], list[tuple[bool, bool, Diagnosis]]] = {}
    for name, kinds, correlated, image in real():
        found = diagnose([image[None, None]])
        result = found.kind in kinds, found.correlated == correlated, found
        measured.setdefault((name, "correlated" if correlated else "independent"), []).append(result)
    rows += [summary(*name, results) for name, results in measured.items()]
    text = (
        "# The kind of the noise\n\nDiagnosis of single images. Synthetic noise is on grey crops of BSD68, Kodak24 and "
        "ImageNet, independent or averaged over 1×3, 3×1 or 3×3 pixels; limits were chosen on Train400 and Set12. Real "
        "images are of microscopes: photon noise, correlated in fmd's wide-field images only. *Confident*: a Gaussian "
        "or Poisson–Gaussian noise model would be used."
    )
    record.write("diagnosis", rows, text)


if __name__ == "__main__":
    main()
