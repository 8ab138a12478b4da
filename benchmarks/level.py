"""How well is the strength of the noise found from one noisy image? Ours against the usual estimators."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import ndimage
from skimage.restoration import estimate_sigma

from noise2same.noise.level import fit, measure, noise_sigma
from noise2same.noise.synthetic import gaussian, poisson_gaussian

Image = NDArray[np.float64]
SIGMAS = (5, 10, 25, 50, 75)
COLUMNS = ("all", "BSD68", "Set12", "Kodak24")
PHOTONS = ((1, 0), (5, 0), (20, 0), (2, 5), (5, 15), (10, 20))
"""Gain and read-out noise, in grey values."""


def wavelet(image: Image) -> float:
    """Median absolute deviation of the finest diagonal wavelets (Donoho and Johnstone 1994), as in scikit-image."""
    return float(estimate_sigma(image))


def laplacian(image: Image) -> float:
    """Median absolute deviation of the difference of two Laplacians (Immerkær 1996, made robust)."""
    residual = np.diff(np.diff(image, n=2, axis=0), n=2, axis=1) / 6
    return float(1.4826 * np.median(np.abs(residual)))


def patch_pca(image: Image, side: int = 8) -> float:
    """Chen, Zhu, Heng 2015: the largest set of small eigenvalues of the patches' covariance with mean = median."""
    patches = sliding_window_view(image, (side, side)).reshape(-1, side**2)
    values = np.linalg.eigvalsh(np.cov(patches[:: -(-len(patches) // 50_000)], rowvar=False))[::-1]
    for i in range(len(values)):
        mean = values[i:].mean()
        if (values[i:] > mean).sum() >= (values[i:] < mean).sum():
            break
    return float(np.sqrt(mean))


def block_levels(image: Image, levels: int = 8, side: int = 8, share: float = 0.1) -> Image:
    """Brightness and variance of the flattest blocks at some levels of brightness, (2, levels): our estimate before.

    Flat is where the smoothed image has no slope; the variance is that of the difference of two Laplacians.
    """
    residual = np.diff(np.diff(image, n=2, axis=0), n=2, axis=1) / 6
    smooth = ndimage.gaussian_filter(image, 0.85)
    slope = np.sum(np.square(np.gradient(smooth)), axis=0)

    def means(plane: Image) -> Image:
        rows, columns = (length // side for length in residual.shape)
        cut = plane[: rows * side, : columns * side].reshape(rows, side, columns, side)
        return cut.mean(axis=(1, 3)).ravel()

    brightness, texture, variance = means(smooth[1:-1, 1:-1]), means(slope[1:-1, 1:-1]), means(residual**2)
    parts = np.array_split(np.argsort(brightness), levels)
    flat = [part[np.argsort(texture[part])[: max(3, round(share * len(part)))]] for part in parts]
    return np.array([[values[part].mean() for part in flat] for values in (brightness, variance)])


def blocks(image: Image) -> float:
    return float(np.sqrt(block_levels(image)[1].mean()))


def blocks_line(image: Image) -> tuple[float, float]:
    """Ordinary least squares through the blocks' levels."""
    slope, intercept = np.polyfit(*block_levels(image), 1)
    return float(slope), float(intercept)


def cosine_line(image: Image) -> tuple[float, float]:
    levels = measure([image[None]])
    assert levels is not None
    return fit(levels)[:2]


LEVEL: dict[str, Callable[[Image], float]] = {
    "flat blocks, cosine transform (ours)": noise_sigma,
    "flat blocks, Laplacian (ours before)": blocks,
    "Laplacian MAD": laplacian,
    "wavelet MAD": wavelet,
    "patch PCA": patch_pca,
}
LINE: dict[str, Callable[[Image], tuple[float, float]]] = {
    "flat blocks, cosine transform (ours)": cosine_line,
    "flat blocks, Laplacian, least squares": blocks_line,
}


def planes() -> dict[str, list[Image]]:
    """Single channels of the three sets of clean images."""
    colour = [imageio.imread(path) for path in sorted((record.DATA / "color" / "Kodak24").glob("*.png"))]
    sets = {name: record.grey_images(f"bsd/{name}") for name in ("BSD68", "Set12")}
    sets["Kodak24"] = [image[..., channel] for image in colour for channel in range(3)]
    return {name: [image.astype(np.float64) for image in images] for name, images in sets.items()}


def gaussian_rows(sets: dict[str, list[Image]], sigma: float) -> list[dict[str, Any]]:
    rows = []
    for name, estimate in LEVEL.items():
        errors = {}
        for data, images in sets.items():
            rng = np.random.default_rng(0)
            errors[data] = [estimate(gaussian(image, sigma, rng).astype(np.float64)) / sigma - 1 for image in images]
        rows.append(row(f"σ = {sigma}", name, errors))
    return rows


def photon_rows(images: list[Image], gain: float, sigma: float) -> list[dict[str, Any]]:
    """Largest relative error of the predicted standard deviation from the 5th to the 95th percentile of the image."""
    rng = np.random.default_rng(0)
    noisy = [poisson_gaussian(image, gain, sigma, rng).astype(np.float64) for image in images]
    rows = []
    for name, estimate in LINE.items():
        errors = []
        for clean, image in zip(images, noisy, strict=True):
            a, b = estimate(image)
            y = np.linspace(*np.quantile(clean, (0.05, 0.95)), 50)
            y = y[gain * y + sigma**2 > 0]
            ratio = np.sqrt(np.maximum(a * y + b, 0) / (gain * y + sigma**2))
            errors.append(np.abs(ratio - 1).max())
        rows.append(row(f"a = {gain}, b = {sigma**2}", name, {"BSD68": errors}))
    return rows


def row(noise: str, estimator: str, errors: dict[str, list[float]]) -> dict[str, Any]:
    """A row with median and 95th percentile of the absolute errors, in percent, of all sets together and of each."""
    every = {"all": [error for values in errors.values() for error in values]} | errors
    percents = {data: np.quantile(100 * np.abs(values), (0.5, 0.95)).round(1) for data, values in every.items()}
    cells = {data: " / ".join(map(str, percents[data])) if data in percents else None for data in COLUMNS}
    return {"noise": noise, "estimator": estimator, **cells}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    sets = planes()
    rows = [one for sigma in SIGMAS for one in gaussian_rows(sets, sigma)]
    rows += [one for gain, sigma in PHOTONS for one in photon_rows(sets["BSD68"], gain, sigma)]
    own = {name: np.median([noise_sigma(image) for image in images]) for name, images in sets.items()}
    text = (
        "# The strength of the noise\n\nRelative error of the standard deviation that is found in one noisy image (of "
        "Kodak24, in each channel), without knowing the clean one: median / 95th percentile, in percent. For photon "
        "noise, whose variance is a·y + b: the largest relative error of the standard deviation that the fitted line "
        "predicts from the 5th to the 95th percentile of the clean image. The clean images have noise of their own, "
        "which no estimator can tell from what was added: ours finds "
        f"{', '.join(f'{value:.2f} in {name}' for name, value in own.items())} (median)."
    )
    record.write("level", rows, text)


if __name__ == "__main__":
    main()
