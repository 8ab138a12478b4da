"""MRC: what mrcfile and programs of electron microscopy write, and what they read of ours."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from roundtrip import assert_same, copy, noise

from noise2same import io
from noise2same.errors import InputError

mrcfile = pytest.importorskip("mrcfile")


def write(path: Path, pixels: np.ndarray, *, stack: bool = False, compression: str | None = None) -> Path:
    with mrcfile.new(path, pixels, compression=compression) as mrc:
        if stack:
            mrc.set_image_stack()
        mrc.voxel_size = (2.0, 3.0, 4.0)
        mrc.add_label("made by a microscope")
        mrc.set_extended_header(np.frombuffer(b"tilt angles" + bytes(21), "V1"))
        mrc.header.exttyp = b"FEI1"
    return path


@pytest.mark.parametrize("name", ["a.mrc", "a.map.gz"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "float16", "float32"])
def test_everything_of_a_volume_comes_back(dtype: str, name: str, tmp_path: Path) -> None:
    pixels = noise((4, 20, 30), dtype)
    path = write(tmp_path / name, pixels, compression="gzip" if name.endswith("gz") else None)
    image = io.read(path)
    assert (image.axes, image.unit, image.pixel_size) == ("ZYX", "angstrom", {"Z": 4.0, "Y": 3.0, "X": 2.0})
    np.testing.assert_array_equal(image.data[1:3, :, 5:9], pixels[1:3, :, 5:9])
    assert_same(copy(image, tmp_path / f"b{name[1:]}"), image)
    assert dtype == "float16" or mrcfile.validate(tmp_path / f"b{name[1:]}")  # its sums of float16 overflow
    with mrcfile.open(path) as old, mrcfile.open(tmp_path / f"b{name[1:]}") as new:
        np.testing.assert_array_equal(new.data, pixels)
        assert new.extended_header.tobytes() == old.extended_header.tobytes()
        changed = [key for key in old.header.dtype.names if old.header[key].tobytes() != new.header[key].tobytes()]
        assert set(changed) <= {"dmin", "dmax", "dmean", "rms"}
        assert (new.header.dmin, new.header.dmax) == (pixels.min(), pixels.max())
        assert float(new.header.dmean) == pytest.approx(float(pixels.mean(dtype=float)), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "shape", "stack", "axes"),
    [
        ("a.mrc", (20, 30), False, "YX"),
        ("a.mrc", (4, 20, 30), True, "SYX"),
        ("a.mrcs", (4, 20, 30), True, "SYX"),
        ("a.mrcs", (4, 20, 30), False, "SYX"),
        ("a.rec", (4, 20, 30), True, "ZYX"),
        ("a.mrc", (1, 20, 30), False, "ZYX"),
        ("a.mrc", (2, 4, 20, 30), False, "SZYX"),
    ],
)
def test_stacks_and_volumes(name: str, shape: tuple[int, ...], stack: bool, axes: str, tmp_path: Path) -> None:
    image = io.read(write(tmp_path / name, noise(shape, "float32"), stack=stack))
    assert (image.axes, image.shape) == (axes, shape)
    assert_same(copy(image, tmp_path / f"b{name[1:]}"), image)
    with mrcfile.open(tmp_path / name) as old, mrcfile.open(tmp_path / f"b{name[1:]}") as new:
        assert (new.header.ispg, new.header.mz) == (old.header.ispg, old.header.mz)


@pytest.mark.parametrize("axes", ["YX", "SYX", "ZYX", "SZYX"])
def test_images_of_other_formats_become_mrc_and_go_back(axes: str, tmp_path: Path) -> None:
    lengths = {"S": 2, "Z": 4, "Y": 20, "X": 30}
    sizes = {letter: value for letter, value in {"Z": 5.0, "Y": 2.0, "X": 2.5}.items() if letter in axes}
    image = io.Image(noise(tuple(lengths[letter] for letter in axes), "int16"), axes, sizes, "nanometer")
    there = copy(image, tmp_path / "a.mrc")
    assert mrcfile.validate(tmp_path / "a.mrc")
    assert there.pixel_size == pytest.approx({letter: 10 * value for letter, value in sizes.items()})
    assert_same(copy(there, tmp_path / "b.ome.tif"), there)


def test_maps_of_the_databank(data_dir: Path, tmp_path: Path) -> None:
    for name in ("EMD-3001.map", "EMD-3197.map"):
        image = io.read(data_dir / "formats" / name)
        assert_same(copy(image, tmp_path / name), image)
        old, new = (data_dir / "formats" / name).read_bytes(), (tmp_path / name).read_bytes()
        assert new[1024:] == old[1024:]  # extended header and pixels
    assert io.read(data_dir / "formats" / "EMD-3001.map").pixel_size == pytest.approx(
        {"X": 0.45875, "Y": 0.44825, "Z": 0.3925}  # its columns lie along z of the cell, its rows along x
    )


def test_old_and_foreign_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mrc", noise((4, 20, 30), "int8"))
    whole = bytearray(path.read_bytes())
    whole[152:160] = np.array([1146047817, 0], "<i4").tobytes()  # IMOD, whose bytes have no sign
    path.write_bytes(whole)
    image = io.read(path)
    assert image.dtype == np.uint8
    assert_same(copy(image, tmp_path / "b.mrc"), image)
    whole[208:216] = bytes(8)  # before 2000 there were no marks of the format and of the byte order
    path.write_bytes(whole)
    assert io.read(path).shape == (4, 20, 30)
    pixels = noise((4, 20, 30), "int16")
    with mrcfile.new(tmp_path / "big.mrc", pixels.astype(">i2")):
        pass
    image = io.read(tmp_path / "big.mrc")
    assert_same(copy(image, tmp_path / "copy.mrc"), image)
    np.testing.assert_array_equal(image.data[...], pixels)


def test_what_mrc_cannot_hold_is_refused_first(tmp_path: Path) -> None:
    for axes, dtype, match in (("YXC", "int16", "axes 'YXC'"), ("ZYX", "uint8", "not uint8; choose")):
        with pytest.raises(InputError, match=match):
            io.check_output(tmp_path / "a.mrc", [], io.Image(noise((3, 20, 3), dtype), axes))


def test_truncated_and_wrong_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mrc", noise((4, 20, 30), "float32"))
    whole = path.read_bytes()
    for length in (0, 1, 500, 1024, 1030, 5000, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"a.mrc is truncated or corrupt"):
            io.read(path)
    packed = tmp_path / "b.map.gz"
    packed.write_bytes(gzip.compress(whole)[:-200])
    with pytest.raises(InputError, match=r"b.map.gz is truncated or corrupt"):
        io.read(packed).data[...]
    path.write_bytes(b"This is no image. " * 100)
    with pytest.raises(InputError, match=r"a.mrc (is truncated or corrupt|has pixels of MRC mode)"):
        io.read(path)
    path.write_bytes(whole[:12] + np.array([101], "<i4").tobytes() + whole[16:])
    with pytest.raises(InputError, match=r"a.mrc has pixels of MRC mode 101, but only 0 \(int8\)"):
        io.read(path)


def test_the_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.mrc", noise((20, 30), "float32"))
    monkeypatch.setitem(__import__("sys").modules, "mrcfile", None)
    with pytest.raises(InputError, match=r"a.mrc needs mrcfile.*pip install 'noise2same\[microscopes\]'"):
        io.read(path)
