"""Opened images to what training needs."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.data import camera

from noise2same import Config, Denoiser, io
from noise2same.data.training_data import read_training_data
from noise2same.errors import InputError
from noise2same.noise.synthetic import gaussian
from noise2same.plan import Decision


def test_images_are_normalized_together_or_each_by_itself():
    rng = np.random.default_rng(0)
    images = [io.wrap(rng.normal(mean, 10, (32, 32)), "YX") for mean in (0, 100)]
    together, each = (read_training_data(images, normalization=how) for how in ("dataset", "image"))
    assert [round(float(image.mean())) for image in together.images] == [-1, 1]
    assert [round(float(image.mean())) for image in each.images] == [0, 0]
    assert each.scale.std[0] == pytest.approx(10, rel=0.1) and together.scale == together.normalization


def test_nothing_to_learn_from_is_said():
    for image, words in ((np.full((20, 20), np.nan), "no finite pixel"), (np.ones((20, 20)), "constant")):
        with pytest.raises(InputError, match=words):
            read_training_data([io.wrap(image, "YX")])


@pytest.mark.parametrize("method", ["projected", "sure"])
def test_images_with_stronger_noise_are_smoothed_more(method: str):
    """Told of each image's own level, the noisier one comes out better than with one level for both."""
    clean, rng = camera(), np.random.default_rng(0)
    noisy = [gaussian(clean, sigma, rng) for sigma in (8, 60)]
    settings = Config(method=method, steps=80, from_scratch=True, early_stopping=False)
    model = Denoiser(settings).fit(noisy, "YX", progress=False)
    assert model.plan is not None and model.plan.strength_per_image.value
    plan = model.plan.model_copy(update={"strength_per_image": Decision(False, "for comparison")})
    other = Denoiser(settings).fit(noisy, "YX", plan=plan, progress=False)
    errors = [float(np.mean((one.denoise(noisy[1], "YX", tta=False) - clean) ** 2)) for one in (model, other)]
    assert errors[0] < 0.8 * errors[1]
