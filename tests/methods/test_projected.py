"""The projected invariance term: an estimate of the covariance of output and noise."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from noise2same.data.patches import Batch
from noise2same.methods import DataProfile
from noise2same.methods.projected import Projected, ProjectedSettings, projected_covariance
from noise2same.noise.model import NoiseModel


def terms(network, batch, **known):
    profile = DataProfile(2, 1, NoiseModel.gaussian(0.5), **known)
    return Projected(ProjectedSettings(), profile)(network, batch, torch.Generator().manual_seed(0))


def batch_of(*shape):
    return Batch(torch.randn(shape, generator=torch.Generator().manual_seed(1)))


def test_copying_pays_in_invariance_a_constant_in_reconstruction():
    batch = batch_of(8, 1, 32, 32)
    copy, constant = (terms(network, batch) for network in (nn.Identity(), ZERO))
    assert copy["reconstruction"] == 0 and copy["invariance"] > 0.4
    assert constant["invariance"].abs() < 1e-4
    assert constant["reconstruction"].item() == pytest.approx(1, abs=0.1)
    assert set(copy) == {"reconstruction", "invariance", "masked"}


def ZERO(x):
    return torch.zeros_like(x)


def test_the_noise_counts_for_more_where_it_is_stronger():
    """A network that copies bright places alone pays more for it if they have more noise."""
    x = torch.linspace(-2, 2, 64).expand(8, 1, 64, 64)
    x = x + 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    even, uneven = (NoiseModel((slope,), (0.25,), (0.0,), (1.0,)) for slope in (0.0, 0.12))

    class Bright(nn.Module):
        def forward(self, x):
            return torch.where(torch.arange(64) >= 32, x, 0.0)

    found = [
        Projected(ProjectedSettings(), DataProfile(2, 1, noise))(Bright(), Batch(x), torch.Generator().manual_seed(0))
        for noise in (even, uneven)
    ]
    assert found[1]["invariance"] > 1.2 * found[0]["invariance"]


@pytest.fixture
def deviations():
    """Noise of the variance 0.25, what neighbors do not tell of the signal, of 0.09, and a J."""
    generator, shape = torch.Generator().manual_seed(0), (16, 1, 64, 64)
    noise, unknown = (std * torch.randn(shape, generator=generator) for std in (0.5, 0.3))
    return noise, unknown, torch.rand(shape, generator=generator) < 0.1


def test_the_projection_is_the_covariance_and_ignores_what_else_the_output_does(deviations):
    noise, unknown, j = deviations
    new, variance = noise + unknown, torch.full(noise.shape, 0.25)
    response = 0.3 * new + torch.randn(new.shape, generator=torch.Generator().manual_seed(1))
    found = projected_covariance(new, response, variance, j).item()
    assert found == pytest.approx((response * noise).mean().item(), abs=0.02)
    assert found < 0.2 * 0.5 * response[j].square().mean().sqrt()  # what equation 6 would count
    assert projected_covariance(new, response, variance, torch.zeros_like(j)) == 0


@pytest.mark.parametrize(("variance", "best"), [(0.25, 1 - 0.25 / 0.34), (4.0, 0.03)])
def test_the_best_weight_is_wieners_and_never_against_the_noise(deviations, variance, best):
    noise, unknown, j = deviations
    new, weights = noise + unknown, torch.linspace(-0.3, 0.5, 81)
    told = torch.full(new.shape, variance)
    losses = [(w * new - new)[j].square().mean() + 2 * projected_covariance(new, w * new, told, j) for w in weights]
    assert weights[torch.stack(losses).argmin()].item() == pytest.approx(best, abs=0.03)


def test_it_does_not_pay_to_keep_what_stands_out_of_the_noise():
    generator, shape = torch.Generator().manual_seed(0), (16, 1, 64, 64)
    photons = 5.0 * (torch.rand(shape, generator=generator) < 0.01)
    j, variance = torch.rand(shape, generator=generator) < 0.1, torch.full(shape, float(photons.var()))
    losses = [
        (d - photons)[j].square().mean() + 2 * projected_covariance(photons, d, variance, j)
        for d in (0 * photons, photons)
    ]
    assert losses[0] < losses[1]


def test_pixels_that_share_noise_are_masked_together():
    x = batch_of(8, 1, 64, 64).x.repeat_interleave(2, -1)[..., :64]  # each pixel has a twin beside it

    class Twin(nn.Module):
        def forward(self, x):
            return (x.roll(1, -1) + x.roll(-1, -1)) / 2

    alone, together = (terms(Twin(), Batch(x), noise_extent=extent)["invariance"] for extent in ((0, 0), (0, 1)))
    assert alone < 0.05 < 0.2 < together


def test_each_channel_is_weighed_by_itself():
    """A channel that carries ten times the deviations of another does not change what the other has to pay."""
    generator = torch.Generator().manual_seed(0)
    deviation = torch.randn(4, 2, 64, 64, generator=generator)
    deviation[:, 1] *= 10
    response, variance = 0.5 * deviation, torch.ones_like(deviation)
    j = torch.rand(deviation.shape, generator=generator) < 0.1
    alone = [
        projected_covariance(*(part[:, c : c + 1] for part in (deviation, response, variance, j))) for c in range(2)
    ]
    share = j.sum((0, 2, 3)) / j.sum()
    both = projected_covariance(deviation, response, variance, j)
    assert both.item() == pytest.approx(float(sum(a * s for a, s in zip(alone, share, strict=True))), rel=1e-4)
