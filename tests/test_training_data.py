"""What training is told of the noise: by the user, or by the images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from noise2same import Config, io
from noise2same.errors import InputError
from noise2same.training_data import prepare

RNG = np.random.default_rng(0)
IMAGE = RNG.normal(40, 20, (64, 64)).astype(np.float32)


def facts_of(image: np.ndarray, **options: object):
    return prepare([io.wrap(image, "YX")], Config.of(**options)).facts()


@pytest.mark.parametrize(
    ("options", "variance"),
    [
        ({"sigma": 10.0}, lambda y: 100.0),
        ({"noise_model": "gaussian", "sigma": 10.0}, lambda y: 100.0),
        ({"noise_model": "poisson", "gain": 4.0}, lambda y: 4 * y),
        ({"noise_model": "poisson-gaussian", "gain": 4.0, "sigma": 10.0}, lambda y: 4 * y + 100),
    ],
)
def test_the_variance_is_what_the_user_tells(options, variance):
    facts = facts_of(IMAGE, **options)
    mean, std = IMAGE.mean(), IMAGE.std()
    y = np.linspace(20, 100, 9)
    found = facts.variance(torch.from_numpy((y - mean) / std)).numpy()
    np.testing.assert_allclose(found, [variance(value) / std**2 for value in y], rtol=1e-3)


def test_poisson_noise_has_no_variance_where_there_is_no_light():
    facts = facts_of(IMAGE, noise_model="poisson")
    assert facts.sigma**2 + facts.slope * facts.black == pytest.approx(0, abs=1e-6)
    assert facts_of(IMAGE, noise_model="gaussian").slope == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise_model": "poisson"}, "negative at the images' mean, which is -60"),
        ({"noise_model": "poisson", "gain": 4.0}, "negative"),
        ({"noise_model": "poisson-gaussian", "gain": 4.0, "sigma": 1.0}, "negative"),
        ({"noise_model": "simulated"}, "give it again"),
        ({"noise_model": "nowhere.py"}, "nowhere.py: there is no such file"),
    ],
)
def test_what_cannot_be_true_of_these_images(options, words):
    with pytest.raises(InputError, match=words):
        facts_of(IMAGE - 100, **options)
