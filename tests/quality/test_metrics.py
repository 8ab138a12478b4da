"""PSNR and SSIM: against closed forms and scikit-image, and on awkward input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from noise2same.errors import InputError
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import evaluate, psnr, psnr_affine, psnr_minmax, ssim


@pytest.fixture
def camera() -> np.ndarray:
    return data.camera()[::2, ::2]


@pytest.fixture
def noisy(camera: np.ndarray) -> np.ndarray:
    return gaussian(camera, 25, np.random.default_rng(0))


def test_psnr_of_gaussian_noise_is_its_closed_form(camera: np.ndarray, noisy: np.ndarray) -> None:
    assert psnr(camera, noisy) == pytest.approx(20 * np.log10(255 / 25), abs=0.1)
    assert psnr(camera, noisy) == pytest.approx(
        peak_signal_noise_ratio(camera.astype(float), noisy.astype(float), data_range=255)
    )


def test_equal_images_are_perfect(camera: np.ndarray) -> None:
    scores = evaluate(prediction=camera, truth=camera)
    assert scores["psnr"] == scores["psnr_affine"] == np.inf
    assert scores["ssim"] == pytest.approx(1)


def test_data_range_is_255_for_uint8_and_the_span_of_the_truth_otherwise(camera: np.ndarray) -> None:
    truth = camera // 2
    assert psnr(truth, truth + 1.0) == pytest.approx(20 * np.log10(255))
    for dtype in (np.uint16, np.int16, np.float32):
        assert psnr(truth.astype(dtype), truth + 1.0) == pytest.approx(20 * np.log10(np.ptp(truth)))
    assert psnr(truth, truth + 1.0, data_range=10) == pytest.approx(20)


def test_unsigned_subtraction_does_not_wrap(camera: np.ndarray) -> None:
    assert psnr(np.full((8, 8), 3, np.uint8), np.full((8, 8), 4, np.uint8)) == pytest.approx(20 * np.log10(255))


def test_affine_fit_undoes_gain_and_offset(camera: np.ndarray, noisy: np.ndarray) -> None:
    assert psnr_affine(prediction=camera * 0.01 - 3, truth=camera) > 200
    fitted = psnr_affine(prediction=noisy, truth=camera)
    assert psnr_affine(prediction=7 * noisy + 1000, truth=camera) == pytest.approx(fitted, abs=1e-3)
    assert fitted >= psnr(camera, noisy)


def test_affine_fit_of_a_constant_is_the_mean_of_the_truth(camera: np.ndarray) -> None:
    fitted = psnr_affine(prediction=np.zeros(camera.shape), truth=camera)
    assert fitted == pytest.approx(20 * np.log10(255 / camera.std()))


def test_minmax_stretches_to_the_documented_ends() -> None:
    narrow = np.linspace(50, 100, 64).reshape(8, 8)
    bytes_ = np.linspace(0, 255, 64).round().astype(np.uint8).reshape(8, 8)
    assert psnr_minmax(prediction=narrow, truth=bytes_) > 50
    assert psnr_minmax(prediction=narrow, truth=narrow + 7) > 200
    assert psnr_minmax(prediction=narrow / 3, truth=narrow, data_range=255) == pytest.approx(
        psnr(narrow, bytes_, data_range=255), abs=0.1
    )


def test_nan_pixels_are_left_out(camera: np.ndarray, noisy: np.ndarray) -> None:
    truth, prediction = camera.astype(np.float32), noisy.copy()
    truth[:10] = np.nan
    prediction[:, :5] = np.inf
    prediction[20, 20] = np.nan
    cropped = evaluate(prediction=noisy[10:, 5:], truth=camera[10:, 5:])
    holes = evaluate(prediction=prediction, truth=truth, data_range=255)
    for name in cropped:
        assert holes[name] == pytest.approx(cropped[name], rel=1e-3), name
    kept = np.isfinite(truth) & np.isfinite(prediction)
    assert psnr(truth, prediction, data_range=255) == pytest.approx(psnr(camera[kept], noisy[kept]))


def test_ssim_agrees_with_scikit_image_in_2d_colour_and_3d(camera: np.ndarray, noisy: np.ndarray) -> None:
    assert ssim(camera, noisy) == pytest.approx(
        structural_similarity(camera.astype(float), noisy.astype(float), data_range=255)
    )
    rng = np.random.default_rng(0)
    colour = data.astronaut()[::4, ::4]
    blurred = gaussian(colour, 20, rng)
    assert ssim(colour, blurred, channel_axis=-1) == pytest.approx(
        structural_similarity(colour.astype(float), blurred.astype(float), data_range=255, channel_axis=-1)
    )
    assert evaluate(prediction=blurred, truth=colour)["ssim"] == pytest.approx(ssim(colour, blurred, channel_axis=2))
    volume = rng.random((9, 20, 20))
    other = volume + 0.1 * rng.random(volume.shape)
    assert ssim(volume, other, data_range=1) == pytest.approx(structural_similarity(volume, other, data_range=1))


@pytest.mark.parametrize("shape", [(3, 40), (4, 5, 6), (6, 6)])
def test_ssim_window_shrinks_for_small_images(shape: tuple[int, ...]) -> None:
    truth = np.random.default_rng(0).random(shape)
    assert ssim(truth, truth) == pytest.approx(1)


def test_ssim_is_unknown_for_lines_and_planewise_for_thin_volumes(camera: np.ndarray, noisy: np.ndarray) -> None:
    assert np.isnan(ssim(camera[:2], noisy[:2]))
    thin = evaluate(prediction=np.stack([noisy, noisy]), truth=np.stack([camera, camera]), axes="ZYX")
    assert thin["ssim"] == pytest.approx(ssim(camera, noisy))


def test_evaluate_averages_over_samples_whatever_the_axes_order(camera: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    weak, strong = gaussian(camera, 5, rng), gaussian(camera, 50, rng)
    truth, prediction = np.stack([camera, camera], -1), np.stack([weak, strong], -1)
    both = evaluate(prediction=prediction, truth=truth, axes="YXT")
    apart = [evaluate(prediction=image, truth=camera) for image in (weak, strong)]
    for name in both:
        assert both[name] == pytest.approx((apart[0][name] + apart[1][name]) / 2), name


@pytest.mark.parametrize(
    ("truth", "prediction", "message"),
    [
        (np.zeros((8, 8)), np.zeros((8, 9)), "same"),
        (np.ones((8, 8)), np.zeros((8, 8)), "data_range"),
        (np.full((8, 8), np.nan), np.zeros((8, 8)), "finite"),
        (np.zeros((0, 8)), np.zeros((0, 8)), "nothing to compare"),
        (np.zeros((5, 8, 8), np.uint8), np.zeros((5, 8, 8)), "axes"),
    ],
)
def test_bad_input_is_said_in_a_sentence(truth: np.ndarray, prediction: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(prediction=prediction, truth=truth)


@pytest.mark.parametrize("measure", [evaluate, psnr_affine, psnr_minmax])
def test_images_that_must_not_be_swapped_are_given_by_name(measure, camera: np.ndarray, noisy: np.ndarray) -> None:
    with pytest.raises(TypeError, match=rf"{measure.__name__}\(prediction=..., truth=...\)"):
        measure(camera, noisy)
    with pytest.raises(TypeError):
        measure(camera, truth=noisy)
    measure(prediction=noisy, truth=camera)


def test_the_command_line_takes_the_prediction_first(run, camera: np.ndarray, tmp_path: Path) -> None:
    """As `evaluate(prediction=..., truth=...)`; measures with a fit differ if the two are swapped (U12)."""
    blurred = 0.5 * gaussian_filter(camera.astype(np.float32), 3)
    np.save(tmp_path / "ours.npy", blurred)
    np.save(tmp_path / "truth.npy", camera.astype(np.float32))
    code, out, _ = run("evaluate", tmp_path / "ours.npy", tmp_path / "truth.npy", "--range", 255, "--json")
    assert code == 0
    wanted = evaluate(prediction=blurred, truth=camera, data_range=255)
    assert json.loads(out)["mean"] == pytest.approx(wanted, abs=1e-3)
    swapped = evaluate(prediction=camera, truth=blurred, data_range=255)
    assert abs(swapped["psnr_affine"] - wanted["psnr_affine"]) > 1
