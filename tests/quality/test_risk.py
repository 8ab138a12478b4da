"""The response of a denoiser to a small change, and the error that follows from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import convolve

from noise2same.noise.model import NoiseModel
from noise2same.quality.residual import Blocks, blocks_of_channels, crops
from noise2same.quality.risk import estimate_risks, probe, recalibrate_variance

KERNEL = np.array([[0.0, 0.1, 0.0], [0.1, 0.6, 0.1], [0.0, 0.1, 0.0]])


def smooth(crop: np.ndarray) -> np.ndarray:
    """Each channel of (C, Y, X), or of (N, C, Y, X), filtered."""
    return convolve(crop, KERNEL.reshape((1,) * (crop.ndim - 2) + KERNEL.shape))


@pytest.fixture(scope="module")
def flat() -> np.ndarray:
    """Noise of σ = 2 and 5 in two channels, (1, 2, Y, X)."""
    rng = np.random.default_rng(0)
    return 100 + np.stack([rng.normal(0, sigma, (256, 256)) for sigma in (2, 5)])[None]


def test_the_derivative_of_a_filter_is_its_middle_weight(flat: np.ndarray) -> None:
    probed = probe(flat, smooth(flat), NoiseModel.gaussian(2.0, 5.0), smooth)
    assert probed is not None
    for channel in probed:
        assert channel.derivative.mean() == pytest.approx(0.6, abs=0.01)


def test_the_error_of_a_filter_of_flat_noise_is_known(flat: np.ndarray) -> None:
    noise, clean = NoiseModel.gaussian(2.0, 5.0), smooth(flat)
    probed = probe(flat, clean, noise, smooth)
    assert probed is not None
    risks = estimate_risks(blocks_of_channels(flat, clean, noise), probed)
    assert risks is not None
    for one, sigma in zip(risks, (2.0, 5.0), strict=True):
        assert one.low < sigma**2 * (KERNEL**2).sum() < one.high
        assert one.noise == pytest.approx(sigma**2, rel=0.3)


def test_another_denoiser_is_recognized(flat: np.ndarray) -> None:
    assert probe(flat, smooth(flat), NoiseModel.gaussian(2.0, 5.0), lambda crop: np.full_like(crop, 100)) is None


def blocks_of_noise(sigma: float) -> Blocks:
    noise = np.random.default_rng(0).normal(0, sigma, (1, 1, 512, 512))
    return blocks_of_channels(noise, np.zeros_like(noise), NoiseModel.gaussian(1.0))[0]


@pytest.mark.parametrize("variance", [0.9, 1.0, 1.1])
def test_a_variance_that_is_a_little_wrong_is_corrected(variance: float) -> None:
    found = recalibrate_variance(blocks_of_noise(variance**0.5))
    assert found.scale == pytest.approx(1 + 0.7 * (variance - 1), abs=0.03)


def test_a_variance_that_is_far_off_is_uncertain() -> None:
    found = recalibrate_variance(blocks_of_noise(2.0))
    assert found.scale == 1 and found.error > 1


@pytest.mark.parametrize("pixels", [2**14, 2**16, 2**18, 2**20])
@pytest.mark.parametrize("shape", [(1, 1, 512, 512), (3, 2, 1000, 700), (1, 1, 20, 300, 300), (1, 3, 64, 64)])
def test_crops_are_spread_and_no_larger_than_asked(shape: tuple[int, ...], pixels: int) -> None:
    found = crops(shape, pixels)
    image = np.broadcast_to(np.float32(0), shape)
    sizes = [image[crop].size / shape[1] for crop in found]
    assert sum(sizes) <= pixels or (len(found) == 1 and min(image[found[0]].shape[-2:]) < 128)
    assert len({str(crop) for crop in found}) == len(found)
