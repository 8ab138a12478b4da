"""TIFF in its flavours: what is written reads back the same, and damage is noticed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import roundtrip
import tifffile
from roundtrip import copy, noise

from noise2same import io
from noise2same.errors import InputError
from noise2same.io import tiff


def assert_same(copied: io.Image, image: io.Image) -> None:
    roundtrip.assert_same(copied, image)
    for key in ("flavour", "compression", "predictor", "photometric"):
        assert copied.details[key] == image.details[key]


UM = {"unit": "um", "spacing": 0.5}
OME = {f"PhysicalSize{letter}": 0.25 for letter in "XY"} | {"PhysicalSizeZ": 1.5, "PhysicalSizeZUnit": "µm"}
CASES: dict[str, tuple[tuple[int, ...], str, dict[str, Any], str, dict[str, float], str]] = {
    # name: shape, dtype, options of imwrite, axes, pixel size, unit
    "plain": ((40, 50), "uint8", {}, "YX", {}, ""),
    "plain axes": ((5, 40, 50), "float32", {"metadata": {"axes": "ZYX"}}, "ZYX", {}, ""),
    "plain int16": ((40, 50), "int16", {"compression": "zstd"}, "YX", {}, ""),
    "plain dpi": ((40, 50), "uint8", {"resolution": (300, 300), "resolutionunit": "INCH"}, "YX", 1 / 300, "inch"),
    "plain cm": ((40, 50), "uint8", {"resolution": (9e4, 9e4), "resolutionunit": "CENTIMETER"},
                 "YX", 1 / 9e4, "centimeter"),
    "big-endian": ((40, 50), "uint16", {"byteorder": ">"}, "YX", {}, ""),
    "bigtiff tiled": ((40, 50), "uint16", {"bigtiff": True, "tile": (16, 16)}, "YX", {}, ""),
    "min is white": ((40, 50), "uint8", {"photometric": "miniswhite"}, "YX", {}, ""),
    "rgb": ((40, 50, 3), "uint8", {"photometric": "rgb", "compression": "lzw", "predictor": True}, "YXC", {}, ""),
    "rgb 16": ((40, 50, 3), "uint16", {"photometric": "rgb"}, "YXC", {}, ""),
    "rgba": ((40, 50, 4), "uint8", {"photometric": "rgb"}, "YXC", {}, ""),
    "imagej": ((40, 50), "uint8", {"imagej": True}, "YX", {}, ""),
    "imagej zcyx": ((4, 3, 40, 50), "uint16",
                    {"imagej": True, "resolution": (10, 10), "metadata": UM | {"axes": "ZCYX"}},
                    "ZCYX", {"Z": 0.5, "Y": 0.1, "X": 0.1}, "micrometer"),
    "imagej time": ((7, 40, 50), "float32", {"imagej": True, "metadata": {"axes": "TYX", "finterval": 2.5}},
                    "TYX", {"T": 2.5}, ""),
    "imagej lzw": ((7, 40, 50), "uint8", {"imagej": True, "compression": "lzw", "metadata": UM | {"axes": "ZYX"}},
                   "ZYX", {"Z": 0.5, "Y": 1, "X": 1}, "micrometer"),
    "imagej rgb": ((3, 40, 50, 3), "uint8", {"imagej": True, "metadata": UM | {"axes": "ZYXS"}},
                   "ZYXC", {"Z": 0.5, "Y": 1, "X": 1}, "micrometer"),
    "ome": ((2, 3, 4, 40, 50), "uint16", {"ome": True, "metadata": OME | {"axes": "TCZYX", "TimeIncrement": 3.0}},
            "TCZYX", {"T": 3.0, "Z": 1.5, "Y": 0.25, "X": 0.25}, "micrometer"),
    "ome float zlib": ((4, 40, 50), "float64", {"ome": True, "compression": "zlib", "metadata": OME | {"axes": "ZYX"}},
                       "ZYX", {"Z": 1.5, "Y": 0.25, "X": 0.25}, "micrometer"),
    "ome rgb": ((40, 50, 3), "uint8", {"ome": True, "photometric": "rgb", "metadata": OME | {"axes": "YXS"}},
                "YXC", {"Y": 0.25, "X": 0.25}, "micrometer"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lazy", [False, True])
def test_round_trip(case: str, lazy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, dtype, options, axes, size, unit = CASES[case]
    if lazy:
        monkeypatch.setattr(tiff, "LAZY_BYTES", 100)
    pixels = noise(shape, dtype)
    source = tmp_path / "in.tif"
    tifffile.imwrite(source, pixels, **{"photometric": "rgb" if axes.endswith("C") else "minisblack"} | options)
    image = io.read(source)
    assert isinstance(image.data, io.Pieces) == (lazy and case != "rgba")  # of which a part is the image
    assert (image.axes, image.unit, image.dtype) == (axes, unit, np.dtype(dtype))
    assert image.pixel_size == pytest.approx({"Y": size, "X": size} if isinstance(size, float) else size, rel=1e-6)
    np.testing.assert_array_equal(image.data[...], pixels[..., :3] if case == "rgba" else pixels)
    copied = copy(image, tmp_path / "out.tif")
    assert_same(copied, image)
    with tifffile.TiffFile(tmp_path / "out.tif") as tif:  # as others see it
        np.testing.assert_array_equal(tif.asarray(), pixels)
        assert int(tif.pages[0].photometric) == image.details["photometric"]
        assert len(tif.pages) == np.prod(shape) // np.prod(tif.pages[0].shape)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("text", ["um", "µm", "micron", "\\u00B5m"])
def test_imagej_spells_micrometers_in_many_ways(text: str, tmp_path: Path) -> None:
    description = f"ImageJ=1.54f\nimages=1\nunit={text}\n"
    tifffile.imwrite(
        tmp_path / "a.tif", noise((20, 20)), description=description.encode("latin1"), metadata=None, resolution=(4, 4)
    )
    image = io.read(tmp_path / "a.tif")
    assert (image.unit, image.pixel_size) == ("micrometer", {"Y": 0.25, "X": 0.25})


def test_imagej_keeps_what_it_shows(tmp_path: Path) -> None:
    lut = np.tile(np.arange(256, dtype="uint8"), (3, 1))
    shown = {"mode": "composite", "Labels": ["a", "b"], "Ranges": (0.0, 9.0, 1.0, 8.0), "LUTs": [lut, lut[:, ::-1]]}
    tifffile.imwrite(tmp_path / "a.tif", noise((2, 20, 20)), imagej=True, metadata=shown | {"axes": "CYX"})
    copy(io.read(tmp_path / "a.tif"), tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as tif:
        found = tif.imagej_metadata or {}
    assert found["mode"] == "composite" and found["Labels"] == ["a", "b"] and found["Ranges"] == shown["Ranges"]
    np.testing.assert_array_equal(found["LUTs"], shown["LUTs"])


def test_imagej_lut_stays_and_plain_palette_is_refused(tmp_path: Path) -> None:
    colormap = np.arange(3 * 256, dtype="uint16").reshape(3, 256)
    tifffile.imwrite(tmp_path / "a.tif", noise((20, 20), "uint8"), imagej=True, colormap=colormap)
    copy(io.read(tmp_path / "a.tif"), tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as tif:
        np.testing.assert_array_equal(tif.pages.first.colormap, colormap)
    tifffile.imwrite(tmp_path / "c.tif", noise((20, 20), "uint8"), photometric="palette", colormap=colormap)
    with pytest.raises(InputError, match=r"palette"):
        io.read(tmp_path / "c.tif")


@pytest.mark.parametrize(
    ("axes", "shape", "dtype", "flavour", "written"),
    [
        ("ZYX", (3, 20, 30), "float64", "imagej", "ome"),
        ("ZYX", (3, 20, 30), "int16", "imagej", "imagej"),
        ("CZYX", (2, 3, 20, 30), "uint8", "imagej", "ome"),
        ("YXC", (20, 30, 3), "uint16", "imagej", "ome"),
        ("SYX", (3, 20, 30), "uint16", "imagej", "plain"),
        ("SYX", (3, 20, 30), "uint16", "ome", "plain"),
        ("STCZYX", (2, 2, 2, 2, 20, 30), "uint16", "ome", "plain"),
        ("ZYX", (1, 20, 30), "uint16", "ome", "plain"),
        ("TZYX", (1, 3, 20, 30), "uint16", "imagej", "plain"),
        ("YX", (20, 30), "int64", "ome", "plain"),
        ("YX", (20, 30), "float16", "plain", "plain"),
        ("XY", (20, 30), "uint8", "ome", "plain"),
        ("YXC", (20, 30, 2), "uint8", "plain", "plain"),
        ("YXC", (20, 30, 4), "uint8", "ome", "plain"),
        ("YXZ", (20, 30, 5), "uint8", "plain", "plain"),
        ("CYX", (3, 20, 30), "uint8", "plain", "plain"),
        ("YX", (1, 1), "uint8", "imagej", "imagej"),
    ],
)
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_axes_and_types_beyond_a_flavour(
    axes: str, shape: tuple[int, ...], dtype: str, flavour: str, written: str, compression: str | None, tmp_path: Path
) -> None:
    details = {"flavour": flavour, "compression": compression, "predictor": False}
    size = {letter: 0.5 for letter in axes if letter in "ZYX"}
    image = io.Image(noise(shape, dtype), axes, size, "micrometer", None, details)
    copied = copy(image, tmp_path / "out.tif")
    assert_same(copied, io.Image(image.data, axes, size, "micrometer", None, copied.details))
    assert (copied.details["flavour"], copied.details["compression"]) == (written, compression)


def test_ome_name_gives_ome(tmp_path: Path) -> None:
    copied = copy(io.Image(noise((3, 20, 30)), "ZYX"), tmp_path / "out.ome.tif")
    assert (copied.details["flavour"], copied.axes) == ("ome", "ZYX")


def test_mixed_units_become_one(tmp_path: Path) -> None:
    sizes = {"PhysicalSizeX": 100.0, "PhysicalSizeXUnit": "nm", "PhysicalSizeY": 0.1, "PhysicalSizeZ": 2.0}
    tifffile.imwrite(tmp_path / "a.ome.tif", noise((3, 20, 20)), metadata=sizes | {"axes": "ZYX"})
    image = io.read(tmp_path / "a.ome.tif")
    assert image.unit == "nanometer"
    assert image.pixel_size == pytest.approx({"Z": 2000, "Y": 100, "X": 100})


def test_jpeg_compression_is_not_repeated(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", noise((64, 64, 3), "uint8"), photometric="rgb", compression="jpeg")
    image = io.read(tmp_path / "a.tif")
    assert (image.axes, copy(image, tmp_path / "b.tif").details["compression"]) == ("YXC", None)


def test_pyramid_gives_full_resolution(tmp_path: Path) -> None:
    pixels = noise((64, 64))
    with tifffile.TiffWriter(tmp_path / "a.ome.tif") as writer:
        writer.write(pixels, subifds=1, tile=(16, 16))
        writer.write(pixels[::2, ::2], subfiletype=1, tile=(16, 16))
    np.testing.assert_array_equal(io.read(tmp_path / "a.ome.tif").data, pixels)


def test_unknown_axes_are_asked_for_and_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, noise((5, 20, 20)), photometric="minisblack")
    with pytest.raises(InputError, match=r"a.tif.*pass axes"):
        io.read(path)
    image = io.read(path, "tyx")
    assert image.axes == "TYX"
    assert copy(image, tmp_path / "b.tif").axes == "TYX"
    with pytest.raises(InputError, match=r"a.tif.*letters"):
        io.read(path, "YX")


def test_channels_of_colour_are_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, noise((2, 20, 20, 3), "uint8"), photometric="rgb", metadata={"axes": "CYXS"})
    with pytest.raises(InputError, match=r"a.ome.tif.*pass axes"):
        io.read(path)
    assert io.read(path, "SYXC").shape == (2, 20, 20, 3)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("case", [name for name in CASES if name != "rgba"])
def test_truncated(case: str, lazy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, dtype, options, axes, _, _ = CASES[case]
    if lazy:
        monkeypatch.setattr(tiff, "LAZY_BYTES", 100)
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, noise(shape, dtype), **{"photometric": "rgb" if axes.endswith("C") else "minisblack"} | options
    )
    whole = path.read_bytes()
    with tifffile.TiffFile(path) as tif:
        offsets = [offset for page in tif.pages for offset in page.dataoffsets]
        end = max(o + n for page in tif.pages for o, n in zip(page.dataoffsets, page.databytecounts, strict=True))
    for length in {0, 3, 7, 20, 120, min(offsets), min(offsets) + 10, len(whole) // 2, max(offsets) + 1, end - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"a.tif.*(truncated|corrupt)"):
            io.read(path)


def test_lost_pages_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path, shaped=False) as writer:  # each page's tags behind its pixels
        for page in noise((4, 20, 20)):
            writer.write(page, contiguous=False, photometric="minisblack")
    whole = path.read_bytes()
    for length in range(100, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"truncated|corrupt"):
            io.read(path, "ZYX")


def test_damaged_piece_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, noise((200, 200)), compression="zlib", rowsperstrip=50)
    with tifffile.TiffFile(path) as tif:
        start = tif.pages[0].dataoffsets[2]
    content = bytearray(path.read_bytes())
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.tif is truncated or corrupt"):
        io.read(path).data[...]
    monkeypatch.setattr(tiff, "LAZY_BYTES", 100)
    image = io.read(path)
    image.data[:10]
    with pytest.raises(InputError, match=r"a.tif is damaged"):
        image.data[110:120]


@pytest.mark.parametrize("kind", ["bool", "complex64"])
def test_types_that_are_not_intensities(kind: str, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.ones((20, 20), kind))
    with pytest.raises(InputError, match=f"a.tif.*{kind}"):
        io.read(tmp_path / "a.tif")


def paged(path: Path, count: int) -> list[int]:
    """Write small pages; where each begins."""
    with tifffile.TiffWriter(path, shaped=False) as writer:
        for page in noise((count, 4, 4)):
            writer.write(page, contiguous=False, photometric="minisblack")
    with tifffile.TiffFile(path) as tif:
        return [page.offset for page in tif.pages]


@pytest.mark.parametrize(("count", "last", "back"), [(3, 2, 0), (3, 1, 1), (3, 1, 0), (150, 149, 0), (150, 120, 110)])
def test_pages_in_a_circle(count: int, last: int, back: int, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    offsets = paged(path, count)
    content = bytearray(path.read_bytes())
    tags = int.from_bytes(content[offsets[last] : offsets[last] + 2], "little")
    link = offsets[last] + 2 + 12 * tags
    content[link : link + 4] = offsets[back].to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.tif is corrupt: its list of pages runs in a circle"):
        io.read(path, "ZYX")


def ome_of(own: str, files: list[tuple[str, int]]) -> bytes:
    """OME-XML of a file whose planes are pages of these files."""
    planes = "".join(
        f'<TiffData IFD="{page}" FirstZ="{z}" FirstC="0" FirstT="0" PlaneCount="1">'
        f'<UUID FileName="{name}">{name}</UUID></TiffData>'
        for z, (name, page) in enumerate(files)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
        f'UUID="{own}"><Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" '
        f'SizeX="20" SizeY="20" SizeC="1" SizeZ="{len(files)}" SizeT="1">'
        f'<Channel ID="Channel:0:0" SamplesPerPixel="1"/>{planes}</Pixels></Image></OME>'
    ).encode()


@pytest.mark.parametrize("lazy", [False, True])
def test_planes_in_another_file(lazy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lazy:
        monkeypatch.setattr(tiff, "LAZY_BYTES", 100)
    one, two, path = noise((2, 20, 20)), noise((2, 20, 20)) + 1, tmp_path / "a.ome.tif"

    def write(named: list[tuple[str, int]]) -> None:
        for name, pixels in (("a.ome.tif", one), ("b.ome.tif", two)):
            description = ome_of(name, [("b.ome.tif", 0), ("b.ome.tif", 1)] if name[0] == "b" else named)
            tifffile.imwrite(tmp_path / name, pixels, photometric="minisblack", metadata=None, description=description)

    write([("a.ome.tif", 1), ("b.ome.tif", 0), ("b.ome.tif", 1)])
    np.testing.assert_array_equal(io.read(path).data[...], [one[1], *two])
    write([("b.ome.tif", 0), ("b.ome.tif", 1)])
    with pytest.raises(InputError, match=r"a.ome.tif has its pixels in another file; open that"):
        io.read(path)
    for name in ("../b.ome.tif", "/etc/hostname"):
        write([("a.ome.tif", 0), (name, 0)])
        with pytest.raises(InputError, match=f"has pixels in {name}, which is not a file beside it"):
            io.read(path)
    write([("a.ome.tif", 0), ("b.ome.tif", 1)])
    (tmp_path / "b.ome.tif").unlink()
    with pytest.raises(InputError, match=r"a.ome.tif is incomplete"):
        io.read(path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "b.ome.tif")  # to open it would take for ever
        with pytest.raises(InputError, match=r"has pixels in b.ome.tif, which is not a file"):
            io.read(path)
