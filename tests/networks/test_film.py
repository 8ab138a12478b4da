"""Films: frames help each other where they show the same, and only there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage
from skimage import data

import noise2same as n2s
from noise2same.networks.film import Film, neighbors
from noise2same.networks.pretrained import load_pretrained
from noise2same.networks.unet import UNet
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

PICTURE = data.camera()[::4, ::4].astype(np.float32)
STILL = np.stack([PICTURE] * 16)
MOVING = np.stack([np.roll(PICTURE, frame, 1) for frame in range(16)])
UNRELATED = np.stack([np.roll(np.rot90(PICTURE, frame), 29 * frame, 0) for frame in range(16)])


def noisy(film: np.ndarray, sigma: float = 40) -> np.ndarray:
    return gaussian(film, sigma, np.random.default_rng(0))


def test_means_are_of_the_frames_before_and_after():
    film = torch.arange(10.0).reshape(1, 1, 10, 1, 1)
    around = neighbors(film, 2).flatten(2)[0]
    assert around[:, 5].tolist() == [2.5, 4.0, 5.0, 6.0, 7.5, 5.0]
    assert around[:, 0].tolist() == [0.0, 0.0, 0.0, 1.0, 2.5, 1.5]  # nothing was before
    assert torch.equal(neighbors(film, 2, slice(3, 6)), neighbors(film, 2)[:, :, :, 3:6])


def test_it_begins_as_the_network_for_pictures_and_frames_can_be_predicted_one_by_one():
    film = Film(UNet(2, 7, outputs=1, features=16, levels=3, block="plain"), 2).eval()
    flat = UNet(2, 1, features=16, levels=3, block="plain").eval()
    assert load_pretrained(film) and load_pretrained(flat)
    x = torch.randn(1, 1, 5, 16, 16)
    with torch.inference_mode():
        every = film(x)
        torch.testing.assert_close(every[:, :, 2], flat(x[:, :, 2]), rtol=0, atol=1e-5)
        one = film(x, slice(3, 4))
    torch.testing.assert_close(one[:, :, 3], every[:, :, 3], rtol=0, atol=1e-5)
    assert torch.equal(one[:, :, :3], x[:, :, :3])


@pytest.mark.parametrize(("film", "helps"), [(STILL, True), (MOVING, True), (UNRELATED, False)])
def test_the_plan_measures_whether_time_helps(film, helps):
    plan = n2s.plan(noisy(film), "TYX", time="auto")
    assert (plan.time.value == 15) == helps and (plan.time.value == 0) != helps
    assert "of a frame's error is left" in plan.time.reason if helps else "tell little" in plan.time.reason


@pytest.mark.parametrize(("film", "gain"), [(STILL, 3.0), (MOVING, 0.5)])
def test_a_film_is_better_than_its_frames(film, gain):
    x = noisy(film)
    alone, together = (n2s.denoise(x, "TYX", steps=60, time=time, progress=False) for time in (0, 7))
    assert together.shape == x.shape and together.dtype == x.dtype
    assert psnr(film, together, data_range=255) > psnr(film, alone, data_range=255) + gain


def test_what_flashes_is_kept():
    film = STILL.copy()
    film[8, 40:60, 40:60] += 120
    result = n2s.denoise(noisy(film, 20), "TYX", steps=60, time=7, progress=False)
    traces = [one[:, 42:58, 42:58].mean((1, 2)) for one in (film, result)]
    before, after = (trace[8] - np.delete(trace, 8).mean() for trace in traces)
    assert int(traces[1].argmax()) == 8 and after > 0.8 * before


@pytest.mark.parametrize(("axes", "shape"), [("TCYX", (9, 2, 32, 32)), ("TZYX", (9, 3, 32, 32)), ("TYX", (2, 32, 32))])
def test_any_film_and_a_model_file(tmp_path, axes, shape):
    x = noisy(np.broadcast_to(ndimage.zoom(PICTURE[:32, :32], 1), shape).astype(np.float32))
    model = n2s.train(x, axes, steps=2, features=8, time=3, progress=False)
    loaded = n2s.Denoiser.load(model.save(tmp_path / "film.safetensors"))
    assert loaded.denoise(x, axes).shape == shape
    np.testing.assert_allclose(loaded.denoise(x, axes), model.denoise(x, axes), atol=1e-4)


def test_a_film_from_the_command_line(tmp_path, run):
    np.save(tmp_path / "film.npy", noisy(STILL)[:, :64, :64].astype(np.float32))
    task = ("denoise", tmp_path / "film.npy", "-o", tmp_path / "clean.npy", "--report", tmp_path / "page.html")
    code, _, said = run(*task, "--axes", "TYX", "--time", "auto", "--steps", 20)
    assert code == 0, said
    assert np.load(tmp_path / "clean.npy").shape == (16, 64, 64)
