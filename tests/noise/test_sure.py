"""Each identity for the covariance of output and noise, against its closed form for a linear filter."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods import DataProfile, settings_of
from noise2same.methods.masking import stratified, surroundings, widened
from noise2same.methods.sure import Sure, SureSettings
from noise2same.noise.model import NoiseModel
from noise2same.noise.sure import covariance, mean_positive_covariance, perturb

KERNEL = torch.tensor([[0.0, 0.1, 0.0], [0.15, 0.3, 0.25], [0.0, 0.2, 0.0]])
CORRELATION = ((0.5,), (2 / 3, 1 / 3))
SHAPE = (16, 1, 64, 64)


def linear(x):
    return functional.conv2d(x, KERNEL[None, None], padding=1)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def closed_form(variance, correlation=((), ())):
    """Σ_k ρ_jk σ² ∂f_j/∂x_k."""
    rows, columns = ([*reversed(lags), 1.0, *lags] for lags in correlation)
    total = 0.0
    for y, rho_y in enumerate(rows, start=-(len(rows) // 2)):
        for x, rho_x in enumerate(columns, start=-(len(columns) // 2)):
            if abs(y) <= 1 and abs(x) <= 1:
                total += rho_y * rho_x * KERNEL[1 + y, 1 + x].item()
    return variance * total


@pytest.mark.parametrize("correlation", [((), ()), CORRELATION])
def test_stein_s_identity_of_independent_and_of_shared_noise(generator, correlation):
    x = torch.randn(SHAPE, generator=generator)
    change, perturbation = perturb(torch.full(SHAPE, 0.36), correlation, None, generator)
    found = covariance(change, linear(x + perturbation) - linear(x)).mean().item()
    assert found == pytest.approx(closed_form(0.36, correlation), rel=0.05)


def test_where_noise_is_stronger_it_counts_more(generator):
    variance = torch.where(torch.arange(64) < 32, 0.1, 0.5).expand(SHAPE)
    gain = torch.where(torch.arange(64) < 32, 1.0, 0.2).expand(SHAPE)  # the output follows the less noisy half
    change, _ = perturb(variance, (), None, generator)
    found = covariance(change, gain * change).mean().item()
    assert found == pytest.approx((gain * variance).mean().item(), rel=0.1)


def test_the_change_is_small_enough_not_to_be_exploited(generator):
    """What pays most if it is half of the noise: to keep small deviations, and to reverse large ones."""
    clean, variance = torch.zeros(SHAPE), torch.ones(SHAPE)
    x = clean + torch.randn(SHAPE, generator=generator)

    def f(x):
        return x * (1 - 0.716 * (0.1 * x.square()).exp())

    change, _ = perturb(variance, (), None, generator)
    found = covariance(change, f(x + change) - f(x)).mean().item()
    assert found == pytest.approx((f(x) * (x - clean)).mean().item(), abs=0.03)


def test_moving_against_the_noise_pays_nowhere(generator):
    """What would pay where the variance is overestimated, though the best output never does it."""
    variance = torch.ones(SHAPE)
    gain = torch.where(torch.arange(64) < 32, 0.5, -0.4).expand(SHAPE)
    change, _ = perturb(variance, (), None, generator)
    found = covariance(change, gain * change)
    assert found.mean().item() == pytest.approx(0.05)
    assert mean_positive_covariance(found, None).item() == pytest.approx(0.25)


def test_the_loss_is_the_error_against_the_clean_image_but_for_a_constant(generator):
    clean = torch.linspace(-1, 1, 64).expand(256, 1, 64, 64)
    x = clean + 0.5 * torch.randn(clean.shape, generator=generator)
    for width in (0.2, 1.0):

        class Blend(nn.Module):
            def forward(self, x, width=width):
                return width * x + (1 - width) * linear(x)

        f = Blend()
        method = Sure(SureSettings(), DataProfile(2, 1, NoiseModel.gaussian(0.5)))
        terms = method(f, Batch(x), generator)
        error = (f(x) - clean)[..., 1:-1, 1:-1].square().mean().item()
        assert sum(terms.values()).item() - 0.25 == pytest.approx(error, abs=0.03)


def test_shared_noise_is_masked_together(generator):
    x = torch.randn(4, 2, 40, 40, generator=generator)
    j = stratified(x.shape, 0.01, generator)
    wide = widened(j, (1, 2))
    assert wide.sum() > 10 * j.sum()
    filled = surroundings(x, wide, (1, 2))
    assert torch.equal(filled[~wide], x[~wide])
    other = torch.where(wide, torch.randn(x.shape, generator=generator), x)
    torch.testing.assert_close(surroundings(other, wide, (1, 2)), filled)  # nothing of J is left in it
    assert filled[wide].std() < 0.6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise_model": "gaussian", "gain": 2.0}, "gain belongs"),
        ({"noise_model": "poisson", "sigma": 2.0}, "has no sigma"),
        ({"noise_model": "poisson-gaussian", "gain": 2.0}, "both gain and sigma"),
        ({"noise_extent": (0, 1)}, "does not use noise_extent"),
        ({"lambda_inv": 2.0}, "sure does not use lambda_inv: leave it out, or use noise2same"),
        ({"noise_model": "gausian"}, "Did you mean gaussian"),
    ],
)
def test_what_cannot_be_said_of_the_noise(options, words):
    with pytest.raises(InputError, match=words):
        settings_of(Sure, Config.of(method="sure", **options))


def test_the_variance_of_photon_noise_is_that_half_way(generator):
    """Cov(x², x) = 2 a y² + a² y for photon noise of gain a; from x or y alone it is off by a² y."""
    gain, clean = 4.0, torch.full((16, 1, 256, 256), 50.0)
    x = gain * torch.poisson(clean / gain, generator=generator)
    found = []
    for intensity in (x, (x + clean) / 2, clean):
        variance = gain * intensity.clamp(min=1e-3)
        change, _ = perturb(variance, (), None, generator)
        found.append(covariance(change, (x + change).square() - x.square()).mean().item())
    assert found == pytest.approx([21_600, 20_800, 20_000], rel=0.01)
