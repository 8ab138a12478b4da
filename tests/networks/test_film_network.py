"""The network for films: what it sees of a film, and what it is told of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage
from skimage import data

from noise2same.networks.film import INPUTS, SCALES, Film, measure, motion_of, neighbors
from noise2same.networks.motion import Motion, displacements, moved_back
from noise2same.networks.pretrained import load_pretrained
from noise2same.networks.unet import UNet

PICTURE = torch.from_numpy(data.camera()[::4, ::4].astype(np.float32) / 70 - 1.8)


def new_film(frames: int) -> Film:
    film = Film(UNet(2, INPUTS, outputs=1, features=16, levels=3, block="plain"), frames).eval()
    assert load_pretrained(film)
    return film


def test_means_are_of_the_frames_before_and_after():
    film = torch.arange(20.0).reshape(1, 1, 20, 1, 1)
    around = neighbors(film, 4).flatten(2)[0]
    assert around[SCALES - 3 : SCALES + 4, 9].tolist() == [5.5, 7.0, 8.0, 9.0, 10.0, 11.0, 12.5]
    assert around[SCALES - 3 : SCALES + 4, 0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.5]  # nothing was before
    assert around[-1, 9] == 9.0 and around[-1, 0] == 2.0
    assert torch.equal(neighbors(film, 4, slice(3, 6)), neighbors(film, 4)[:, :, :, 3:6])
    assert around[:, 9].min() == 5.5 and around[:, 9].max() == 12.5  # farther away it does not look


def test_frames_can_be_predicted_one_by_one_and_the_rest_stays():
    film, x = new_film(3), torch.randn(1, 1, 9, 16, 16)
    with torch.inference_mode():
        every, one = film(x), film(x, slice(3, 4))
    torch.testing.assert_close(one[:, :, 3], every[:, :, 3], rtol=0, atol=1e-5)
    assert torch.equal(one[:, :, :3], x[:, :, :3]) and torch.equal(one[:, :, 4:], x[:, :, 4:])


def test_it_sees_as_far_as_it_says():
    film, x = new_film(5), torch.randn(1, 1, 16, 48, 48, requires_grad=True)
    film(x)[0, 0, 8, 24, 24].backward()
    assert x.grad is not None
    frames, rows, columns = (place.unique() for place in (x.grad[0, 0].abs() > 1e-6).nonzero().T)
    assert (int(frames.min()), int(frames.max())) == (3, 13)
    assert int(rows.min()) >= 24 - film.reach[1] and int(columns.max()) <= 24 + film.reach[2]


def measured(film: torch.Tensor, sigma: float = 0.5):
    noisy = film + sigma * torch.randn(film.shape, generator=torch.Generator().manual_seed(0))
    return measure([noisy[None, None]], sigma**2, 8)


def test_a_still_scene_is_averaged_and_unrelated_frames_are_not():
    still = measured(PICTURE.expand(32, -1, -1))
    unrelated = measured(torch.stack([PICTURE.rot90(t).roll(29 * t, 0) for t in range(32)]))
    assert still.share < 0.2 and unrelated.share > 0.95
    assert still.weights[SCALES] < 0.15 < 0.8 < unrelated.weights[SCALES]
    assert np.isclose(sum(still.weights), 1) and np.isclose(sum(unrelated.weights), 1)


def test_the_linear_estimate_spreads_less_than_a_noisy_frame():
    found = measured(0.2 * PICTURE.expand(32, -1, -1))
    assert found.spreads[SCALES + 1] < 0.6 * found.spreads[SCALES]


@pytest.mark.parametrize("by", [(3.0, -5.0), (-1.4, 0.6)])
def test_motion_is_found_and_taken_back(by):
    shifted = torch.from_numpy(ndimage.shift(PICTURE.numpy(), by, order=3, mode="nearest"))
    noise = 0.1 * torch.randn((2, *PICTURE.shape), generator=torch.Generator().manual_seed(0))
    frame, other = PICTURE[None] + noise[:1], shifted[None] + noise[1:]
    found = displacements(frame, other)
    middle = found[0, :, 2:-2, 2:-2].flatten(1).median(1).values
    np.testing.assert_allclose(middle, by, atol=0.4)
    errors = [float((one[0] - PICTURE)[16:-16, 16:-16].square().mean()) for one in (other, moved_back(other, found))]
    assert errors[1] < 0.3 * errors[0]


def panned(length: int, by: tuple[float, float]) -> torch.Tensor:
    """The middle of a picture that a camera pans over, (1, T, 96, 96)."""
    frames = [ndimage.shift(PICTURE.numpy(), [t * step for step in by], order=3, mode="mirror") for t in range(length)]
    return torch.from_numpy(np.stack(frames)[None, :, 16:112, 16:112])


@pytest.mark.parametrize("step", [1, -1])
def test_what_moves_is_followed_from_frame_to_frame(step):
    clean = panned(9, (1.3, -0.8))
    film = clean + 0.4 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    found = list(Motion(film).follow(range(3, 6), step, 4))
    assert [one.shape for one in found] == [(1, 3, 96, 96)] * 4
    for steps, one in enumerate(found, 1):
        there = film[:, 4 + step * steps]
        errors = [float((frame - clean[:, 4])[:, 24:-24, 24:-24].square().mean()) for frame in (there, one[:, 1])]
        assert errors[1] < 1.2 * 0.4**2 and errors[1] < 0.7 * errors[0]


def test_means_of_frames_that_are_moved_back_are_those_that_are_there():
    brighter = torch.arange(20.0)[:, None, None].expand(1, 1, 20, 32, 32)  # without anything that could move
    for limit in (1, 3, 8):
        moved = neighbors(brighter, limit, slice(2, 19), motion_of(brighter, limit, slice(2, 19)))
        torch.testing.assert_close(moved, neighbors(brighter, limit, slice(2, 19)), rtol=0, atol=1e-4)
    assert motion_of(brighter[:, :, :1], 8) is None


def test_a_scene_that_moves_is_seen_no_farther_than_the_network_says():
    film, x = new_film(4), torch.randn(1, 1, 6, 480, 32)
    film.moves.fill_(1)
    x[0, 0] += 3 * torch.from_numpy(ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(480, 32)), 2)) / 0.14
    x = torch.stack([x[:, :, t].roll(2 * t, -2) for t in range(6)], 2)
    edge = (208 + film.reach[1]) // 16 * 16 + 16
    with torch.inference_mode():
        whole, part = film(x), film(x[..., :edge, :])
    torch.testing.assert_close(part[..., :208, :], whole[..., :208, :], rtol=0, atol=1e-4)


def test_noise_does_not_move():
    noise = torch.randn((2, 50, 128, 128), generator=torch.Generator().manual_seed(0))
    assert (displacements(*noise) != 0).any(1).float().mean() < 0.02


def test_frames_that_are_all_equal_have_weights():
    found = measure([torch.ones(1, 1, 8, 16, 16)], 0.0, 4)
    assert np.isfinite(found.weights).all() and np.isfinite(found.spreads).all()
