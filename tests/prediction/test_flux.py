"""What bright sources lose is given back, and the sky is left alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from noise2same.data import axes as ax
from noise2same.data.normalize import Normalization
from noise2same.data.stabilize import Stabilizer
from noise2same.networks.unet import UNet
from noise2same.prediction.flux import keep_flux
from noise2same.prediction.predict import predict, predict_block


def spot(flux, side=64):
    rows, columns = np.ogrid[:side, :side]
    distance = (rows - side // 2) ** 2 + (columns - side // 2) ** 2
    return flux / (2 * np.pi * 4) * np.exp(-distance / 8)[None, None], distance**0.5


@pytest.mark.parametrize(("flux", "given_back"), [(2000, 0.4), (1e5, 0.8)])
def test_a_source_gets_its_flux_back(flux, given_back):
    light, distance = spot(flux)
    noisy, lost = 140 + light, 140 + 0.9 * light
    kept = keep_flux(noisy, lost, 2 * np.sqrt(lost + 25) - 2 * np.sqrt(165))
    inside = distance < 8
    before, after, truth = (float((image[0, 0] - 140)[inside].sum()) for image in (lost, kept, noisy))
    assert before == pytest.approx(0.9 * truth, rel=1e-3)
    assert given_back < (after - before) / (truth - before) <= 1


def test_the_sky_stays_as_it_is():
    sky = np.full((1, 1, 64, 64), 139.0)
    noisy = np.random.default_rng(0).poisson(sky)
    np.testing.assert_array_equal(keep_flux(noisy, sky, sky - 140), sky)


class Shifted(nn.Module):
    """Takes a tenth of its brightness from each pixel, and some of its neighbors'."""

    multiple, reach = (4, 4), (1, 1)

    def forward(self, x):
        return 0.9 * nn.functional.avg_pool2d(nn.functional.pad(x, (1, 1, 1, 1), "replicate"), 3, 1)


@pytest.mark.parametrize(("axes", "shape"), [("YX", (150, 131)), ("CYX", (2, 90, 70)), ("ZYX", (9, 40, 50))])
@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_results_on_a_stabilized_scale_do_not_depend_on_the_blocks(axes, shape, dtype):
    rng = np.random.default_rng(0)
    image = rng.poisson(100 * rng.pareto(1, shape).clip(1, 500)).astype(dtype)
    channels, dims = (2, 2) if "C" in axes else (1, len(shape))
    torch.manual_seed(0)
    network = Shifted() if axes == "YX" else UNet(dims, channels, features=4, levels=2, block="plain")
    stabilizer = Stabilizer((1.0,) * channels, (4.0,) * channels)
    scale = Normalization.measure([ax.to_network(image, axes)], stabilizer)
    whole, parts = np.zeros_like(image), np.zeros_like(image)
    predict(network.eval(), image, axes, whole, normalization=scale)
    predict(network, image, axes, parts, normalization=scale, block=(4, 32, 24)[-dims:])
    tolerance = {"rtol": 1e-4, "atol": 1e-2} if dtype == "float32" else {"atol": 1}
    np.testing.assert_allclose(parts.astype(np.float64), whole.astype(np.float64), **tolerance)
    region = (slice(0, 8), slice(8, 28), slice(4, 36))[-dims:]
    one, _ = predict_block(network, ax.samples(image, axes)[0], region, normalization=scale)
    expected = ax.to_network(whole, axes)[:, :, *region]
    np.testing.assert_allclose(one.astype(np.float64), expected.astype(np.float64), **tolerance)
