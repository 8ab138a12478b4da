"""CZI, ND2 and LIF: pixels, axes, sizes, names and scenes, and what becomes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from microscope_files import write_czi, write_lif
from roundtrip import copy, copy_all, noise

import noise2same as n2s
from noise2same import io
from noise2same.errors import InputError

nd2 = pytest.importorskip("nd2")
ome_types = pytest.importorskip("ome_types")
pytest.importorskip("pylibCZIrw")
pytest.importorskip("liffile")

SIZE = {"Z": 0.5, "Y": 0.2, "X": 0.1}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=[False, True], ids=["at once", "lazily"])
def lazy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether even small images are read piece by piece."""
    if request.param:
        monkeypatch.setattr("noise2same.io.image.LAZY_BYTES", 100)
    return bool(request.param)


def assert_pixels(image: io.Image, pixels: np.ndarray, lazy: bool) -> None:
    """The same pixels, whole and in parts."""
    assert isinstance(image.data, io.Pieces if lazy else io.Decoded)
    assert (image.shape, image.dtype) == (pixels.shape, pixels.dtype)
    np.testing.assert_array_equal(image.data[...], pixels)
    rng = np.random.default_rng(0)
    for _ in range(5):
        start = [int(rng.integers(0, n)) for n in pixels.shape]
        box = tuple(slice(a, int(rng.integers(a, n)) + 1) for a, n in zip(start, pixels.shape, strict=True))
        np.testing.assert_array_equal(image.data[box], pixels[box])
    np.testing.assert_array_equal(image.data[0, ..., ::-2], pixels[0, ..., ::-2])


def ome(path: Path) -> Any:
    """The metadata of an OME-TIFF, checked against its schema by a library of others."""
    return ome_types.from_xml(tifffile.tiffcomment(path), validate=False)


@pytest.mark.parametrize("tile", [0, 40])
def test_scenes_and_mosaics_of_czi(tile: int, lazy: bool, tmp_path: Path) -> None:
    scenes = [noise((1, 2, 3, 40, 100)), noise((1, 2, 3, 50, 60)) + 1]
    write_czi(tmp_path / "a.czi", [scene.astype("uint16") for scene in scenes], tile=tile)
    images = io.open_images(tmp_path / "a.czi")
    assert [image.label for image in images] == ["a.czi/0", "a.czi/1"]
    for image, scene in zip(images, scenes, strict=True):
        assert (image.axes, image.pixel_size, image.unit) == ("CZYX", SIZE, "micrometer")
        assert_pixels(image, scene[0].astype("uint16"), lazy)
        assert io.channels(image) == (io.Channel("DAPI", "#0000ff"), io.Channel("GFP", "#00ff00"))
    with pytest.raises(InputError, match=r"a.czi/2 does not exist: a.czi holds 2 images, 0 to 1"):
        io.read(tmp_path / "a.czi" / "2")


@pytest.mark.parametrize(
    ("axes", "shape", "dtype"),
    [
        ("YX", (1, 1, 1, 30, 40), "uint8"),
        ("TYX", (4, 1, 1, 30, 40), "uint16"),
        ("TCZYX", (2, 2, 2, 30, 40), "float32"),
        ("YXC", (30, 40, 3), "uint8"),
    ],
)
def test_axes_and_types_of_czi(axes: str, shape: tuple[int, ...], dtype: str, lazy: bool, tmp_path: Path) -> None:
    pixels = noise(shape, dtype)
    write_czi(tmp_path / "a.czi", [pixels])
    image = io.read(tmp_path / "a.czi")
    assert (image.axes, image.others) == (axes, 0)
    assert_pixels(image, pixels.squeeze(), lazy)


def test_images_of_lif(lazy: bool, tmp_path: Path) -> None:
    written = [
        ("TCZYX", noise((2, 2, 3, 40, 50))),
        ("ZCYX", noise((3, 2, 40, 30), "uint8")),
        ("YX", noise((30, 40), "float32")),
        ("MYX", noise((4, 40, 30))),
    ]
    write_lif(tmp_path / "a.lif", written)
    images = io.open_images(tmp_path / "a.lif")
    assert [image.axes for image in images] == ["TCZYX", "CZYX", "YX", "SYX"]  # a mosaic's tiles are independent
    for image, (axes, pixels) in zip(images, written, strict=True):
        assert_pixels(image, pixels.swapaxes(0, 1) if axes == "ZCYX" else pixels, lazy)
        assert image.unit == "micrometer" and image.pixel_size["X"] == pytest.approx(0.1)
    assert images[0].pixel_size == pytest.approx(SIZE | {"T": 1.5})
    assert io.channels(images[0]) == (io.Channel("dye 0", "#00ff00"), io.Channel("dye 1", "#ff0000"))


@pytest.fixture
def cluster(data_dir: Path) -> Path:
    """A recording of a Nikon A1: 3 times, 2 channels, 10 planes."""
    return data_dir / "formats" / "cluster.nd2"


def test_nd2_of_a_microscope(cluster: Path, lazy: bool, tmp_path: Path) -> None:
    image = io.read(cluster)
    assert (image.axes, image.shape, image.unit) == ("TCZYX", (3, 2, 10, 31, 38), "micrometer")
    assert image.pixel_size == pytest.approx({"Z": 0.5, "Y": 0.167808983, "X": 0.167808983})
    assert_pixels(image, nd2.imread(cluster).swapaxes(1, 2), lazy)


def test_nd2_becomes_ome_tiff_with_all_it_says(cluster: Path, run: Run, tmp_path: Path) -> None:
    code, _, err = run("denoise", cluster, "-o", tmp_path, "--steps", 2, "--set", "features=4", "--no-verdict")
    assert code == 0, err
    with nd2.ND2File(cluster) as file:
        before = file.ome_metadata()
    after = ome(tmp_path / "cluster.ome.tif")
    assert after.instruments == before.instruments
    old, new = before.images[0], after.images[0]
    assert (new.acquisition_date, new.name) == (old.acquisition_date, old.name)
    assert new.objective_settings == old.objective_settings
    assert new.pixels.channels == old.pixels.channels
    assert new.pixels.planes == old.pixels.planes and len(new.pixels.planes) == 60
    assert new.pixels.physical_size_z_quantity == old.pixels.physical_size_z_quantity
    annotations = after.structured_annotations
    assert annotations.map_annotations[0] == before.structured_annotations.map_annotations[0]


def test_positions_of_nd2(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file with positions is at hand: the same file, whose times its library takes for positions."""
    from nd2.structures import Position, StagePosition, XYPosLoop, XYPosLoopParams

    points = [Position(stagePositionUm=StagePosition(0, 0, 0), name=f"p{n}") for n in range(3)]
    loop = XYPosLoop(3, 0, XYPosLoopParams(isSettingZ=False, points=points))
    whole = nd2.imread(cluster).swapaxes(1, 2)
    experiment = nd2.ND2File.experiment
    monkeypatch.setattr(nd2.ND2File, "experiment", property(lambda self: [loop, experiment.__get__(self)[1]]))
    with nd2.ND2File(cluster) as file:
        assert dict(file.sizes) == {"P": 3, "Z": 10, "C": 2, "Y": 31, "X": 38}
    images = io.open_images(cluster)
    assert [(image.axes, image.label) for image in images] == [("CZYX", f"cluster.nd2/{n}") for n in range(3)]
    for position, image in enumerate(images):
        np.testing.assert_array_equal(image.data[...], whole[position])


def test_all_scenes_become_one_ome_tiff(trained: Path, run: Run, tmp_path: Path) -> None:
    model = n2s.Denoiser.load(trained)
    write_czi(tmp_path / "a.czi", [noise((3, 1, 1, 64, 70)), noise((3, 1, 1, 80, 64))])
    write_lif(tmp_path / "b.lif", [("TYX", noise((3, 64, 70))), ("TYX", noise((2, 80, 64)))])
    for name in ("a.czi", "b.lif"):
        code, _, err = run("denoise", tmp_path / name, "-o", tmp_path / "out", "-m", trained, "--no-verdict")
        assert code == 0, err
        path = tmp_path / "out" / f"{name[0]}.ome.tif"
        clean = model.denoise(tmp_path / name)
        for image, expected in zip(io.open_images(path), clean, strict=True):
            np.testing.assert_array_equal(image.data[...], expected)
            assert image.axes == "TYX"
        found = ome(path)
        assert len(found.images) == 2
        assert found.images[1].pixels.physical_size_x == pytest.approx(0.1)
        assert found.images[1].pixels.channels[0].name in ("DAPI", "dye 0")
        assert len(found.structured_annotations.xml_annotations) == 1  # what the file said itself, whole
    lens = ome(tmp_path / "out" / "b.ome.tif").instruments[0].objectives[0]
    assert (lens.model, lens.lens_na, lens.nominal_magnification) == ("HC PL APO 63x", 1.4, 63)
    dates = [image.acquisition_date.isoformat() for image in ome(tmp_path / "out" / "b.ome.tif").images]
    assert [date[:19] for date in dates] == ["2020-09-13T12:26:40"] * 2


def test_what_is_only_read(tmp_path: Path) -> None:
    for suffix in ("czi", "nd2", "lif"):
        assert io.output_name(Path(f"a.{suffix}")) == "a.ome.tif"  # never a PNG
        with pytest.raises(InputError, match=r"is read, not written; write .ome.tif or .ome.zarr instead"):
            io.check_output(tmp_path / f"b.{suffix}", [])


def test_truncated(data_dir: Path, tmp_path: Path) -> None:
    write_czi(tmp_path / "a.czi", [noise((1, 1, 2, 64, 64))])
    write_lif(tmp_path / "a.lif", [("ZYX", noise((2, 64, 64)))])
    (tmp_path / "a.nd2").write_bytes((data_dir / "formats" / "cluster.nd2").read_bytes())
    for suffix in ("czi", "lif", "nd2"):
        path = tmp_path / f"a.{suffix}"
        content = path.read_bytes()
        for length in (0, 3, 40, 700, len(content) // 2, len(content) - 20):
            path.write_bytes(content[:length])
            with pytest.raises(InputError, match=rf"a.{suffix} is truncated or corrupt"):
                io.read(path).data[...]
            with pytest.raises(InputError, match=rf"a.{suffix} is truncated or corrupt"):
                io.open_images(path)[0].data[...]
        path.write_bytes(b"This is no image. " * 100)
        with pytest.raises(InputError, match=rf"a.{suffix} is truncated or corrupt"):
            io.read(path)


@pytest.mark.parametrize(("suffix", "library"), [("czi", "pylibCZIrw"), ("nd2", "nd2"), ("lif", "liffile")])
def test_a_library_that_is_not_installed_is_named(
    suffix: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == library] or [library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"anything")
    told = rf"a.{suffix} needs {library}, which cannot be imported: pip install 'noise2same\[microscopes\]'"
    with pytest.raises(InputError, match=told):
        io.read(path)
    code, _, err = run("denoise", path, "-o", tmp_path / "b.tif", "--minutes", 0)
    assert code == 2 and "pip install 'noise2same[microscopes]'" in " ".join(err.split())


def test_ome_xml_goes_through_zarr(cluster: Path, tmp_path: Path) -> None:
    """From ND2 to OME-Zarr and on to OME-TIFF, and from CZI to a collection and on, nothing is lost."""
    yaozarrs = pytest.importorskip("yaozarrs")
    image = io.read(cluster)
    copied = copy(copy(image, tmp_path / "a.ome.zarr"), tmp_path / "a.ome.tif")
    assert io.channels(io.read(tmp_path / "a.ome.zarr")) == io.channels(image) == io.channels(copied)
    with nd2.ND2File(cluster) as file:
        before = file.ome_metadata().images[0]
    after = ome(tmp_path / "a.ome.tif").images[0]
    assert after.pixels.planes == before.pixels.planes and after.acquisition_date == before.acquisition_date
    write_czi(tmp_path / "b.czi", [noise((1, 2, 1, 64, 70)), noise((1, 2, 1, 80, 64))])
    copy_all(tmp_path / "b.czi", tmp_path / "b.ome.zarr")
    yaozarrs.validate_zarr_store(str(tmp_path / "b.ome.zarr"))
    copy_all(tmp_path / "b.ome.zarr", tmp_path / "b.ome.tif")
    found = ome(tmp_path / "b.ome.tif")
    assert [channel.name for one in found.images for channel in one.pixels.channels] == ["DAPI", "GFP"] * 2
    assert [one.pixels.size_y for one in found.images] == [64, 80]


def test_a_stack_that_is_taken_plane_by_plane_keeps_what_its_file_said(tmp_path: Path) -> None:
    write_czi(tmp_path / "a.czi", [noise((1, 1, 3, 64, 70))])
    write_lif(tmp_path / "b.lif", [("ZYX", noise((3, 64, 70)))])
    for name in ("a.czi", "b.lif"):
        image = io.read(tmp_path / name, "SYX")
        copied = copy(image, tmp_path / f"{name}.ome.tif")
        assert (image.axes, copied.axes) == ("SYX", "ZYX")
        found = ome(tmp_path / f"{name}.ome.tif")
        assert found.images[0].pixels.channels[0].name in ("DAPI", "dye 0")
        assert found.images[0].pixels.physical_size_z == pytest.approx(0.5)
