"""Photographs: color profile, EXIF and resolution go from any of PNG, JPEG and TIFF to any other, and turn once."""

from __future__ import annotations

from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from PIL import ImageCms, ImageOps
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import IFDRational
from roundtrip import copy, noise

from noise2same import io
from noise2same.errors import InputError

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
ENDS = ["png", "jpg", "tif"]


def exif(orientation: int = 1) -> Pillow.Exif:
    found = Pillow.Exif()
    found[271], found[272], found[306], found[315] = "Maker", "Camera 1", "2026:11:18 12:00:00", "A. Photographer"
    if orientation != 1:
        found[274] = orientation
    found[34665] = {33434: IFDRational(1, 250), 34855: 6400, 42036: "50 mm f/1.8"}  # exposure, ISO, lens
    found[34853] = {1: "N", 2: (IFDRational(48), IFDRational(12), IFDRational(30))}  # latitude
    return found


def write(path: Path, pixels: np.ndarray, orientation: int = 1) -> Path:
    options: dict = {"quality": 95} if path.suffix == ".jpg" else {}
    options |= {"exif": exif(orientation).tobytes(), "icc_profile": PROFILE, "dpi": (300, 200)}
    Pillow.fromarray(pixels).save(path, **options)
    return path


def told(path: Path) -> tuple[dict, dict, dict]:
    """What Pillow finds in a file: tags at the top, of the exposure and of the place."""
    with Pillow.open(path) as picture:
        found = picture.getexif()
        top = {tag: found[tag] for tag in (271, 272, 306, 315) if tag in found}
        return top, dict(found.get_ifd(34665)), dict(found.get_ifd(34853))


@pytest.mark.parametrize("there", ENDS)
@pytest.mark.parametrize("here", ENDS)
def test_profile_exif_and_resolution_are_kept(here: str, there: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a.{here}", noise((40, 60, 3), "uint8"))
    image = io.read(path)
    result = tmp_path / f"b.{there}"
    if there == "jpg":
        with pytest.warns(UserWarning, match="JPEG of quality 95 adds artefacts"):
            copied = copy(image, result)
    else:
        copied = copy(image, result)
        np.testing.assert_array_equal(copied.data[...], image.data[...])
    assert (copied.axes, copied.shape) == ("YXC", (40, 60, 3))
    with Pillow.open(result) as picture:
        assert picture.info["icc_profile"] == PROFILE
        assert picture.info["dpi"] == pytest.approx((300, 200), rel=1e-3)
    assert told(result) == told(path)
    assert told(result)[1][34855] == 6400


@pytest.mark.parametrize("there", ENDS)
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.filterwarnings("ignore:JPEG of quality")
def test_a_photograph_is_turned_once(orientation: int, there: str, tmp_path: Path) -> None:
    pixels = np.full((40, 60, 3), 128, "uint8")
    pixels[:16, :16] = (250, 20, 20)
    path = write(tmp_path / "a.jpg", pixels, orientation)
    copy(io.read(path), tmp_path / f"b.{there}")
    with Pillow.open(path) as old, Pillow.open(tmp_path / f"b.{there}") as new:
        upright, ours = np.asarray(ImageOps.exif_transpose(old)), np.asarray(ImageOps.exif_transpose(new))
    assert np.abs(upright.astype(int) - ours).max() < 12


def test_a_tiff_keeps_its_orientation(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", noise((40, 60, 3), "uint8"), 6)
    copy(io.read(path), tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as tif:
        assert (tif.pages.first.tags["Orientation"].value, tif.pages.first.shape) == (6, (40, 60, 3))
    image = io.read(path)
    with pytest.warns(UserWarning, match="artefacts"):
        copy(image, tmp_path / "b.jpg")
    assert io.read(tmp_path / "b.jpg").shape == (60, 40, 3)  # upright for everyone
    assert io.read_result(tmp_path / "b.jpg", image) is None


def test_texts_and_colors_of_a_png(tmp_path: Path) -> None:
    texts = PngInfo()
    texts.add_text("Title", "cells")
    texts.add_itxt("Comment", "größer")
    Pillow.fromarray(noise((40, 60), "uint8")).save(tmp_path / "a.png", pnginfo=texts, dpi=(72, 72))
    copy(io.read(tmp_path / "a.png"), tmp_path / "b.png")
    with Pillow.open(tmp_path / "b.png") as picture:
        picture.load()
        assert picture.text == {"Title": "cells", "Comment": "größer"}
        assert picture.info["dpi"] == pytest.approx((72, 72), rel=1e-3)


def test_sixteen_bits_keep_their_profile(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", noise((40, 60, 3)), photometric="rgb", iccprofile=PROFILE)
    image = io.read(tmp_path / "a.tif")
    copy(image, tmp_path / "b.png")
    assert imagecodecs.png_decode((tmp_path / "b.png").read_bytes()).dtype == np.uint16
    assert io.read(tmp_path / "b.png").details["icc"] == PROFILE
    copy(image, tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as tif:
        assert tif.pages.first.iccprofile == PROFILE


def test_damaged_words_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", noise((40, 60, 3), "uint8"))
    content = path.read_bytes()
    at = content.index(b"Exif\0\0") + 6
    path.write_bytes(content[: at + 8] + b"\xff" * 40 + content[at + 48 :])
    for name in ("b.png", "b.tif"):
        assert copy(io.read(path), tmp_path / name).shape == (40, 60, 3)


def test_what_jpeg_cannot_hold_is_refused_first(tmp_path: Path) -> None:
    for shape, axes, dtype, match in (
        ((3, 20, 20), "ZYX", "uint8", "one grey .* or RGB"),
        ((20, 20), "YX", "uint16", "uint8 only, not uint16"),
    ):
        with pytest.raises(InputError, match=match):
            io.check_output(tmp_path / "a.jpg", [], io.Image(noise(shape, dtype), axes))
