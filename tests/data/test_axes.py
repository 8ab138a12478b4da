"""Axes strings."""

from __future__ import annotations

import numpy as np
import pytest

from noise2same.data import axes as ax
from noise2same.errors import InputError

SIZES = dict(zip("STCZYX", (2, 3, 4, 5, 6, 7), strict=True))


@pytest.mark.parametrize("axes", ["YX", "XY", "YXC", "CYX", "ZYX", "SYX", "TCZYX", "STCZYX", "XCTYZ", "ZCYX"])
def test_to_the_network_and_back(axes):
    shape = tuple(SIZES[letter] for letter in axes)
    array = np.arange(np.prod(shape)).reshape(shape)
    inside = ax.to_network(array, axes)
    samples = SIZES["S"] ** ("S" in axes) * SIZES["T"] ** ("T" in axes)
    assert inside.shape[:2] == (samples, ax.channels(axes, shape))
    assert tuple(inside.shape[2:]) == tuple(SIZES[letter] for letter in ax.spatial(axes))
    assert (ax.from_network(inside, axes, shape) == array).all()


@pytest.mark.parametrize("axes", ["YX", "YXC", "TYX", "SCZYX", "XYT"])
def test_samples_read_and_write_slabs(axes):
    shape = tuple(SIZES[letter] for letter in axes)
    source = np.random.default_rng(0).normal(size=shape)
    target = np.zeros(shape)
    whole = ax.to_network(source, axes)
    for i, (one, other) in enumerate(zip(ax.samples(source, axes), ax.samples(target, axes), strict=True)):
        assert (one.read() == whole[i : i + 1]).all()
        for start in range(0, one.size[0], 4):
            for left in (slice(0, 3), slice(3, None)):
                region = (slice(start, start + 4), *[slice(None)] * (len(one.size) - 2), left)
                other.write(one.read(*region), *region)
    assert (target == source).all()


@pytest.mark.parametrize(("shape", "axes"), [((5, 6), "YX"), ((64, 64, 3), "YXC"), ((64, 48, 4), "YXC")])
def test_guesses_what_is_safe(shape, axes):
    assert ax.guess(shape) == axes


@pytest.mark.parametrize("shape", [(40, 64, 64), (3, 64, 64), (64, 64, 2), (8, 8, 3), (2, 3, 64, 64), (7,)])
def test_asks_where_a_guess_could_be_wrong(shape):
    with pytest.raises(InputError, match="pass axes"):
        ax.guess(shape, name="stack.tif")


@pytest.mark.parametrize(
    ("axes", "words"),
    [("QYX", "unknown letter 'Q'"), ("YYX", "twice"), ("ZCY", "both Y and X"), ("TZYX", "4 letters"), ("", "both Y")],
)
def test_says_what_does_not_fit(axes, words):
    with pytest.raises(InputError, match=words) as error:
        ax.check(axes, (4, 5, 6), name="stack.tif")
    assert "stack.tif" in str(error.value)


def test_accepts_small_letters():
    assert ax.check("zyx", (4, 5, 6)) == "ZYX"


def test_samples_are_a_sequence():
    array = np.zeros((2, 3, 8, 9))
    samples = ax.samples(array, "STYX")
    assert len(samples) == 6 and [sample.index["T"] for sample in samples] == [0, 1, 2, 0, 1, 2]
    assert samples[-1].index == {"S": 1, "T": 2} and [sample.index["S"] for sample in samples[2:4]] == [0, 1]
    assert samples[0].size == (8, 9)
    with pytest.raises(IndexError):
        samples[6]
    assert len(ax.samples(array[0, 0], "YX")) == 1
