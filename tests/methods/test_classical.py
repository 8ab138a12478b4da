"""Non-local means and BM3D: the libraries' own results, for every kind of image."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from skimage import data
from skimage.restoration import denoise_nl_means

import noise2same as n2s
from noise2same import Config, Denoiser
from noise2same.errors import InputError
from noise2same.methods import classical
from noise2same.noise.samples import volume
from noise2same.quality.metrics import psnr

bm3d = pytest.importorskip("bm3d")
bm4d = pytest.importorskip("bm4d")

SIGMA = 25
CLEAN = {
    "YX": data.camera()[100:180, 200:280],
    "YXC": data.astronaut()[30:70, 190:230],
    "ZYX": volume(np.random.default_rng(1), (10, 22, 22)),
}
NOISY = {
    axes: (clean + np.random.default_rng(0).normal(0, SIGMA, clean.shape)).astype(np.float32)
    for axes, clean in CLEAN.items()
}
METHODS = ["nlm", "bm3d"]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Compute in one thread, forget that the licence has been told, and hide it from tests of other things."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    classical.libraries.cache_clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "bm3d and bm4d are licensed")
        yield
    torch.set_num_threads(threads)


def direct(method: str, axes: str) -> np.ndarray:
    """What the library gives when it is called by hand."""
    x = NOISY[axes]
    if method == "bm3d":
        profile = bm4d.BM4DProfile() if axes == "ZYX" else bm3d.BM3DProfile()
        profile.num_threads = 1  # with more, the library itself gives slightly different results every time
        call = {"YX": bm3d.bm3d, "YXC": bm3d.bm3d_rgb, "ZYX": bm4d.bm4d}[axes]
        return call(x, SIGMA, profile).astype(np.float32)
    distance, channels = {"YX": (6, None), "YXC": (6, -1), "ZYX": (2, None)}[axes]
    return denoise_nl_means(x, 5, distance, 0.8 * SIGMA, sigma=SIGMA, fast_mode=True, channel_axis=channels)


@pytest.mark.parametrize("axes", CLEAN)
@pytest.mark.parametrize("method", METHODS)
def test_no_step_is_added_to_the_library_and_the_error_goes_down(method: str, axes: str) -> None:
    denoised = Denoiser(Config(method=method, sigma=SIGMA)).denoise(NOISY[axes], axes)
    assert np.array_equal(denoised, direct(method, axes))
    gain = psnr(CLEAN[axes], denoised, data_range=255) - psnr(CLEAN[axes], NOISY[axes], data_range=255)
    assert gain > 4


@pytest.mark.parametrize("method", METHODS)
def test_the_noise_level_is_estimated(method: str) -> None:
    estimated = n2s.denoise(NOISY["YX"], method=method)
    assert psnr(CLEAN["YX"], estimated, data_range=255) > psnr(CLEAN["YX"], NOISY["YX"], data_range=255) + 6


@pytest.mark.parametrize(
    ("method", "dtype"), [*[(m, t) for m in METHODS for t in ("uint8", "uint16")], ("nlm", "int32"), ("nlm", ">f4")]
)
def test_shape_and_dtype_survive(method: str, dtype: str) -> None:
    x = np.clip(NOISY["YX"][:20, :33], 0, 255).round()
    denoised = n2s.denoise(x.astype(dtype), method=method, sigma=SIGMA)
    assert denoised.shape == x.shape and denoised.dtype == dtype
    floats = n2s.denoise(x, method=method, sigma=SIGMA)  # integers are not rescaled, nor do they overflow
    assert abs(denoised.astype(float) - floats).max() <= (0.51 if np.dtype(dtype).kind in "ui" else 1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_units_do_not_matter(method: str) -> None:
    x = NOISY["YX"][:32, :32]
    usual = n2s.denoise(x, method=method, sigma=SIGMA)
    scaled = n2s.denoise(np.ldexp(x, -60), method=method, sigma=SIGMA * 2**-60)
    assert np.allclose(np.ldexp(scaled, 60), usual, rtol=0, atol=1e-3)


SMALL = [((1, 1), "YX"), ((7, 12), "YX"), ((8, 8, 3), "YXC"), ((5, 3, 9), "ZYX"), ((1, 2, 9, 8), "CZYX")]


@pytest.mark.parametrize(("shape", "axes"), SMALL)
@pytest.mark.parametrize("method", METHODS)
def test_small_images(method: str, shape: tuple[int, ...], axes: str) -> None:
    x = np.random.default_rng(0).normal(100, 10, shape)
    denoised = n2s.denoise(x, axes, method=method, sigma=10)
    assert denoised.shape == shape and np.isfinite(denoised).all()
    if x.size > 1:
        assert denoised.std() < x.std() and abs(denoised.mean() - 100) < 10


def test_a_stack_of_few_planes_helps_its_planes() -> None:
    clean = np.stack([CLEAN["YX"][:48, :48]] * 3)
    x = clean + np.random.default_rng(0).normal(0, SIGMA, clean.shape)
    stack = n2s.denoise(x, "ZYX", method="bm3d", sigma=SIGMA)
    plane = n2s.denoise(x[0], method="bm3d", sigma=SIGMA)
    assert psnr(clean[0], stack[0], data_range=255) > psnr(clean[0], plane, data_range=255) + 0.5


@pytest.mark.parametrize("method", METHODS)
def test_channels_of_a_microscope_are_denoised_each_by_itself(method: str) -> None:
    dim, bright = NOISY["YX"][:32, :32], 1000 * NOISY["YX"][40:72, :32]
    together = n2s.denoise(np.stack([dim, bright]), "CYX", method=method)
    for channel, alone in zip(together, (dim, bright), strict=True):
        assert np.array_equal(channel, n2s.denoise(alone, method=method))


@pytest.mark.parametrize(("method", "sigma"), [("nlm", None), ("nlm", SIGMA), ("bm3d", SIGMA)])
def test_colour_without_colours(method: str, sigma: float | None) -> None:
    grey = NOISY["YX"][:32, :32]
    alone = n2s.denoise(grey, method=method, sigma=sigma)
    for used in ([1, 1, 1], [0, 1, 0]):
        picture = grey[..., None] * np.array(used, np.float32)
        denoised = n2s.denoise(picture, "YXC", method=method, sigma=sigma)
        assert np.allclose(denoised, alone[..., None] * np.array(used), atol=1e-3)


@pytest.mark.parametrize("sigma", [None, SIGMA])
@pytest.mark.parametrize("method", METHODS)
def test_constant_images_stay(method: str, sigma: float | None) -> None:
    for shape, axes in (((20, 20), "YX"), ((20, 20, 3), "YXC"), ((6, 9, 9), "ZYX")):
        x = np.full(shape, 7, np.uint16)
        assert np.array_equal(n2s.denoise(x, axes, method=method, sigma=sigma), x)


@pytest.mark.parametrize("method", METHODS)
def test_nan_pixels_pass_through(method: str) -> None:
    x = NOISY["YX"][:40, :40].copy()
    x[3, 4:9], x[20, 20] = np.nan, np.inf
    with pytest.warns(UserWarning, match="6 NaN or infinite"):
        denoised = n2s.denoise(x, method=method, sigma=SIGMA)
    assert np.array_equal(np.isfinite(denoised), np.isfinite(x)) and np.isinf(denoised[20, 20])


@pytest.mark.parametrize("method", METHODS)
def test_there_is_nothing_to_train_and_little_to_set(method: str) -> None:
    with pytest.raises(InputError, match=f"{method} is not trained: denoise with it"):
        n2s.train(NOISY["YX"], method=method)
    with pytest.raises(InputError, match=f"{method} does not use mask_density"):
        Denoiser(Config.of(method=method, mask_density=0.2))


def test_the_licence_is_told_once() -> None:
    x = NOISY["YX"][:16, :16]
    model = Denoiser(Config(method="bm3d", sigma=SIGMA))
    with pytest.warns(UserWarning, match="non-commercial") as told:
        model.denoise(x)
        model.denoise(x)
    assert len(told) == 1


@pytest.mark.parametrize("package", ["bm3d", "bm4d"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"pip install 'noise2same\[bm3d\]'"):
        n2s.denoise(NOISY["YX"], method="bm3d")
