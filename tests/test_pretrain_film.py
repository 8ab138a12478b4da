"""The films that the network for films is made with."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from noise2same.networks.film import INPUTS, MIDDLE, SCALES

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import pretrain_film
from pretrain import PATCH, SIZE, dead_leaves


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(np.stack([dead_leaves(rng).mean(-1).clip(0, 255).astype(np.uint8) for _ in range(2)]))[
        :, None
    ]


def test_samples_are_films_and_their_truth(images):
    generator = torch.Generator().manual_seed(0)
    assert images.shape[-1] == SIZE
    better = 0
    for _ in range(20):
        seen, wanted, weight = pretrain_film.sample(images, generator)
        assert seen.shape == (INPUTS, PATCH, PATCH) and wanted.shape == weight.shape == (1, PATCH, PATCH)
        assert seen.isfinite().all() and wanted.isfinite().all() and (weight > 0).all()
        errors = [(seen[at] - seen[at].mean() - wanted[0] + wanted.mean()).square().mean() for at in (MIDDLE, SCALES)]
        better += int(errors[0] < errors[1])
    assert better > 15  # the estimate from all frames is mostly closer than the frame


def test_means_at_the_ends_of_a_film_repeat_nearer_ones():
    drawn, counts = pretrain_film.times(0, 2)
    assert drawn[: SCALES + 1] == [[0.0]] * (SCALES + 1) and counts[SCALES + 1 : SCALES + 3] == [1, 1]
    assert drawn[SCALES + 2] == [2.0] == drawn[-1]
    assert pretrain_film.distinct(drawn) == [SCALES, SCALES + 1, SCALES + 2]
