"""Blocks, memory, writing and what passes through."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
import zarr
from torch import nn

from noise2same import io
from noise2same.data import axes as ax
from noise2same.data.normalize import Normalization
from noise2same.errors import Cancelled
from noise2same.networks.blindspot import BlindSpot
from noise2same.networks.unet import UNet
from noise2same.prediction.engines import folded, prepare_for_inference
from noise2same.prediction.predict import REGION_MEMORY, forward, predict, predict_block

UNIT = Normalization((0.0,), (1.0,))
RNG = np.random.default_rng(0)


class Copy(nn.Module):
    """Returns its input, and remembers the sizes it saw."""

    multiple, reach, values_per_pixel = (1, 1), (2, 2), 100

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
def test_blocks_put_every_pixel_back_where_it_was(shape, axes, dtype):
    image = RNG.integers(0, 200, shape).astype(dtype)
    out = np.zeros_like(image)
    reports = []
    block = (32, 64, 128)[-len(ax.spatial(axes)) :]
    predict(nn.Identity(), image, axes, out, normalization=None, block=block, on_block=lambda *at: reports.append(at))
    np.testing.assert_allclose(out, image, atol=1e-3 if dtype == "float32" else 0)
    assert reports == [(done, len(reports)) for done in range(1, len(reports) + 1)]


NETWORKS = {
    "plain": lambda dims: UNet(dims, 1, features=4, levels=3, block="plain"),
    "residual": lambda dims: UNet(dims, 1, features=4, levels=2, block="residual"),
    "blur-pool": lambda dims: UNet(dims, 1, features=4, levels=2, block="plain", finest_skip=False, blur_pool=True),
    "blind-spot": lambda dims: BlindSpot(dims, 1, 1, features=4, levels=2),
}


def trained(name, dims):
    torch.manual_seed(0)
    network = NETWORKS[name](dims)
    for _ in range(5):
        network(torch.randn(2, 1, *(16,) * (dims - 2), 32, 32))
    return network


@pytest.mark.parametrize("tta", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((121, 150), [(40, 40), (7, 200)]), ((64, 96), [(16, 50)]), ((13, 45, 62), [(13, 20, 20), (5, 45, 30)])],
)
def test_the_result_does_not_depend_on_the_blocks(shape, blocks, name, tta):
    network = prepare_for_inference(trained(name, len(shape)), torch.device("cpu"))
    image = RNG.normal(size=shape).astype(np.float32)
    axes, results = "ZYX"[-len(shape) :], []
    for block in [shape, *blocks, blocks[0]]:
        results.append(np.zeros_like(image))
        predict(network, image, axes, results[-1], normalization=UNIT, tta=tta, block=block)
    whole = results[0]
    for result in results[1:]:
        np.testing.assert_allclose(result, whole, rtol=0, atol=1e-5 * np.ptp(whole))
    assert np.array_equal(results[1], results[-1])


def test_nor_where_pixels_are_missing():
    network = folded(trained("plain", 2))
    image = RNG.normal(size=(150, 170)).astype(np.float32)
    image[30:90, 40:120], image[3, 5], image[:, 169] = np.nan, np.inf, np.nan
    whole, cut = np.zeros_like(image), np.zeros_like(image)
    counts = [
        predict(network, image, "YX", out, normalization=None, block=block).invalid
        for out, block in ((whole, (200, 200)), (cut, (20, 30)))
    ]
    assert counts == [np.sum(~np.isfinite(image))] * 2
    np.testing.assert_allclose(cut, whole, rtol=0, atol=1e-4)


def test_a_multiple_of_the_stride_is_predicted_as_the_network_would():
    network, image = folded(trained("plain", 2)), RNG.normal(size=(64, 80)).astype(np.float32)
    out = np.zeros_like(image)
    predict(network, image, "YX", out, normalization=UNIT, block=(16, 16))
    with torch.inference_mode():
        expected = network(torch.from_numpy(image)[None, None])[0, 0].numpy()
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)


def test_a_block_is_a_function_of_what_can_be_pickled(tmp_path):
    store = zarr.create_array(str(tmp_path / "in.zarr"), shape=(2, 90, 100), chunks=(1, 32, 32), dtype="uint16")
    store[...] = RNG.integers(0, 1000, store.shape)
    network = prepare_for_inference(trained("plain", 2), torch.device("cpu"))
    normalization, whole = Normalization((500.0,), (300.0,)), np.zeros((2, 90, 100), np.float32)
    predict(network, store, "TYX", whole, normalization=normalization)
    work = pickle.dumps((network, ax.samples(store, "TYX")[1], (slice(13, 50), slice(40, 100))))
    result, done = predict_block(*pickle.loads(work), normalization=normalization, dtype="float32")
    assert done.invalid == 0
    np.testing.assert_allclose(result[0, 0], whole[1, 13:50, 40:], rtol=0, atol=1e-2)


def test_goes_on_with_smaller_blocks_when_memory_runs_out():
    image = RNG.normal(size=(300, 500)).astype(np.float32)
    out = np.zeros_like(image)
    network, reports = Copy(largest=70), []
    with pytest.warns(UserWarning, match="Memory ran out: going on in smaller blocks") as caught:
        predict(network, image, "YX", out, normalization=None, on_block=lambda *at: reports.append(at))
    assert len(caught) == 1
    np.testing.assert_allclose(out, image, atol=1e-5)
    assert max(network.seen[0][2:]) > 70 >= max(network.seen[-1][2:])
    shares = [done / total for done, total in reports]
    assert shares == sorted(shares) and shares[-1] == 1


def test_blocks_that_are_done_stay_done_when_memory_runs_out():
    class Filling(Copy):
        def forward(self, x):
            self.largest = 1000 if len(self.seen) < 3 else 30
            return super().forward(x)

    image, out = RNG.normal(size=(200, 200)).astype(np.float32), Spy(np.zeros((200, 200), np.float32), (40, 40))
    reports = []
    with pytest.warns(UserWarning, match="Memory ran out"):
        ways = {"normalization": UNIT, "block": (80, 80), "on_block": lambda *at: reports.append(at)}
        predict(Filling(), image, "YX", out, **ways)
    np.testing.assert_allclose(out.array, image, atol=1e-6)
    assert (out.written == 1).all()
    shares = [done / total for done, total in reports]
    assert shares == sorted(shares) and shares[-1] == 1


def test_gives_up_when_even_small_tiles_do_not_fit():
    image = np.zeros((100, 100), np.float32)
    with pytest.raises(torch.OutOfMemoryError), pytest.warns(UserWarning, match="Memory ran out"):
        predict(Copy(largest=1), image, "YX", np.zeros_like(image), normalization=Normalization((0.0,), (1.0,)))


def test_other_errors_are_not_taken_for_lack_of_memory():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("something else")

    image = np.zeros((10, 10), np.float32)
    with pytest.raises(RuntimeError, match="something else"):
        predict(Broken(), image, "YX", image.copy(), normalization=Normalization((0.0,), (1.0,)))


class Spy:
    """A store in chunks that counts how often each is written, and the pixels of the largest piece that is read."""

    def __init__(self, array, chunks):
        self.array, self.chunks, self.shape, self.dtype = array, chunks, array.shape, array.dtype
        self.written = np.zeros([-(-size // chunk) for size, chunk in zip(array.shape, chunks, strict=True)], int)
        self.largest = 0

    def __getitem__(self, key):
        piece = self.array[key]
        self.largest = max(self.largest, piece.size)
        return piece

    def __setitem__(self, key, pixels):
        touched = []
        for cut, size, chunk in zip(key, self.shape, self.chunks, strict=True):
            start, stop, _ = cut.indices(size)
            assert start % chunk == 0 and (stop % chunk == 0 or stop == size)
            touched.append(slice(start // chunk, -(-stop // chunk)))
        self.written[tuple(touched)] += 1
        self.array[key] = pixels


@pytest.mark.parametrize("tall", [1, 3])
@pytest.mark.parametrize(("chunks", "normalization"), [((8, 64, 64), UNIT), ((1, 320, 256), UNIT), ((8, 64, 64), None)])
def test_memory_is_bounded_in_3d_and_each_chunk_is_written_once(chunks, normalization, tall, monkeypatch):
    monkeypatch.setattr("noise2same.prediction.predict.REGION_MEMORY", 4 * 64 * 128 * 128)
    monkeypatch.setattr("noise2same.prediction.predict.MEASURED_PIXELS", 2**17)
    network = Copy()
    network.multiple, network.reach = (4, 4, 4), (6, 6, 6)
    image = Spy(RNG.integers(0, 60_000, (40, 320, 256 * tall)).astype(np.uint16), chunks)
    out = Spy(np.zeros_like(image.array), chunks)
    memory = 4 * network.values_per_pixel * 64 * 48 * 48
    predict(network, image, "ZYX", out, normalization=normalization, memory=memory)
    assert np.array_equal(out.array, image.array)
    assert (out.written == 1).all()
    assert image.largest <= 64 * 48 * 48
    assert max(np.prod(shape) for shape in network.seen) <= 64 * 48 * 48


def test_a_large_image_is_written_in_pieces():
    out = Spy(np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4096, 3 * 4096), (0, 0)), (1024, 1024))
    predict(nn.Identity(), np.broadcast_to(np.float32(0), out.shape), "YX", out, normalization=UNIT)
    assert (out.written == 1).all() and out.array.nbytes > REGION_MEMORY


def test_shards_are_written_once(tmp_path):
    shape = (40, 100, 130)
    out = zarr.create_array(
        str(tmp_path / "out.zarr"), shape=shape, chunks=(8, 16, 16), shards=(16, 64, 64), dtype="u2"
    )
    image = RNG.integers(0, 60_000, shape).astype(np.uint16)
    predict(nn.Identity(), image, "ZYX", out, normalization=UNIT, block=(10, 30, 30))
    assert np.array_equal(out[...], image)


@pytest.mark.parametrize("count", [0, 3])
def test_what_goes_wrong_in_writing_is_raised(count):
    class Full(np.ndarray):
        left = count

        def __setitem__(self, key, value):
            if Full.left == 0:
                raise OSError("no space left on device")
            Full.left -= 1

    image = np.ones((4, 64, 64), np.float32)
    with pytest.raises(OSError, match="no space"):
        predict(Copy(), image, "TYX", image.copy().view(Full), normalization=UNIT)


def test_cancelling_leaves_nothing(tmp_path):
    image = io.wrap(np.zeros((200, 200), np.float32), "YX")
    reports = []

    def cancel(done, total):
        reports.append((done, total))
        return done == 2

    for name in ("out.tif", "out.zarr"):
        with pytest.raises(Cancelled, match="after 2 of"), io.create(tmp_path / name, image) as out:
            predict(Copy(), image.data, "YX", out, normalization=UNIT, block=(50, 50), on_block=cancel)
    assert [done for done, _ in reports] == [1, 2, 1, 2]
    assert not list(tmp_path.iterdir())


def test_nan_and_infinite_pixels_pass_through_and_spoil_nothing():
    image = RNG.normal(size=(60, 300)).astype(np.float32)
    image[5, 7], image[20:22, 280], image[40, 40] = np.nan, np.inf, -np.inf
    out = np.zeros_like(image)
    done = predict(Copy(), image, "YX", out, normalization=None)
    assert done.invalid == 4
    np.testing.assert_allclose(out, image, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 8, 12), (1, 1, 4, 8, 8)])
def test_tta_averages_a_network_that_knows_left_from_right(shape):
    class Shift(nn.Module):
        def forward(self, x):
            return x.roll(1, -1)

    x = torch.randn(shape)
    neighbors = sum(x.roll(shift, axis) for shift in (1, -1) for axis in (-1, -2)) / 4
    torch.testing.assert_close(forward(Shift(), x, True), neighbors)
    torch.testing.assert_close(forward(Copy(), x, True), x)
