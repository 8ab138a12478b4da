"""A small training run for the tests of this folder."""

from __future__ import annotations

import torch

from noise2same.config import Config
from noise2same.data.patches import Patches
from noise2same.methods import DataProfile, settings_of
from noise2same.methods.projected import Projected
from noise2same.networks.unet import UNet
from noise2same.noise.model import NoiseModel
from noise2same.plan import Recipe
from noise2same.training import loop

CPU = torch.device("cpu")
PROFILE = DataProfile(2, 1, NoiseModel.gaussian(0.5))


def method_of(kind=Projected, **options):
    """A method for grey 2D images."""
    return kind(settings_of(kind, Config.of(method=kind.name, **options)), PROFILE)


def run(method=None, *, held_out=None, recipe=None, **options):
    """Train a tiny network on noise; its weights and the outcome. Recipe from `recipe`, or 12 steps."""
    recipe = recipe or Recipe(steps=12)
    torch.manual_seed(recipe.seed)
    network = UNet(2, 1, features=4, levels=2, block="plain")
    patches = small_patches()
    judge = held_out(patches) if held_out is not None else None
    outcome = loop.fit(network, method or method_of(), patches, recipe, held_out=judge, device=CPU, **options)
    return network.state_dict(), outcome


def small_patches(**options):
    """Patches of an image that is all noise."""
    image = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(1))
    return Patches([image], patch=(16, 16), batch=4, **options)


def same(first, second):
    """Whether two sets of weights are equal bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
