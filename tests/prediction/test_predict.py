"""Tiles, blending, memory and what passes through."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

from noise2same.data.normalize import Normalization
from noise2same.networks.unet import UNet
from noise2same.prediction.engines import folded
from noise2same.prediction.predict import OVERLAP, TILE, Tiles, forward, predict

RNG = np.random.default_rng(0)


class Copy(nn.Module):
    """Returns its input, and remembers the sizes it saw."""

    def __init__(self, largest: int = 10**9) -> None:
        super().__init__()
        self.largest, self.seen = largest, []

    def forward(self, x):
        self.seen.append(x.shape)
        if max(x.shape[2:]) > self.largest:
            raise torch.OutOfMemoryError("no memory left")
        return x


SHAPES = [
    ((700, 533), "YX"),
    ((1, 1), "YX"),
    ((13, 700), "YX"),
    ((300, 301, 3), "YXC"),
    ((2, 3, 300, 271), "TCYX"),
    ((50, 200, 140), "ZYX"),
    ((2, 2, 9, 40, 5), "TCZYX"),
]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_tiles_put_every_pixel_back_where_it_was(shape, axes, dtype):
    image = RNG.integers(0, 200, shape).astype(dtype)
    out = np.zeros_like(image)
    shares = []
    predict(Copy(), image, axes, out, normalization=None, advance=shares.append)
    np.testing.assert_allclose(out, image, atol=1e-3 if dtype == "float32" else 0)
    assert sum(shares) == pytest.approx(1)


@pytest.mark.parametrize("size", [1, 7, 100, 256, 257, 511, 2048])
@pytest.mark.parametrize(("longest", "overlap", "multiple"), [(256, 32, 8), (128, 16, 4), (30, 16, 8), (16, 32, 8)])
def test_weights_of_tiles_add_up_to_one(size, longest, overlap, multiple):
    tiles = Tiles(size, longest, overlap, multiple)
    total = np.zeros(size)
    for k, weights in enumerate(tiles.weights):
        total[tiles.box(k)] += weights
        assert tiles.starts[k] % multiple == 0
    np.testing.assert_allclose(total, 1, atol=1e-6)
    assert tiles.length % multiple == 0 and tiles.length <= max(multiple, longest)


@pytest.mark.parametrize(("shape", "axes"), [((420, 700), "YX"), ((40, 150, 170), "ZYX")])
def test_no_seams(shape, axes):
    torch.manual_seed(0)
    dims = len(shape)
    network = UNet(dims, 1, features=8, levels=3, block="plain")
    for _ in range(10):
        network(torch.randn(2, 1, *(16,) * (dims - 2), 32, 32))
    image = RNG.normal(size=shape).astype(np.float32)
    whole, tiled = np.zeros_like(image), np.zeros_like(image)
    normalization = Normalization((0.0,), (1.0,))
    predict(folded(network), image, axes, whole, normalization=normalization, tile=[1024] * dims)
    predict(folded(network), image, axes, tiled, normalization=normalization)
    difference = np.abs(whole - tiled)
    assert difference.max() < 0.1 * whole.std()
    assert np.sqrt((difference**2).mean()) < 0.01 * whole.std()


def test_goes_on_with_smaller_tiles_when_memory_runs_out():
    image = RNG.normal(size=(300, 500)).astype(np.float32)
    out = np.zeros_like(image)
    network, shares = Copy(largest=70), []
    predict(network, image, "YX", out, normalization=None, advance=shares.append)
    np.testing.assert_allclose(out, image, atol=1e-5)
    assert max(network.seen[0][2:]) > 70 >= max(network.seen[-1][2:])
    assert sum(shares) == pytest.approx(1)


def test_gives_up_when_even_small_tiles_do_not_fit():
    image = np.zeros((100, 100), np.float32)
    with pytest.raises(torch.OutOfMemoryError):
        predict(Copy(largest=1), image, "YX", np.zeros_like(image), normalization=Normalization((0.0,), (1.0,)))


def test_other_errors_are_not_taken_for_lack_of_memory():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("something else")

    image = np.zeros((10, 10), np.float32)
    with pytest.raises(RuntimeError, match="something else"):
        predict(Broken(), image, "YX", image.copy(), normalization=Normalization((0.0,), (1.0,)))


def test_holds_one_row_of_tiles_whatever_the_height():
    class Rows:
        """An image that counts how much of it is asked for at once."""

        shape, dtype, largest = (4000, 300), np.dtype("float32"), 0

        def __getitem__(self, key):
            rows = range(*key[0].indices(4000))
            Rows.largest = max(Rows.largest, len(rows))
            return np.ones((len(rows), 300), np.float32)

    network = Copy()
    out = np.zeros((4000, 300), np.float32)
    predict(network, Rows(), "YX", out, normalization=Normalization((0.0,), (1.0,)))
    np.testing.assert_allclose(out, 1, atol=1e-6)
    assert Rows.largest <= TILE[2][0]
    assert max(np.prod(shape) for shape in network.seen) <= 4 * TILE[2][0] ** 2


@pytest.mark.parametrize(("shape", "axes"), [((2400, 4000), "YX"), ((140, 400, 400), "ZYX")])
def test_memory_is_that_of_one_strip(shape, axes):
    image = RNG.integers(0, 60_000, shape).astype(np.uint16)
    out = np.zeros_like(image)
    tracemalloc.start()
    predict(Copy(), image, axes, out, normalization=Normalization((3e4,), (1e4,)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * TILE[len(shape)][0] * np.prod(shape[1:])


@pytest.mark.parametrize("row", [0, 3])
def test_what_goes_wrong_in_writing_is_raised(row):
    class Full(np.ndarray):
        left = row

        def __setitem__(self, key, value):
            if Full.left == 0:
                raise OSError("no space left on device")
            Full.left -= 1

    image = np.ones((3100, 64), np.float32)
    assert len(Tiles(3100, TILE[2][0], OVERLAP[2][0], 1).starts) == 4
    with pytest.raises(OSError, match="no space"):
        predict(Copy(), image, "YX", image.copy().view(Full), normalization=Normalization((0.0,), (1.0,)))


def test_nan_and_infinite_pixels_pass_through_and_spoil_nothing():
    image = RNG.normal(size=(60, 300)).astype(np.float32)
    image[5, 7], image[20:22, 280], image[40, 40] = np.nan, np.inf, -np.inf
    out = np.zeros_like(image)
    passed = predict(Copy(), image, "YX", out, normalization=None)
    assert passed == 4
    np.testing.assert_allclose(out, image, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 8, 12), (1, 1, 4, 8, 8)])
def test_augmentation_averages_a_network_that_knows_left_from_right(shape):
    class Shift(nn.Module):
        def forward(self, x):
            return x.roll(1, -1)

    x = torch.randn(shape)
    neighbours = sum(x.roll(shift, axis) for shift in (1, -1) for axis in (-1, -2)) / 4
    torch.testing.assert_close(forward(Shift(), x, True), neighbours)
    torch.testing.assert_close(forward(Copy(), x, True), x)


def test_tiles_and_overlaps_fit_the_dimensions():
    assert all(len(TILE[dims]) == len(OVERLAP[dims]) == dims for dims in (2, 3))
