"""The stabilized scale: the same noise everywhere, and means that come back as they were."""

from __future__ import annotations

import numpy as np
import pytest

from noise2same.data.normalize import Normalization
from noise2same.data.stabilize import Stabilizer

DETECTORS = [(1.0, 0.0, 0.0), (1.0, 2.0, 0.0), (0.5, 2.5, 500.0), (20.0, 5.0, 100.0), (0.1, 3.0, 0.0)]
"""Gain, standard deviation of the read-out noise, and value of a dark pixel."""


def detected(photons, gain, read_out, dark, rng=None):
    rng = rng or np.random.default_rng(0)
    counts = rng.poisson(photons, (1, 1, 500, 1000))
    return gain * counts + dark + rng.normal(0, read_out, counts.shape)


def made_for(gain, read_out, dark):
    return Stabilizer((gain,), (read_out**2 - gain * dark,))


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("photons", [5, 20, 1000, 10**5])
def test_the_noise_is_as_strong_in_dark_places_as_in_bright_ones(detector, photons):
    z = made_for(*detector).apply(detected(photons, *detector))
    assert z.std() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("photons", [0, 0.5, 2, 5, 20, 1000, 10**5])
def test_means_come_back_without_bias(detector, photons):
    gain, read_out, dark = detector
    stabilizer = made_for(*detector)
    mean = stabilizer.apply(detected(photons, *detector)).mean().reshape(1, 1, 1, 1)
    sigma = (gain**2 * photons + read_out**2) ** 0.5
    assert stabilizer.undo(mean).item() == pytest.approx(gain * photons + dark, abs=0.04 * sigma + 1e-9)
    naive = (mean.item() / 2) ** 2 * gain - 3 / 8 * gain - stabilizer.b[0] / gain
    if photons == 5:  # the inverse of the root alone is too dark by a quarter of a photon
        assert naive - (gain * photons + dark) == pytest.approx(-gain / 4, abs=0.1 * gain)


def test_values_below_zero_photons_are_not_lost():
    stabilizer = Stabilizer((1.0,), (0.0,))
    x = np.linspace(-50, 50, 1001).reshape(1, 1, 1, -1)
    z = stabilizer.apply(x)
    assert (np.diff(z) > 0).all() and (
        np.diff(stabilizer.undo(np.linspace(-20, 20, 1001).reshape(1, 1, 1, -1))) > 0
    ).all()
    np.testing.assert_allclose(stabilizer.undo(z)[x < 0], x[x < 0], atol=1e-9)


def test_each_channel_has_its_own_scale_and_one_without_photon_noise_is_divided_by_sigma():
    image = np.random.default_rng(0).uniform(10, 1000, (1, 2, 5, 16, 16))
    both = Stabilizer((0.0, 2.0), (9.0, 4.0)).apply(image)
    np.testing.assert_allclose(both[:, :1], image[:, :1] / 3)
    np.testing.assert_allclose(both[:, 1:], Stabilizer((2.0,), (4.0,)).apply(image[:, 1:]))
    np.testing.assert_allclose(Stabilizer((0.0, 2.0), (9.0, 4.0)).undo(both)[:, :1], image[:, :1])


def test_nan_and_infinity_stay_what_they_are():
    image = np.array([np.nan, np.inf, -np.inf, 4.0]).reshape(1, 1, 1, 4)
    z = Stabilizer((1.0,), (0.0,)).apply(image).ravel()
    assert np.isnan(z[0]) and z[1] == np.inf and z[2] == -np.inf and np.isfinite(z[3])


def test_normalized_images_have_zero_mean_and_unit_variance_on_the_stabilized_scale():
    image = detected(100, 0.5, 2.5, 500.0)
    scale = Normalization.measure([image], made_for(0.5, 2.5, 500.0))
    x = scale.apply(image)
    assert x.mean() == pytest.approx(0, abs=1e-3) and x.std() == pytest.approx(1, abs=1e-3)
    back = scale.undo(x, np.dtype(np.uint16))
    assert back.dtype == np.uint16
    assert np.abs(back - image).max() < 1  # rounding, and a quarter of a photon
