"""The loss of equation 6, and what takes the place of its second term."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.methods import Facts
from noise2same.methods.noise2same import Noise2Same, along, root
from noise2same.networks.unet import UNet


class Copy(nn.Module):
    def forward(self, x):
        return x


class Constant(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


def terms(network, batch, sigma=0.5, **options):
    return Noise2Same(Config(**options), Facts(2, 1, sigma=(sigma,)))(network, batch, torch.Generator().manual_seed(0))


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
    assert Noise2Same(Config(**options), Facts(2, 1, sigma=(sigma,))).lambda_inv == pytest.approx((expected,))


def test_lambda_stays_positive_without_noise():
    assert Noise2Same(Config(), Facts(2, 1)).lambda_inv[0] > 0


@pytest.mark.parametrize("shape", [(8, 2, 32, 32), (4, 1, 8, 32, 32)])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", ["whole", "along"])
def test_copying_pays_in_invariance_a_constant_in_reconstruction(shape, separate, kind):
    batch = batch_of(*shape)
    copy, constant = (
        terms(network, batch, separate_passes=separate, invariance=kind) for network in (Copy(), Constant())
    )
    assert copy["reconstruction"] == 0 and copy["invariance"] > 0.4
    assert constant["invariance"].abs() < 1e-4
    assert constant["reconstruction"].item() == pytest.approx(1, abs=0.1)


@pytest.fixture
def deviations():
    """Noise of the variance 0.25, what neighbours do not tell of the signal, of 0.09, and a J."""
    generator, shape = torch.Generator().manual_seed(0), (16, 1, 64, 64)
    noise, unknown = (std * torch.randn(shape, generator=generator) for std in (0.5, 0.3))
    return noise, unknown, torch.rand(shape, generator=generator) < 0.1


def test_along_the_deviation_is_the_covariance_and_ignores_what_else_the_output_does(deviations):
    noise, unknown, j = deviations
    new, variance = noise + unknown, torch.full(noise.shape, 0.25)
    response = 0.3 * new + torch.randn(new.shape, generator=torch.Generator().manual_seed(1))
    found = along(new, response, variance, j).item()
    assert found == pytest.approx((response * noise).mean().item(), abs=0.02)
    assert found < 0.2 * 0.5 * response[j].square().mean().sqrt()  # what equation 6 would count
    assert along(new, response, variance, torch.zeros_like(j)) == 0


@pytest.mark.parametrize(("variance", "best"), [(0.25, 1 - 0.25 / 0.34), (4.0, 0.03)])
def test_the_best_weight_is_wieners_and_never_against_the_noise(deviations, variance, best):
    noise, unknown, j = deviations
    new, weights = noise + unknown, torch.linspace(-0.3, 0.5, 81)
    told = torch.full(new.shape, variance)
    losses = [(w * new - new)[j].square().mean() + 2 * along(new, w * new, told, j) for w in weights]
    assert weights[torch.stack(losses).argmin()].item() == pytest.approx(best, abs=0.03)


def test_it_does_not_pay_to_keep_what_stands_out_of_the_noise():
    generator, shape = torch.Generator().manual_seed(0), (16, 1, 64, 64)
    photons = 5.0 * (torch.rand(shape, generator=generator) < 0.01)
    j, variance = torch.rand(shape, generator=generator) < 0.1, torch.full(shape, float(photons.var()))
    losses = [(d - photons)[j].square().mean() + 2 * along(photons, d, variance, j) for d in (0 * photons, photons)]
    assert losses[0] < losses[1]


def test_value_of_the_equation_for_the_identity():
    x = torch.zeros(4, 1, 64, 64)
    loss = terms(Copy(), Batch(x), lambda_inv=2.0, invariance="whole", fill="gaussian")
    assert loss["invariance"].item() == pytest.approx(2 * 0.2, rel=0.1)


def test_the_bound_is_weaker_where_there_is_less_noise():
    x = torch.linspace(-2, 2, 64).expand(4, 1, 64, 64)
    told = [Noise2Same(Config(), Facts(2, 1, sigma=(0.5,), slope=(slope,))) for slope in (0.0, 0.12)]
    even, uneven = (method.bound.variance(x) for method in told)
    assert even.mean().item() == pytest.approx(uneven.mean().item(), rel=1e-3) == pytest.approx(0.25, rel=1e-3)
    assert uneven[..., 0].max() < 0.05 and uneven[..., -1].min() > 0.45
    constant = Noise2Same(Config(lambda_inv=1.0), Facts(2, 1, sigma=(0.5,), slope=(0.12,)))
    assert constant.bound.variance(x).std() == 0


@pytest.mark.parametrize("kind", ["whole", "along"])
def test_gradients_are_finite_where_nothing_responds(kind):
    value = torch.zeros((), requires_grad=True)
    root(value).backward()
    assert torch.isfinite(value.grad)
    network = UNet(2, 1, features=4, levels=2, block="plain")
    nn.init.zeros_(network.head[-1].weight)
    sum(terms(network, batch_of(2, 1, 16, 16), invariance=kind).values()).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


@pytest.mark.parametrize("kind", ["whole", "along"])
def test_gradients_flow_through_both_passes(kind):
    calls = []

    class Spy(nn.Module):
        def forward(self, x):
            out = (x * weight).requires_grad_()
            out.retain_grad()
            calls.append(out)
            return out

    weight = torch.ones((), requires_grad=True)
    terms(Spy(), batch_of(4, 1, 32, 32), separate_passes=True, invariance=kind)["invariance"].backward()
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
def test_when_a_noise_model_is_used(options, usable, computed):
    facts = Facts(2, 1, sigma=(0.5,), kind="gaussian", usable=usable)
    method = Noise2Same(Config(**options), facts)
    found = method(Copy(), batch_of(8, 1, 32, 32), torch.Generator().manual_seed(0))
    second = {"covariance"} if computed else {"invariance"} if "preset" in options else {"invariance", "masked"}
    assert set(found) == {"reconstruction"} | second
    assert ("no noise model" in str(method)) != computed
    if computed:  # the copy's output has all of the noise
        assert found["covariance"].item() == pytest.approx(2 * 0.25, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "options", "adapts"),
    [
        ("poisson", {}, True),
        ("clipped", {"noise_model": "none"}, True),
        ("impulse", {}, False),
        ("unknown", {}, False),
        ("poisson", {"lambda_inv": 2.0}, False),
        ("poisson", {"preset": "paper"}, False),
    ],
)
def test_a_trained_network_is_led_further_where_it_has_seen_such_noise(kind, options, adapts):
    assert Noise2Same(Config(**options), Facts(2, 1, sigma=(0.5,), kind=kind)).adapts == adapts


def test_pixels_that_share_noise_are_masked_together():
    x = batch_of(8, 1, 64, 64).x.repeat_interleave(2, -1)[..., :64]  # each pixel has a twin beside it

    class Twin(nn.Module):
        def forward(self, x):
            return (x.roll(1, -1) + x.roll(-1, -1)) / 2

    alone, together = (
        terms(Twin(), Batch(x), noise_model="none", structure=structure)["invariance"] for structure in ((0, 0), (0, 1))
    )
    assert alone < 0.05 < 0.2 < together


def test_each_channel_is_bounded_by_its_own_noise():
    """With λ of Theorem 2 for each channel, the term is the mean of what the channels have alone."""
    levels, x = (0.2, 0.9), batch_of(4, 2, 32, 32).x
    options = {"invariance": "whole", "fill": "gaussian", "mask_density": 0.5}
    both = Noise2Same(Config(**options), Facts(2, 2, sigma=levels))
    term = both(Copy(), Batch(x), torch.Generator().manual_seed(0))["invariance"]
    alone = [Noise2Same(Config(**options), Facts(2, 1, sigma=(level,))) for level in levels]
    terms = [one(Copy(), Batch(x), torch.Generator().manual_seed(0))["invariance"] for one in alone]
    assert both.lambda_inv == pytest.approx((0.4, 1.8))
    assert term.item() == pytest.approx(float(sum(terms)) / 2, rel=0.05)


def test_what_goes_along_is_weighed_in_each_channel_by_itself():
    """A channel that carries ten times the deviations of another does not change what the other has to pay."""
    generator = torch.Generator().manual_seed(0)
    deviation = torch.randn(4, 2, 64, 64, generator=generator)
    deviation[:, 1] *= 10
    response, variance = 0.5 * deviation, torch.ones_like(deviation)
    j = torch.rand(deviation.shape, generator=generator) < 0.1
    alone = [along(*(part[:, c : c + 1] for part in (deviation, response, variance, j))) for c in range(2)]
    share = j.sum((0, 2, 3)) / j.sum()
    both = along(deviation, response, variance, j)
    assert both.item() == pytest.approx(float(sum(a * s for a, s in zip(alone, share, strict=True))), rel=1e-4)
