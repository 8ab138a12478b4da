"""The picture of a result, and the report: what it shows, that it is small, and that it is safe."""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy import ndimage
from skimage import data

from example_report import HISTORY, Pictures, camera, diagnosis, verdict, write
from noise2same.errors import InputError
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality import metrics
from noise2same.quality.report import before_after
from noise2same.quality.report.views import autocorrelation, busiest, plane_of, select_views


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((60, 80), "YX"), ((60, 80, 3), "YXC"), ((6, 50, 40), "ZYX"), ((2, 2, 30, 30), "TCYX"), ((1, 1), "YX")],
)
def test_panels_stand_side_by_side(shape: tuple[int, ...], axes: str, tmp_path: Path) -> None:
    clean = np.random.default_rng(0).normal(size=shape)
    before_after({"noisy": clean + 1, "denoised": clean, "clean": clean}, axes, tmp_path / "figure.png")
    picture = imageio.imread(tmp_path / "figure.png")[..., :3].astype(float)
    third = picture.shape[1] // 3
    assert picture.std() > 10
    noisy, denoised, true = (picture[60:, i * third + 20 : (i + 1) * third - 20] for i in range(3))
    assert np.abs(denoised - true).mean() <= np.abs(noisy - true).mean() or shape == (1, 1)


def test_the_zoom_is_where_something_happens() -> None:
    plane = np.zeros((100, 100))
    plane[70:75, 10:15] = 1
    rows, columns = busiest(plane, 32)
    assert rows.start <= 70 and rows.stop >= 75 and columns.start <= 10 and columns.stop >= 15


def test_of_a_volume_the_middle_slice_is_shown() -> None:
    volume = np.arange(5.0)[:, None, None] * np.ones((5, 4, 3))
    assert plane_of(volume, "ZYX").shape == (4, 3, 1)
    assert (plane_of(volume, "ZYX") == 2).all()


def test_zooms_show_detail_lost_structure_and_a_flat_place_with_noise() -> None:
    rng = np.random.default_rng(0)
    clean, noise = np.full((512, 512), 100.0), rng.normal(0, 25, (512, 512))
    clean[:, :200] += np.arange(200)
    clean[:, 200:] += 20 * np.sin(np.arange(312) / 5)
    noise[:, 200:] += 50 * np.sin(np.arange(312))
    clean[300:400, 250:350] += rng.normal(0, 60, (100, 100))
    noise[60:140, 320:420] += 40 * np.sin(np.arange(100) / 3)
    clean[400:, :100], noise[400:, :100] = 0, 0  # a masked corner, the flattest of all
    detail, structure, flat = (zoom.box for zoom in select_views(clean + noise, clean, "YX", diagnosis()).zooms)
    assert 250 <= detail[1].start + 64 < 350 and 300 <= detail[0].start + 64 < 400
    assert ndimage.gaussian_filter(noise[structure], 2).std() > 10
    assert np.diff(clean[flat]).std() < 1 and noise[flat].std() > 20


def test_noise_that_was_removed_is_standard_normal_in_units_of_the_noise() -> None:
    clean = data.camera().astype(np.float32)
    noisy = poisson_gaussian(clean, 2.0, 5.0, np.random.default_rng(0))
    known = diagnosis(a=2.0, b=25.0, sigma=float(np.sqrt((2 * clean + 25).mean())))
    relative = select_views(noisy, clean, "YX", known).relative
    for part in (clean < 30, clean > 180):
        assert relative[..., 0][part].std() == pytest.approx(1, abs=0.05)


def test_autocorrelation_of_filtered_noise_is_that_of_the_filter() -> None:
    white = np.random.default_rng(0).normal(size=(400, 402, 2)).astype(np.float32)
    smooth = (white[:, :-2] + white[:, 1:-1] + white[:, 2:]) / 3
    across = autocorrelation(smooth, 3)[3]
    np.testing.assert_allclose(across, [0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3, 0], atol=0.02)
    down = autocorrelation(smooth, 3)[:, 3]
    np.testing.assert_allclose(down, [0, 0, 0, 1, 0, 0, 0], atol=0.02)


@pytest.mark.parametrize("axes", ["YX", "YXC"])
def test_a_large_image_makes_a_small_report_with_zooms_in_full(axes: str, tmp_path: Path) -> None:
    tile = data.camera() if axes == "YX" else data.astronaut()
    clean = np.tile(tile, (4, 4, 1)[: len(axes)]).astype(np.float32)
    noisy = gaussian(clean, 25, np.random.default_rng(0))
    path = write(tmp_path / "large.html", noisy, clean, axes, training={"history": HISTORY})
    assert path.stat().st_size < 3e6
    found = Pictures(path)
    assert max(found.arrays["The noisy image"].shape) == 1024
    assert found.formats["Zoom A, noisy"] == "png"
    detail, _, _ = select_views(noisy, clean, axes, diagnosis()).zooms
    shown, meant = found.arrays["Zoom A, noisy"].ravel(), noisy[detail.box].ravel()
    inside = (shown > 0) & (shown < 255)
    assert inside.mean() > 0.5
    assert np.corrcoef(shown[inside], meant[inside])[0, 1] > 0.9999


def test_a_volume_is_shown_as_slice_and_projections(tmp_path: Path) -> None:
    noisy = np.random.default_rng(0).normal(0, 1, (12, 60, 80)).astype(np.float32)
    clean = np.zeros_like(noisy)
    clean[2, 10:20, 30:50] = 100  # not in the middle slice
    path = write(tmp_path / "volume.html", noisy + clean, clean, "ZYX")
    found = Pictures(path).arrays
    assert found["The denoised image"].shape == (60, 80)
    assert found["The denoised image"].max() == 0
    name = "Maximum projections of the denoised volume on XY, on YZ at the right and on XZ below"
    whole = found[name]
    assert (whole[12:18, 32:48] == 255).all()
    assert (whole[:60, :80] == 255).sum() == 200
    assert (whole[12:18, 82:] == 255).any() and (whole[62:, 32:48] == 255).any()
    assert "the middle slice" in path.read_text()


@pytest.mark.parametrize(
    ("axes", "shape"),
    [("CYX", (2, 40, 50)), ("YXC", (40, 50, 4)), ("CZYX", (5, 4, 40, 50)), ("YXC", (40, 50, 3))],
)
def test_channels_are_colours(axes: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = 0.1 * rng.normal(size=shape)
    where = [slice(None)] * len(shape)
    where[axes.index("C")], where[axes.index("X")] = slice(0, 1), slice(0, 25)
    clean[tuple(where)] += 5  # the first channel, on the left
    path = write(tmp_path / "colour.html", clean + rng.normal(size=shape), clean, axes)
    shown = Pictures(path).arrays["The denoised image"].astype(float)
    assert shown.shape == (40, 50, 3)
    left, right = shown[:, :25].mean((0, 1)), shown[:, 25:].mean((0, 1))
    assert left[0] > right[0] + 50
    assert abs(left[1] - right[1]) < 20


def test_with_a_truth_psnr_and_ssim_are_told(tmp_path: Path) -> None:
    noisy, denoised, clean = camera()
    path = write(tmp_path / "truth.html", noisy, denoised, truth=clean)
    text = path.read_text()
    for image in (noisy, denoised):
        assert f"{metrics.psnr(clean, image):.2f} dB" in text
        assert f"{metrics.ssim(clean, image):.3f}" in text
    assert "Zoom B, truth" in Pictures(path).arrays
    plain = write(tmp_path / "plain.html", noisy, denoised).read_text()
    assert "SSIM" not in plain and "truth" not in plain


def test_words_of_users_are_escaped(tmp_path: Path) -> None:
    bad = "<script>alert('1')</script>&\"$word"
    path = write(
        tmp_path / "safe.html",
        *camera()[:2],
        settings={bad: bad, "nested": {"a": [bad]}},
        training={"device": bad, "history": [{"step": 1, "error": 0.1, bad: 0.2}, {"step": 2, bad: 0.1}]},
        verdict=verdict(reason=bad),
        diagnosis=diagnosis(advice=bad),
    )
    text = path.read_text()
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert") >= 6


@pytest.mark.parametrize("history", [None, [], [{"step": 1, "seconds": 0.1, "error": None}]])
def test_without_curves_there_is_no_section_of_training(history: list | None, tmp_path: Path) -> None:
    noisy, denoised, _ = camera()
    training = {"steps": 5} if history is None else {"steps": 5, "history": history}
    text = write(tmp_path / "none.html", noisy, denoised, training=training).read_text()
    assert "<h2" in text and ">Training</h2>" not in text
    curves = write(tmp_path / "some.html", noisy, denoised, training={"history": HISTORY}).read_text()
    assert ">Training</h2>" in curves and "estimated error" in curves


@pytest.mark.parametrize("suffix", [".html", ".png"])
def test_strange_images_have_reports(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    holes = rng.normal(100, 10, (50, 60)).astype(np.float32)
    holes[3:6, 4:9], holes[20, 20] = np.nan, np.inf
    for name, image in {
        "holes": holes,
        "constant": np.full((30, 40), 7, np.uint16),
        "pixel": np.ones((1, 1)),
        "line": np.arange(300.0)[None],
    }.items():
        path = write(
            tmp_path / f"{name}{suffix}", image, image, diagnosis=diagnosis(sigma=0.0, sigma_normalized=0.0, b=0.0)
        )
        assert path.stat().st_size > 10_000


def test_the_figure_shows_what_was_removed(tmp_path: Path) -> None:
    noisy, denoised, _ = camera()
    unchanged = imageio.imread(write(tmp_path / "unchanged.png", noisy, noisy)).astype(float)
    changed = imageio.imread(write(tmp_path / "changed.png", noisy, denoised)).astype(float)
    assert changed.shape == unchanged.shape and min(changed.shape[:2]) > 700
    height, width, _ = changed.shape
    removed = slice(height // 4, height // 3), slice(width // 2, 5 * width // 8)  # in the third of four panels
    assert unchanged[removed][..., :3].std() < 1 < 10 < changed[removed][..., :3].std()


def test_what_cannot_be_written_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    image = np.zeros((20, 20))
    with pytest.raises(InputError, match=r"\.html or \.png"):
        write(tmp_path / "report.pdf", image, image)
    with pytest.raises(InputError, match="not a folder"):
        write(tmp_path / "nowhere" / "report.html", image, image)
    old = tmp_path / "old.html"
    old.write_text("old")
    with pytest.raises(InputError, match=r"\(20, 19\)"):
        write(old, image, image[:, 1:])
    with pytest.raises(ZeroDivisionError):
        write(old, image, image, settings={"a": Unprintable()})
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["old.html"]


class Unprintable:
    def __str__(self) -> str:
        raise ZeroDivisionError
