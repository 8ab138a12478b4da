"""Training begins with a trained network where there is one, which helps, and only where nothing speaks against it."""

from __future__ import annotations

import json
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
from scipy import ndimage
from skimage import data

import noise2same
from noise2same import Config, Denoiser
from noise2same.errors import InputError
from noise2same.networks.pretrained import load_pretrained
from noise2same.networks.unet import UNet
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

NOISY = gaussian(data.coins()[:128, :128].astype(np.float32), 25, np.random.default_rng(0))


@pytest.mark.parametrize(("channels", "features"), [(1, 16), (1, 32), (3, 16), (3, 32)])
def test_the_default_networks_in_2d_have_one(channels, features):
    config = Config()
    network = UNet(2, channels, features=features, levels=config.levels, block=config.block)
    before = torch.cat([value.flatten().float() for value in network.state_dict().values()])
    assert load_pretrained(network)
    assert not torch.equal(before, torch.cat([value.flatten().float() for value in network.state_dict().values()]))


@pytest.mark.parametrize(
    ("dims", "channels", "options"),
    [
        (3, 2, {}),
        (2, 2, {}),
        (2, 1, {"features": 8}),
        (2, 1, {"features": 24}),
        (2, 1, {"features": 32, "block": "residual"}),
        (2, 1, {"features": 32, "finest_skip": False}),
        (2, 1, {"levels": 2}),
        (2, 1, {"finest_skip": False}),
    ],
)
def test_other_networks_have_none(dims, channels, options):
    assert not load_pretrained(UNet(dims, channels, **{"features": 16, "levels": 3, "block": "plain"} | options))


def test_a_volume_of_equal_planes_is_seen_as_a_picture_at_first():
    flat, volume = (UNet(dims, 1, features=16, levels=3, block="plain").eval() for dims in (2, 3))
    assert load_pretrained(flat) and load_pretrained(volume)
    x = torch.randn(1, 1, 32, 32)
    stack = x.unsqueeze(2).expand(-1, -1, 8, -1, -1)
    with torch.inference_mode():
        torch.testing.assert_close(volume(stack)[:, :, 3], flat(x), rtol=0, atol=1e-4)


def test_a_volume_begins_with_it():
    field = ndimage.gaussian_filter(np.random.default_rng(1).normal(size=(8, 96, 96)), (1.5, 4, 4))
    clean = ndimage.gaussian_filter(100 * (field > 0.5 * field.std()).astype(np.float32), (0.5, 1, 1))
    noisy = gaussian(clean, 0.5 * float(clean.std()), np.random.default_rng(0))
    model = Denoiser(Config(steps=30)).fit(noisy, "ZYX", progress=False)
    assert model.plan.start.value == "inflated" and "from the network for pictures" in model.plan.lines()[2]
    assert psnr(clean, model.denoise(noisy, tta=False)) > psnr(clean, noisy) + 5


@pytest.mark.parametrize(("channels", "widths"), [(1, (32, 64)), (3, (16, 48))])
def test_a_wider_network_begins_as_the_same_function(channels, widths):
    narrow, wide = (UNet(2, channels, features=width, levels=3, block="plain") for width in widths)
    assert load_pretrained(narrow) and load_pretrained(wide)
    x = torch.randn(1, channels, 32, 32)
    torch.testing.assert_close(narrow.eval()(x), wide.eval()(x), rtol=0, atol=1e-5)
    wide.train()(x).square().sum().backward()
    gradients = wide.encoder[1][0].weight.grad
    assert not torch.equal(gradients[0], gradients[1])  # copies do not stay copies


def test_a_texture_that_it_does_not_know_is_learned_soon():
    y, x = np.mgrid[:512, :512]
    stripes = 128 + 50 * np.sin(2 * np.pi * (x + 0.4 * y + 10 * np.sin(y / 60)) / 4.5)
    noisy = gaussian(stripes, 25, np.random.default_rng(0))
    before, after = (noise2same.denoise(noisy, steps=steps, progress=False) for steps in (1, 80))
    assert psnr(stripes, after, data_range=255) > psnr(stripes, before, data_range=255) + 3


def test_they_are_small():
    files = list((Path(noise2same.__file__).parent / "networks" / "weights").iterdir())
    assert {file.stem for file in files} == {"grey16", "grey32", "colour16", "colour32", "film"}
    assert sum(file.stat().st_size for file in files) < 8e6


@pytest.mark.parametrize("name", ["grey", "colour"])
def test_they_are_ordinary_models(name):
    path = Path(noise2same.__file__).parent / "networks" / "weights" / f"{name}32.safetensors"
    model = Denoiser.load(path)
    clean = data.astronaut()[:96, 150:250] if name == "colour" else data.coins()[:96, :100]
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    assert psnr(clean, model.denoise(noisy, model.axes), data_range=255) > psnr(clean, noisy, data_range=255) + 5


@pytest.mark.parametrize("clean", [data.coins()[:128, :128], data.astronaut()[:128, 150:250]])
def test_in_no_time_at_all(clean):
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    result = noise2same.denoise(noisy, "YXC"[: clean.ndim], minutes=0)
    assert psnr(clean, result, data_range=255) > psnr(clean, noisy, data_range=255) + 7


def test_in_no_time_each_image_has_its_own_brightness():
    model = Denoiser(Config(minutes=0)).use_pretrained([NOISY, 100 * NOISY])
    bright = model.denoise(100 * NOISY)
    np.testing.assert_allclose(bright / 100, model.denoise(NOISY), rtol=0, atol=0.05)


@pytest.mark.parametrize(
    ("image", "axes", "options", "words"),
    [
        (np.zeros((8, 32, 32), np.float32), "ZYX", {}, "not for 3D ones with 1 channel"),
        (np.zeros((2, 32, 32), np.float32), "CYX", {"channels": "joint"}, "not for 2D ones with 2 channel"),
        (NOISY, "YX", {"features": 8}, "these settings"),
        (NOISY, "YX", {"sigma": 25.0}, "sigma"),
        (NOISY, "YX", {"method": "noise2void"}, "method"),
        (NOISY, "YX", {"from_scratch": True}, "from_scratch"),
        (NOISY, "YX", {"steps": 3}, "steps or in minutes"),
        (NOISY, "YX", {"minutes": -1.0}, "greater than or equal to 0"),
    ],
)
def test_in_no_time_there_must_be_a_network(image, axes, options, words):
    with pytest.raises(InputError, match=words):
        noise2same.denoise(image, axes, **{"minutes": 0} | options)


def test_in_no_time_from_the_command_line(tmp_path, run):
    imageio.imwrite(tmp_path / "noisy.png", np.clip(NOISY, 0, 255).astype(np.uint8))
    task = ("denoise", tmp_path / "noisy.png", "-o", tmp_path / "clean.png", "--minutes", 0)
    code, out, err = run(*task, "--report", tmp_path / "page.html", "--json")
    assert code == 0 and "Not training" in err
    figures = json.loads(out)
    assert figures["training"]["steps"] == 0 and figures["results"][0]["verdict"] and figures["results"][0]["noise"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.png", "noisy.png", "page.html"]
    code, _, err = run(*task, "--log", tmp_path / "log")
    assert code == 2 and "--minutes 0 trains nothing, which --log is for" in err


def test_no_time_is_not_enough_to_train():
    with pytest.raises(InputError, match="minutes=0 trains nothing"):
        noise2same.train(NOISY, minutes=0)


@pytest.mark.parametrize(
    ("options", "pretrained"),
    [
        ({}, True),
        ({"sigma": 25.0}, True),
        ({"method": "projected"}, True),
        ({"method": "noise2same"}, False),
        ({"from_scratch": True}, False),
        ({"lambda_inv": 2.0}, False),
        ({"method": "noise2void"}, False),
        ({"features": 8}, False),
    ],
)
def test_who_begins_with_it(options, pretrained):
    told = []
    model = Denoiser(Config.of(steps=1, **options)).fit(NOISY, progress=False, say=told.append)
    assert model.summary["pretrained"] == pretrained
    assert ("Training from the pretrained network" if pretrained else "Training from scratch") in told[2]


@pytest.mark.parametrize(
    ("clean", "axes"), [(data.coins()[:256, :256], "YX"), (data.astronaut()[:128, 150:350], "YXC")]
)
def test_a_few_steps_are_enough(clean, axes):
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    scores = {}
    for scratch in (False, True):
        model = Denoiser(Config(steps=30, from_scratch=scratch)).fit(noisy, axes, progress=False)
        scores[scratch] = psnr(clean, model.denoise(noisy, axes), data_range=255)
    assert scores[False] > scores[True] + 0.5
    assert scores[False] > psnr(clean, noisy, data_range=255) + 7


def test_training_further_does_not_make_it_worse():
    clean = data.coins()[:128, :128]
    model = Denoiser(Config(steps=150, features=8)).fit(NOISY, progress=False)
    before = psnr(clean, model.denoise(NOISY), data_range=255)
    model.fit(NOISY, resume=True, progress=False)
    assert model.plan.start.value == "model" and model.plan.recipe().pretrained
    assert psnr(clean, model.denoise(NOISY), data_range=255) > before - 0.1
