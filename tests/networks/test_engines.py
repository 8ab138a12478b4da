"""Every engine gives the same numbers, and one that cannot be used is done without."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import torch

from noise2same import train
from noise2same.networks.blindspot import BlindSpot
from noise2same.networks.engines import OpenVINO, folded, ready
from noise2same.networks.unet import UNet

openvino = pytest.importorskip("openvino")
CPU = torch.device("cpu")


def trained(dims, channels=1, **kind):
    torch.manual_seed(0)
    network = UNet(dims, channels, features=8, levels=3, **({"block": "plain"} | kind))
    for _ in range(3):
        network(3 * torch.randn(2, channels, *(16,) * dims) + 1)
    return network


@pytest.mark.parametrize("kind", [{}, {"block": "residual"}, {"finest_skip": False, "blur_pool": True}])
@pytest.mark.parametrize(("channels", "shape"), [(1, (37, 41)), (3, (64, 32)), (2, (5, 17, 33))])
@torch.inference_mode()
def test_engines_agree_on_any_size(kind, channels, shape):
    network = trained(len(shape), channels, **kind)
    fast, plain = ready(network, CPU), folded(network)
    assert isinstance(fast, OpenVINO)
    for count in (1, 3):
        x = torch.randn(count, channels, *shape)
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-4, atol=1e-4)


def test_without_openvino_pytorch_predicts(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert isinstance(ready(trained(2), CPU), UNet)


@torch.inference_mode()
def test_when_it_fails_pytorch_predicts_with_a_warning(monkeypatch):
    def fail(*_):
        raise RuntimeError("no such operation")

    monkeypatch.setattr(openvino.Core, "compile_model", fail)
    network = trained(2)
    with pytest.warns(UserWarning, match="OpenVINO cannot run this network .no such operation.; PyTorch does"):
        copy = ready(network, CPU)
    x = torch.randn(1, 1, 32, 32)
    assert torch.equal(copy(x), folded(network)(x))


def test_a_network_of_another_kind_stays_with_pytorch():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(ready(BlindSpot(2, 1, 1, features=4, levels=2), CPU), BlindSpot)


def test_training_further_changes_what_is_predicted():
    image = np.random.default_rng(0).normal(100, 20, (48, 48)).astype(np.float32)
    model = train(image, steps=3, features=4, batch=2, patch=32, progress=False)
    before = model.denoise(image)
    model.fit(image, resume=True, progress=False)
    assert not np.array_equal(model.denoise(image), before)
