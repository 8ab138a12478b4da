"""FITS: what astropy writes and reads, and what other people's pipelines put beside an image."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from roundtrip import assert_same, copy, noise

from noise2same import io
from noise2same.errors import InputError

fits = pytest.importorskip("astropy.io.fits")
WCS = pytest.importorskip("astropy.wcs").WCS


def sky() -> Any:
    wcs = WCS(naxis=2)
    wcs.wcs.ctype, wcs.wcs.crval, wcs.wcs.cdelt = ["RA---TAN", "DEC--TAN"], [10.7, 41.3], [-2e-4, 2e-4]
    header = wcs.to_header()
    header["OBJECT"], header["EXPTIME"] = ("M31", "seen through clouds"), 300.0
    header.add_history("flat fielded")
    header["HIERARCH ESO DET CHIP1 GAIN"] = 1.7
    return header


def pipeline(path: Path, pixels: np.ndarray, *, tiled: str = "", **options: object) -> Path:
    """A file as pipelines leave it: image, errors, flags and a table."""
    kind = fits.CompImageHDU if tiled else fits.ImageHDU
    compression = {"compression_type": tiled, "quantize_level": 0} if tiled else {}
    hdus = [
        fits.PrimaryHDU(header=fits.Header({"TELESCOP": "2.2 m"})),
        kind(pixels, sky(), name="SCI", **compression),
        fits.ImageHDU(np.ones(pixels.shape, "f4"), name="ERR"),
        fits.CompImageHDU(np.zeros(pixels.shape, "i2"), name="DQ"),
        fits.BinTableHDU.from_columns([fits.Column("star", "J", array=[1, 2])], name="CATALOG"),
    ]
    fits.HDUList(hdus).writeto(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.fits", "a.fits.gz", "a.fits.fz"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "float32", "float64"])
def test_header_and_other_hdus_come_back(dtype: str, name: str, tmp_path: Path) -> None:
    pixels = noise((40, 50), dtype)
    image = io.read(pipeline(tmp_path / name, pixels))
    assert (image.axes, image.dtype, image.others) == ("YX", np.dtype(dtype), 0)
    np.testing.assert_array_equal(image.data[3:9, 40:], pixels[3:9, 40:])
    np.testing.assert_array_equal(image.data[-1, ::-7], pixels[-1, ::-7])
    with io.create(tmp_path / f"b{name[1:]}", image) as out:
        out[...] = image.data[...] + image.dtype.type(1)
    assert io.read(tmp_path / f"b{name[1:]}").dtype == np.dtype(dtype)
    with fits.open(tmp_path / name) as old, fits.open(tmp_path / f"b{name[1:]}", checksum=True) as new:
        np.testing.assert_array_equal(new["SCI"].data, pixels + pixels.dtype.type(1))
        assert [hdu.name for hdu in new] == ["PRIMARY", "SCI", "ERR", "DQ", "CATALOG"]
        assert WCS(new["SCI"].header).wcs == WCS(old["SCI"].header).wcs
        assert str(new["SCI"].header["HISTORY"]) == "flat fielded"
    difference = fits.FITSDiff(str(tmp_path / name), str(tmp_path / f"b{name[1:]}"))
    assert {number for number, *_ in difference.diff_hdus} == {1}, difference.report()  # the image, by its pixels alone
    assert difference.diff_hdus[0][1].diff_headers.identical or name.endswith("fz"), difference.report()


def test_scale_zero_and_blank(tmp_path: Path) -> None:
    raw = noise((40, 50), "int16")
    raw[3, 4] = 0
    hdu = fits.PrimaryHDU(raw, sky())
    hdu.header["BSCALE"], hdu.header["BZERO"], hdu.header["BLANK"] = 0.5, 100.0, 0
    hdu.header["DATAMAX"] = 1e9
    hdu.writeto(tmp_path / "a.fits")
    # astropy writes what it holds: the cards are put into the file by hand
    with fits.open(tmp_path / "a.fits", mode="update", do_not_scale_image_data=True) as hdus:
        hdus[0].header.update({"BSCALE": 0.5, "BZERO": 100.0, "BLANK": 0})
    with fits.open(tmp_path / "a.fits", do_not_scale_image_data=True) as hdus:
        stored = hdus[0].data.copy()
        assert hdus[0].header["BSCALE"] == 0.5
    image = io.read(tmp_path / "a.fits")
    expected = np.where(stored == 0, np.nan, stored * 0.5 + 100).astype("float32")
    assert (image.dtype, int(np.isnan(image.data[...]).sum())) == (np.float32, int((stored == 0).sum()))
    np.testing.assert_array_equal(image.data[...], expected)
    assert_same(copy(image, tmp_path / "b.fits"), image)
    header = fits.getheader(tmp_path / "b.fits")
    assert header["BITPIX"] == -32 and not {"BSCALE", "BZERO", "BLANK", "DATAMAX"} & set(header)
    assert header["OBJECT"] == "M31"


@pytest.mark.parametrize("tiled", ["RICE_1", "GZIP_1", "PLIO_1", "HCOMPRESS_1"])
def test_tiles_are_read_and_written_plain(tiled: str, tmp_path: Path) -> None:
    pixels = noise((40, 50), "int16")
    image = io.read(pipeline(tmp_path / "a.fits", pixels, tiled=tiled))
    np.testing.assert_array_equal(image.data[5:9, 2:30], pixels[5:9, 2:30])
    assert_same(copy(image, tmp_path / "b.fits"), image)
    with fits.open(tmp_path / "b.fits") as new:
        assert type(new["SCI"]) is fits.ImageHDU and new["SCI"].header["OBJECT"] == "M31"
        assert [hdu.name for hdu in new] == ["PRIMARY", "SCI", "ERR", "DQ", "CATALOG"]


@pytest.mark.parametrize(
    ("shape", "cards", "axes", "read"),
    [
        ((3, 20, 30), {}, "CYX", (3, 20, 30)),
        ((1, 1, 20, 30), {"CTYPE3": "FREQ", "CTYPE4": "STOKES"}, "YX", (20, 30)),
        ((5, 20, 30), {"CTYPE3": "TIME", "CUNIT3": "s", "CDELT3": 2.0}, "TYX", (5, 20, 30)),
        ((4, 20, 30), {"CTYPE3": "STOKES"}, "CYX", (4, 20, 30)),
    ],
)
def test_axes(shape: tuple[int, ...], cards: dict, axes: str, read: tuple[int, ...], tmp_path: Path) -> None:
    fits.PrimaryHDU(noise(shape, "float32"), fits.Header(cards)).writeto(tmp_path / "a.fits")
    image = io.read(tmp_path / "a.fits")
    assert (image.axes, image.shape) == (axes, read)
    assert_same(copy(image, tmp_path / "b.fits"), image)
    assert fits.getdata(tmp_path / "b.fits").shape == shape


def chips(path: Path) -> list[np.ndarray]:
    """A camera of two chips, with errors of each."""
    pixels = [noise((40, 50), "uint16"), noise((30, 20), "float32")]
    kind = fits.CompImageHDU if path.suffix == ".fz" else fits.ImageHDU
    hdus = [fits.PrimaryHDU(header=fits.Header({"TELESCOP": "2.2 m"}))]
    for number, chip in enumerate(pixels, 1):
        options = {"quantize_level": 0, "compression_type": "GZIP_2"} if path.suffix == ".fz" else {}
        hdus += [kind(chip, sky(), name="SCI", **options), fits.ImageHDU(chip * 0, name="ERR")]
        hdus[-2].ver = hdus[-1].ver = number
    fits.HDUList(hdus).writeto(path)
    return pixels


@pytest.mark.parametrize("name", ["a.fits", "a.fits.gz", "a.fits.fz"])
def test_all_chips_of_a_camera_go_into_one_file(name: str, tmp_path: Path) -> None:
    pixels = chips(tmp_path / name)
    names = io.series.names(tmp_path / name)
    assert names == [tmp_path / name / "0", tmp_path / name / "1"]
    result = tmp_path / f"b{name[1:]}"
    places, whole = io.series.places(names, result)
    assert whole == result
    images = [io.read(one) for one in names]
    for image, place, chip in zip(images, places, pixels, strict=True):
        np.testing.assert_array_equal(image.data[...], chip)
        with io.create(place, image) as out:
            out[...] = image.data[...] + image.dtype.type(1)
    io.series.join(result, places, images)
    with fits.open(tmp_path / name) as old, fits.open(result) as new:
        assert [(hdu.name, hdu.ver) for hdu in new] == [(hdu.name, hdu.ver) for hdu in old]
        for number, chip in enumerate(pixels, 1):
            np.testing.assert_array_equal(new["SCI", number].data, chip + chip.dtype.type(1))
            assert new["SCI", number].header["OBJECT"] == "M31" and not new["ERR", number].data.any()


def test_chips_from_the_command_line(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    chips(tmp_path / "a.fits")
    fast = ("--steps", 2, "--set", "features=4", "--set", "patch=32", "--set", "batch=2")
    code, _, errors = run("denoise", tmp_path / "a.fits", "-o", tmp_path / "b.fits", *fast)
    assert (code, io.series.count(tmp_path / "b.fits")) == (0, 2), errors
    code, _, errors = run("denoise", tmp_path / "a.fits", "-o", tmp_path / "c.fits", "--series", 1, *fast)
    assert code == 0, errors
    with fits.open(tmp_path / "a.fits") as old, fits.open(tmp_path / "c.fits") as new:
        np.testing.assert_array_equal(new["SCI", 1].data, old["SCI", 1].data)  # the other chip is as it was
        assert not np.array_equal(new["SCI", 2].data, old["SCI", 2].data)


@pytest.mark.parametrize("name", ["b.fits", "b.fits.fz"])
def test_images_of_other_files_go_into_one_fits(name: str, tmp_path: Path) -> None:
    images = [io.Image(noise((20, 30)), "YX"), io.Image(noise((4, 20, 30), "float32"), "ZYX")]
    places = [tmp_path / f"{number}{name[1:]}" for number in range(2)]
    for image, place in zip(images, places, strict=True):
        copy(image, place)
    io.series.join(tmp_path / name, places, images)
    with fits.open(tmp_path / name) as hdus:
        hdus.verify("exception")
    assert io.series.count(tmp_path / name) == 2
    for number, image in enumerate(images):
        assert_same(io.read(tmp_path / name / str(number)), image)


def test_a_cube_of_spectra_asks_for_its_axes(tmp_path: Path) -> None:
    fits.PrimaryHDU(noise((9, 20, 30), "float32"), fits.Header({"CTYPE3": "WAVE"})).writeto(tmp_path / "a.fits")
    with pytest.raises(InputError, match=r"a.fits has shape .* pass axes"):
        io.read(tmp_path / "a.fits")
    assert io.read(tmp_path / "a.fits", "ZYX").shape == (9, 20, 30)


@pytest.mark.parametrize("axes", ["YX", "ZYX", "TCZYX", "SYX", "YXC"])
def test_images_of_other_formats_become_fits(axes: str, tmp_path: Path) -> None:
    lengths = {"S": 2, "T": 2, "C": 3, "Z": 4, "Y": 20, "X": 30}
    size = {letter: value for letter, value in {"T": 1.5, "Z": 0.5, "Y": 0.1, "X": 0.2}.items() if letter in axes}
    image = io.Image(noise(tuple(lengths[letter] for letter in axes)), axes, size, "micrometer")
    there = copy(image, tmp_path / "a.fits")
    with fits.open(tmp_path / "a.fits") as hdus:
        hdus.verify("exception")
    if axes == "YXC":
        np.testing.assert_array_equal(np.moveaxis(there.data[...], 0, -1), image.data)
        assert there.axes == "CYX"
    else:
        assert_same(there, image)
    result = io.read_result(tmp_path / "a.fits", image)
    assert result is not None
    assert_same(result, image)


def test_nan_stays(tmp_path: Path) -> None:
    pixels = noise((40, 50), "float32")
    pixels[2, 3] = np.nan
    fits.writeto(tmp_path / "a.fits", pixels)
    assert_same(copy(io.read(tmp_path / "a.fits"), tmp_path / "b.fits"), io.read(tmp_path / "a.fits"))


@pytest.mark.parametrize("name", ["a.fits", "a.fits.gz", "a.fits.fz"])
def test_truncated_and_wrong_files(name: str, tmp_path: Path) -> None:
    tiled = "GZIP_2" if name.endswith("fz") else ""
    path = tmp_path / name
    fits.HDUList([fits.PrimaryHDU(), pipeline_image(tiled)]).writeto(path)
    whole = path.read_bytes()
    for length in (0, 1, 50, 3000, len(whole) // 2, len(whole) - 3000):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=f"{name} (is truncated or corrupt|has no HDU|is damaged)"):
            io.read(path).data[...]
    path.write_bytes(b"This is no image. " * 1000)
    with pytest.raises(InputError, match=f"{name} is truncated or corrupt"):
        io.read(path)


def pipeline_image(tiled: str) -> Any:
    pixels = np.random.default_rng(0).integers(0, 60000, (90, 90)).astype("uint16")
    return fits.CompImageHDU(pixels, compression_type=tiled) if tiled else fits.ImageHDU(pixels)


def test_files_without_an_image_say_what_they_have(tmp_path: Path) -> None:
    table = fits.BinTableHDU.from_columns([fits.Column("star", "J", array=[1, 2])], name="CATALOG")
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(tmp_path / "a.fits")
    with pytest.raises(InputError, match=r"a.fits has no HDU with an image.*CATALOG \(BinTableHDU\)"):
        io.read(tmp_path / "a.fits")
    with pytest.raises(InputError, match="no float16"):
        io.check_output(tmp_path / "b.fits", [], io.Image(noise((20, 20), "float16"), "YX"))


def test_the_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits.writeto(tmp_path / "a.fits", noise((20, 20)))
    monkeypatch.setitem(sys.modules, "astropy.io.fits", None)
    with pytest.raises(InputError, match=r"a.fits needs astropy.*pip install 'noise2same\[astronomy\]'"):
        io.read(tmp_path / "a.fits")


def test_another_file_is_not_copied_into_the_result(tmp_path: Path) -> None:
    image = io.read(pipeline(tmp_path / "a.fits.gz", noise((40, 50), "float32")))
    (tmp_path / "a.fits.gz").write_bytes(gzip.compress(b"changed"))
    with pytest.raises(InputError, match="has changed while it was read"), io.create(tmp_path / "b.fits", image):
        pass
    assert not (tmp_path / "b.fits").exists()
