"""Synthetic noise has the promised moments, and its strength is found again without the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from skimage import data, io

from noise2same.errors import InputError
from noise2same.noise.level import fit, measure, noise_level, noise_sigma
from noise2same.noise.synthetic import combined, gaussian, poisson_gaussian
from noise2same.quality.metrics import psnr


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def volume() -> np.ndarray:
    """A smooth procedural volume of blobs, (24, 96, 96), between 0 and 100."""
    z, y, x = np.mgrid[:24, :96, :96]
    blobs = [
        np.exp(-(((z - a) / 5) ** 2) - ((y - b) / 14) ** 2 - ((x - c) / 14) ** 2)
        for a, b, c in [(8, 30, 30), (15, 60, 70)]
    ]
    return 100 * np.sum(blobs, axis=0)


def test_gaussian_has_the_promised_moments_and_is_not_clipped(rng: np.random.Generator) -> None:
    noisy = gaussian(np.zeros((400, 400), np.uint8), 25, rng)
    assert noisy.dtype == np.float32
    assert noisy.std() == pytest.approx(25, rel=0.01)
    assert abs(noisy.mean()) < 0.3
    assert noisy.min() < 0


@pytest.mark.parametrize("level", [0, 4, 40, 200])
def test_poisson_gaussian_variance_is_gain_times_signal_plus_read_noise(level: int, rng: np.random.Generator) -> None:
    noisy = poisson_gaussian(np.full((400, 400), level, np.uint16), 2.0, 3.0, rng)
    assert noisy.dtype == np.float32
    assert noisy.mean() == pytest.approx(level, abs=0.3)
    assert noisy.var() == pytest.approx(2.0 * level + 9.0, rel=0.03)


def test_noise_is_repeatable() -> None:
    clean = data.camera()
    first, second = (poisson_gaussian(clean, 2, 3, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_impossible_noise_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="sigma"):
        gaussian(np.zeros(4), -1, rng)
    with pytest.raises(InputError, match="gain"):
        poisson_gaussian(np.zeros(4), 0, 1, rng)
    with pytest.raises(InputError, match="negative"):
        poisson_gaussian(np.full(4, -1.0), 1, 1, rng)


@pytest.mark.parametrize("sigma", [10, 25, 50])
@pytest.mark.parametrize("name", ["camera", "coins", "moon"])
def test_sigma_is_found_on_real_pictures(name: str, sigma: float, rng: np.random.Generator) -> None:
    noisy = gaussian(getattr(data, name)(), sigma, rng)
    assert noise_sigma(noisy) == pytest.approx(sigma, rel=0.1)


@pytest.mark.parametrize("sigma", [5, 25, 75])
def test_errors_on_bsd68_are_small(sigma: float, data_dir: Path, rng: np.random.Generator) -> None:
    pictures = [io.imread(path) for path in sorted((data_dir / "bsd" / "BSD68").glob("*.png"))]
    errors = np.abs([noise_sigma(gaussian(picture, sigma, rng)) / sigma - 1 for picture in pictures])
    assert np.median(errors) < 0.02
    assert np.quantile(errors, 0.95) < 0.12


@pytest.mark.parametrize(("gain", "sigma"), [(1, 0), (20, 0), (5, 15)])
def test_photon_noise_is_predicted_at_all_intensities(
    gain: float, sigma: float, data_dir: Path, rng: np.random.Generator
) -> None:
    errors = []
    for path in sorted((data_dir / "bsd" / "BSD68").glob("*.png"))[::3]:
        clean = io.imread(path)
        levels = measure([poisson_gaussian(clean, gain, sigma, rng)[None]])
        assert levels is not None
        intensity = np.linspace(*np.quantile(clean, (0.05, 0.95)), 20)
        errors.append(np.abs(np.sqrt(fit(levels).at(intensity) / (gain * intensity + sigma**2)) - 1).max())
    assert np.median(errors) < 0.05


def test_noise_that_does_not_depend_on_the_image_has_no_slope(data_dir: Path, rng: np.random.Generator) -> None:
    pictures = [io.imread(path) for path in sorted((data_dir / "bsd" / "Set12").glob("*.png"))]
    assert sum(noise_level(gaussian(picture, 25, rng)).slope[0] > 0 for picture in pictures) <= 2


def test_noise_that_falls_with_the_intensity_keeps_its_mean_strength(rng: np.random.Generator) -> None:
    clean = data.camera()
    inverted = 255 - poisson_gaussian(clean, 5.0, 5.0, rng)
    assert noise_level(inverted).slope == (0,)
    assert noise_sigma(inverted) == pytest.approx(np.sqrt(5.0 * clean.mean() + 25), rel=0.1)


def test_places_where_the_range_cuts_the_noise_off_do_not_count(rng: np.random.Generator) -> None:
    noisy = np.clip(np.round(gaussian(data.camera(), 30, rng)), 0, 255).astype(np.uint8)
    assert (noisy == 0).mean() > 0.03
    assert noise_sigma(noisy) == pytest.approx(30, rel=0.07)


def test_sigma_of_colour_pools_the_channels(rng: np.random.Generator) -> None:
    planes = [gaussian(data.camera(), sigma, rng) for sigma in (20, 30, 40)]
    pooled = noise_sigma(np.stack(planes)[None])
    assert pooled == pytest.approx(np.sqrt((20**2 + 30**2 + 40**2) / 3), rel=0.05)


def test_sigma_of_volumes_and_stacks(volume: np.ndarray, rng: np.random.Generator) -> None:
    noisy = gaussian(volume, 5, rng)
    assert noise_sigma(noisy) == pytest.approx(5, rel=0.05)
    assert noise_sigma(noisy[None, None]) == noise_sigma(noisy)
    assert noise_sigma(np.stack([noisy, noisy])[:, None]) == pytest.approx(noise_sigma(noisy))


def test_sigma_of_photon_noise_is_the_mean_over_the_image(rng: np.random.Generator) -> None:
    clean = data.camera()
    noisy = poisson_gaussian(clean, 5.0, 5.0, rng)
    assert noise_sigma(noisy) == pytest.approx(np.sqrt(5.0 * clean.mean() + 25), rel=0.1)


def test_sigma_scales_with_the_image_and_ignores_its_offset(rng: np.random.Generator) -> None:
    noisy = gaussian(data.camera(), 25, rng).astype(np.float64)
    assert noise_sigma(noisy / 60 - 2) == pytest.approx(noise_sigma(noisy) / 60)


def test_black_or_saturated_background_does_not_count(rng: np.random.Generator) -> None:
    noisy = gaussian(data.camera(), 25, rng)
    noisy[:, :400] = 0
    assert noise_sigma(noisy) == pytest.approx(25, rel=0.1)
    noisy[:, :400] = 65535
    assert noise_sigma(noisy) == pytest.approx(25, rel=0.1)


def test_nan_pixels_do_not_count(rng: np.random.Generator) -> None:
    noisy = gaussian(data.camera(), 25, rng)
    noisy[rng.random(noisy.shape) < 0.02] = np.nan
    noisy[100:200, 100:200] = np.nan
    noisy[-1] = np.inf
    assert noise_sigma(noisy) == pytest.approx(25, rel=0.1)


def test_nothing_to_measure() -> None:
    assert noise_sigma(np.full((64, 64), 7, np.uint8)) == 0
    assert noise_sigma(np.full((64, 64), np.nan)) == 0
    with pytest.raises(InputError, match="shape"):
        noise_sigma(np.zeros((0, 5)))


@pytest.mark.parametrize("shape", [(2, 500), (7, 7), (9, 40), (30, 30)])
def test_small_images_give_an_estimate(shape: tuple[int, int], rng: np.random.Generator) -> None:
    assert 0.2 < noise_sigma(rng.standard_normal(shape)) < 3


def test_combined_noise_has_the_published_strength(data_dir: Path) -> None:
    rng = np.random.default_rng(0)
    crops = [io.imread(path)[:128, :128] for path in sorted((data_dir / "imagenet").glob("*.JPEG"))[:60]]
    scores = [psnr(crop, combined(crop, rng), data_range=255) for crop in crops if crop.ndim == 3]
    assert np.mean(scores) == pytest.approx(9.69, abs=0.15)


@pytest.mark.parametrize("photons", [True, False])
def test_the_gain_is_found_in_stars_and_the_level_in_the_sky(photons: bool, rng: np.random.Generator) -> None:
    clean = np.full((512, 512), 140.0)
    rows, columns = np.ogrid[:512, :512]
    for y, x, flux in zip(*rng.uniform(10, 500, (2, 200)), np.geomspace(200, 1e6, 200), strict=True):
        clean += flux / (2 * np.pi * 1.8**2) * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * 1.8**2))
    noisy = poisson_gaussian(clean, 1.0, 5.0, rng) if photons else gaussian(clean, 13.0, rng)
    levels = measure([noisy[None]])
    assert levels is not None
    line = fit(levels)
    assert line.at(140.0) == pytest.approx(165.0 if photons else 169.0, rel=0.05)
    assert line.slope == pytest.approx(1.0, rel=0.25) if photons else abs(line.slope) < 0.01
