"""The blind-spot network: strictly blind to each pixel, and to nothing else."""

from __future__ import annotations

import itertools

import pytest
import torch

from noise2same.networks.blindspot import BlindSpot, HalfPlane
from noise2same.prediction.engines import folded

SIZES = [(13, 18), (16, 16), (7, 33), (1, 6), (5, 9, 11), (4, 8, 8), (1, 5, 7)]


def make(dims, channels=1, levels=3, seed=0):
    torch.manual_seed(seed)
    return BlindSpot(dims, channels, 2, features=4, levels=levels).eval()


def places(size):
    """Corners, borders and the middle of an image."""
    return sorted(set(itertools.product(*({0, 1, length // 2, length - 1} & set(range(length)) for length in size))))


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_no_pixel_sees_itself(size, channels, levels):
    network = make(len(size), channels, levels)
    x = torch.randn(1, channels, *size)
    at = places(size)
    others = x.repeat(len(at), *(1,) * (x.ndim - 1))
    for one, place in zip(others, at, strict=True):
        one[:, *place] += 100 * torch.randn(channels)
    with torch.inference_mode():
        outputs = network(torch.cat([x, others]))
    for output, place in zip(outputs[1:], at, strict=True):
        assert torch.equal(output[:, *place], outputs[0][:, *place])
        assert not torch.equal(output, outputs[0])


@pytest.mark.parametrize("size", [(24, 24), (8, 12, 12)])
def test_the_gradient_leaves_out_the_pixel_alone(size):
    network = make(len(size), levels=2)
    x = torch.randn(1, 1, *size, requires_grad=True)
    middle = [length // 2 for length in size]
    network(x)[0, :, *middle].sum().backward()
    reach = x.grad[0, 0, *(slice(centre - 2, centre + 3) for centre in middle)] != 0
    blind = torch.ones_like(reach)
    blind[(2,) * len(size)] = False
    assert torch.equal(reach, blind)


@pytest.mark.parametrize("dims", [2, 3])
def test_one_direction_sees_only_what_lies_before(dims):
    torch.manual_seed(0)
    half = HalfPlane(dims, 1, 4, 2).eval()
    x = torch.randn(1, 1, *(8,) * dims, requires_grad=True)
    half(x)[:, :, 4].sum().backward()
    rows = (x.grad[0, 0] != 0).flatten(1).any(1)
    assert rows.tolist()[1:] == [True] * 3 + [False] * 4


@pytest.mark.parametrize("size", SIZES)
def test_any_size(size):
    network = make(len(size), 2)
    assert network(torch.randn(2, 2, *size)).shape == (2, 2, *size)


def test_z_has_weights_of_its_own():
    flat, deep = make(2), make(3)
    assert flat.axial is None
    assert not torch.equal(deep.axial.encoder[0].first.weight, deep.lateral.encoder[0].first.weight)


def test_a_patch_is_seen_as_a_larger_image_is():
    network = make(2)
    with torch.inference_mode():
        small, large = network(torch.ones(1, 1, 16, 16)), network(torch.ones(1, 1, 64, 64))
    torch.testing.assert_close(small[..., 4:-4, 4:-4], large[..., 28:-28, 28:-28], rtol=1e-4, atol=1e-4)


def test_folding_changes_nothing():
    network, x = make(3, 2), torch.randn(1, 2, 5, 9, 9)
    assert torch.equal(folded(network)(x), network(x))
