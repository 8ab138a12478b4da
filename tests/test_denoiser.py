"""What a user holds: outcomes on real images, the model file, and the Python interface."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from copy import deepcopy
from typing import get_args

import numpy as np
import pytest
import tifffile
import torch
from safetensors.torch import load_file, save_file
from scipy import ndimage
from skimage import data

import noise2same as n2s
from noise2same.config import Config
from noise2same.data import training_data
from noise2same.data.sampling import read_boxes
from noise2same.errors import InputError
from noise2same.io import open_images, read
from noise2same.methods.masking import FILLS, FillName
from noise2same.model_file import read_model
from noise2same.noise.samples import volume
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.metrics import psnr

TINY = {"steps": 2, "features": 4, "batch": 2, "patch": 16, "patch_3d": (4, 8, 8)}


@pytest.fixture(scope="module")
def tiny():
    return n2s.train(np.random.default_rng(0).normal(100, 20, (40, 50)), progress=False, **TINY)


def case(name):
    rng = np.random.default_rng(0)
    if name == "grey":
        clean = data.camera()[100:356, 150:406]
        return clean, gaussian(clean, 25, rng), "YX"
    if name == "colour":
        clean = data.chelsea()[30:222, 100:292]
        return clean, gaussian(clean, 25, rng), "YXC"
    if name == "16 bit":
        clean = data.coins()[:192, :192].astype(np.float32) * 100
        noisy = np.clip(poisson_gaussian(clean, gain=300.0, sigma=2500.0, rng=rng), 0, 65535)
        return clean, noisy.round().astype(np.uint16), "YX"
    clean = volume(rng, (16, 96, 96))
    return clean, poisson_gaussian(clean, gain=2.0, sigma=5.0, rng=rng), "ZYX"


@pytest.mark.parametrize(("name", "gain"), [("grey", 4), ("colour", 4), ("16 bit", 4), ("volume", 4)])
def test_denoising_lowers_the_error(name, gain):
    clean, noisy, axes = case(name)
    denoised = n2s.denoise(noisy, axes, steps=150, features=16, progress=False)
    assert denoised.shape == noisy.shape and denoised.dtype == noisy.dtype
    reach = float(np.ptp(clean))
    assert psnr(clean, denoised, data_range=reach) > psnr(clean, noisy, data_range=reach) + gain


def test_learns_from_real_microscopy(data_dir):
    import imageio.v3 as imageio

    noisy = [imageio.imread(path)[:256, :256] for path in sorted((data_dir / "w2s24" / "avg1").glob("*"))[:6]]
    model = n2s.train(noisy, steps=120, features=16, progress=False)
    clean = imageio.imread(sorted((data_dir / "w2s24" / "avg400").glob("*"))[0])[:256, :256]
    from noise2same.quality.metrics import psnr_affine

    before, after = (psnr_affine(prediction=image, truth=clean) for image in (noisy[0], model.denoise(noisy[0])))
    assert after > before + 2


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((40, 50), "YX"), ((40, 50, 3), "YXC"), ((5, 40, 30), "ZYX"), ((3, 20, 30), "SYX"), ((2, 3, 4, 20, 10), "TCZYX")],
)
def test_shape_and_dtype_survive(shape, axes, dtype):
    noisy = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)
    denoised = n2s.denoise(noisy, axes, progress=False, **TINY)
    assert denoised.shape == shape and denoised.dtype == dtype


def test_dtype_can_be_chosen(tiny):
    noisy = np.random.default_rng(0).normal(0, 9, (20, 30)).astype(np.float32)
    assert tiny.denoise(noisy, dtype="uint8").dtype == np.uint8
    with pytest.raises(InputError, match="complex64"):
        tiny.denoise(noisy, dtype="complex64")


def test_many_images_of_different_sizes():
    rng = np.random.default_rng(0)
    model = n2s.train([rng.normal(size=shape) for shape in ((5, 9), (40, 40), (100, 17))], progress=False, **TINY)
    assert model.summary["images"] == 3
    assert model.denoise(rng.normal(size=(33, 1))).shape == (33, 1)


def test_ctrl_c_never_makes_a_half_trained_result(interrupt, tmp_path):
    interrupt(3)
    noisy, written = np.random.default_rng(0).normal(100, 20, (64, 64)), tmp_path / "clean.tif"
    with pytest.raises(KeyboardInterrupt, match="at step 3"):
        n2s.denoise(noisy, steps=20, features=4, batch=2, patch=32, progress=False, output=written)
    assert not written.exists()


def test_the_public_names_are_listed_without_importing_torch():
    code = "import sys, noise2same; print(*dir(noise2same)); assert 'torch' not in sys.modules"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert listed == ["Config", "Denoiser", "Plan", "__doc__", "__version__", "denoise", "plan", "train"]
    assert all(hasattr(n2s, name) for name in listed) and set(n2s.__all__) <= set(listed)


def test_save_and_load(tiny, tmp_path):
    path = tiny.save(tmp_path / "model.safetensors")
    assert [item.name for item in tmp_path.iterdir()] == ["model.safetensors"]
    again = n2s.Denoiser.load(path)
    noisy = np.random.default_rng(1).normal(100, 20, (40, 50))
    assert (again.denoise(noisy) == tiny.denoise(noisy)).all()
    assert again.config == tiny.config and again.summary == tiny.summary and again.axes == "YX"


def test_weights_that_are_not_finite_are_not_saved(tiny, tmp_path):
    broken = tiny._with(deepcopy(tiny.network))
    next(broken.network.parameters()).data[0] = float("inf")
    with pytest.raises(InputError, match=r"model\.safetensors is not written"):
        broken.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def rewrite(path, change):
    """Change the header of a model file, as another program or version would have written it."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["noise2same"])
    change(header)
    save_file(load_file(path), path, {"noise2same": json.dumps(header)})


def spoil_weights(path, value):
    """Put a number into the weights of a model file."""
    header, weights = read_model(path)
    weights["head.0.weight"].view(-1)[0] = value
    save_file(weights, path, {"noise2same": json.dumps(header)})


def test_a_model_with_a_setting_that_is_gone_still_loads(tiny, tmp_path):
    path = tiny.save(tmp_path / "model.safetensors")
    rewrite(path, lambda header: header["config"].update(masked_fraction=0.25))
    assert n2s.Denoiser.load(path).config == tiny.config


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "truncated"),
        (lambda path: path.write_bytes(path.read_bytes()[:5]), "not a noise2same model"),
        (lambda path: path.write_text("hello " * 100), "not a noise2same model"),
        (lambda path: save_file({"a": torch.zeros(3)}, path), "not a noise2same model"),
        (lambda path: rewrite(path, lambda header: header.update(format=99, version="9.1")), "9.1, newer"),
        (lambda path: rewrite(path, lambda header: header.update(format=1, version="0.1")), "0.1, .* train it again"),
        (lambda path: rewrite(path, lambda header: header["plan"].pop("method")), "damaged"),
        (lambda path: rewrite(path, lambda header: header.pop("axes")), "damaged"),
        (lambda path: rewrite(path, lambda header: header["config"].update(features=5)), "damaged"),
        (lambda path: rewrite(path, lambda header: header["config"].update(features=-1)), "damaged"),
        (lambda path: path.unlink(), "does not exist"),
        (lambda path: rewrite(path, lambda header: header["normalization"].update(mean=["dark"])), "damaged"),
        (lambda path: rewrite(path, lambda header: header["normalization"].update(mean="dark")), "damaged"),
        (lambda path: rewrite(path, lambda header: header["normalization"].update(mean=[float("nan")])), "damaged"),
        (lambda path: rewrite(path, lambda header: header["normalization"].update(std=[0.0])), "damaged"),
        (lambda path: rewrite(path, lambda header: header["normalization"].update(std=[1.0, 2.0])), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(normalization=[1, 2])), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(channels=0)), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(channels=None)), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(channels=float("inf"))), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(axes="QX")), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(axes=[])), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(config="fast")), "damaged"),
        (lambda path: rewrite(path, lambda header: header["config"].update(patch_3d=7)), "damaged"),
        (lambda path: rewrite(path, lambda header: header.update(summary=3)), "damaged"),
        (lambda path: spoil_weights(path, float("nan")), "NaN or infinite"),
        (lambda path: spoil_weights(path, float("inf")), "NaN or infinite"),
    ],
)
def test_model_files_that_cannot_be_used(tiny, tmp_path, spoil, words):
    path = tiny.save(tmp_path / "model.safetensors")
    spoil(path)
    with pytest.raises(InputError, match=words) as error:
        n2s.Denoiser.load(path)
    assert "model.safetensors" in str(error.value)


def test_what_does_not_fit_the_model_is_said(tiny):
    with pytest.raises(InputError, match="3 channel"):
        tiny.denoise(np.zeros((20, 20, 3)), "YXC")
    with pytest.raises(InputError, match="plane by plane"):
        tiny.denoise(np.zeros((5, 20, 20)), "ZYX")
    with pytest.raises(InputError, match="one by one"):
        tiny.denoise([np.zeros((20, 20)), np.zeros((20, 20))])
    with pytest.raises(InputError, match="not trained"):
        n2s.Denoiser().denoise(np.zeros((20, 20)))


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.full((20, 20), 7), "constant"),
        (np.full((20, 20), np.nan), "no finite pixel"),
        (np.zeros((0, 20)), "empty"),
        (np.zeros((20, 20), complex), "complex128"),
        (np.zeros((20, 20), object), "object"),
        (np.zeros((9, 20, 20)), "axes"),
    ],
)
def test_images_there_is_nothing_to_learn_from(image, words):
    with pytest.raises(InputError, match=words):
        n2s.train(image, progress=False, **TINY)


def test_nan_pixels_are_left_out_counted_and_passed_through():
    noisy = np.random.default_rng(0).normal(50, 5, (60, 60)).astype(np.float32)
    noisy[3, 4:9], noisy[20, 20] = np.nan, np.inf
    with pytest.warns(UserWarning, match="6 NaN or infinite"):
        denoised = n2s.denoise(noisy, progress=False, **TINY)
    assert (np.isnan(denoised) == np.isnan(noisy)).all() and np.isinf(denoised[20, 20])


def test_further_images_in_a_file_are_told_of(tiny, tmp_path):
    with tifffile.TiffWriter(tmp_path / "two.tif") as file:
        for _ in range(2):
            file.write(np.ones((40, 50), np.uint8))
    with pytest.warns(UserWarning, match=r"holds 2 images, of which the first was denoised; the next is .*two.tif/1"):
        assert tiny.denoise(read(tmp_path / "two.tif")).shape == (40, 50)


def test_nan_pixels_do_not_change_the_statistics():
    noisy = np.random.default_rng(0).normal(50, 5, (60, 60)).astype(np.float32)
    noisy[:, 20:], noisy[0, 19] = np.nan, 50_000
    with pytest.warns(UserWarning):
        model = n2s.train(noisy, progress=False, **TINY)
    assert model.normalization.mean[0] == pytest.approx(np.nanmean(noisy), rel=1e-4)


def test_a_large_set_is_represented_by_a_part(monkeypatch):
    rng = np.random.default_rng(0)
    images = open_images([rng.normal(size=(4, 1600, 50)), *rng.normal(size=(40, 1, 20, 20))], "TYX")
    limit = 4 * 1600 * 50 // 4
    slabs = read_boxes(images, limit)
    assert 0.5 * limit < sum(slab.size for slab in slabs) < 1.2 * limit
    monkeypatch.setattr(training_data, "MAX_VALUES", limit)
    n2s.train(images, progress=False, **TINY)


def test_a_large_volume_is_represented_by_boxes():
    """Of a volume with few planes, all of them used to be read whole."""

    class Watched:
        shape, dtype = (64, 2048, 2048), np.dtype("uint16")
        read = 0

        def __getitem__(self, where):
            box = np.zeros([len(range(*cut.indices(n))) for cut, n in zip(where, self.shape, strict=True)], self.dtype)
            Watched.read = max(Watched.read, box.size)
            return box

    volume = dataclasses.replace(open_images(np.zeros((2, 8, 8)), "ZYX")[0], data=Watched())
    limit = 2**24
    slabs = read_boxes([volume], limit)
    assert 0.5 * limit < sum(slab.size for slab in slabs) <= limit
    assert Watched.read <= 2**21
    assert len({slab.shape for slab in slabs}) == 1 and len(slabs) > 4


def test_the_noise_level_is_estimated_or_told():
    rng = np.random.default_rng(0)
    noisy = gaussian(data.camera(), 25, rng)
    estimated = n2s.train(noisy, progress=False, **TINY).summary
    model = n2s.train(noisy, progress=False, sigma=25, method="noise2same", **TINY)
    told = model.summary
    assert model.plan.lambda_inv.value[0] == pytest.approx(2 * told["sigma"][0])
    assert told["sigma"][0] == pytest.approx(25 / noisy.std(), rel=1e-3)
    assert estimated["sigma"] == pytest.approx(told["sigma"], rel=0.1)


def test_images_can_be_normalised_each_by_itself():
    rng = np.random.default_rng(0)
    dim, bright = rng.normal(10, 1, (40, 40)), rng.normal(10_000, 1_000, (40, 40))
    model = n2s.train([dim, bright], progress=False, normalization="image", **TINY)
    assert abs(model.denoise(dim).mean() - 10) < 2
    assert abs(model.denoise(bright).mean() - 10_000) < 2_000


def test_the_paper_preset_trains():
    noisy = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    model = n2s.train(noisy, preset="paper", steps=2, batch=2, progress=False)
    assert model.config.features == 96 and model.config.block == "residual" and model.config.minutes is None
    assert model.denoise(noisy).shape == noisy.shape


def test_training_can_be_watched():
    rng = np.random.default_rng(0)
    image = rng.normal(100, 20, (64, 64)).astype(np.float32)
    settings = Config(steps=20, features=4, batch=2, patch=32)
    plain = n2s.Denoiser(settings).fit(image, progress=False)
    watched = n2s.Denoiser(settings)
    seen = []

    def watch(model):
        seen.append(model.denoise(image))
        return {"brightness": float(seen[-1].mean())}

    watched.fit(image, progress=False, on_point=watch)
    history = watched.summary["history"]
    assert [point["brightness"] for point in history] == [float(output.mean()) for output in seen] and len(seen) == 20
    np.testing.assert_allclose(seen[-1], watched.denoise(image), rtol=1e-5)
    np.testing.assert_array_equal(plain.denoise(image), watched.denoise(image))  # looking changes nothing


def test_config_says_what_is_wrong():
    for options, words in [
        ({"steps": 5, "minutes": 1.0}, "not both"),
        ({"method": "noise2same", "sigma": 5.0, "lambda_inv": 1.0}, "not both"),
        ({"preset": "paper", "sigma": 5.0, "lambda_inv": 2.0}, "not both"),
        ({"preset": "slow"}, "preset"),
        ({"fill": "zeros"}, "fill"),
        ({"colour": "red"}, "colour: there is no such setting"),
        ({"patch_3d": (8, 16, 32)}, "Y equal to X"),
        ({"steps": 0}, "steps"),
    ]:
        with pytest.raises(InputError, match=words):
            n2s.Denoiser(Config.of(**options))


def test_presets_are_filled_in_under_what_is_given():
    paper = Config(preset="paper")
    assert (paper.method, paper.steps, paper.minutes) == ("noise2same", 50_000, None)
    assert Config(preset="paper", minutes=3.0).steps is None
    assert Config(preset="paper", features=8).features == 8
    assert Config(**paper.model_dump()) == paper
    best = Config(preset="best")
    assert best.features == 32 and best.minutes == 60
    assert Config(preset="best", steps=5).minutes is None
    assert set(get_args(FillName)) == set(FILLS)


def test_noise_that_neighboring_pixels_share_is_removed_too():
    clean = data.coins()[:160, :160].astype(np.float32)
    white = np.random.default_rng(0).standard_normal(clean.shape)
    noisy = (clean + 25 * 3**0.5 * ndimage.uniform_filter1d(white, 3, mode="wrap")).astype(np.float32)
    told = []
    model = n2s.Denoiser(n2s.Config(steps=60)).fit(noisy, progress=False, say=told.append)
    assert "shared over 1 × 3 pixels" in told[0]
    alone = n2s.Denoiser(n2s.Config(steps=60, noise_extent=(0, 0))).fit(noisy, progress=False)
    found, before = (psnr(clean, one.denoise(noisy), data_range=255) for one in (model, alone))
    assert found > before + 1.5 and found > psnr(clean, noisy, data_range=255) + 5


def test_no_channel_lags_behind():
    """Of noise that is the same in all channels, one with little contrast has more in units of its own."""
    clean = data.chelsea()[20:148, 100:228].astype(np.float32)
    clean[..., 2] = 128 + 0.3 * (clean[..., 2] - 128)
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    denoised = n2s.denoise(noisy, "YXC", steps=100, features=16, progress=False)
    scores = [psnr(clean[..., c], denoised[..., c], data_range=255) for c in range(3)]
    assert min(scores[:2]) > 28.2 and scores[2] > 33.5  # with one level for all: 27.7, 28.1 and 31.6


@pytest.mark.parametrize(
    ("axes", "steps", "options"),
    [("YX", 5, {"from_scratch": True}), ("CYX", 5, {"from_scratch": True}), ("ZYX", 5, {})],
)
def test_the_result_is_never_worse_than_the_input(axes, steps, options):
    """A network that has learned nothing yet would ruin an image with little noise; a channel that is dim is noisy."""
    rng = np.random.default_rng(0)
    clean = data.camera()[100:228, 100:228].astype(np.float32)
    clean = {"YX": clean, "CYX": np.stack([clean, clean / 20]), "ZYX": np.stack([clean] * 3)}[axes]
    noisy = gaussian(clean, 3, rng)
    model = n2s.train(noisy, axes, steps=steps, progress=False, **options)
    details = model.denoise_in_detail(noisy)
    for one, before, after in zip(*(np.atleast_3d(a.T).T for a in (clean, noisy, details.result)), strict=True):
        assert psnr(one, after, data_range=255) > psnr(one, before, data_range=255) - 0.05
    assert max(details.input_share) > 0.5  # which is why


def test_a_channel_without_a_value_can_be_trained_on_and_saved(tmp_path):
    noisy = np.random.default_rng(0).normal(100, 10, (2, 48, 48)).astype(np.float32)
    noisy[1] = np.nan
    with pytest.warns(UserWarning):
        model = n2s.train(noisy, "CYX", progress=False, **TINY)
    model.save(tmp_path / "m.safetensors")
    assert n2s.Denoiser.load(tmp_path / "m.safetensors").channels == 2


@pytest.mark.parametrize("planes", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"noise_model": "gaussian"}, {"method": "noise2same"}])
def test_volumes_of_few_planes(planes, options):
    noisy = np.random.default_rng(0).normal(100, 10, (planes, 48, 48)).astype(np.float32)
    assert n2s.denoise(noisy, "ZYX", steps=2, progress=False, **options).shape == noisy.shape


@pytest.mark.parametrize("scale", [2.0**-66, 2.0**66])
def test_results_do_not_depend_on_the_unit_of_the_values(scale):
    noisy = case("grey")[1][:96, :96]
    one, other = (n2s.denoise((noisy * np.float32(s)), steps=5, progress=False) for s in (1.0, scale))
    np.testing.assert_array_equal(other, one * np.float32(scale))


def test_a_model_that_training_made_worse_stays_as_it_was():
    """Weights and statistics belong together: on brighter images, the old ones were kept with the new ones."""
    clean = data.camera()[100:228, 100:228].astype(np.float32)
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    model = n2s.train(noisy, steps=20, progress=False)
    before = model.normalization, model.denoise(noisy)
    ruinous = model.config.model_copy(update={"steps": 5, "learning_rate": 0.9})
    model.config = ruinous
    model.fit(noisy * 3 + 50, resume=True, progress=False)
    assert model.summary["unchanged"]
    assert model.normalization == before[0]
    np.testing.assert_allclose(model.denoise(noisy), before[1], rtol=1e-4)


def test_a_denoiser_that_has_predicted_can_be_copied_and_sent(tiny):
    image = np.random.default_rng(1).normal(100, 20, (40, 50)).astype(np.float32)
    expected = tiny.denoise(image)
    for other in (deepcopy(tiny), pickle.loads(pickle.dumps(tiny))):
        np.testing.assert_array_equal(other.denoise(image), expected)


@pytest.mark.parametrize(("shape", "axes", "averaged"), [((4, 1024, 1024), "TYX", True), ((1100, 1000), "YX", False)])
def test_frames_are_averaged_like_single_pictures(tiny, shape, axes, averaged):
    image = open_images(np.zeros((2, 2)), "YX")[0]
    assert tiny.uses_tta(dataclasses.replace(image, data=np.broadcast_to(0, shape), axes=axes)) == averaged


def test_a_method_that_is_not_trained_leaves_the_denoiser_as_it_is():
    model = n2s.Denoiser(Config(method="nlm"))
    model.denoise(np.random.default_rng(0).normal(0, 1, (2, 24, 24)), "CYX")
    assert (model.axes, model.channels) == ("YX", 1)


def test_a_report_denoises_what_it_shows(tmp_path, tiny):
    """Of an image larger than memory, all of it was denoised into memory."""
    tall = np.lib.stride_tricks.as_strided(np.zeros(1), (2**40, 64), (0, 0))
    verdict = tiny.report(tmp_path / "tall.html", tall, "YX")
    assert verdict.word and (tmp_path / "tall.html").exists()


def test_training_leaves_torch_as_it_was():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        n2s.train(np.random.default_rng(0).normal(100, 20, (40, 50)), progress=False, **TINY)
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_tensor_is_an_array():
    noisy = torch.from_numpy(np.random.default_rng(0).normal(100, 20, (40, 50)).astype(np.float32))
    result = n2s.denoise(noisy, progress=False, **TINY)
    assert isinstance(result, np.ndarray) and result.shape == (40, 50) and result.dtype == np.float32


@pytest.mark.parametrize(
    ("images", "words"),
    [([np.zeros((40, 50)), np.ones((40, 50))], "2 images: denoise them one by one"), (None, "NoneType"), ([3], "int")],
)
def test_what_is_no_image_gets_a_short_sentence(tiny, images, words):
    with pytest.raises(InputError, match=words) as error:
        tiny.denoise(images)
    assert len(str(error.value)) < 120


def aperture_fluxes(image, places, radius=6):
    rows, columns = np.ogrid[: image.shape[0], : image.shape[1]]
    sky = float(np.median(image))
    near = [np.hypot(rows - y, columns - x) <= radius for y, x in places]
    return np.array([(image[some].astype(np.float64) - sky).sum() for some in near])


def test_faint_stars_beside_bright_ones_keep_their_flux_also_from_a_model_file(tmp_path):
    rng = np.random.default_rng(0)
    places = [(20 + 30 * i, 20 + 30 * j) for i in range(6) for j in range(6)]
    clean = np.full((192, 192), 140.0)
    rows, columns = np.ogrid[:192, :192]
    for (y, x), flux in zip(places, rng.permutation(np.geomspace(1000, 1e6, 36)), strict=True):
        clean += flux / (2 * np.pi * 1.8**2) * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * 1.8**2))
    noisy = np.rint(0.5 * poisson_gaussian(clean, 1.0, 5.0, rng) + 100).astype(np.uint16)
    model = n2s.train(noisy, steps=150, progress=False)
    result = model.denoise(noisy, dtype="float32")
    truth = aperture_fluxes(0.5 * clean, places)
    faint = truth < 0.5 * 20_000  # from 7 to 120 standard deviations
    errors, before = (aperture_fluxes(image, places)[faint] / truth[faint] - 1 for image in (result, noisy))
    assert abs(np.median(errors)) < 0.02
    assert np.abs(errors).mean() <= np.abs(before).mean()
    assert result.mean() == pytest.approx(noisy.mean(), rel=1e-3)
    dark = clean < 140.5
    assert (result - 0.5 * clean - 100)[dark].std() < 0.2 * (noisy - 0.5 * clean - 100)[dark].std()
    again = n2s.Denoiser.load(model.save(tmp_path / "stars.safetensors"))
    assert again.normalization == model.normalization and again.normalization.stabilizer is not None
    np.testing.assert_array_equal(again.denoise(noisy), model.denoise(noisy))


def test_a_model_file_whose_scale_does_not_fit_its_channels_is_refused(tiny, tmp_path):
    path = tiny.save(tmp_path / "model.safetensors")
    header, weights = read_model(path)
    header["normalization"]["stabilizer"] = {"a": [1.0, 2.0], "b": [0.0, 0.0]}
    save_file(weights, path, {"noise2same": json.dumps(header)})
    with pytest.raises(InputError, match="damaged"):
        n2s.Denoiser.load(path)
