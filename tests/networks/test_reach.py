"""What networks say of their reach is true: nothing beyond it changes, and something at it does."""

from __future__ import annotations

import itertools

import pytest
import torch

from noise2same.config import Config
from noise2same.methods import Architecture, DataProfile, settings_of
from noise2same.methods.laine import Laine
from noise2same.networks.blindspot import BlindSpot
from noise2same.networks.unet import UNet
from noise2same.noise.model import NoiseModel


def unet(dims, levels, **kind):
    return UNet(dims, 1, features=4, levels=levels, **({"block": "plain"} | kind))


def laine(dims, levels):
    settings = settings_of(Laine, Config.of(method="laine", noise_model="gaussian", sigma=1.0))
    profile = DataProfile(dims, 1, NoiseModel.gaussian(0.5), level_given=True)
    return Laine(settings, profile, Architecture(features=4, levels=levels)).network()


CASES = {
    "plain": (unet, 2, 3),
    "no pooling": (unet, 2, 1),
    "residual": (lambda dims, levels: unet(dims, levels, block="residual"), 2, 3),
    "blur-pool": (lambda dims, levels: unet(dims, levels, finest_skip=False, blur_pool=True), 2, 3),
    "plain in 3D": (unet, 3, 2),
    "no pooling in 3D": (unet, 3, 1),
    "blind spot": (lambda dims, levels: BlindSpot(dims, 1, 1, features=4, levels=levels), 2, 3),
    "blind spot in 3D": (lambda dims, levels: BlindSpot(dims, 1, 1, features=4, levels=levels), 3, 1),
    "Laine": (laine, 2, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pixel_changes_what_is_within_reach_and_nothing_else(case):
    make, dims, levels = CASES[case]
    torch.manual_seed(0)
    network = make(dims, levels).double().eval()
    middle = [-(-(reach + 4) // 8) * 8 for reach in network.reach]
    x = torch.randn(1, 1, *(2 * at + 8 for at in middle), dtype=torch.double)
    farthest = torch.zeros(dims, dtype=torch.long)
    with torch.inference_mode():
        before = network(x)
        for shift in range(network.multiple[0]):
            place = torch.tensor(middle) + shift
            changed = x.clone()
            changed[0, 0, *place] += 1e6
            where = (network(changed) != before).any(1)[0].nonzero()
            farthest = torch.maximum(farthest, (where - place).abs().amax(0))
    assert tuple(farthest.tolist()) == network.reach


@pytest.mark.parametrize(("features", "block"), list(itertools.product((4, 8), ("plain", "residual"))))
def test_wider_networks_hold_more(features, block):
    network = UNet(2, 1, features=features, levels=3, block=block)
    assert network.values_per_pixel >= 6 * features
