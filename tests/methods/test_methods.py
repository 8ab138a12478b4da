"""Every method through the same Denoiser: it trains, denoises, is saved, and says what it cannot do."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data

from noise2same import Config, Denoiser, train
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods import METHODS, DataProfile, Method, every, settings_of
from noise2same.quality.metrics import psnr

SMALL = {"features": 12, "levels": 2, "batch": 8, "patch": 32, "progress": False}
CLEAN = data.camera()[100:260, 200:360].astype(np.float32)
LEARNING = [name for name, method in METHODS.items() if issubclass(method, Method)]


def noisy(seed: int) -> np.ndarray:
    return CLEAN + np.random.default_rng(seed).normal(0, 25, CLEAN.shape).astype(np.float32)


def targets(name: str) -> np.ndarray | None:
    return {"noise2true": CLEAN, "noise2noise": noisy(1)}.get(name)


@pytest.mark.parametrize("name", LEARNING)
def test_denoising_lowers_the_error_and_a_saved_model_does_the_same(name: str, tmp_path: Path) -> None:
    x = noisy(0)
    model = train(x, method=name, steps=250, target=targets(name), **SMALL)
    clean = model.denoise(x)
    assert psnr(CLEAN, clean, data_range=255) > psnr(CLEAN, x, data_range=255) + 2
    loaded = Denoiser.load(model.save(tmp_path / "m.safetensors"))
    assert np.array_equal(loaded.denoise(x), clean)


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize(("shape", "axes"), [((2, 40, 41), "CYX"), ((5, 21, 23), "ZYX"), ((2, 4, 20, 24), "CZYX")])
def test_colour_and_volumes(name: str, shape: tuple[int, ...], axes: str) -> None:
    x = np.random.default_rng(0).normal(100, 10, shape).astype(np.uint8)
    target = x if METHODS[name].supervised else None
    model = train(x, axes, method=name, steps=2, target=target, **SMALL)
    clean = model.denoise(x)
    assert clean.shape == shape and clean.dtype == np.uint8


@pytest.mark.parametrize("name", ["noise2void", "noise2void2", "noise2self"])
def test_masked_methods_look_at_masked_pixels_only(name: str) -> None:
    cls = METHODS[name]
    method = cls(settings_of(cls, Config.of(method=name, mask_density=0.02)), DataProfile(2, 1))
    seen = []

    def network(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x

    x = torch.randn(4, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    loss = method(network, Batch(x), torch.Generator().manual_seed(1))["masked"]
    changed = seen[0] != x
    assert 0.01 < changed.float().mean() < 0.021
    assert loss.item() == pytest.approx((seen[0] - x)[changed].square().mean().item(), rel=0.05)
    nothing = method(network, Batch(x, valid=torch.zeros_like(x, dtype=torch.bool)), torch.Generator())
    assert nothing["masked"] == 0


def test_noise2void2_has_no_skip_at_full_resolution_and_blurs_before_it_halves() -> None:
    cls = METHODS["noise2void2"]
    network = cls(cls.Settings(), DataProfile(2, 1)).network()
    names = {type(module).__name__ for module in network.modules()}
    assert "BlurPool" in names and "MaxPool2d" not in names
    finest, other = network.decoder[0][0], network.decoder[1][0]
    assert finest.in_channels == finest.out_channels and other.in_channels == 2 * other.out_channels


OUTSIDE = """
from noise2same.methods import Method
from noise2same.methods.base import Settings


class SmoothSettings(Settings):
    level: float = 0.0


class Smooth(Method):
    name, needs, when = "toy", "noisy images", "never"
    Settings = SmoothSettings

    def __call__(self, network, batch, generator):
        return {"toy": (network(batch.x) - self.settings.level).square().mean()}
"""


def test_a_method_of_another_package_comes_through_its_entry_point(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "smooth_denoiser.py").write_text(OUTSIDE)
    info = tmp_path / "smooth_denoiser-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: smooth-denoiser\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[noise2same.methods]\ntoy = smooth_denoiser:Smooth\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "toy" in every()
    x = noisy(0)
    model = train(x, method="toy", level=0.1, steps=60, **SMALL)
    assert model.config.method_settings == {"level": 0.1}
    with pytest.raises(InputError, match="lvl: there is no such setting"):
        train(x, method="toy", lvl=0.1, **SMALL)
    assert model.summary["terms"]["toy"] < 0.5
    monkeypatch.delitem(sys.modules, "smooth_denoiser")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "nois2void"}, ["nois2void", "did you mean noise2void?", "noise2same"]),
        ({"method": "zzz"}, ["There is no method 'zzz'", "noise2true"]),
        ({"fill": "donat"}, ["fill=donat", "Did you mean donut?"]),
        ({"method": int}, ["int is not a method"]),
        ({"method": "noise2void", "noise_model": "gaussian"}, ["noise2void does not use noise_model", "sure or laine"]),
        ({"method": "noise2void", "lambda_inv": 1.0}, ["noise2void does not use lambda_inv"]),
        ({"method": "noise2void", "fill": "donut"}, ["noise2void does not use fill"]),
        ({"method": "noise2true", "sigma": 25}, ["noise2true does not use sigma"]),
        ({"method": "noise2true"}, ["noise2true learns from noisy images and clean targets", "--target"]),
        ({"method": "noise2void", "target": CLEAN}, ["noise2void learns from noisy images alone", "noise2true"]),
        ({"target": CLEAN[:50], "method": "noise2true"}, ["shape", "(50, 160)", "(160, 160)"]),
        ({"target": [CLEAN, CLEAN], "method": "noise2true"}, ["1 images but 2 targets"]),
    ],
)
def test_what_does_not_fit_together_is_said_in_one_sentence(options: dict, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        train(CLEAN, steps=1, progress=False, **options)
    assert all(word in str(error.value) for word in words), error.value


class Flat(METHODS["noise2void"]):
    """A user's own method, given as a class."""

    name = "flat"
    dims = (2,)


def test_a_method_can_be_given_as_a_class(tmp_path: Path) -> None:
    x = noisy(0)
    model = train(x, method=Flat, steps=3, **SMALL)
    assert model.method is Flat and model.plan.method.value == "flat"
    path = model.save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="flat"):
        Denoiser.load(path)
    assert np.array_equal(Denoiser.load(path, method=Flat).denoise(x), model.denoise(x))


def test_a_method_for_two_dimensions_refuses_a_volume() -> None:
    with pytest.raises(InputError, match="flat takes 2D images only, not 3D ones: give axes with S"):
        train(CLEAN.reshape(10, 16, 160), "ZYX", method=Flat, steps=1, progress=False)


def test_the_paper_preset_is_the_paper_and_leaves_other_methods_their_fill() -> None:
    paper = Config(preset="paper")
    settings = settings_of(METHODS[paper.method], paper)
    assert (paper.method, settings.fill, settings.lambda_inv, settings.mask_density) == (
        "noise2same",
        "gaussian",
        2,
        0.005,
    )
    void = Config(preset="paper", method="noise2self")
    assert settings_of(METHODS["noise2self"], void).fill == "random"
    assert Denoiser(void).method is METHODS["noise2self"]


def test_a_bad_pixel_of_a_target_is_left_out() -> None:
    x, y = noisy(0), CLEAN.copy()
    y[:20] = np.nan
    with pytest.warns(UserWarning, match="3200 NaN"):
        model = train(x, method="noise2true", target=y, steps=200, **SMALL)
    assert psnr(CLEAN, model.denoise(x), data_range=255) > psnr(CLEAN, x, data_range=255)
