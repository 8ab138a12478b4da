"""Noise2Same is equation 6 of the paper, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods import DataProfile, settings_of
from noise2same.methods.noise2same import Noise2Same, invariance
from noise2same.networks.unet import UNet
from noise2same.noise.model import NoiseModel


class Copy(nn.Module):
    def forward(self, x):
        return x


class Constant(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


def method_of(*sigma, **options):
    config = Config.of(method="noise2same", **options)
    profile = DataProfile(2, len(sigma), NoiseModel.gaussian(*sigma))
    return Noise2Same(settings_of(Noise2Same, config), profile)


def terms(network, batch, sigma=0.5, **options):
    return method_of(sigma, **options)(network, batch, torch.Generator().manual_seed(0))


def batch_of(*shape):
    return Batch(torch.randn(shape, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("options", "sigma", "expected"),
    [
        ({"lambda_inv": 2.0}, 0.3, 2.0),
        ({"lambda_inv": "auto"}, 0.3, 0.6),
        ({}, 5.0, 2.0),
        ({"sigma": 10.0}, 0.25, 0.5),
        ({"preset": "paper"}, 0.3, 2.0),
        ({"preset": "paper", "sigma": 10.0}, 0.3, 0.6),
    ],
)
def test_lambda(options, sigma, expected):
    assert method_of(sigma, **options).lambda_inv == pytest.approx((expected,))


def test_lambda_stays_positive_without_noise():
    assert method_of(0.0).lambda_inv[0] > 0


def test_sigma_and_lambda_contradict_each_other():
    with pytest.raises(InputError, match="one of them"):
        method_of(0.5, sigma=10.0, lambda_inv=2.0)


def test_the_loss_is_equation_6():
    """Computed by hand from the outputs of the two passes."""
    outputs = []

    class Spy(nn.Module):
        def forward(self, x):
            outputs.append((x, x + 0.3 * x.roll(1, -1)))
            return outputs[-1][1]

    x = batch_of(4, 1, 32, 32).x
    found = terms(Spy(), Batch(x), lambda_inv=1.7, separate_passes=True)
    (_, f_x), (masked, f_masked) = outputs
    j = masked != x
    assert found["reconstruction"].item() == pytest.approx((f_x - x).square().mean().item())
    expected = 1.7 * (f_x - f_masked)[j].square().mean().sqrt().item()
    assert found["invariance"].item() == pytest.approx(expected, rel=1e-5)
    assert set(found) == {"reconstruction", "invariance"}


@pytest.mark.parametrize("shape", [(8, 2, 32, 32), (4, 1, 8, 32, 32)])
@pytest.mark.parametrize("separate", [False, True])
def test_copying_pays_in_invariance_a_constant_in_reconstruction(shape, separate):
    batch = batch_of(*shape)
    copy, constant = (terms(network, batch, separate_passes=separate) for network in (Copy(), Constant()))
    assert copy["reconstruction"] == 0 and copy["invariance"] > 0.4
    assert constant["invariance"].abs() < 1e-4
    assert constant["reconstruction"].item() == pytest.approx(1, abs=0.1)


def test_value_of_the_equation_for_the_identity():
    x = torch.zeros(4, 1, 64, 64)
    loss = terms(Copy(), Batch(x), lambda_inv=2.0, fill="gaussian")
    assert loss["invariance"].item() == pytest.approx(2 * 0.2, rel=0.1)


def test_gradients_are_finite_where_nothing_responds():
    difference = torch.zeros(1, 1, 4, 4, requires_grad=True)
    invariance(difference, torch.ones(1, 1, 4, 4, dtype=torch.bool), torch.ones(1)).backward()
    assert torch.isfinite(difference.grad).all()
    network = UNet(2, 1, features=4, levels=2, block="plain")
    nn.init.zeros_(network.head[-1].weight)
    sum(terms(network, batch_of(2, 1, 16, 16)).values()).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


def test_gradients_flow_through_both_passes():
    calls = []

    class Spy(nn.Module):
        def forward(self, x):
            out = (x * weight).requires_grad_()
            out.retain_grad()
            calls.append(out)
            return out

    weight = torch.ones((), requires_grad=True)
    terms(Spy(), batch_of(4, 1, 32, 32), separate_passes=True)["invariance"].backward()
    assert len(calls) == 2 and all(call.grad.abs().sum() > 0 for call in calls)


def test_invalid_pixels_count_nowhere():
    x = batch_of(4, 1, 32, 32).x
    valid = torch.ones_like(x, dtype=torch.bool)
    valid[..., :16] = False
    clean = terms(Copy(), Batch(x, valid=valid), fill="gaussian")
    x[..., :16] = 1e6
    dirty = terms(Copy(), Batch(x, valid=valid), fill="gaussian")
    assert clean == dirty
    nothing = terms(Constant(), Batch(x, valid=torch.zeros_like(valid)))
    assert all(torch.isfinite(value) for value in nothing.values())


def test_each_channel_is_bounded_by_its_own_noise():
    """With λ of Theorem 2 for each channel, the term is the mean of what the channels have alone."""
    levels, x = (0.2, 0.9), batch_of(4, 2, 32, 32).x
    options = {"fill": "gaussian", "mask_density": 0.5}
    both = method_of(*levels, **options)
    term = both(Copy(), Batch(x), torch.Generator().manual_seed(0))["invariance"]
    alone = [method_of(level, **options) for level in levels]
    found = [one(Copy(), Batch(x), torch.Generator().manual_seed(0))["invariance"] for one in alone]
    assert both.lambda_inv == pytest.approx((0.4, 1.8))
    assert term.item() == pytest.approx(float(sum(found)) / 2, rel=0.05)
