"""What training is told of the noise: by the user, or by the images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from skimage.data import camera

from noise2same import Config, Denoiser, io
from noise2same.data import training_data
from noise2same.data.training_data import prepare
from noise2same.errors import InputError
from noise2same.noise.diagnose import diagnose
from noise2same.noise.synthetic import gaussian, poisson_gaussian

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
    assert facts.sigma[0] ** 2 + facts.slope[0] * facts.black[0] == pytest.approx(0, abs=1e-6)
    assert facts_of(IMAGE, noise_model="gaussian").slope == (0,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise_model": "poisson"}, "negative at the images' mean, which is -60"),
        ({"noise_model": "poisson", "gain": 4.0}, "negative"),
        ({"noise_model": "poisson-gaussian", "gain": 4.0, "sigma": 1.0}, "negative"),
        ({"noise_model": "nowhere.py"}, "nowhere.py: there is no such file"),
    ],
)
def test_what_cannot_be_true_of_these_images(options, words):
    with pytest.raises(InputError, match=words):
        facts_of(IMAGE - 100, **options)


def test_noise_that_is_stronger_in_some_images_is_told_of_each():
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    images = [io.wrap(gaussian(clean, sigma, rng), "YX") for sigma in (10, 40, 40, 10)]
    data = prepare(images, Config())
    std = data.normalization.std[0]
    assert data.strengths is not None
    found = [data.noise.sigma[0] * np.sqrt(strength) * std for strength in data.strengths]
    np.testing.assert_allclose(found, [10, 40, 40, 10], rtol=0.1)
    low, high = (f"{sigma / std:.2f}" for sigma in (min(found), max(found)))
    assert f"noise level {low} to {high} of" in str(data)
    patches = data.patches(Config(batch=64))
    batch = patches.draw(torch.Generator().manual_seed(0))
    assert batch.strength is not None and batch.strength.shape == (64, 1, 1, 1)
    roughness = batch.x.diff(dim=-1).square().mean((1, 2, 3)) / 2
    np.testing.assert_array_equal(batch.strength.flatten() > max(data.strengths) / 2, roughness > 0.15)


def test_the_strength_of_noise_that_pixels_share_is_measured_in_each_image():
    clean, rng = camera(), np.random.default_rng(0)
    noise = [3 * ndimage.uniform_filter(rng.normal(0, sigma, clean.shape), 3) for sigma in (8, 32)]
    data = prepare([io.wrap((clean + one).astype(np.float32), "YX") for one in noise], Config())
    assert data.diagnosis.correlated and data.strengths is not None
    found = [data.noise.sigma[0] * np.sqrt(strength) * data.normalization.std[0] for strength in data.strengths]
    np.testing.assert_allclose(found, [8, 32], rtol=0.25)


@pytest.mark.parametrize(("smooth", "shared"), [(1, False), (2, True)])
def test_pixels_are_taken_together_if_most_images_share_noise(smooth: int, shared: bool):
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    noise = [rng.normal(0, 20, clean.shape) for _ in range(3)]
    noise = [3 * ndimage.uniform_filter(one, 3) for one in noise[:smooth]] + noise[smooth:]
    images = [(clean + one).astype(np.float32) for one in noise]
    assert diagnose([image[None, None] for image in images]).correlated
    assert prepare([io.wrap(image, "YX") for image in images], Config()).diagnosis.correlated == shared


def test_noise_that_is_alike_is_not_told_of_each():
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    alike = [io.wrap(gaussian(clean, 20, rng), "YX") for _ in range(3)]
    assert prepare(alike, Config()).strengths is None
    unlike = [io.wrap(gaussian(clean, sigma, rng), "YX") for sigma in (10, 40)]
    assert prepare(unlike, Config(sigma=20.0)).strengths is None  # the user knows better
    small = [io.wrap(gaussian(clean[:48, :48], sigma, rng), "YX") for sigma in (10, 40)]
    assert prepare(small, Config()).strengths is None


@pytest.mark.parametrize(
    ("kind", "alike", "unlike"), [("gaussian", True, True), ("shared", True, False), ("photons", False, False)]
)
def test_which_noise_is_modelled_where_its_strength_is_alike_or_differs(kind, alike, unlike):
    clean, rng = camera()[:256, :256], np.random.default_rng(0)
    noise = {
        "gaussian": lambda: rng.normal(0, 25, clean.shape),
        "shared": lambda: 3 * ndimage.uniform_filter(rng.normal(0, 25, clean.shape), 3),
        "photons": lambda: poisson_gaussian(clean, 8.0, 0.0, rng) - clean,
    }
    data = prepare([io.wrap((clean + noise[kind]()).astype(np.float32), "YX")], Config())
    assert data.facts().usable == alike
    assert replace(data, strengths=[2.0]).facts().usable == unlike


@pytest.mark.parametrize("noise_model", ["none", "auto"])
def test_images_with_stronger_noise_are_smoothed_more(noise_model: str, monkeypatch: pytest.MonkeyPatch):
    clean, rng = camera(), np.random.default_rng(0)
    noisy = [gaussian(clean, sigma, rng) for sigma in (8, 60)]
    settings = Config(noise_model=noise_model, steps=80, from_scratch=True, early_stop=False)

    def error() -> float:
        model = Denoiser(settings).fit(noisy, "YX", progress=False)
        return float(np.mean((model.denoise(noisy[1], "YX", tta=False) - clean) ** 2))

    told = error()
    monkeypatch.setattr(training_data, "strengths_of", lambda *slabs, **known: None)
    assert told < 0.8 * error()


def test_each_channel_has_a_noise_level_of_its_own():
    clean, rng = camera()[:256, :256].astype(np.float32), np.random.default_rng(0)
    channels = np.stack([clean, 128 + 0.2 * (clean - 128), clean], -1)
    channels[..., 2] *= 100
    facts = prepare([io.wrap(gaussian(channels, 10, rng), "YXC")], Config()).facts()
    expected = [10 / np.hypot(10, channels[..., c].std()) for c in range(3)]
    np.testing.assert_allclose(facts.sigma[:2], expected[:2], rtol=0.1)
    assert facts.sigma[2] < 0.02  # hardly any noise, and not the mean of the others'
    told = prepare([io.wrap(gaussian(channels, 10, rng), "YXC")], Config(sigma=10.0)).facts()
    np.testing.assert_allclose(told.sigma, expected, rtol=0.02)
