"""The result is a blend of output and input, and nowhere much worse than the input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage import data
from torch import nn

from noise2same.data.normalize import Normalization
from noise2same.networks.unet import Blur
from noise2same.noise.model import NoiseModel
from noise2same.prediction.blend import Blend, measure_blend
from noise2same.prediction.predict import predict

UNIT = Normalization((0.0,), (1.0,))
CPU = torch.device("cpu")
SIGMA = 10.0


@pytest.fixture
def camera():
    return data.camera()[100:228, 100:228].astype(np.float32)


def noisy(clean, sigma=SIGMA, seed=0):
    return (clean + np.random.default_rng(seed).normal(0, sigma, clean.shape)).astype(np.float32)


def mse(clean, image):
    return float(np.mean((clean - image) ** 2))


class Spoiling(nn.Module):
    """Returns the clean image, but for what it does to a part of it."""

    def __init__(self, clean, spoil):
        super().__init__()
        self.clean = torch.from_numpy(spoil(clean.copy()))[None, None]

    def forward(self, x):
        return self.clean[:, :, : x.shape[2], : x.shape[3]].clone()


def blended(network, x, **options):
    blend = measure_blend(network, [x[None, None]], NoiseModel.gaussian(SIGMA), UNIT, CPU)
    out = np.empty_like(x)
    done = predict(network, x, "YX", out, normalization=UNIT, blend=blend, **options)
    return out, blend, float(done.input_share[0])


def test_each_channel_has_the_weight_of_least_error(camera):
    """A blur helps a channel with much noise, and ruins one with little."""
    x = np.stack([noisy(camera, 40), noisy(camera, 2)])[None]
    blur, noise = Blur((1.5, 1.5)), NoiseModel.gaussian(40, 2)
    blend = measure_blend(blur, [x], noise, UNIT, CPU)
    f_x = blur(torch.from_numpy(x)).numpy()
    assert blend.overall[0] > 0.95
    assert blend.let_through[0] == pytest.approx(1 / (2 * np.pi * 1.5**2), rel=0.3)  # the middle of the kernel
    weight = blend.weight(torch.from_numpy(x), torch.from_numpy(f_x), UNIT).numpy()
    result = x + weight * (f_x - x)
    assert weight[0, 0].mean() > 0.9 > 0.7 > weight[0, 1].mean()
    assert mse(camera, result[0, 0]) < mse(camera, f_x[0, 0])
    assert mse(camera, result[0, 1]) < mse(camera, x[0, 1]) < 0.1 * mse(camera, f_x[0, 1])


def test_a_good_result_is_left_as_it_is(camera):
    x = noisy(camera)
    out, blend, share = blended(Spoiling(camera, lambda clean: clean), x)
    assert blend.overall == (1.0,) and share < 1e-3
    assert mse(camera, out) < 1e-3 * mse(camera, x)


def test_a_structure_that_was_taken_away_comes_back(camera):
    """A small bright spot is gone from the output; around it, the output is perfect."""
    camera[90:94, 90:94] += 200

    def without(image):
        image[90:94, 90:94] -= 200
        return image

    x = noisy(camera)
    out, _, share = blended(Spoiling(camera, without), x)
    spot = (slice(90, 94),) * 2
    assert out[spot].mean() == pytest.approx(camera[spot].mean(), abs=10)
    assert share < 0.05 and mse(camera, out) < 0.1 * mse(camera, x)


def test_noise_that_may_be_texture_is_not_taken_away_wholly(camera):
    x = noisy(camera, 2)
    sure, unsure = (
        measure_blend(Blur((1.0, 1.0)), [x[None, None]], noise, UNIT, CPU)
        for noise in (NoiseModel((0.0,), (100.0,)), NoiseModel((0.0,), (100.0,), certain=(0.04,)))
    )
    assert sure.overall[0] == 1 and unsure.overall[0] < 0.5


@pytest.mark.parametrize(("axes", "shape", "block"), [("YX", (100, 90), (32, 24)), ("ZYX", (12, 40, 44), (4, 16, 20))])
def test_blocks_do_not_matter(axes, shape, block):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, shape).astype(np.float32)
    x[..., 20:23, 30:33] += 20
    network = Blur((1.0,) * len(shape))
    blend = Blend(NoiseModel.gaussian(1.0), (0.1,), (1.0,))
    whole, cut = np.empty_like(x), np.empty_like(x)
    shares = [
        predict(network, x, axes, out, normalization=UNIT, blend=blend, block=size).input_share
        for out, size in ((whole, None), (cut, block))
    ]
    np.testing.assert_allclose(whole, cut, atol=2e-5)
    np.testing.assert_allclose(*shares, atol=1e-6)
    assert 0 < shares[0] < 0.5


@pytest.mark.parametrize("strength", [0.0, 0.25, 1.0])
def test_strength_goes_from_input_to_result(camera, strength):
    x, network = noisy(camera), Blur((1.0, 1.0))
    whole, out = np.empty_like(x), np.empty_like(x)
    predict(network, x, "YX", whole, normalization=UNIT)
    predict(network, x, "YX", out, normalization=UNIT, strength=strength)
    np.testing.assert_allclose(out, x + strength * (whole - x), atol=1e-3)
