"""The error on held-out pixels is the one against the clean image, and is not estimated where it cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from held_out_images import SIGMA, Function, Mix, noisy_pair
from torch import nn

from noise2same.data.patches import Patches
from noise2same.noise.model import NoiseModel
from noise2same.training.held_out import HeldOutSure, HeldOutTarget, held_out_error

NOISE = NoiseModel.gaussian(SIGMA)


@pytest.fixture(scope="module")
def pair():
    return noisy_pair()


def of(image, **options):
    return Patches([image], patch=(64, 64), batch=16, **options)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_sure_is_the_error_against_the_clean_image(pair, share):
    clean, noisy = pair
    patches = of(noisy, targets=[clean])
    truth = HeldOutTarget(patches, seed=0).error(Mix(share))
    assert HeldOutSure(patches, NOISE, seed=0).error(Mix(share)) == pytest.approx(truth, rel=0.05)


def test_the_estimate_knows_that_photon_noise_is_skewed():
    """With the variance at the noisy or the clean value, the curved network would seem worse or better by 0.0036."""
    gain = 0.3
    noisy = gain * torch.poisson(torch.full((1, 1, 512, 512), 1 / gain), generator=torch.Generator().manual_seed(0)) - 1
    noise = NoiseModel((gain,), (gain,), (0.0,), (1.0,), kind="poisson")
    photons = HeldOutSure(of(noisy), noise, seed=0)
    flat, curved = Function(torch.zeros_like), Function(lambda x: 0.02 * x.square())
    truth = curved(noisy).square().mean().item()
    assert photons.error(curved) - photons.error(flat) == pytest.approx(truth, abs=0.0012)


def test_invalid_pixels_do_not_count(pair):
    clean, noisy = pair
    spoilt, valid = noisy.clone(), torch.ones(noisy.shape, dtype=torch.bool)
    spoilt[..., ::50], valid[..., ::50] = 100.0, False
    patches = of(spoilt, valid=[valid], targets=[clean])
    for held_out in HeldOutSure(patches, NOISE, seed=0), HeldOutTarget(patches, seed=0):
        assert held_out.error(nn.Identity()) == pytest.approx(SIGMA**2, rel=0.1)


def test_only_held_out_pixels_count(pair):
    """A network that has overfitted the trained pixels is not better by that."""
    clean, noisy = pair
    patches = of(noisy, targets=[clean], held=0.125)
    trained = ~patches.held[:, 0]
    patches.pixels[trained] = patches.targets[trained]  # as if it had removed their noise
    assert HeldOutTarget(patches, seed=0).error(nn.Identity()) == pytest.approx(SIGMA**2, rel=0.1)


def test_noise_of_the_targets_is_no_error_of_the_network(pair):
    clean, noisy = pair
    again = clean + SIGMA * torch.randn(clean.shape, generator=torch.Generator().manual_seed(5))
    truth = HeldOutTarget(of(noisy, targets=[clean]), seed=0).error(Mix(0.2))
    measured = HeldOutTarget(of(noisy, targets=[again]), 0, NOISE).error(Mix(0.2))
    assert measured == pytest.approx(truth, rel=0.1)


UNFIT = {"kind": "impulse"}, {"kind": "unknown"}, {"correlation": ((0.5,), (0.5,))}


@pytest.mark.parametrize("noise", [replace(NOISE, **unfit) for unfit in UNFIT])
def test_there_is_no_estimate_where_sure_does_not_hold(pair, noise):
    clean, noisy = pair
    assert held_out_error(of(noisy), noise, 0, supervised=False) is None
    supervised = held_out_error(of(noisy, targets=[clean]), noise, 0, supervised=True)
    assert isinstance(supervised, HeldOutTarget)


def test_the_choice_of_what_measures_the_error(pair):
    clean, noisy = pair
    assert isinstance(held_out_error(of(noisy), NOISE, 0, supervised=False), HeldOutSure)
    assert isinstance(held_out_error(of(noisy, targets=[clean]), NOISE, 0, supervised=True), HeldOutTarget)
