"""PNG, JPEG, NPY and Zarr, and images on their way between formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imagecodecs
import imageio.v3 as imageio
import numpy as np
import pytest
import zarr
from PIL import Image as Pillow
from roundtrip import assert_same, copy, noise

from noise2same import io
from noise2same.errors import InputError


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("samples", [1, 2, 3, 4])
def test_png(samples: int, dtype: str, tmp_path: Path) -> None:
    pixels = noise((40, 50, samples), dtype).squeeze()
    (tmp_path / "a.png").write_bytes(imagecodecs.png_encode(pixels))
    image = io.read(tmp_path / "a.png")
    assert image.axes == ("YX" if samples < 3 else "YXC")
    assert image.shape == ((40, 50) if samples < 3 else (40, 50, 3))
    assert_same(copy(image, tmp_path / "b.png"), image)
    np.testing.assert_array_equal(imagecodecs.png_decode((tmp_path / "b.png").read_bytes()), pixels)
    if samples != 2:  # TIFF too has an alpha channel beside colour
        copy(copy(image, tmp_path / "c.tif"), tmp_path / "b.png")
    np.testing.assert_array_equal(imagecodecs.png_decode((tmp_path / "b.png").read_bytes()), pixels)
    assert copy(image, tmp_path / "c.tif", "float32").shape == image.shape  # not beside pixels of another type


@pytest.mark.parametrize(("mode", "axes"), [("1", "YX"), ("L", "YX"), ("P", "YXC")])
def test_png_of_few_colours(mode: str, axes: str, tmp_path: Path) -> None:
    Pillow.fromarray(noise((20, 30), "uint8")).convert(mode).save(tmp_path / "a.png")
    image = io.read(tmp_path / "a.png")
    assert (image.axes, image.dtype, int(image.data[...].max()) > 100) == (axes, np.uint8, True)


@pytest.mark.parametrize(
    ("axes", "shape", "dtype", "match"),
    [
        ("ZYX", (3, 20, 20), "uint8", "axes 'ZYX'"),
        ("YXC", (20, 20, 2), "uint8", "YXC"),
        ("YX", (20, 20), "float32", "float32"),
    ],
)
def test_what_png_cannot_hold_is_refused_first(
    axes: str, shape: tuple[int, ...], dtype: str, match: str, tmp_path: Path
) -> None:
    image = io.Image(noise(shape, dtype), axes)
    with pytest.raises(InputError, match=f"a.png.*{match}"):
        io.check_output(tmp_path / "a.png", [], image)
    with pytest.raises(InputError, match=match), io.create(tmp_path / "a.png", image):
        pytest.fail("the block was entered")
    assert not list(tmp_path.iterdir())


def test_jpeg_is_read_upright(tmp_path: Path) -> None:
    turned = Pillow.Exif()
    turned[274] = 6  # orientation: a quarter to the right
    Pillow.fromarray(noise((20, 30, 3), "uint8")).save(tmp_path / "a.JPEG", exif=turned)
    image = io.read(tmp_path / "a.JPEG")
    assert (image.axes, image.shape, image.dtype) == ("YXC", (30, 20, 3), np.uint8)
    Pillow.fromarray(noise((20, 30), "uint8")).save(tmp_path / "grey.jpg")
    assert io.read(tmp_path / "grey.jpg").axes == "YX"
    Pillow.fromarray(noise((20, 30, 3), "uint8")).convert("CMYK").save(tmp_path / "cmyk.jpg")
    assert io.read(tmp_path / "cmyk.jpg").shape == (20, 30, 3)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", ">u2", "float64"])
def test_npy(dtype: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise((5, 20, 30), dtype))
    image = io.read(tmp_path / "a.npy", "ZYX")
    assert image.dtype == np.dtype(dtype).newbyteorder("=")
    with io.create(tmp_path / "b.npy", image) as out:
        out[:] = image.data[:]
    assert_same(io.read(tmp_path / "b.npy", "ZYX"), image)
    assert copy(io.read(tmp_path / "a.npy", "TYX"), tmp_path / "c.tif").axes == "TYX"


def ngff(path: Path, version: str, layout: str = "") -> np.ndarray:
    """An OME-Zarr image of two levels, as others write it."""
    pixels = noise((2, 3, 32, 40))
    root = zarr.open_group(path, mode="w", zarr_format=2 if version == "0.4" else 3)
    group = root.create_group("0") if layout else root
    types = {"c": {"type": "channel"}, "z": {"type": "space", "unit": "micrometer"}}
    types |= {"y": types["z"], "x": types["z"]}
    levels = [
        {"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": [1, 2.0, 0.3, 0.3]}]}
        for level in range(2)
    ]
    ome: dict[str, Any] = {
        "multiscales": [{"axes": [{"name": n, **types[n]} for n in "czyx"], "datasets": levels}],
        "omero": {"channels": [{"label": "DAPI", "color": "0000FF"}, {"label": "GFP", "color": "00FF00"}]},
    }
    if version == "0.4":
        ome["multiscales"][0]["version"] = "0.4"
        group.attrs.update(ome)
        root.attrs.update({"bioformats2raw.layout": 3} if layout else {})
    else:
        group.attrs["ome"] = {"version": "0.5", **ome}
        if layout:
            root.attrs["ome"] = {"version": "0.5", "bioformats2raw.layout": 3}
    group.create_array("0", data=pixels, chunks=(1, 2, 16, 16))
    group.create_array("1", data=pixels[..., ::2, ::2], chunks=(1, 2, 16, 16))
    return pixels


@pytest.mark.parametrize("layout", ["", "bioformats2raw"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr(version: str, layout: str, tmp_path: Path) -> None:
    pixels = ngff(tmp_path / "a.ome.zarr", version, layout)
    image = io.read(tmp_path / "a.ome.zarr")
    assert image.others == 0
    assert (image.axes, image.unit, image.pixel_size) == ("CZYX", "micrometer", {"Z": 2.0, "Y": 0.3, "X": 0.3})
    assert isinstance(image.data, io.Pieces)
    np.testing.assert_array_equal(image.data[1, :, 4:9], pixels[1, :, 4:9])
    copied = copy(image, tmp_path / "b.ome.zarr")
    assert_same(copied, image)
    for name in ("ngff", "omero", "levels"):
        assert copied.details[name] == image.details[name]
    assert copied.details["multiscale"]["datasets"] == image.details["multiscale"]["datasets"]
    written = zarr.open_group(tmp_path / "b.ome.zarr", mode="r")
    assert written.metadata.zarr_format == {"0.4": 2, "0.5": 3}[version]
    assert copy(image, tmp_path / "b.ome.zarr", "float32").dtype == np.float32  # over the first


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("axes", ["ZYX", "SYX", "YXC"])
def test_plain_zarr(axes: str, zarr_format: int, tmp_path: Path) -> None:
    attributes = {"axes": axes, "lens": "60x"}
    pixels = noise((20, 20, 3) if axes == "YXC" else (3, 20, 20), "int16")
    zarr.create_array(
        tmp_path / "a.zarr", data=pixels, zarr_format=zarr_format, attributes=attributes, chunks=(2, 5, 3)
    )
    image = io.read(tmp_path / "a.zarr")
    assert image.axes == axes
    copied = copy(image, tmp_path / "b.zarr")
    assert_same(copied, image)
    written = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert (written.metadata.zarr_format, written.chunks, written.attrs["lens"]) == (zarr_format, (2, 5, 3), "60x")
    assert io.read(tmp_path / "a.zarr", axes="TYX").axes == "TYX"


def test_zarr_arrays_inside_a_group(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("cells", data=noise((20, 20)))
    with pytest.raises(InputError, match=r"a.zarr.*cells"):
        io.read(tmp_path / "a.zarr")
    assert io.read(tmp_path / "a.zarr" / "cells").axes == "YX"


@pytest.mark.parametrize("names", [["a.ome.tif", "b.ome.zarr", "c.tif"], ["a.zarr", "b.ome.tif", "c.zarr"]])
@pytest.mark.parametrize("axes", ["YX", "ZYX", "TCZYX", "CYX", "SYX", "YXC", "ZYXC"])
def test_axes_and_pixel_sizes_cross_formats(axes: str, names: list[str], tmp_path: Path) -> None:
    lengths = {"S": 2, "T": 2, "C": 3, "Z": 4, "Y": 20, "X": 30}
    size = {letter: value for letter, value in {"T": 1.5, "Z": 0.5, "Y": 0.1, "X": 0.2}.items() if letter in axes}
    first = image = io.Image(noise(tuple(lengths[letter] for letter in axes)), axes, size, "micrometer")
    for name in names:
        image = copy(image, tmp_path / name)
        assert_same(image, first)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".npy"])
def test_truncated(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        np.save(path, noise((40, 50), "uint8"))
    else:
        imageio.imwrite(path, noise((40, 50), "uint8"))
    whole = path.read_bytes()
    for length in (0, 1, 5, 9, 30, 100, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=f"a{suffix}.*(truncated|corrupt)"):
            io.read(path)
    path.write_bytes(b"This is no image. " * 100)
    with pytest.raises(InputError, match=f"a{suffix}.*(truncated|corrupt)"):
        io.read(path)


def test_damaged_zarr(tmp_path: Path) -> None:
    ngff(tmp_path / "a.zarr", "0.5")
    chunk = next(path for path in (tmp_path / "a.zarr" / "0" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"a.zarr is damaged"):
        io.read(tmp_path / "a.zarr").data[...]
    (tmp_path / "a.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node')
    with pytest.raises(InputError, match=r"a.zarr is truncated or corrupt"):
        io.read(tmp_path / "a.zarr")
    (tmp_path / "b.zarr").mkdir()
    with pytest.raises(InputError, match=r"b.zarr is truncated or corrupt"):
        io.read(tmp_path / "b.zarr")


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.array([[{}, {}]], object), "pickled"),
        (np.ones((4, 4), complex), "complex128"),
        (np.array([["a", "b"]]), "<U1"),
        (np.ones((4, 4), bool), "bool"),
        (np.ones((0, 4)), "empty"),
        (np.ones(9), "two dimensions"),
        (np.ones((3, 4, 5)), "pass axes"),
    ],
)
def test_arrays_that_are_no_images(array: np.ndarray, match: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=f"a.npy.*{match}"):
        io.read(tmp_path / "a.npy")
