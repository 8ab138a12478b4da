"""Random patches of images of any sizes."""

from __future__ import annotations

import pytest
import torch

from noise2same.data.patches import Patches


def generator():
    return torch.Generator().manual_seed(0)


def test_a_patch_is_a_rotated_or_flipped_window_of_its_image():
    image = torch.arange(20 * 30.0).reshape(1, 1, 20, 30)
    batch = Patches([image], patch=(8, 8), batch=64).draw(generator()).x
    assert batch.shape == (64, 1, 8, 8)
    orientations = set()
    for patch in batch[:, 0]:
        corner = int(patch.min())
        y, x = divmod(corner, 30)
        window = image[0, 0, y : y + 8, x : x + 8]
        fits = [
            (turns, flip)
            for turns in range(4)
            for flip in (False, True)
            if (torch.rot90(window.flip(1) if flip else window, turns) == patch).all()
        ]
        assert len(fits) == 1
        orientations.update(fits)
    assert len(orientations) == 8


def test_volumes_turn_in_the_yx_plane_only():
    volume = torch.arange(10.0)[:, None, None].expand(10, 20, 24)[None, None].contiguous()
    batch = Patches([volume], patch=(4, 8, 8), batch=32).draw(generator()).x
    steps = batch[:, 0, 1:] - batch[:, 0, :-1]
    assert (steps == 1).all()


def test_images_of_different_sizes_are_drawn_by_their_area():
    small, large = torch.zeros(1, 1, 40, 40), torch.ones(2, 1, 100, 60)
    patches = Patches([small, large], patch=(16, 16), batch=4000)
    positions = 25 * 25 / (25 * 25 + 2 * 85 * 45)
    drawn = patches.draw(generator()).x[:, 0, 0, 0]
    assert abs((drawn == 0).float().mean().item() - positions) < 0.02


def test_every_position_is_reached():
    image = torch.arange(36.0).reshape(1, 1, 6, 6)
    drawn = Patches([image], patch=(4, 4), batch=2000).draw(generator()).x
    assert set(drawn.flatten().tolist()) == set(range(36))


def test_patches_shrink_to_thin_stacks_and_narrow_images():
    thin = torch.arange(5 * 40 * 20.0).reshape(1, 1, 5, 40, 20)
    batch = Patches([thin, thin[..., :18]], patch=(8, 32, 32), batch=4).draw(generator()).x
    assert batch.shape == (4, 1, 5, 20, 20)
    alone = Patches([thin], patch=(8, 32, 32), batch=4).draw(generator()).x
    assert all(len(patch.unique()) == patch.numel() for patch in alone)  # no pixel twice, as a mirror would have it


def test_small_images_are_mirrored_not_refused():
    batch = Patches([torch.rand(1, 3, 5, 1), torch.rand(1, 3, 90, 9)], patch=(32, 32), batch=16).draw(generator())
    assert batch.x.shape == (16, 3, 16, 16)


def test_target_and_valid_follow_the_image():
    image = torch.rand(1, 2, 50, 50)
    patches = Patches([image], targets=[2 * image], valid=[image > 0.5], patch=(16, 16), batch=8)
    batch = patches.draw(generator())
    assert (batch.target == 2 * batch.x).all()
    assert (batch.valid == (batch.x > 0.5)).all()


def test_some_blocks_are_kept_out_of_training():
    image = torch.rand(2, 3, 80, 99)
    patches = Patches([image, image[:1]], patch=(64, 64), batch=8, held=1 / 8)
    train, judged = patches.draw(generator()), patches.draw(generator(), held=True)
    assert (train.x == judged.x).all() and (train.valid != judged.valid).all()
    assert patches.held.float().mean() == pytest.approx(1 / 8, rel=0.1)
    assert judged.valid.shape == (8, 3, 64, 64)
    edges = (judged.valid[..., 1:] != judged.valid[..., :-1]).sum() / judged.valid.sum()
    assert edges < 0.3  # blocks, and not single pixels, of which each would have two edges


def test_what_is_kept_out_and_what_is_no_number_never_counts():
    image = torch.rand(1, 1, 64, 64)
    patches = Patches([image], valid=[image > 0.5], patch=(32, 32), batch=8, held=1 / 8)
    for held in (False, True):
        batch = patches.draw(generator(), held=held)
        assert batch.valid.any() and not (batch.valid & (batch.x <= 0.5)).any()


def test_of_the_smallest_images_nothing_is_kept_out():
    patches = Patches([torch.rand(1, 1, 16, 16)], patch=(16, 16), batch=2, held=1 / 8)
    assert patches.draw(generator(), held=True).valid is None


def test_same_seed_same_patches():
    patches = Patches([torch.rand(1, 1, 50, 50)], patch=(16, 16), batch=8)
    assert (patches.draw(generator()).x == patches.draw(generator()).x).all()
