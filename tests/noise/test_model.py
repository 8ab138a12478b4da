"""NoiseModel: one variance for arrays and tensors, in the images' units and normalized."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from noise2same.data.normalize import Normalization
from noise2same.data.stabilize import Stabilizer
from noise2same.noise.model import NoiseModel

TWO = NoiseModel((2.0, 0.5), (25.0, 4.0), (100.0, 50.0), (40.0, 20.0), kind="poisson-gaussian")


def test_arrays_and_tensors_have_the_same_variance():
    y = np.random.default_rng(0).uniform(-50, 200, (3, 2, 4, 5))
    array, tensor = TWO.variance(y), TWO.variance(torch.from_numpy(y))
    np.testing.assert_allclose(array, tensor.numpy())
    np.testing.assert_allclose(array[:, 0], np.maximum(2 * y[:, 0] + 25, 0.01 * 225 + 1e-6 * 1600))


def test_normalized_noise_is_the_same_noise():
    scale = Normalization((90.0, 60.0), (30.0, 10.0))
    y = np.random.default_rng(0).uniform(0, 200, (3, 2, 4, 5)).astype(np.float32)
    unit = np.array(scale.std).reshape(2, 1, 1)
    np.testing.assert_allclose(TWO.normalized(scale).variance(scale.apply(y)) * unit**2, TWO.variance(y), rtol=1e-4)


def test_one_value_stands_for_all_channels_and_a_channel_can_be_taken():
    y = np.full((1, 3, 2, 2), 10.0)
    assert NoiseModel.gaussian(3.0).variance(y).max() == pytest.approx(9)
    assert TWO.channel(1).sigma == pytest.approx((29**0.5,)) and TWO.sigma[1] == TWO.channel(1).sigma[0]


@pytest.mark.parametrize(
    ("kind", "correlation", "holds"),
    [("gaussian", (), True), ("clipped", (), True), ("impulse", (), False), ("gaussian", ((), (0.3,)), False)],
)
def test_where_the_error_can_be_estimated(kind, correlation, holds):
    noise = NoiseModel(kind=kind, correlation=correlation)
    assert noise.sure_holds == holds
    assert noise.extent == ((0, 1) if correlation else ())


def test_on_a_stabilized_scale_the_noise_is_gaussian_and_steady():
    noise = NoiseModel((2.0, 0.0), (50.0, 9.0), (100.0, 30.0), (40.0, 10.0), kind="poisson-gaussian", confidence=0.9)
    rng = np.random.default_rng(0)
    clean = np.broadcast_to(np.geomspace(20, 1e5, 64)[:, None], (1, 2, 64, 4096))
    image = clean + rng.standard_normal(clean.shape) * noise.variance(clean) ** 0.5
    scale = Normalization.measure([image], Stabilizer(noise.a, noise.b))
    inner = noise.normalized(scale)
    assert inner.a == (0.0, 0.0) and inner.kind == "gaussian" and inner.sure_holds
    rows = scale.apply(image).std(axis=-1)[0]
    np.testing.assert_allclose(rows, np.array(inner.sigma)[:, None].repeat(64, 1), rtol=0.1)
    stronger = replace(noise, a=(8.0, 0.0), b=(200.0, 36.0)).normalized(scale)  # twice as strong everywhere
    np.testing.assert_allclose(stronger.sigma, np.multiply(2, inner.sigma), rtol=1e-6)
