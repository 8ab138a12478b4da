"""Where J lies, how dense it is, and what the fills put there."""

from __future__ import annotations

import pytest
import torch

from noise2same.methods.masking import FILLS, donut, fill_of, stratified


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("density", [0.005, 0.02, 0.11])
@pytest.mark.parametrize("shape", [(8, 2, 64, 64), (4, 1, 45, 83), (2, 2, 16, 32, 32), (4, 1, 7, 41, 30)])
def test_density_is_right_in_2d_and_3d_also_at_the_borders(shape, density, generator):
    draws = 400
    mean = sum(stratified(shape, density, generator).float().mean((0, 1)) for _ in range(draws)) / draws
    pixels = draws * shape[0] * shape[1] * mean.numel()
    assert mean.mean().item() == pytest.approx(density, abs=4 * (density / pixels) ** 0.5)
    for axis in range(mean.ndim):
        for border in (0, mean.shape[axis] - 1):
            line = mean.select(axis, border)
            tolerance = 4 * (density / (draws * shape[0] * shape[1] * line.numel())) ** 0.5
            assert line.mean().item() == pytest.approx(density, abs=tolerance)


def test_one_pixel_in_each_box_and_channels_independent(generator):
    mask = stratified((4, 2, 56, 56), 1 / 49, generator)
    boxes = mask.unflatten(2, (8, 7)).unflatten(4, (8, 7)).sum((3, 5))
    assert (boxes <= 1).all() and boxes.float().mean() > 0.99
    assert not (mask[:, 0] == mask[:, 1]).all()
    assert not (mask[0] == mask[1]).all()


def test_same_seed_same_mask():
    first, second = (stratified((2, 1, 40, 40), 0.02, torch.Generator().manual_seed(5)) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("shape", [(3, 2, 24, 30), (2, 3, 6, 20, 22)])
def test_fills_change_j_and_nothing_else(fill, shape, generator):
    x = torch.randn(shape, generator=generator)
    mask = stratified(shape, 0.05, generator)
    filled = FILLS[fill](x, mask, generator)
    assert (filled[~mask] == x[~mask]).all()
    assert (filled[mask] != x[mask]).float().mean() > 0.9
    assert filled[mask].abs().max() <= x.abs().max()


def test_gaussian_fill_has_the_paper_s_width(generator):
    x = torch.full((1, 1, 200, 200), 7.0)
    filled = FILLS["gaussian"](x, torch.ones_like(x, dtype=torch.bool), generator)
    assert filled.mean().item() == pytest.approx(0, abs=0.01)
    assert filled.std().item() == pytest.approx(0.2, abs=0.01)


def test_gaussian_fill_is_as_wide_as_told(generator):
    x = torch.zeros(1, 1, 200, 200)
    filled = fill_of("gaussian", 0.8)(x, torch.ones_like(x, dtype=torch.bool), generator)
    assert filled.std().item() == pytest.approx(0.8, abs=0.02)
    assert fill_of("donut", 0.8) is FILLS["donut"]


@pytest.mark.parametrize("fill", ["donut", "mean"])
@pytest.mark.parametrize("place", [(2, 2), (0, 0), (4, 2), (2, 2, 2), (0, 4, 0)])
def test_local_means_are_blind_to_the_pixel_also_at_the_border_and_to_other_channels(place, fill, generator):
    x = torch.randn(1, 2, *(5,) * len(place))
    mask = torch.zeros_like(x, dtype=torch.bool)
    centre = (0, 0, *place)
    mask[centre] = True
    before = FILLS[fill](x, mask, generator)[centre]
    x[centre] += 100
    x[:, 1] += 100
    assert FILLS[fill](x, mask, generator)[centre].item() == pytest.approx(before.item(), abs=1e-5)
    constant = FILLS[fill](torch.full_like(x, 3.0), mask, generator)
    torch.testing.assert_close(constant, torch.full_like(x, 3.0))


@pytest.mark.parametrize("fill", ["donut", "mean"])
def test_local_means_do_not_pass_on_one_masked_pixel_to_another(fill, generator):
    x, mask = torch.randn(2, 1, 32, 32), stratified((2, 1, 32, 32), 0.2, generator)
    before = FILLS[fill](x, mask, generator)
    x[mask] += 100
    torch.testing.assert_close(FILLS[fill](x, mask, generator), before)
    alone = FILLS[fill](x, torch.ones_like(mask), generator)
    assert (alone == 0).all()


def test_donut_weights(generator):
    x = torch.zeros(1, 1, 3, 3)
    x[..., 0, 1], x[..., 0, 0] = 6.0, 60.0
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[..., 1, 1] = True
    assert donut(x, mask, generator)[0, 0, 1, 1].item() == pytest.approx(6 * 1 / 6 + 60 * 0.5 / 6)


def test_ups_takes_pixels_of_the_window(generator):
    x = torch.arange(400.0).reshape(1, 1, 20, 20)
    mask = stratified(x.shape, 0.1, generator)
    filled = FILLS["ups"](x, mask, generator)[mask]
    original = x[mask]
    assert ((filled // 20 - original // 20).abs() <= 2).all()
    assert ((filled % 20 - original % 20).abs() <= 2).all()


def test_random_fill_spans_the_range(generator):
    x = torch.rand(1, 1, 100, 100) * 10 - 3
    filled = FILLS["random"](x, torch.ones_like(x, dtype=torch.bool), generator)
    assert filled.mean().item() == pytest.approx(2, abs=0.2)
    assert filled.min() >= x.min() and filled.max() <= x.max()
