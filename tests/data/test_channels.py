"""How much structure channels share is found beneath any noise, and none is found where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage import data

from noise2same.data.channels import shared_structure

RNG = np.random.default_rng(0)
CAMERA, COINS = data.camera()[:300, :384].astype(np.float32), data.coins()[:300, :384].astype(np.float32)


def found(*channels, extent=()):
    return shared_structure([np.stack(channels)[None]], extent)


@pytest.mark.parametrize("sigma", [0, 25, 50])
def test_the_noise_does_not_count(sigma):
    def noisy(image):
        return image + RNG.normal(0, sigma, image.shape)

    assert max(found(noisy(CAMERA), noisy(COINS))) < 0.15
    assert min(found(noisy(CAMERA), noisy(255 - 0.5 * CAMERA))) > 0.95
    half = found(noisy(CAMERA), noisy(60 * (COINS / COINS.std() + CAMERA / CAMERA.std())))
    assert 0.4 < half[0] < 0.9


def test_each_channel_has_that_of_its_best_partner():
    rho = found(CAMERA, COINS, 2 * CAMERA + 7)
    assert rho[0] == pytest.approx(1) == rho[2] and rho[1] < 0.15


def test_pixels_that_share_noise_are_taken_apart():
    shared = [3 * ndimage.uniform_filter(RNG.normal(0, 40, CAMERA.shape), 3) for _ in range(2)]
    pair = [CAMERA + one for one in shared]
    assert min(found(*pair)) < 0.8 < min(found(*pair, extent=(2, 2)))


def test_what_there_is_nothing_to_measure_in():
    assert shared_structure([CAMERA[None, None]]) == ()
    assert found(CAMERA, np.zeros_like(CAMERA)) == (0, 0)
    assert found(CAMERA[:1, :1], COINS[:1, :1]) == (0, 0)
    holes = CAMERA.copy()
    holes[::50, ::50] = np.nan
    assert min(found(holes, CAMERA)) > 0.9
    noise = found(RNG.normal(size=(64, 64)), RNG.normal(size=(64, 64)))
    assert all(0 <= rho <= 1 for rho in noise)


def test_volumes_and_several_images():
    volume = np.stack([CAMERA] * 3)
    assert min(found(volume, -volume)) == pytest.approx(1)
    two = [np.stack([CAMERA, CAMERA])[None], np.stack([COINS, COINS])[None]]
    assert min(shared_structure(two)) == pytest.approx(1)
