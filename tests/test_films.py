"""Films: frames help each other where they show the same, and only there."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tifffile
import zarr
from skimage import data

import noise2same as n2s
from noise2same.data.film import Frames, along_time, lost_frames
from noise2same.io import Image, wrap
from noise2same.noise.synthetic import gaussian
from noise2same.prediction.predict import predict
from noise2same.quality.metrics import psnr

PICTURE = data.camera()[::4, ::4].astype(np.float32)
STILL = np.stack([PICTURE] * 16)
MOVING = np.stack([np.roll(PICTURE, 2 * frame, 1) for frame in range(16)])
UNRELATED = np.stack([np.roll(np.rot90(PICTURE, frame), 29 * frame, 0) for frame in range(16)])


def noisy(film: np.ndarray, sigma: float = 40) -> np.ndarray:
    return gaussian(film, sigma, np.random.default_rng(0))


def quality(film: np.ndarray, result: np.ndarray) -> float:
    return psnr(film, result, data_range=255)


@pytest.mark.parametrize(("film", "helps"), [(STILL, True), (MOVING, True), (UNRELATED, False)])
def test_the_plan_measures_whether_time_helps(film, helps):
    plan = n2s.plan(noisy(film), "TYX")
    assert plan.time.value == (15 if helps else 0)
    assert ("of a frame's error is left" if helps else "tell little") in plan.time.reason


def test_the_plan_sees_frames_that_share_their_noise():
    once = noisy(STILL[:9])
    interpolated = np.repeat(once, 4, axis=0)
    assert n2s.plan(interpolated, "TYX").time.value == 0
    assert "share their noise" in n2s.plan(interpolated, "TYX").time.reason
    assert "share their noise" in n2s.plan(np.stack([once[0]] * 8), "TYX").time.reason


def test_unrelated_frames_are_denoised_frame_by_frame():
    x = noisy(UNRELATED)
    results = [n2s.denoise(x, "TYX", steps=5, time=time, progress=False) for time in ("auto", 0)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("film", "gain"), [(STILL, 3.0), (MOVING, 1.5)])
@pytest.mark.parametrize("budget", [{"minutes": 0}, {"steps": 60}])
def test_a_film_is_better_than_its_frames(film, gain, budget):
    x = noisy(film)
    alone, together = (n2s.denoise(x, "TYX", time=time, progress=False, **budget) for time in (0, "auto"))
    assert together.shape == x.shape and together.dtype == x.dtype
    assert quality(film, together) > quality(film, alone) + gain


def test_what_flashes_is_kept():
    film = STILL.copy()
    film[8, 40:60, 40:60] += 120
    result = n2s.denoise(noisy(film, 20), "TYX", steps=60, progress=False)
    traces = [one[:, 42:58, 42:58].mean((1, 2)) for one in (film, result)]
    before, after = (trace[8] - np.delete(trace, 8).mean() for trace in traces)
    assert int(traces[1].argmax()) == 8 and after > 0.9 * before


@pytest.mark.parametrize(
    ("axes", "shape"),
    [("TCYX", (9, 2, 32, 32)), ("TZYX", (9, 3, 32, 32)), ("TYX", (2, 32, 32)), ("TCZYX", (3, 2, 2, 32, 32))],
)
def test_any_film_and_a_model_file(tmp_path, axes, shape):
    x = noisy(np.broadcast_to(PICTURE[:32, :32], shape))
    model = n2s.train(x, axes, steps=2, time=3, progress=False)
    loaded = n2s.Denoiser.load(model.save(tmp_path / "film.safetensors"))
    assert model.frames > 0 and loaded.denoise(x, axes).shape == shape
    np.testing.assert_allclose(loaded.denoise(x, axes), model.denoise(x, axes), atol=1e-3)
    again = n2s.train(x, axes, progress=False, plan=model.plan)
    np.testing.assert_allclose(again.denoise(x, axes), model.denoise(x, axes), atol=1e-3)


def test_each_channel_is_told_of_its_own_time():
    still, moving = noisy(STILL), noisy(UNRELATED)
    both = n2s.train(np.stack([still, moving], 1), "TCYX", steps=1, time=8, progress=False)
    assert both.network is not None
    weights = [float(network.weights[len(network.weights) // 2]) for network in both.network.networks]
    assert weights[0] < 0.3 < 0.7 < weights[1]


def test_one_frame_is_a_picture():
    result = n2s.denoise(noisy(STILL[:1]), "TYX", minutes=0)
    assert result.shape == (1, 128, 128) and quality(STILL[:1], result) > 20


def test_blocks_along_time_and_space_leave_no_seams(tmp_path):
    x = noisy(MOVING)
    model = n2s.Denoiser(n2s.Config(minutes=0, blend=False)).use_pretrained(x, "TYX")
    whole = model.denoise(x, "TYX", tta=False)
    store = zarr.create_array(tmp_path / "film.zarr", data=x, chunks=(5, 40, 40))
    store.attrs["axes"] = "TYX"
    place = model.denoise(tmp_path / "film.zarr", "TYX", output=tmp_path / "clean.zarr", tta=False)
    np.testing.assert_allclose(n2s.io.read(place).data[...], whole, atol=0.02)


@pytest.mark.parametrize("axes", ["TYX", "TCYX"])
def test_small_blocks_blend_as_the_whole_film(axes):
    x = noisy(STILL)[:, :64, :64]
    x = x if axes == "TYX" else np.stack([x, x[:, ::-1]], 1)
    model = n2s.Denoiser(n2s.Config(minutes=0, time=2)).use_pretrained(x, axes)
    tuned = model.tuned_to(wrap(x, axes))
    whole, cut = (np.empty_like(x) for _ in range(2))
    assert tuned.blend is not None
    for out, block in ((whole, None), (cut, (3, 32, 32))):
        work = {"normalization": None, "blend": tuned.blend, "tta": True, "block": block}
        predict(model.ready(tuned.device), x, axes.replace("T", "Z"), out, **work)
    np.testing.assert_allclose(cut, whole, atol=0.02)


# Frames without a picture


def spoiled(film: np.ndarray) -> np.ndarray:
    x = noisy(film).clip(1, 255).round().astype(np.uint8)
    x[3] = 0
    x[[8, 9]] = 255
    return x


def test_lost_frames_are_found():
    assert lost_frames(wrap(spoiled(STILL), "TYX")) == [3, 8, 9]
    assert lost_frames(wrap(np.zeros((4, 32, 32)), "TYX")) == []  # it shows nothing at all
    film = noisy(STILL)
    film[5] = np.nan
    assert lost_frames(wrap(film, "TYX")) == [5]
    film[6, 32:96, 32:96] = 0  # a black middle is a picture
    assert lost_frames(wrap(film, "TYX")) == [5]


def test_lost_frames_read_as_nan_whatever_is_asked_for():
    film = Frames(spoiled(STILL), 0, [3, 8, 9], None)
    assert np.isnan(film[2:5][1]).all() and np.isfinite(film[2:5][0]).all()
    assert np.isfinite(film[0:2]).all() and film[:, 5].shape == (16, 128)
    assert np.isnan(film[...][3]).all()


@pytest.mark.parametrize("budget", [{"minutes": 0}, {"steps": 20}])
@pytest.mark.filterwarnings("ignore:.*left out of training")
def test_lost_frames_pass_through_and_spoil_no_others(budget):
    x = spoiled(STILL)
    with pytest.warns(UserWarning, match=re.escape("3 frames without a picture (3, 8, 9) passed through as they are")):
        result = n2s.denoise(x, "TYX", progress=False, **budget)
    assert (result[3] == 0).all() and (result[[8, 9]] == 255).all()
    there = np.setdiff1d(np.arange(16), [3, 8, 9])
    errors = [quality(STILL[t], result[t].astype(np.float32)) for t in there]
    assert min(errors) > np.median(errors) - 1.5


# Flicker and bleaching


@pytest.mark.parametrize("axes", ["TYX", "TCYX"])
def test_flicker_is_taken_out_and_comes_back(axes):
    level = 1 + 0.05 * np.random.default_rng(1).standard_normal(16)
    film = (STILL * level[:, None, None]).astype(np.float32)
    x = noisy(film)
    x, film = (x, film) if axes == "TYX" else (np.stack([x, 0.5 * x], 1), np.stack([film, 0.5 * film], 1))
    seen = along_time(wrap(x, axes)).data
    assert isinstance(seen, Frames)
    assert np.ptp(seen[...].mean((-2, -1)), axis=0).max() < 0.5 * np.ptp(x.mean((-2, -1)), axis=0).max()
    result = n2s.denoise(x, axes, minutes=0, strength=0.9)
    before, after = (one.mean((-2, -1)) for one in (film, result))
    np.testing.assert_allclose(after, before, atol=2)
    steady = n2s.denoise(x, axes, minutes=0, time=0)
    assert quality(film, result) > quality(film, steady) + 1


def test_a_flash_in_one_place_is_no_flicker():
    film = noisy(STILL)
    film[8, 40:60, 40:60] += 120
    assert along_time(wrap(film, "TYX")).data is film


# Films on disk


def test_a_film_on_disk_is_looked_through_once_while_it_is_open(tmp_path):
    store = zarr.create_array(tmp_path / "film.zarr", data=spoiled(STILL), chunks=(4, 64, 64))
    store.attrs["axes"] = "TYX"
    opened = n2s.io.read(tmp_path / "film.zarr")
    assert lost_frames(opened) == [3, 8, 9]
    store[3] = store[4]
    assert lost_frames(opened) == [3, 8, 9]  # as it was when it was opened
    assert lost_frames(n2s.io.read(tmp_path / "film.zarr")) == [8, 9]


class Store:
    """Pixels in chunks, each of which is counted when it is read."""

    def __init__(self, pixels: np.ndarray, chunks: tuple[int, ...]) -> None:
        self.pixels, self.chunks, self.read = pixels, chunks, np.zeros(pixels.shape, int)
        self.shape, self.dtype, self.ndim = pixels.shape, pixels.dtype, pixels.ndim

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        ends = [part.indices(size)[:2] for part, size in zip(key, self.shape, strict=True)]
        wide = [slice(a // c, -(-b // c)) for (a, b), c in zip(ends, self.chunks, strict=True)]
        self.read[tuple(wide)] += 1
        return self.pixels[key]


@pytest.mark.parametrize(("chunks", "share"), [((8, 32, 32), 4 / 16), ((16, 64, 128), 1), ((5, 128, 128), 1)])
def test_a_look_at_a_film_reads_few_chunks_and_each_once(chunks, share):
    store = Store(noisy(STILL), chunks)
    along_time(Image(store, "TYX"))
    there = store.read[tuple(slice(-(-size // chunk)) for size, chunk in zip(store.shape, chunks, strict=True))]
    assert there.max() == 1 and there.mean() == share


# From the command line


def test_a_film_from_the_command_line(tmp_path, run):
    film = noisy(STILL)[:, :64, :64].clip(0).astype(np.uint16)
    tifffile.imwrite(tmp_path / "film.tif", film, imagej=True, metadata={"axes": "TYX", "finterval": 0.5})
    task = ("denoise", tmp_path / "film.tif", "-o", tmp_path / "clean.tif", "--report", tmp_path / "page.html")
    code, _, said = run(*task, "--steps", 20)
    assert code == 0, said
    assert "Film: each frame with 15 before and after it, because" in said
    clean = n2s.io.read(tmp_path / "clean.tif")
    assert clean.shape == (16, 64, 64) and clean.axes == "TYX" and clean.dtype == np.uint16
    assert clean.pixel_size["T"] == 0.5
    assert quality(STILL[:, :64, :64], clean.data[...].astype(np.float32)) > 25


def test_time_can_be_left_out(tmp_path, run):
    np.save(tmp_path / "film.npy", noisy(STILL))
    code, said, _ = run("plan", tmp_path / "film.npy", "--axes", "TYX", "--time", 0)
    assert code == 0 and "frames to either side" in said
    code, _, said = run("plan", tmp_path / "film.npy", "--axes", "TYX", "--time", -1)
    assert code != 0 and "time" in said
