"""A result is assessed frame by frame, from what is in memory, and at a price that is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import tifffile
import zarr
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from skimage import data

from noise2same import Config, Denoiser, io
from noise2same.errors import InputError
from noise2same.noise.diagnose import diagnose
from noise2same.noise.synthetic import gaussian
from noise2same.quality.assess import assess, is_photograph, spread_frames
from noise2same.quality.report import write_report

SIGMA = 20.0
CLEAN = data.coins()[:128, :160].astype(np.float32)


class Blur:
    """A denoiser that remembers what it was given: the shapes, and whether tta was asked for."""

    network = "a blur"

    def __init__(self) -> None:
        self.given: list[tuple[tuple[int, ...], bool | None]] = []

    def denoise(self, image: Any, axes: str | None = None, *, dtype: str = "same", tta: bool | None = None) -> Any:
        self.given.append((image.shape, tta))
        return gaussian_filter(image, [1.0 if axis in "YX" else 0.0 for axis in axes or "YX"])


class Lazy:
    """An array that says how much of it was read, as a large file would be."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.read = 0

    def __getitem__(self, key: Any) -> NDArray[Any]:
        self.read += self.array[key].size
        return self.array[key]

    def __array__(self, *args: Any, **named: Any) -> NDArray[Any]:
        raise AssertionError("the whole array was read")


def film(frames: int, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return np.stack([gaussian(CLEAN, SIGMA, rng) for _ in range(frames)])


def denoised(noisy: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a good denoiser makes of it: all that is left of the noise is its slow part."""
    return CLEAN + gaussian_filter(noisy - CLEAN, (0, 3, 3))


@pytest.mark.parametrize(
    ("axes", "shape", "first", "last", "count"),
    [
        ("YX", (40, 50), "the image", "the image", 1),
        ("TYX", (3, 40, 50), "time point 1", "time point 3", 3),
        ("TYX", (1000, 40, 50), "time point 1", "time point 1000", 8),
        ("YXS", (40, 50, 20), "sample 1", "sample 20", 8),
        ("STCZYX", (2, 3, 2, 4, 40, 50), "sample 1, time point 1", "sample 2, time point 3", 6),
    ],
)
def test_frames_are_spread_from_the_first_to_the_last(
    axes: str, shape: tuple[int, ...], first: str, last: str, count: int
) -> None:
    names = [str(frame) for frame in spread_frames(io.Image(np.broadcast_to(np.float32(0), shape), axes))]
    assert (names[0], names[-1], len(names), len(set(names))) == (first, last, count, count)


@pytest.mark.parametrize("bad", [0, 3, 11])
def test_the_worst_frame_of_a_film_counts_and_is_named(bad: int) -> None:
    noisy = film(12)
    result = denoised(noisy)
    looked_at = [frame.index["T"] for frame in spread_frames(io.wrap(noisy, "TYX"))]
    good = assess(io.wrap(noisy, "TYX"), result)
    assert bad in looked_at and good.verdict.word == "trust", good.verdict.reason
    result[bad] = noisy[bad]
    found = assess(io.wrap(noisy, "TYX"), result)
    name = f"time point {bad + 1}"
    assert found.verdict.word == "do not trust"
    assert name in found.verdict.reason and found.source["frame"] == name
    assert found.frames == {f"time point {t + 1}": "do not trust" if t == bad else "trust" for t in looked_at}
    assert found.figures()["frames"] == found.frames
    np.testing.assert_array_equal(found.noisy, noisy[bad])
    np.testing.assert_array_equal(found.same_part(io.wrap(result, "TYX")), result[bad])


def test_a_frame_without_known_pixels_is_to_be_checked() -> None:
    noisy = film(3)
    result = denoised(noisy)
    noisy[1] = result[1] = np.nan
    found = assess(io.wrap(noisy, "TYX"), result)
    assert found.frames == {"time point 1": "trust", "time point 2": "check", "time point 3": "trust"}
    assert "known pixels" in found.verdict.reason


def test_a_given_diagnosis_is_used() -> None:
    noisy = io.wrap(film(1)[0])
    own = diagnose([noisy.data[None, None]])
    given = replace(own, confidence=0.1)
    assert assess(noisy, CLEAN).diagnosis == own
    found = assess(noisy, CLEAN, diagnosis=given)
    assert found.diagnosis is given and found.verdict.word == "check"


def test_arrays_and_images_are_assessed_alike() -> None:
    noisy = io.wrap(film(1)[0])
    assert assess(noisy, CLEAN).verdict == assess(noisy, io.wrap(CLEAN)).verdict
    with pytest.raises(InputError, match="must agree"):
        assess(noisy, CLEAN[1:])
    with pytest.raises(InputError, match="neither"):
        assess(noisy, None)


@pytest.mark.parametrize(
    ("shape", "axes", "tta"),
    [
        ((300, 400), "YX", True),
        ((1200, 1300), "YX", False),
        ((3, 700, 800), "CYX", True),
        ((5, 400, 500), "TYX", True),
        ((30, 300, 300), "TYX", False),
        ((40, 200, 200), "ZYX", True),
        ((40, 200, 200), "ZYX", False),
    ],
)
def test_the_probe_takes_a_third_of_the_time_at_most(shape: tuple[int, ...], axes: str, tta: bool) -> None:
    """Counted in pixels that go through the network: eight times as many with tta."""
    rng = np.random.default_rng(0)
    noisy = io.wrap(rng.normal(100, SIGMA, shape).astype(np.float32), axes)
    blur = Blur()
    assess(noisy, blur.denoise(noisy.data, axes), blur, tta=tta)
    _, *probes = blur.given
    spent = sum(np.prod(size) * (8 if augmented else 1) for size, augmented in probes)
    assert 0 < spent <= np.prod(shape) * (8 if tta else 1) / 3


def test_only_the_center_of_a_large_image_is_read_and_denoised() -> None:
    rng = np.random.default_rng(0)
    large = Lazy(np.tile(rng.normal(100, SIGMA, (512, 512)).astype(np.float32), (8, 8)))  # 4096 × 4096
    blur = Blur()
    found = assess(io.Image(large, "YX"), None, blur, tta=False)
    assert found.noisy.shape == found.clean.shape == (2048, 2048)
    shape, _ = blur.given[0]
    assert shape == (2048 + 64, 2048 + 64)  # with what is around it
    assert large.read < 0.6 * large.array.size
    inside = gaussian_filter(large.array[900:3200, 900:3200], 1.0)[124:2172, 124:2172]
    np.testing.assert_allclose(found.clean, inside, rtol=1e-5)


def test_a_report_on_a_large_zarr_denoises_its_center(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = zarr.create_array(tmp_path / "large.zarr", shape=(3000, 5000), chunks=(512, 512), dtype="uint8")
    store[:] = np.clip(rng.normal(100, SIGMA, store.shape), 0, 255).astype(np.uint8)
    model = Denoiser(Config(minutes=0, features=4, from_scratch=True))
    model.network = model.new_network().eval()
    given: list[tuple[int, ...]] = []
    denoise = model.denoise_in_detail

    def spy(image: Any, *args: Any, **named: Any) -> Any:
        given.append(image.shape)
        return denoise(image, *args, **named)

    model.denoise_in_detail = spy  # type: ignore[method-assign]
    model.report(tmp_path / "page.html", tmp_path / "large.zarr", "YX")
    assert given[0] == (2112, 2112)
    assert "3000 × 5000" in (tmp_path / "page.html").read_text()


def test_the_page_names_the_frame(tmp_path: Path) -> None:
    noisy = film(3)
    result = denoised(noisy)
    result[1] = noisy[1]
    found = assess(io.wrap(noisy, "TYX"), result)
    path = write_report(tmp_path / "page.html", found, truth=io.wrap(np.broadcast_to(CLEAN, noisy.shape), "TYX"))
    assert "This is time point 2. " in path.read_text()
    with pytest.raises(InputError, match="must agree"):
        write_report(tmp_path / "other.html", found, truth=io.wrap(np.pad(CLEAN, 2)))


def test_channels_and_time_points_have_the_names_of_their_file(tmp_path: Path) -> None:
    noisy = np.stack([film(2), film(2, 1)], axis=1)
    result = CLEAN + gaussian_filter(noisy - CLEAN, (0, 0, 3, 3))
    result[1, 1] += 15
    path = tmp_path / "cells.ome.tif"
    tifffile.imwrite(path, noisy, ome=True, metadata={"axes": "TCYX", "Channel": {"Name": ["DAPI", "GFP"]}})
    found = assess(io.read(path), result)
    assert "in GFP." in found.verdict.reason and "time point 2" in found.verdict.reason
    page = write_report(tmp_path / "page.html", found).read_text()
    assert "<h1>cells.ome.tif, time point 2</h1>" in page and "<title>cells.ome.tif, time point 2" in page
    assert "DAPI in magenta and GFP in green" in page


def test_a_photograph_is_known_by_its_file(tmp_path: Path) -> None:
    imageio.imwrite(tmp_path / "grey.jpg", CLEAN.astype(np.uint8))
    assert is_photograph(io.read(tmp_path / "grey.jpg"))
    assert is_photograph(io.wrap(np.zeros((8, 9, 3), np.uint8), "YXC"))
    assert not is_photograph(io.wrap(np.zeros((8, 9, 3), np.uint16), "YXC"))
    assert not is_photograph(io.wrap(np.zeros((3, 8, 9), np.uint8), "CYX"))


def test_noise_of_a_camera_file_that_stays_is_said_plainly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shared = gaussian_filter(rng.standard_normal((256, 256, 3)), (1, 1, 0))
    clean = data.astronaut()[100:356, 100:356].astype(np.float32)
    imageio.imwrite(tmp_path / "photo.jpg", np.clip(clean + 10 * shared / shared.std(), 0, 255).astype(np.uint8))
    noisy = io.read(tmp_path / "photo.jpg")
    for result in (np.asarray(noisy.data), clean.astype(np.uint8), gaussian_filter(clean, (4, 4, 0)).astype(np.uint8)):
        verdict = assess(noisy, result).verdict
        assert verdict.word == "check" and verdict.reason.startswith("Neighboring pixels share noise")
        assert "raw file" in verdict.advice and verdict.psnr is None


@pytest.mark.parametrize(("shares", "said"), [((0.3, 0.0), "30% in DAPI."), ((0.01, 0.04), ""), (None, "")])
def test_noisy_input_in_the_result_is_told(shares: tuple[float, ...] | None, said: str, tmp_path: Path) -> None:
    noisy, path = np.stack([film(1)[0], film(1, 1)[0]]), tmp_path / "cells.ome.tif"
    tifffile.imwrite(path, noisy, ome=True, metadata={"axes": "CYX", "Channel": {"Name": ["DAPI", "GFP"]}})
    found = assess(io.read(path), denoised(noisy), input_share=shares)
    page = write_report(tmp_path / "page.html", found).read_text()
    assert (said in found.verdict.reason) and (said in page)
    assert bool(said) == ("noisy input" in found.verdict.reason) == ("--steps" in found.verdict.advice)
    assert found.figures().get("input_share") == (None if shares is None else list(shares))
