"""The noise of sets of images: of most of them, and stronger in some than in others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage.data import camera

from noise2same import Config, io
from noise2same.data.training_data import TrainingData, read_training_data
from noise2same.fingerprint import fingerprint
from noise2same.noise.diagnose import diagnose
from noise2same.noise.survey import majority_diagnosis
from noise2same.noise.synthetic import gaussian


def read(images) -> TrainingData:
    return read_training_data([io.wrap(image.astype(np.float32), "YX") for image in images])


def levels(data: TrainingData) -> list[float]:
    """Standard deviation of the noise in each image, in its own units."""
    found, strengths, _ = fingerprint(data, Config())
    assert strengths is not None
    sigma = found.noise.sigma[0]
    return [sigma * strength**0.5 for strength in strengths]


def test_noise_that_is_stronger_in_some_images_is_measured_in_each():
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    data = read([gaussian(clean, sigma, rng) for sigma in (10, 40, 40, 10)])
    np.testing.assert_allclose(levels(data), [10, 40, 40, 10], rtol=0.1)


def test_the_strength_of_noise_that_pixels_share_is_measured_in_each_image():
    clean, rng = camera(), np.random.default_rng(0)
    noise = [3 * ndimage.uniform_filter(rng.normal(0, sigma, clean.shape), 3) for sigma in (8, 32)]
    data = read([clean + one for one in noise])
    assert fingerprint(data, Config())[0].noise.correlated
    np.testing.assert_allclose(levels(data), [8, 32], rtol=0.25)


@pytest.mark.parametrize(("smooth", "shared"), [(1, False), (2, True)])
def test_pixels_are_taken_together_if_most_images_share_noise(smooth: int, shared: bool):
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    noise = [rng.normal(0, 20, clean.shape) for _ in range(3)]
    noise = [3 * ndimage.uniform_filter(one, 3) for one in noise[:smooth]] + noise[smooth:]
    images = [(clean + one).astype(np.float32)[None, None] for one in noise]
    assert diagnose(images).correlated
    diagnosis, some = majority_diagnosis(images)
    assert some and diagnosis.correlated == shared


def test_noise_that_is_alike_has_one_level_for_all():
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    unlike = [gaussian(clean, sigma, rng) for sigma in (10, 40)]
    assert fingerprint(read([gaussian(clean, 20, rng) for _ in range(3)]), Config())[1] is None
    assert fingerprint(read(unlike), Config(sigma=20.0))[1] is None  # the user knows better
    assert fingerprint(read([image[:48, :48] for image in unlike]), Config())[1] is None
