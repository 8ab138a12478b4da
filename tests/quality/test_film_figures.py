"""Films: their figures against the truth, and the check that needs none."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import ndimage

from noise2same import io
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.assess import assess
from noise2same.quality.checks import CHANGES
from noise2same.quality.film import liveliest, liveliness
from noise2same.quality.film_metrics import evaluate_film

LENGTH, SIDE = 200, 96
CELLS = ((20, 24), (48, 60), (70, 30), (30, 75), (76, 76))


def blinking(seed: int = 0) -> np.ndarray:
    """Cells on a smooth background that light up in a frame and fade over some ten."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE]
    film = np.full((LENGTH, SIDE, SIDE), 100.0) + 5 * ndimage.gaussian_filter(rng.normal(size=(SIDE, SIDE)), 8) / 0.035
    for row, column in CELLS:
        spikes = rng.random(LENGTH) < 0.04
        trace = np.convolve(spikes, np.exp(-np.arange(60) / 8))[:LENGTH]
        film += 60 * trace[:, None, None] * np.exp(-((y - row) ** 2 + (x - column) ** 2) / 18)
    return film.astype(np.float32)


def averaged(film: np.ndarray, frames: int) -> np.ndarray:
    return ndimage.uniform_filter1d(film, frames, axis=0, mode="nearest")


def figures(prediction: np.ndarray, truth: np.ndarray, axes: str = "TYX") -> dict[str, float]:
    return evaluate_film(prediction=prediction, truth=truth, axes=axes)


def test_signal_to_noise_ratios_are_those_of_the_challenge():
    y = blinking()
    f = gaussian(y, 10.0, np.random.default_rng(1))
    found = figures(f, y)
    frames = [
        10 * np.log10((a.astype(float) ** 2).sum() / ((a - b).astype(float) ** 2).sum())
        for a, b in zip(y, f, strict=True)
    ]
    assert found["spatial_snr"] == pytest.approx(np.mean(frames))
    turned = figures(np.swapaxes(f, 0, 2), np.swapaxes(y, 0, 2), "XYT")
    assert turned == pytest.approx(found)
    assert found["stsnr"] == pytest.approx((found["spatial_snr"] + found["temporal_snr"]) / 2)
    assert figures(y, y)["stsnr"] == np.inf


def test_amplitudes_and_delays_of_transients():
    y = blinking()
    mean = y.mean(axis=0)
    assert figures(y, y)["kept_amplitude"] == pytest.approx(1)
    assert figures(y, y)["onset_delay"] == pytest.approx(0)
    assert figures(mean + 0.8 * (y - mean), y)["kept_amplitude"] == pytest.approx(0.8, abs=1e-3)
    noisy = figures(gaussian(y, 20.0, np.random.default_rng(2)), y)
    assert noisy["kept_amplitude"] == pytest.approx(1, abs=0.02) and abs(noisy["onset_delay"]) < 0.05
    assert figures(averaged(y, 15), y)["kept_amplitude"] < 0.6
    for delay in (1, 3):
        late = np.concatenate([y[:1].repeat(delay, 0), y[:-delay]])
        assert figures(late, y)["onset_delay"] == pytest.approx(delay, abs=0.05)
    assert figures((y + np.concatenate([y[:1], y[:-1]])) / 2, y)["onset_delay"] == pytest.approx(0.5, abs=0.1)


def test_a_still_film_has_no_transients():
    still = np.broadcast_to(blinking()[0], (20, SIDE, SIDE))
    found = figures(still + 1, still)
    assert np.isnan(found["kept_amplitude"]) and np.isnan(found["onset_delay"]) and found["stsnr"] > 30


def test_evaluate_prints_the_figures_of_films(run, tmp_path):
    y = blinking()[:40]
    for name, film in (("truth", y), ("clean", averaged(y, 3))):
        np.save(tmp_path / f"{name}.npy", film)
    files = (tmp_path / "clean.npy", tmp_path / "truth.npy", "--axes", "TYX")
    code, out, said = run("evaluate", *files)
    assert code == 0, said
    assert all(word in out for word in ("psnr", "stsnr", "kept amplitude", "frames"))
    code, out, _ = run("evaluate", *files, "--json")
    row = json.loads(out)["images"]["clean.npy"]
    assert {"psnr", "ssim", "stsnr", "spatial_snr", "temporal_snr", "kept_amplitude", "onset_delay"} <= set(row)
    code, out, _ = run("evaluate", *files[:2], "--axes", "ZYX", "--json")
    assert "stsnr" not in json.loads(out)["mean"]


def test_the_liveliest_places_are_found_below_the_noise():
    x = gaussian(blinking(), 60.0, np.random.default_rng(3))
    x[:, 10:14, 50:54] *= 3  # noisier, not livelier
    found = liveliest(liveliness(x), 5)
    assert all(min(np.hypot(y - row, x - column) for row, column in CELLS) < 6 for y, x in found)


@pytest.mark.parametrize("photons", [False, True])
def test_smeared_transients_are_seen_without_the_truth(photons):
    y = blinking()
    rng = np.random.default_rng(4)
    x = poisson_gaussian(y, 4.0, 10.0, rng) if photons else gaussian(y, 25.0, rng)
    spatial = ndimage.gaussian_filter(x - y, (0, 2, 2))  # noise that is left
    results = {"truth": y, "noise is left": y + 0.5 * spatial, "mean of 15 frames": averaged(x, 15), "mean": x.mean(0)}
    words = {}
    for name, f in results.items():
        verdict = assess(io.wrap(x, "TYX"), np.broadcast_to(f, x.shape).astype(np.float32)).verdict
        check = next(check for check in verdict.checks if check.name == CHANGES.name)
        words[name] = check.word
        assert (check.sentence in verdict.reason) == (check.word != "trust")
    passed = [name for name, word in words.items() if word == "trust"]
    assert passed == ["truth", "noise is left"], words


@pytest.mark.parametrize(
    "y", [blinking()[:6], np.broadcast_to(blinking()[0], (40, SIDE, SIDE))], ids=["short", "still"]
)
def test_where_nothing_can_be_told_it_says_so(y):
    checks = assess(io.wrap(gaussian(y, 25.0, np.random.default_rng(5)), "TYX"), np.array(y)).verdict.checks
    found = next(check for check in checks if check.name == CHANGES.name)
    assert found.word == "trust" and found.sentence.startswith("Too little")
