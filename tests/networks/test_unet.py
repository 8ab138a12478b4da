"""The U-Net."""

from __future__ import annotations

import pytest
import torch
from scipy import ndimage

from noise2same.networks.unet import BlurPool, UNet
from noise2same.prediction.engines import folded

KINDS = [{"block": "plain"}, {"block": "residual"}, {"block": "plain", "finest_skip": False, "blur_pool": True}]


def make(dims, channels=1, **kind):
    torch.manual_seed(0)
    return UNet(dims, channels, features=4, levels=3, **kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 1, 37, 41), (1, 3, 1, 1), (1, 5, 64, 8), (1, 2, 5, 17, 33), (1, 1, 1, 3, 200)])
def test_any_size_and_channels(shape, kind):
    network = make(len(shape) - 2, shape[1], **kind).eval()
    assert network(torch.randn(shape)).shape == shape


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", [2, 3])
def test_folding_batch_norm_changes_nothing(dims, kind):
    network = make(dims, **kind)
    x = torch.randn(2, 1, *(16,) * dims)
    for _ in range(3):
        network(3 * x + 1)
    ready = folded(network)
    torch.testing.assert_close(ready(x), network.eval()(x), rtol=1e-4, atol=1e-5)
    norms = [m for m in ready.modules() if "BatchNorm" in type(m).__name__]
    assert len(norms) < len([m for m in network.modules() if "BatchNorm" in type(m).__name__])
    assert not ready.training and network.encoder[0] is not ready.encoder[0]


def test_the_paper_s_network():
    network = UNet(2, 1, features=96, levels=3, block="residual")
    assert [level.branch[-1].out_channels for level in network.encoder] == [96, 192, 384]
    assert all(conv.stride == (2, 2) and conv.kernel_size == (2, 2) for conv in [*network.down, *network.up])
    assert isinstance(network.head[0], torch.nn.BatchNorm2d) and network.head[-1].kernel_size == (1, 1)


def untrained(dims, channels, block):
    network = make(dims, channels, block=block)
    torch.nn.init.zeros_(network.head[-1].weight)
    torch.nn.init.zeros_(network.head[-1].bias)
    return network


@pytest.mark.parametrize("shape", [(1, 1, 32, 32), (1, 2, 8, 32, 32)])
def test_the_input_is_not_added_to_the_output_but_with_plain_blocks_its_blur(shape):
    x = torch.randn(shape)
    assert (untrained(x.ndim - 2, shape[1], "residual")(x) == 0).all()
    network = untrained(x.ndim - 2, shape[1], "plain")
    sigmas = {4: (0, 0, 3, 3), 5: (0, 0, 1, 3, 3)}[x.ndim]
    blurred = torch.from_numpy(ndimage.gaussian_filter(x.numpy(), sigmas, mode="nearest", truncate=2))
    torch.testing.assert_close(network(x), blurred, rtol=1e-4, atol=1e-5)
    spot = torch.zeros(shape)
    spot[:, :1, ..., 16, 16] = 1
    assert network(spot).max() < 0.05  # of a pixel's own noise


@pytest.mark.parametrize("shape", [(2, 3, 8, 12), (2, 3, 4, 8, 12)])
def test_blur_pooling_halves_keeps_constants_and_removes_the_finest_stripes(shape):
    pool = BlurPool(len(shape) - 2)
    assert pool(torch.ones(shape)).shape == (*shape[:2], *(size // 2 for size in shape[2:]))
    torch.testing.assert_close(pool(torch.full(shape, 3.0)), torch.full_like(pool(torch.ones(shape)), 3.0))
    stripes = torch.ones(shape)
    stripes[..., ::4] = stripes[..., 1::4] = 0  # two dark, two bright columns: max-pooling alone would alias them
    assert pool(stripes).std() < torch.nn.functional.max_pool1d(stripes.flatten(0, -2), 2).std()


@pytest.mark.parametrize("block", ["plain", "residual"])
def test_of_several_frames_the_one_in_the_middle(block):
    network = make(2, 5, block=block, outputs=1)
    x = torch.randn(2, 5, 16, 16)
    assert network(x).shape == (2, 1, 16, 16)
    torch.nn.init.zeros_(network.head[-1].weight)
    torch.nn.init.zeros_(network.head[-1].bias)
    x[:, [0, 1, 3, 4]] = 1e6
    assert network(x).abs().max() < 10
