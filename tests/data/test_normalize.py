"""To zero mean and unit variance, and back."""

from __future__ import annotations

import numpy as np
import pytest

from noise2same.data.normalize import Normalization, fill_invalid


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.float32])
def test_round_trip(dtype):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 200, (2, 3, 30, 40)).astype(dtype), rng.integers(50, 250, (1, 3, 20, 11)).astype(dtype)]
    normalization = Normalization.measure(images)
    inside = [normalization.apply(image) for image in images]
    pooled = np.concatenate([np.moveaxis(image, 1, 0).reshape(3, -1) for image in inside], axis=1)
    np.testing.assert_allclose(pooled.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(pooled.std(1), 1, atol=1e-5)
    for image, normal in zip(images, inside, strict=True):
        assert normal.dtype == np.float32
        back = normalization.undo(normal, image.dtype)
        np.testing.assert_allclose(back, image, rtol=1e-6, atol=0 if np.issubdtype(dtype, np.integer) else 1e-4)


def test_precision_survives_a_large_offset():
    image = 60_000 + np.random.default_rng(0).normal(0, 0.5, (1, 1, 100, 100))
    assert Normalization.measure([image]).std[0] == pytest.approx(image.std(), rel=1e-6)


def test_non_finite_pixels_do_not_count():
    image = np.random.default_rng(0).normal(5, 2, (1, 1, 50, 50))
    spoiled = image.copy()
    spoiled[0, 0, :2], spoiled[0, 0, 2] = np.nan, np.inf
    assert Normalization.measure([spoiled]) == Normalization.measure([image[:, :, 3:]])


def test_a_constant_channel_keeps_its_scale():
    image = np.stack([np.full((8, 8), 0.1), np.eye(8)])[None]
    normalization = Normalization.measure([image])
    assert normalization.std[0] == 1.0 and normalization.std[1] < 1.0
    assert np.isfinite(normalization.apply(image)).all()


@pytest.mark.parametrize(
    ("dtype", "expected"), [("uint8", [0, 3, 255]), ("int16", [-9, 3, 700]), ("float32", [-9.4, 2.6, 700])]
)
def test_integers_are_rounded_and_clipped(dtype, expected):
    image = np.array([-9.4, 2.6, 700], np.float32).reshape(1, 1, 1, 3)
    result = Normalization((0.0,), (1.0,)).undo(image, np.dtype(dtype)).ravel()
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_bad_pixels_take_the_nearest_value_of_their_channel():
    image = np.arange(32.0).reshape(1, 2, 4, 4)
    image[0, 0, 1, 1] = np.nan
    filled, finite = fill_invalid(image)
    assert finite is not None and not finite[0, 0, 1, 1] and finite.sum() == 31
    assert filled[0, 0, 1, 1] in (1, 4, 6, 9)
    assert fill_invalid(filled)[1] is None


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_the_scale_of_the_values_does_not_matter(scale):
    image = np.random.default_rng(0).normal(3, 1, (1, 2, 20, 20)).astype(np.float32)
    scaled = (image * np.float32(scale)).astype(np.float32)
    one, other = (Normalization.measure([values]) for values in (image, scaled))
    np.testing.assert_allclose(other.apply(scaled), one.apply(image), atol=1e-5)
