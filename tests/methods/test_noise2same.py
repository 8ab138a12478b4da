"""The loss of equation 6."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from noise2same.config import Config
from noise2same.methods import Facts
from noise2same.methods.noise2same import Noise2Same, covariance_bound
from noise2same.networks.unet import UNet
from noise2same.patches import Batch


class Copy(nn.Module):
    def forward(self, x):
        return x


class Constant(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


def terms(network, batch, sigma=0.5, **options):
    return Noise2Same(Config(**options), Facts(2, 1, sigma=sigma))(network, batch, torch.Generator().manual_seed(0))


def batch_of(*shape):
    return Batch(torch.randn(shape, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("options", "sigma", "expected"),
    [
        ({"lambda_inv": 2.0}, 0.3, 2.0),
        ({"lambda_inv": "auto"}, 0.3, 0.6),
        ({"lambda_inv": "auto"}, 5.0, 2.0),
        ({"lambda_inv": "auto", "sigma": 10.0}, 0.25, 0.5),
        ({"preset": "paper"}, 0.3, 2.0),
    ],
)
def test_lambda(options, sigma, expected):
    assert Noise2Same(Config(**options), Facts(2, 1, sigma=sigma)).lambda_inv == pytest.approx(expected)


def test_lambda_stays_positive_without_noise():
    assert Noise2Same(Config(), Facts(2, 1)).lambda_inv > 0


@pytest.mark.parametrize("shape", [(8, 2, 32, 32), (4, 1, 8, 32, 32)])
@pytest.mark.parametrize("separate", [False, True])
def test_copying_pays_in_invariance_a_constant_in_reconstruction(shape, separate):
    batch = batch_of(*shape)
    copy = terms(Copy(), batch, separate_passes=separate)
    constant = terms(Constant(), batch, separate_passes=separate)
    assert copy["reconstruction"] == 0 and copy["invariance"] > 0.5
    assert constant["invariance"] < 1e-4
    assert constant["reconstruction"].item() == pytest.approx(1, abs=0.1)


def test_value_of_the_equation_for_the_identity():
    x = torch.zeros(4, 1, 64, 64)
    loss = terms(Copy(), Batch(x), lambda_inv=2.0, fill="gaussian", mask_density=0.1)
    assert loss["invariance"].item() == pytest.approx(2 * 0.2, rel=0.1)


@pytest.mark.parametrize("shape", [(2, 3, 20, 30), (2, 1, 6, 10, 14)])
def test_local_roots_are_a_tighter_bound_and_the_same_where_nothing_varies(shape):
    where = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.3
    uneven = torch.linspace(0, 3, shape[-1]).expand(shape)
    noise = torch.full(shape, 0.25)
    batch, local = (covariance_bound(uneven, noise, where, local=local) for local in (False, True))
    assert local < 0.98 * batch
    even = covariance_bound(torch.full(shape, 0.7), noise, where, local=True)
    torch.testing.assert_close(even, torch.tensor(0.5 * 0.7), rtol=1e-4, atol=1e-5)
    assert covariance_bound(uneven, noise, torch.zeros_like(where), local=True) < 1e-4


def test_the_bound_is_weaker_where_there_is_less_noise():
    x = torch.linspace(-2, 2, 64).expand(4, 1, 64, 64)
    told = {sigma: Noise2Same(Config(), Facts(2, 1, sigma=0.5, slope=slope)) for sigma, slope in ((0, 0.0), (1, 0.12))}
    even, uneven = (method.bound.variance(x) for method in told.values())
    assert even.mean().item() == pytest.approx(uneven.mean().item(), rel=1e-3) == pytest.approx(0.25, rel=1e-3)
    assert uneven[..., 0].max() < 0.05 and uneven[..., -1].min() > 0.45
    constant = Noise2Same(Config(lambda_inv=1.0), Facts(2, 1, sigma=0.5, slope=0.12))
    assert constant.bound.variance(x).std() == 0


def test_one_root_over_the_batch_is_the_paper_s_own():
    batch = batch_of(4, 1, 32, 32)
    paper = terms(Copy(), batch, preset="paper")["invariance"]
    assert terms(Copy(), batch, preset="paper", root="local")["invariance"] < paper


def test_gradients_are_finite_where_the_invariance_is_zero():
    value = torch.zeros((), requires_grad=True)
    everywhere = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    covariance_bound(value.expand(1, 1, 8, 8), torch.ones(1, 1, 8, 8), everywhere, local=True).backward()
    assert torch.isfinite(value.grad)
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


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_how_often_the_network_is_called(preset):
    sizes = []

    class Spy(nn.Module):
        def forward(self, x):
            sizes.append(len(x))
            return x

    terms(Spy(), batch_of(16, 1, 32, 32), preset=preset)
    assert sizes == ([16, 16] if preset == "paper" else [32])


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


@pytest.mark.parametrize(
    ("options", "usable", "computed"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"noise_model": "none"}, True, False),
        ({"noise_model": "gaussian"}, False, True),
        ({"lambda_inv": 1.0}, True, False),
        ({"structure": (0, 1)}, True, False),
        ({"preset": "paper"}, True, False),
    ],
)
def test_when_the_covariance_is_computed_and_when_it_is_bounded(options, usable, computed):
    facts = Facts(2, 1, sigma=0.5, kind="gaussian", usable=usable)
    method = Noise2Same(Config(**options), facts)
    found = method(Copy(), batch_of(8, 1, 32, 32), torch.Generator().manual_seed(0))
    assert set(found) == {"reconstruction", "covariance" if computed else "invariance"}
    assert ("no noise model" in str(method)) != computed
    if computed:  # the copy's output has all of the noise
        assert found["covariance"].item() == pytest.approx(2 * 0.25, rel=1e-3)


def test_in_volumes_it_is_bounded_unless_pixels_share_noise():
    facts = Facts(3, 1, sigma=0.5, kind="gaussian", usable=True)
    assert not Noise2Same(Config(), facts).knows
    assert Noise2Same(Config(), replace(facts, correlation=((), (), (0.5,)))).knows
    assert Noise2Same(Config(noise_model="gaussian"), facts).knows


def test_pixels_that_share_noise_are_masked_together():
    x = batch_of(8, 1, 64, 64).x.repeat_interleave(2, -1)[..., :64]  # each pixel has a twin beside it

    class Twin(nn.Module):
        def forward(self, x):
            return (x.roll(1, -1) + x.roll(-1, -1)) / 2

    alone, together = (
        terms(Twin(), Batch(x), noise_model="none", structure=structure)["invariance"] for structure in ((0, 0), (0, 1))
    )
    assert alone < 0.05 < 0.2 < together
