"""A network for each channel: nothing passes between channels, and all that holds for one network holds for it."""

from __future__ import annotations

import pickle
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from skimage import data

import noise2same as n2s
from noise2same.data.normalize import Normalization
from noise2same.errors import InputError
from noise2same.methods import METHODS, Method
from noise2same.networks.pretrained import load_pretrained
from noise2same.networks.separate import Separate
from noise2same.networks.unet import UNet
from noise2same.noise.synthetic import gaussian
from noise2same.prediction.engines import OpenVINO, folded, prepare_for_inference
from noise2same.prediction.predict import predict
from noise2same.quality.metrics import psnr

CPU = torch.device("cpu")
SMALL = {"features": 4, "levels": 2, "batch": 4, "patch": 32, "progress": False}
RNG = np.random.default_rng(0)
PAIR = np.stack([data.camera()[100:356, 200:456], data.coins()[:256, :256] * 0.2]).astype(np.float32)
"""Two channels that have nothing in common, a bright one and a dim one."""
NOISY = np.stack([gaussian(one, 0.4 * float(one.std()), RNG) for one in PAIR])


def networks(dims=2, count=3):
    torch.manual_seed(0)
    made = Separate([UNet(dims, 1, features=4, levels=2, block="plain") for _ in range(count)])
    for _ in range(3):  # so that batch norm has statistics
        made(3 * torch.randn(2, count, *(16,) * dims) + 1)
    return made.eval()


@torch.inference_mode()
def test_each_channel_is_what_its_own_network_makes_of_it():
    network = networks()
    x = torch.randn(2, 3, 17, 20)
    y = network(x)
    for c, one in enumerate(network.networks):
        assert torch.equal(y[:, c : c + 1], one(x[:, c : c + 1]))
    x[:, 1] += 100
    assert torch.equal(network(x)[:, ::2], y[:, ::2])


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO")
@pytest.mark.parametrize("dims", [2, 3])
@torch.inference_mode()
def test_the_engine_gives_the_same_also_after_pickling(dims):
    network = networks(dims)
    fast = prepare_for_inference(network, CPU)
    assert all(isinstance(one, OpenVINO) for one in fast.networks)
    x = torch.randn(1, 3, *(21,) * dims)
    expected = folded(network)(x)
    torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-4)
    for engine in (fast, pickle.loads(pickle.dumps(fast))):
        torch.testing.assert_close(engine(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "axes", "block"), [((3, 61, 70), "CYX", (16, 24)), ((2, 9, 30, 33), "CZYX", (4, 8, 16))]
)
def test_blocks_do_not_show(shape, axes, block):
    network = networks(len(shape) - 1, shape[0])
    image = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    whole, cut, unit = np.zeros_like(image), np.zeros_like(image), Normalization((0.0,), (1.0,))
    predict(network, image, axes, whole, normalization=unit)
    predict(network, image, axes, cut, normalization=unit, block=block)
    np.testing.assert_allclose(cut, whole, atol=1e-5)


@pytest.mark.parametrize("count", [2, 4])
def test_each_begins_as_the_pretrained_network_for_gray_pictures(count):
    network = Separate([UNet(2, 1, features=16, levels=3, block="plain") for _ in range(count)])
    gray = UNet(2, 1, features=16, levels=3, block="plain")
    assert load_pretrained(network) and load_pretrained(gray)
    x = torch.randn(1, count, 32, 32)
    with torch.inference_mode():
        y = network.eval()(x)
        assert all(torch.equal(y[:, c : c + 1], gray.eval()(x[:, c : c + 1])) for c in range(count))
    assert not load_pretrained(Separate([UNet(2, 1, features=16, levels=2, block="plain")]))


def test_unrelated_channels_are_as_good_as_alone():
    """A channel of an image with two has the scores that it has by itself, with as many steps."""
    model = n2s.train(NOISY, "CYX", steps=60, features=16, progress=False)
    assert model.plan.channels.value == "separate" and model.plan.start.value == "pretrained"
    assert "the pretrained network, one network for each of 2 channels," in model.plan.lines()[2]
    together = model.denoise(NOISY)
    for c, clean in enumerate(PAIR):
        span = float(np.ptp(clean))
        alone = n2s.denoise(NOISY[c], "YX", steps=60, features=16, progress=False)
        scores = [psnr(clean, image, data_range=span) for image in (NOISY[c], alone, together[c])]
        assert scores[2] > scores[1] - 0.1 and scores[2] > scores[0] + 3


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if issubclass(one, Method)])
def test_every_method_can_train_it_or_says_so(name):
    x = NOISY[:, :48, :48]
    target = x if METHODS[name].supervised else None
    options = SMALL | {"method": name, "steps": 2, "channels": "separate"}
    if not METHODS[name].separable:
        with pytest.raises(InputError, match="trains all channels together"):
            n2s.train(x, "CYX", target=target, **options)
        return
    model = n2s.train(x, "CYX", target=target, **options)
    assert isinstance(model.network, Separate) and np.isfinite(model.denoise(x)).all()


@pytest.mark.parametrize("minutes", [0, None])
def test_one_file_holds_all(tmp_path, minutes):
    x = NOISY[:, :64, :64]
    if minutes == 0:
        model = n2s.Denoiser(n2s.Config(minutes=0)).use_pretrained(x, "CYX")
    else:
        model = n2s.train(x, "CYX", steps=2, channels="separate", **SMALL)
    assert isinstance(model.network, Separate)
    loaded = n2s.Denoiser.load(model.save(tmp_path / "m.safetensors"))
    assert np.array_equal(loaded.denoise(x, "CYX"), model.denoise(x, "CYX"))


def test_a_trained_network_keeps_its_kind(tmp_path):
    x = NOISY[:, :64, :64]
    model = n2s.train(x, "CYX", steps=2, channels="joint", **SMALL)
    loaded = n2s.Denoiser.load(model.save(tmp_path / "m.safetensors"))
    loaded.config = loaded.config.model_copy(update={"channels": "auto"})
    loaded.fit(x, "CYX", resume=True, progress=False)
    assert loaded.plan.channels.value == "joint" and "trained further" in loaded.plan.channels.reason
    assert n2s.Denoiser.load(loaded.save(tmp_path / "n.safetensors")).denoise(x, "CYX").shape == x.shape
    other = n2s.plan(x, "CYX", steps=2, channels="separate")
    with pytest.raises(InputError, match="channels=separate, but the model joint"):
        loaded.fit(x, "CYX", resume=True, plan=other, progress=False)
