"""The kind of the noise, its correlation, and whether a model of it can be relied on, with and without the truth."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from scipy import ndimage
from skimage import data, io

from noise2same.noise.describe import paragraph
from noise2same.noise.diagnose import CONFIDENT, Diagnosis, diagnose
from noise2same.noise.synthetic import combined, gaussian, poisson_gaussian

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def of(image: Any) -> Diagnosis:
    """Diagnosis of one grey image, with warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return diagnose([np.asarray(image)[None, None]])


def smooth_noise(shape: tuple[int, ...], sigma: float, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Gaussian noise averaged over a box of pixels, of standard deviation sigma."""
    white = rng.standard_normal(shape)
    return sigma * ndimage.uniform_filter(white, size, mode="wrap") * np.sqrt(np.prod(size))


MODELS = {
    "gaussian": lambda clean, rng: gaussian(clean, 20, rng),
    "poisson": lambda clean, rng: poisson_gaussian(clean, 6, 0, rng),
    "poisson-gaussian": lambda clean, rng: poisson_gaussian(clean, 6, 20, rng),
}
FLAWS = {
    "impulse": lambda clean, rng: np.where(rng.random(clean.shape) < 0.02, 300, gaussian(clean, 8, rng)),
    "clipped": lambda clean, rng: np.clip(gaussian(clean, 40, rng), 20, 180),
    "quantised": lambda clean, rng: 30 * np.round(gaussian(clean, 12, rng) / 30),
}


@pytest.mark.parametrize("name", ["camera", "coins", "brick"])
@pytest.mark.parametrize("kind", MODELS)
def test_noise_that_a_model_describes_is_recognised_with_confidence(
    kind: str, name: str, rng: np.random.Generator
) -> None:
    found = of(MODELS[kind](getattr(data, name)(), rng))
    assert (found.kind, found.correlated) == (kind, False)
    assert found.confidence >= CONFIDENT
    assert all(abs(value) < 0.2 for lags in found.correlation.values() for value in lags)


@pytest.mark.parametrize("name", ["camera", "coins", "moon"])
@pytest.mark.parametrize("kind", FLAWS)
def test_noise_that_no_model_describes_is_recognised_and_not_relied_on(
    kind: str, name: str, rng: np.random.Generator
) -> None:
    found = of(FLAWS[kind](getattr(data, name)(), rng))
    assert found.kind == kind
    assert found.confidence < CONFIDENT


def test_dropped_and_mixed_pixels_are_impulses(rng: np.random.Generator) -> None:
    clean = data.camera()
    signed = gaussian(clean, 20, rng) - 100
    assert of(np.where(rng.random(clean.shape) < 0.3, 0, signed)).kind == "impulse"
    assert of(combined(clean, rng)).kind == "impulse"


def test_grey_values_of_8_bits_are_no_flaw(rng: np.random.Generator) -> None:
    found = of(np.clip(np.round(gaussian(40 + 0.6 * data.camera(), 5, rng)), 0, 255).astype(np.uint8))
    assert found.kind == "gaussian"
    assert found.confidence >= CONFIDENT
    assert 0.15 < found.evidence["step"] < 0.25


def test_single_photons_are_no_flaw(rng: np.random.Generator) -> None:
    counts = rng.poisson(data.camera() / 25).astype(np.uint16)
    found = of(counts)
    assert found.kind == "poisson"
    assert found.a == pytest.approx(1, rel=0.1)
    assert abs(found.b) < 0.2


def test_masked_background_is_no_flaw(rng: np.random.Generator) -> None:
    noisy = gaussian(data.camera(), 20, rng)
    noisy[:, :200] = 0
    assert of(noisy).kind == "gaussian"


@pytest.mark.parametrize("size", [(1, 3), (3, 1), (3, 3)])
@pytest.mark.parametrize("sigma", [8, 25])
def test_correlated_noise_is_found_along_its_axes(
    sigma: float, size: tuple[int, int], rng: np.random.Generator
) -> None:
    clean = data.camera()
    found = of(clean + smooth_noise(clean.shape, sigma, size, rng))
    assert found.correlated
    assert {axis: reach > 0 for axis, reach in found.extent.items()} == {"Y": size[0] > 1, "X": size[1] > 1}
    for axis, length in zip("YX", size, strict=True):
        if length > 1:
            assert found.correlation[axis][0] == pytest.approx(2 / 3, abs=0.15)
            assert found.extent[axis] == 2
    assert found.sigma == pytest.approx(sigma, rel=0.15)
    assert found.confidence < CONFIDENT
    assert found.shared() == tuple(found.correlation[axis][: found.extent[axis]] for axis in "YX")


@pytest.mark.parametrize("name", ["camera", "coins", "moon"])
def test_smooth_noise_is_found_beside_white_noise(name: str, rng: np.random.Generator) -> None:
    clean = getattr(data, name)().astype(np.float64)
    slow = ndimage.gaussian_filter(rng.standard_normal(clean.shape), 1.5, mode="wrap")
    assert of(clean + 25 * slow / slow.std()).correlated
    assert of(clean + 25 * slow / slow.std() + rng.normal(0, 12, clean.shape)).correlated


def test_texture_is_no_correlation_and_correlation_no_texture(data_dir: Path, rng: np.random.Generator) -> None:
    pictures = [io.imread(path) for path in sorted((data_dir / "bsd" / "BSD68").glob("*.png"))[::3]]
    white = [of(gaussian(picture, 10, rng)) for picture in pictures]
    assert sum(found.correlated for found in white) <= 1
    assert sum(found.confidence >= CONFIDENT for found in white) >= len(white) - 1
    assert white[0].shared() == ()
    for size in [(1, 3), (3, 3)]:
        assert all(of(picture + smooth_noise(picture.shape, 10, size, rng)).correlated for picture in pictures)


def test_each_axis_of_a_volume(rng: np.random.Generator) -> None:
    z, y, x = np.mgrid[:24, :96, :96]
    clean = 100 * np.exp(-(((z - 12) / 6) ** 2) - ((y - 40) / 14) ** 2 - ((x - 50) / 14) ** 2)
    independent = of(clean + rng.normal(0, 5, clean.shape))
    assert independent.extent == {"Z": 0, "Y": 0, "X": 0}
    assert independent.sigma == pytest.approx(5, rel=0.05)
    deep = of(clean + smooth_noise(clean.shape, 5, (3, 1, 1), rng))
    assert deep.extent == {"Z": 2, "Y": 0, "X": 0}


def test_which_noise_is_steady(rng: np.random.Generator) -> None:
    """Equally strong in dark and bright places, with a level that is sure."""
    picture = data.camera()[:256, :256]
    volume = np.stack([ndimage.gaussian_filter(data.camera()[:96, i : i + 96].astype(float), 2) for i in range(24)])
    for clean, size in [(picture, (1, 1)), (picture, (3, 3)), (volume, (1, 1, 1)), (volume, (1, 1, 3))]:
        found = of(clean + smooth_noise(clean.shape, 20, size, rng))
        assert (found.kind, found.steady, any(found.noise.a)) == ("gaussian", True, False)
    growing = of(data.camera() + np.sqrt(1 + data.camera() / 1100) * smooth_noise((512, 512), 20, (3, 3), rng))
    assert growing.kind == "gaussian" and growing.noise.correlated and any(growing.noise.a)
    assert not of(poisson_gaussian(picture, 8.0, 0.0, rng)).steady


def test_real_microscopes(data_dir: Path) -> None:
    for name in ["010_0", "015_1", "020_2"]:
        found = of(io.imread(data_dir / "w2s24" / "avg1" / f"{name}.png"))
        assert (found.kind, found.correlated) == ("poisson", False)
        assert found.confidence >= CONFIDENT
    raw = data_dir / "fmd48" / "raw"
    assert not any(of(io.imread(raw / f"{name}_1.png")).correlated for name in ["Confocal_FISH", "TwoPhoton_MICE"])
    for name in ["WideField_BPAE_B", "WideField_BPAE_G", "WideField_BPAE_R"]:
        found = of(io.imread(raw / f"{name}_1.png"))
        assert found.correlated
        assert found.correlation["X"][0] == pytest.approx(0.6, abs=0.1)


def test_stripes_are_correlated_along_them_only(data_dir: Path) -> None:
    found = of(tifffile.imread(data_dir / "real3d" / "noisy_5.tif"))
    assert found.extent["X"] == len(found.correlation["X"])
    assert found.extent["Y"] == found.extent["Z"] == 0


def test_level_follows_the_units_of_the_image(rng: np.random.Generator) -> None:
    noisy = poisson_gaussian(data.camera(), 6, 20, rng).astype(np.float64)
    found, scaled = of(noisy), of(10 * noisy + 1000)
    assert found.a == pytest.approx(6, rel=0.15)
    assert found.sigma**2 == pytest.approx(found.a * noisy.mean() + found.b)
    assert found.sigma_normalized == pytest.approx(found.sigma / noisy.std())
    assert scaled.sigma == pytest.approx(10 * found.sigma, rel=0.02)
    assert scaled.a == pytest.approx(10 * found.a, rel=0.02)
    assert scaled.sigma_normalized == pytest.approx(found.sigma_normalized, rel=0.02)


def test_channels_are_measured_one_by_one(rng: np.random.Generator) -> None:
    planes = [gaussian(data.camera(), sigma, rng) for sigma in (10, 20, 40)]
    found = diagnose([np.stack(planes)[None]])
    assert [channel["sigma"] for channel in found.channels] == pytest.approx([10, 20, 40], rel=0.05)
    assert found.sigma == pytest.approx(np.sqrt(np.mean([100, 400, 1600])), rel=0.05)
    assert found.kind == "gaussian"


def test_many_and_large_images_are_sampled(rng: np.random.Generator) -> None:
    large = gaussian(np.tile(data.camera(), (4, 4)), 20, rng)
    assert of(large).sigma == pytest.approx(20, rel=0.03)
    small = [gaussian(data.camera()[64 * i :][:64, 64 * j :][:, :64], 20, rng) for i in range(8) for j in range(8)]
    assert diagnose([part[None, None] for part in small]).sigma == pytest.approx(20, rel=0.05)


def test_nan_pixels_do_not_count(rng: np.random.Generator) -> None:
    noisy = gaussian(data.camera(), 20, rng)
    noisy[rng.random(noisy.shape) < 0.02] = np.nan
    noisy[100:200, 100:200] = np.inf
    found = of(noisy)
    assert (found.kind, found.correlated) == ("gaussian", False)
    assert found.sigma == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((64, 64)),
        np.full((64, 64), np.nan),
        np.full((64, 64), 7, np.uint8),
        np.random.default_rng(0).normal(size=(15, 200)),
        np.random.default_rng(0).normal(size=(3, 8, 8)),
    ],
)
def test_what_cannot_be_diagnosed_is_unknown(image: np.ndarray) -> None:
    found = of(image)
    assert (found.kind, found.confidence, found.correlated) == ("unknown", 0, False)
    assert paragraph(found).startswith("The noise could not be diagnosed.")


@pytest.mark.parametrize("shape", [(16, 16), (16, 300), (20, 33), (1, 16, 16), (2, 40, 40), (5, 17, 19)])
def test_small_images_are_diagnosed_without_much_confidence(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    found = of(rng.normal(100, 10, shape))
    assert found.sigma == pytest.approx(10, rel=0.35)
    assert not found.correlated


def test_command_tells_people_and_programs(tmp_path: Path, run: Run, rng: np.random.Generator) -> None:
    path, picture = tmp_path / "noisy.tif", tmp_path / "noise.png"
    tifffile.imwrite(path, poisson_gaussian(data.camera(), 6, 0, rng))
    code, out, _ = run("diagnose", path, "--picture", picture)
    assert code == 0
    assert "photon" in out
    assert "of the contrast" in out
    drawn = io.imread(picture)
    assert min(drawn.shape[:2]) > 300
    assert drawn.std() > 10
    code, out, _ = run("diagnose", path, "--json")
    facts = json.loads(out)
    assert (code, facts["kind"], facts["correlated"]) == (0, "poisson", False)
    assert facts["a"] == pytest.approx(6, rel=0.1)
    assert len(facts["correlation"]["X"]) == 5
    wanted = {"sigma", "sigma_normalized", "b", "confidence", "advice", "extent", "evidence", "images"}
    assert wanted <= facts.keys()


def test_command_refuses_what_it_cannot_do(tmp_path: Path, run: Run) -> None:
    grey, colour = tmp_path / "grey.png", tmp_path / "colour.png"
    io.imsave(grey, data.camera())
    io.imsave(colour, data.chelsea())
    for arguments, message in [
        ((grey, "--picture", tmp_path / "x.svg"), "must end in .png"),
        ((grey, "--picture", grey), "would overwrite the input"),
        ((grey, "--picture", tmp_path / "none" / "x.png"), "is not a folder"),
        ((grey, colour), "differ in dimensions or channels"),
        ((tmp_path / "missing.tif",), "missing.tif"),
    ]:
        code, out, err = run("diagnose", *arguments)
        assert (code, out) == (2, "")
        assert message in " ".join(err.split())


def test_the_noise_model_has_a_value_for_each_channel(rng: np.random.Generator) -> None:
    clean = data.camera()[:256, :256].astype(np.float32)
    image = np.stack([clean + rng.normal(0, 10, clean.shape), poisson_gaussian(clean, 4.0, 0.0, rng), 0 * clean])
    found = diagnose([image[None]])
    noise = found.noise
    gaussian_level, photon_level, _ = noise.sigma
    assert gaussian_level == pytest.approx(10, rel=0.05)
    assert photon_level == pytest.approx(np.sqrt(4 * clean.mean()), rel=0.1)
    assert (noise.a[2], noise.b[2]) == (found.a, found.b)  # the constant channel takes the mean of the others
    assert noise.mean[:2] == pytest.approx((clean.mean(), clean.mean()), rel=0.02)
    assert noise.std[0] == pytest.approx(image[0].std(), rel=1e-6)
    pooled = replace(found, channels=()).noise
    assert pooled.a == (found.a,) and pooled.sigma == pytest.approx((found.sigma,))


@pytest.mark.parametrize("gain", [0.0, 4.0])
def test_the_description_does_not_say_what_training_does(gain: float, rng: np.random.Generator) -> None:
    clean = data.camera()
    found = of(poisson_gaussian(clean, gain, 5.0, rng) if gain else gaussian(clean, 20, rng))
    text = paragraph(found)
    assert not {"default", "defaults", "training", "model", "used"} & set(text.lower().replace(".", " ").split())
    assert f"{found.sigma:.3g} gray values" in text


def test_a_channel_is_diagnosed_as_it_would_be_alone() -> None:
    """With more channels, each was judged by fewer of its pixels, and one in three lost the slope of its noise."""
    clean = np.tile(np.linspace(20, 200, 700), (3, 700, 1)) * np.array([1, 0.5, 0.2]).reshape(3, 1, 1)
    noisy = poisson_gaussian(clean, 2.0, 4.0, np.random.default_rng(0))
    together = diagnose([noisy[None]])
    for c, found in enumerate(together.channels):
        alone = diagnose([noisy[None, c : c + 1]])
        assert (found["a"], found["b"]) == (alone.a, alone.b)
