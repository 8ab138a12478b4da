"""Camera raw: a DNG as a camera writes it, made here; LibRaw reads it, and what we make of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from field_files import write_dng as write
from roundtrip import assert_same, copy, noise

from noise2same import io
from noise2same.errors import InputError

rawpy = pytest.importorskip("rawpy")

FAST = ("--steps", 2, "--set", "features=4", "--set", "patch=32", "--set", "batch=2")


def mosaic(shape: tuple[int, int] = (40, 60)) -> np.ndarray:
    return (noise(shape) * 10 + 60).astype(np.uint16)


@pytest.mark.parametrize("pattern", [(0, 1, 1, 2), (2, 1, 1, 0), (1, 0, 2, 1), (1, 2, 0, 1)])
@pytest.mark.parametrize("shape", [(40, 60), (42, 62)])
def test_the_mosaic_is_four_planes_and_comes_back(
    shape: tuple[int, int], pattern: tuple[int, ...], tmp_path: Path
) -> None:
    pixels = mosaic(shape)
    image = io.read(write(tmp_path / "a.dng", pixels, pattern, orientation=6))
    assert (image.axes, image.shape, image.dtype) == ("CYX", (4, shape[0] // 2, shape[1] // 2), np.uint16)
    assert [channel.name for channel in io.channels(image)] == ["R", "G1", "B", "G2"]
    red, blue = (divmod(pattern.index(color), 2) for color in (0, 2))
    np.testing.assert_array_equal(image.data[0], pixels[red[0] :: 2, red[1] :: 2])
    np.testing.assert_array_equal(image.data[2], pixels[blue[0] :: 2, blue[1] :: 2])
    np.testing.assert_array_equal(image.data[1], pixels[red[0] :: 2, 1 - red[1] :: 2])  # G1 is in the row of R
    assert image.details["camera"]["white"] == 4095
    assert_same(copy(image, tmp_path / "b.dng"), image)
    with rawpy.imread(str(tmp_path / "a.dng")) as old, rawpy.imread(str(tmp_path / "b.dng")) as new:
        np.testing.assert_array_equal(new.raw_image_visible, pixels)
        np.testing.assert_array_equal(new.raw_colors_visible, old.raw_colors_visible)
        assert new.black_level_per_channel == old.black_level_per_channel
        assert (new.white_level, new.sizes.flip) == (old.white_level, old.sizes.flip)
        np.testing.assert_allclose(new.camera_whitebalance, old.camera_whitebalance, rtol=1e-5)
        np.testing.assert_array_equal(new.postprocess(), old.postprocess())
    with tifffile.TiffFile(tmp_path / "b.dng") as tif:
        tags = tif.pages.first.tags
        assert (tags["Make"].value, tags["Model"].value) == ("Maker", "Camera 1")
        assert tags["DateTime"].value == "2026:11:18 12:00:00"


@pytest.mark.parametrize("name", ["b.png", "b.tif"])
def test_a_picture_is_developed(name: str, tmp_path: Path) -> None:
    image = io.read(write(tmp_path / "a.dng", mosaic(), orientation=6))
    io.check_output(tmp_path / name, [], image)
    with io.create(tmp_path / name, image) as out:
        out[...] = image.data[...]
    with rawpy.imread(str(tmp_path / "a.dng")) as raw:
        expected = raw.postprocess(output_bps=16, use_camera_wb=True, no_auto_bright=True)
    picture = io.read(tmp_path / name)
    assert (picture.axes, picture.shape, picture.dtype) == ("YXC", (60, 40, 3), np.uint16)  # upright
    np.testing.assert_array_equal(picture.data[...], expected)
    with io.create(tmp_path / name, image) as out:
        out[...] = 1000
    assert io.read(tmp_path / name).data[20:40, 10:30].std((0, 1)).max() < 20  # what was denoised is what is shown
    assert io.read_result(tmp_path / name, image) is None


def test_from_the_command_line(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    write(tmp_path / "a.dng", mosaic((128, 128)))
    code, _, errors = run("denoise", tmp_path / "a.dng", "-o", tmp_path / "b.png", *FAST)
    assert (code, imagecodecs.png_decode((tmp_path / "b.png").read_bytes()).shape) == (0, (128, 128, 3)), errors
    (tmp_path / "clean").mkdir()
    code, _, errors = run("denoise", tmp_path / "a.dng", "-o", tmp_path / "clean", *FAST)
    assert (code, io.read(tmp_path / "clean" / "a.dng").shape) == (0, (4, 64, 64)), errors


def test_planes_go_elsewhere_as_they_are(tmp_path: Path) -> None:
    image = io.read(write(tmp_path / "a.dng", mosaic()))
    assert copy(image, tmp_path / "b.zarr").shape == image.shape
    assert [channel.name for channel in io.channels(io.read(tmp_path / "b.zarr"))] == ["R", "G1", "B", "G2"]


def test_what_cannot_be_done_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.dng", mosaic())
    image = io.read(path)
    for name, dtype, match in (
        ("b.nef", None, "raw files of cameras are only read; write .dng, .tif or .png"),
        ("b.dng", "float32", "has uint16, not float32"),
        ("b.png", "uint8", "has uint16, not uint8"),
    ):
        with pytest.raises(InputError, match=match):
            io.check_output(tmp_path / name, [], image, dtype)
    with pytest.raises(InputError, match="a DNG holds the mosaic of a camera raw file, which The array is not"):
        io.check_output(tmp_path / "b.dng", [], io.wrap(mosaic()))
    whole = path.read_bytes()
    for length in (0, 1, 100, 2000, len(whole) - 1000):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"a.dng is (truncated|no camera raw file).*"):
            io.read(path).data[...]
    path.write_bytes(b"This is no image. " * 1000)
    with pytest.raises(InputError, match=r"a.dng is no camera raw file that LibRaw"):
        io.read(path)
    write(path, mosaic((36, 60)), tuple([1, 1, 0, 1, 1, 2] * 6), size=6)
    with pytest.raises(InputError, match=r"a.dng is not of a sensor with a Bayer mosaic"):
        io.read(path)
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(InputError, match=r"a.dng needs rawpy.*pip install 'noise2same\[camera\]'"):
        io.read(path)
