"""The noise of films: by the changes between frames, and noise that frames share."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tifffile
from scipy import ndimage
from skimage import data

import noise2same as n2s
from noise2same import io
from noise2same.noise.describe import paragraph
from noise2same.noise.diagnose import diagnose
from noise2same.noise.frames import along_time, read_runs
from noise2same.noise.synthetic import gaussian, poisson_gaussian

TEXTURE = data.gravel()[:160, :160].astype(np.float32)
STILL = np.stack([TEXTURE] * 20)
MOVING = np.stack([np.roll(data.camera()[::2, ::2], 3 * t, 1)[:160, :160] for t in range(20)]).astype(np.float32)


def found(film: np.ndarray, axes: str = "TYX", *, with_frames: bool = True):
    image = io.wrap(film, axes)
    slabs = [frame[None, None] if frame.ndim == 2 else frame[None] for frame in film]
    return diagnose(slabs, read_runs([image]) if with_frames else ())


@pytest.mark.parametrize("sigma", [2.0, 5.0, 25.0])
def test_texture_that_stays_does_not_count_as_noise(sigma):
    film = gaussian(STILL, sigma, np.random.default_rng(0))
    by_frames, alone = found(film), found(film, with_frames=False)
    assert by_frames.from_frames and not alone.from_frames
    assert by_frames.sigma == pytest.approx(sigma, rel=0.02) and by_frames.certain == 1
    assert abs(by_frames.sigma - sigma) < abs(alone.sigma - sigma)
    assert "from frame to frame" in paragraph(by_frames) and "from frame to frame" not in paragraph(alone)


def test_the_gain_of_a_detector_is_found():
    film = poisson_gaussian(STILL, 3.0, 8.0, np.random.default_rng(1))
    noise = found(film)
    assert noise.from_frames and noise.kind.startswith("poisson")
    assert noise.a == pytest.approx(3, rel=0.12) and noise.sigma**2 == pytest.approx(3 * STILL.mean() + 64, rel=0.02)


@pytest.mark.parametrize("film", [MOVING, np.stack([np.rot90(MOVING[0], k) for k in range(4)] * 5)])
def test_what_moves_makes_it_no_worse(film):
    noisy = gaussian(film, 10.0, np.random.default_rng(2))
    together, alone = found(noisy).sigma, found(noisy, with_frames=False).sigma
    assert together <= 1.01 * alone and together == pytest.approx(10, rel=0.06)


@pytest.mark.parametrize("film", [STILL, MOVING])
def test_noise_that_frames_share_is_found(film):
    noise = np.random.default_rng(3).normal(0, 20, film.shape)
    assert found(film + noise).noise.along_time == ()
    shared = found(film + ndimage.convolve1d(noise, [0.25, 0.5, 0.25], axis=0))
    assert shared.along_time == pytest.approx((0.667, 0.167), abs=0.06) and not shared.from_frames
    assert shared.noise.along_time == shared.along_time and "interpolated" in shared.advice


def test_short_and_broken_films_are_diagnosed_as_pictures():
    noisy = gaussian(STILL, 10.0, np.random.default_rng(4))
    assert along_time([noisy[:4]]) == ()
    one = found(noisy[:1])
    assert not one.from_frames and one.along_time == ()
    empty = noisy.copy()
    empty[3] = np.nan
    assert found(empty).sigma == pytest.approx(10, rel=0.1)
    assert found(np.ones((5, 64, 64), np.float32)).sigma == 0
    assert read_runs([io.wrap(noisy[0], "YX")]) == []


def test_channels_and_volumes_in_time():
    film = np.stack([gaussian(STILL, sigma, np.random.default_rng(5)) for sigma in (4.0, 12.0)], axis=1)
    assert found(film, "TCYX").noise.sigma == pytest.approx((4, 12), rel=0.03)
    (run,) = read_runs([io.wrap(np.repeat(film[:, :, None], 3, axis=2)[:, :, :, :64, :64], "TCZYX")])
    assert run.shape == (2, 20, 64, 64)


def test_diagnose_and_plan_know_it(run, tmp_path):
    film = gaussian(STILL, 5.0, np.random.default_rng(6))
    tifffile.imwrite(tmp_path / "film.tif", film, imagej=True, metadata={"axes": "TYX"})
    code, out, _ = run("diagnose", tmp_path / "film.tif", "--json")
    assert code == 0 and json.loads(out)["from_frames"] and json.loads(out)["sigma"] == pytest.approx(5, rel=0.02)
    smooth = ndimage.convolve1d(film, [0.25, 0.5, 0.25], axis=0)
    plan = n2s.plan(smooth, "TYX")
    assert len(plan.noise.value.along_time) >= 1
    assert type(plan).model_validate_json(plan.model_dump_json()).noise.value == plan.noise.value


@pytest.mark.parametrize("name", ["brightfield", "drosophila_13", "stuck_5", "twophoton_20"])
def test_real_films(data_dir, name):
    film = tifffile.imread(data_dir / "films" / f"{name}.tif")
    together, alone = found(film), found(film, with_frames=False)
    assert together.along_time == ()
    assert 0.8 * alone.sigma < together.sigma <= 1.01 * alone.sigma
