"""Laine's method: the likelihoods, the posterior means, and what training makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage.data import camera
from torch.distributions import MultivariateNormal

from noise2same import Denoiser, train
from noise2same.config import Config
from noise2same.data.normalize import Normalization
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods import Architecture, DataProfile, settings_of
from noise2same.methods.laine import NARROWEST, Laine
from noise2same.noise.model import NoiseModel
from noise2same.prediction.engines import folded

SMALL = {
    "method": "laine",
    "features": 8,
    "levels": 2,
    "patch": 32,
    "batch": 4,
    "learning_rate": 1e-2,
    "progress": False,
}


def make(noise_model, dims=2, channels=1, noise=None, **options):
    torch.manual_seed(0)
    config = Config.of(method="laine", noise_model=noise_model, **options)
    scale = Normalization((80.0,), (40.0,))
    noise = NoiseModel((config.gain or 0.0,), (400.0,), scale.mean, scale.std) if noise is None else noise
    given = bool(config.gain or config.sigma)
    profile = DataProfile(dims, channels, noise.normalized(scale), (), given, -2.0, 3.0, scale)
    method = Laine(settings_of(Laine, config), profile, Architecture(features=4, levels=2))
    return method, method.network()


def pixels(channels, shape=(2, 5, 6)):
    """Noisy pixels, their prior means and roots of the covariance: random, and A also as full matrices."""
    torch.manual_seed(1)
    batch, *spatial = shape
    x, mean = torch.randn(2, batch, channels, *spatial)
    root = torch.randn(batch, channels * (channels + 1) // 2, *spatial)
    full = torch.zeros(*shape, channels, channels)
    rows, columns = torch.triu_indices(channels, channels)
    full[..., rows, columns] = root.movedim(1, -1)
    return x, mean, root, full


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("noise_model", "options"), [("gaussian", {"sigma": 20.0}), ("gaussian", {}), ("poisson", {"gain": 3.0})]
)
def test_likelihood_and_posterior_of_additive_noise(noise_model, options, channels):
    _, network = make(noise_model, channels=channels, **options)
    x, mean, root, full = pixels(channels)
    centre, value = mean.movedim(1, -1).double(), x.movedim(1, -1).double()
    signal = (full.mT @ full).double()
    if noise_model == "gaussian":
        noise = 0.25 * torch.eye(channels).double().expand_as(signal)
    else:
        noise = torch.diag_embed(3.0 / 40.0 * (centre + 2.0).clamp(min=1e-3))
    log_density = MultivariateNormal(centre, signal + noise).log_prob(value)
    expected = -2 * log_density - channels * np.log(2 * np.pi)
    torch.testing.assert_close(network.loss(x, mean, root).double(), expected, rtol=1e-3, atol=1e-3)
    precision = signal.inverse() + noise.inverse()
    both = signal.inverse() @ centre[..., None] + noise.inverse() @ value[..., None]
    posterior = (precision.inverse() @ both)[..., 0].movedim(-1, 1)
    torch.testing.assert_close(network.clean(x, mean, root).double(), posterior, rtol=1e-3, atol=2e-3)


def test_grey_posterior_weighs_by_the_variances():
    _, network = make("gaussian", sigma=20.0)
    x, mean, root, _ = pixels(1)
    expected = (x * root**2 + mean * 0.25) / (root**2 + 0.25)
    torch.testing.assert_close(network.clean(x, mean, root), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_without_noise_the_pixel_is_kept_and_in_much_noise_the_mean(channels):
    x, mean, root, _ = pixels(channels)
    root = root.sign() + root
    _, faint = make("gaussian", channels=channels, sigma=1.0, noise=NoiseModel.gaussian(0.04))
    _, loud = make("gaussian", channels=channels, sigma=1.0, noise=NoiseModel.gaussian(4e4))
    torch.testing.assert_close(faint.clean(x, mean, root), x, rtol=0, atol=1e-3)
    torch.testing.assert_close(loud.clean(x, mean, root), mean, rtol=0, atol=1e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_likelihood_and_posterior_of_impulses(channels):
    _, network = make("impulse", channels=channels, alpha=0.3)
    x, mean, root, full = pixels(channels)
    signal = full.mT @ full + NARROWEST * torch.eye(channels)
    normal = MultivariateNormal(mean.movedim(1, -1).double(), signal.double())
    kept = 0.7 * normal.log_prob(x.movedim(1, -1).double()).exp()
    replaced = 0.3 / 5.0**channels
    torch.testing.assert_close(network.loss(x, mean, root).double(), -(kept + replaced).log(), rtol=1e-3, atol=1e-3)
    share = (kept / (kept + replaced)).unsqueeze(1)
    torch.testing.assert_close(
        network.clean(x, mean, root).double(), share * x + (1 - share) * mean, rtol=1e-3, atol=1e-3
    )


def test_an_impulse_far_from_its_surroundings_is_replaced_and_a_usual_pixel_kept():
    _, network = make("impulse", alpha=0.2)
    mean, root = torch.zeros(1, 1, 1, 2), torch.full((1, 1, 1, 2), 0.01)
    x = torch.tensor([[[[0.005, 2.5]]]])
    torch.testing.assert_close(network.clean(x, mean, root), torch.tensor([[[[0.005, 0.0]]]]), rtol=0.05, atol=1e-4)


@pytest.mark.parametrize("noise_model", ["gaussian", "poisson", "impulse"])
@pytest.mark.parametrize("channels", [1, 3])
def test_extreme_pixels_give_finite_losses_and_gradients(noise_model, channels):
    method, network = make(noise_model, channels=channels)
    x = torch.randn(2, channels, 16, 16)
    x[0, :, 3, 3] = 1e4
    torch.nn.init.zeros_(network.network.merge[-1].weight)  # μ = 0 and Σ_x = 0
    loss = method(network, Batch(x), torch.Generator())["likelihood"]
    loss.backward()
    assert loss.isfinite() and network(x).isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


@pytest.mark.parametrize("noise_model", ["none", "gaussian", "poisson", "impulse"])
def test_pixels_that_are_not_valid_count_nowhere_and_are_not_seen(noise_model):
    method, network = make(noise_model, channels=2)
    x = torch.randn(2, 2, 16, 16)
    valid = torch.rand(x.shape) > 0.2
    losses = [
        method(network, Batch(torch.where(valid, x, value), valid=valid, filled=~valid), torch.Generator())
        for value in (0.0, 50.0)
    ]
    assert losses[0] == losses[1]
    nothing = method(network, Batch(x, valid=torch.zeros_like(valid)), torch.Generator())
    assert all(value == 0 for value in nothing.values())


@pytest.mark.parametrize(
    ("noise_model", "options", "level"),
    [
        ("gaussian", {"sigma": 20.0}, 0.5),
        ("poisson", {"gain": 4.0}, 0.1),
        ("impulse", {"alpha": 0.25}, 0.25),
        ("gaussian", {}, 0.5),
        ("poisson", {}, 0.125),
    ],
)
def test_level_is_what_was_told_or_starts_at_the_estimate(noise_model, options, level):
    _, network = make(noise_model, **options)
    assert network.level.item() == pytest.approx(level, rel=1e-4)
    assert network.level.requires_grad == (not options)


def test_a_level_of_another_noise_model_is_refused():
    with pytest.raises(InputError, match="noise_model=poisson"):
        make("gaussian", gain=2.0)
    with pytest.raises(InputError, match="noise_model=impulse: it should be"):  # which auto does not use
        Denoiser(Config.of(noise_model="impulse"))


def noisy_camera(seed=0):
    clean = camera()[80:176, 160:256].astype(np.float32)
    return clean, (clean + np.random.default_rng(seed).normal(0, 25, clean.shape)).astype(np.float32)


def error(image, clean):
    return np.sqrt(np.mean((image - clean) ** 2))


def test_blind_training_denoises():
    clean, noisy = noisy_camera()
    denoised = train(noisy, steps=160, **SMALL).denoise(noisy)
    assert error(denoised, clean) < 0.85 * error(noisy, clean)


def test_the_noise_model_beats_the_blind_mean_learns_sigma_and_is_saved(tmp_path):
    clean, noisy = noisy_camera()
    model = train(noisy, noise_model="gaussian", steps=160, **SMALL)
    denoised = model.denoise(noisy)
    scale = model.normalization
    with torch.inference_mode():
        blind = model.network.prior(torch.from_numpy(scale.apply(noisy[None, None])))[0].numpy()
    blind = scale.undo(blind, np.dtype("float32"))[0, 0]
    assert error(denoised, clean) < 0.9 * error(blind, clean)
    assert error(denoised, clean) < 0.7 * error(noisy, clean)
    assert model.network.level.item() * scale.std[0] == pytest.approx(25, rel=0.2)
    again = Denoiser.load(model.save(tmp_path / "m.safetensors")).denoise(noisy)
    assert np.array_equal(again, denoised)


@pytest.mark.parametrize(
    "options",
    [
        {"noise_model": "gaussian", "sigma": 20.0},
        {"noise_model": "poisson"},
        {"noise_model": "poisson", "gain": 5.0},
        {"noise_model": "impulse"},
        {"noise_model": "impulse", "alpha": 0.1},
    ],
)
def test_every_noise_model_trains_on_colour_and_is_saved(options, tmp_path):
    colour = np.random.default_rng(0).uniform(0, 200, (3, 37, 33)).astype(np.float32)
    model = train(colour, "CYX", steps=3, **SMALL, **options)
    again = Denoiser.load(model.save(tmp_path / "m.safetensors"))
    assert np.array_equal(again.denoise(colour), model.denoise(colour))
    assert all(np.isfinite(value) for value in model.summary["terms"].values())


@pytest.mark.parametrize("noise_model", ["none", "gaussian"])
def test_odd_volumes(noise_model):
    volume = np.random.default_rng(0).normal(100, 20, (9, 21, 18)).astype(np.uint16)
    options = {"noise_model": noise_model, "patch_3d": (8, 16, 16), "features": 4}
    denoised = train(volume, "ZYX", steps=3, **SMALL | options).denoise(volume[:7, :, :11])
    assert denoised.shape == (7, 21, 11) and denoised.dtype == np.uint16


def test_folding_keeps_the_prediction():
    _, network = make("poisson", dims=3, channels=2)
    x = torch.randn(1, 2, 5, 9, 9)
    assert torch.equal(folded(network)(x), network(x))
