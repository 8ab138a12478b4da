"""NIfTI: what nibabel writes and reads, and volumes of scanners."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from roundtrip import assert_same, copy, noise

from noise2same import io
from noise2same.errors import InputError

nibabel = pytest.importorskip("nibabel")

AFFINE = np.array([[-2.0, 0.1, 0, 90], [0, 2.5, 0.2, -126], [0, 0, 3, -72], [0, 0, 0, 1]])


def write(path: Path, pixels: np.ndarray, *, second: bool = False, slope: float | None = None) -> Path:
    """Axes of pixels are x, y, z and t, as nibabel has them."""
    volume = (nibabel.Nifti2Image if second else nibabel.Nifti1Image)(pixels, AFFINE)
    volume.header.set_xyzt_units("mm", "msec")
    volume.header.set_zooms((2.0, 2.5, 3.0, 800.0)[: pixels.ndim])
    volume.header["descrip"] = b"a brain"
    volume.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"asleep"))
    if slope is not None:
        volume.header.set_slope_inter(slope, 10)
        volume.header.set_data_dtype("int16")
    nibabel.save(volume, path)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "float32", "float64"])
def test_everything_of_a_series_of_volumes_comes_back(dtype: str, name: str, tmp_path: Path) -> None:
    pixels = noise((30, 20, 5, 4), dtype)
    image = io.read(write(tmp_path / name, pixels, second=dtype == "int32"))
    assert (image.axes, image.dtype, image.unit) == ("TZYX", np.dtype(dtype), "millimeter")
    assert image.pixel_size == {"T": 0.8, "Z": 3.0, "Y": 2.5, "X": 2.0}
    np.testing.assert_array_equal(image.data[1:3, :, 4, 5:9], pixels.T[1:3, :, 4, 5:9])
    copied = copy(image, tmp_path / f"b{name[1:]}")
    assert_same(copied, image)
    old, new = nibabel.load(tmp_path / name), nibabel.load(tmp_path / f"b{name[1:]}")
    np.testing.assert_array_equal(np.asanyarray(new.dataobj), pixels)
    np.testing.assert_array_equal(new.affine, old.affine)
    assert new.header == old.header and type(new) is type(old)
    assert [one.get_content() for one in new.header.extensions] == [one.get_content() for one in old.header.extensions]


def test_slope_and_intercept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nii", noise((30, 20, 5), "float32"), slope=0.5)
    image = io.read(path)
    assert (image.axes, image.dtype) == ("ZYX", np.float32)
    np.testing.assert_allclose(image.data[...], nibabel.load(path).get_fdata().T, rtol=1e-6)
    assert_same(copy(image, tmp_path / "b.nii"), image)
    np.testing.assert_array_equal(nibabel.load(tmp_path / "b.nii").affine, nibabel.load(path).affine)


def test_volumes_of_scanners(data_dir: Path, tmp_path: Path) -> None:
    axes = {"anatomical.nii": "ZYX", "functional.nii": "TZYX", "example4d.nii.gz": "TZYX"}
    axes |= {"example_nifti2.nii.gz": "TZYX"}
    for name, expected in axes.items():
        path = data_dir / "formats" / name
        image = io.read(path)
        assert image.axes == expected
        assert_same(copy(image, tmp_path / name), image)
        old, new = nibabel.load(path), nibabel.load(tmp_path / name)
        np.testing.assert_array_equal(new.affine, old.affine)
        np.testing.assert_allclose(new.get_fdata(), old.get_fdata(), rtol=1e-6)
        assert new.header["descrip"] == old.header["descrip"]


@pytest.mark.parametrize("axes", ["YX", "ZYX", "TYX", "TCZYX", "YXC", "ZCYX"])
def test_images_of_other_formats_become_nifti(axes: str, tmp_path: Path) -> None:
    lengths = {"T": 2, "C": 3, "Z": 4, "Y": 20, "X": 30}
    size = {letter: value for letter, value in {"T": 1.5, "Z": 0.5, "Y": 0.1, "X": 0.2}.items() if letter in axes}
    image = io.Image(noise(tuple(lengths[letter] for letter in axes)), axes, size, "micrometer")
    there = copy(image, tmp_path / "a.nii.gz")
    assert there.pixel_size == pytest.approx(size) and there.unit == "micrometer"
    order = [axes.index(letter) for letter in there.axes]
    np.testing.assert_array_equal(there.data[...], np.asarray(image.data).transpose(order))
    assert sorted(there.axes) == sorted(axes)
    result = io.read_result(tmp_path / "a.nii.gz", image)
    assert result is not None
    assert_same(result, image)


def test_axes_of_length_one_come_back(tmp_path: Path) -> None:
    image = io.Image(noise((2, 1, 20, 30)), "TZYX", {"Y": 0.1, "X": 0.2}, "micrometer")
    assert copy(image, tmp_path / "a.nii").axes == "TYX"
    result = io.read_result(tmp_path / "a.nii", image)
    assert result is not None and result.shape == image.shape
    np.testing.assert_array_equal(result.data[1, :, 3:5, ::2], np.asarray(image.data)[1, :, 3:5, ::2])


def test_what_nifti_cannot_hold_is_refused_first(tmp_path: Path) -> None:
    for axes, dtype, match in (("SYX", "int16", "axes 'SYX'"), ("ZYX", "float16", "no float16")):
        with pytest.raises(InputError, match=match):
            io.check_output(tmp_path / "a.nii", [], io.Image(noise((3, 20, 30), dtype), axes))


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_truncated_and_wrong_files(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, noise((30, 20, 5)))
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=f"{name} is truncated or corrupt"):
            io.read(path).data[...]
    path.write_bytes(b"This is no image. " * 1000)
    with pytest.raises(InputError, match=f"{name} is truncated or corrupt"):
        io.read(path)
    colors = np.zeros((5, 6, 7), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.save(nibabel.Nifti1Image(colors, np.eye(4)), path)
    with pytest.raises(InputError, match=f"{name} has pixels of colors"):
        io.read(path)


def test_the_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.nii", noise((30, 20, 5)))
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(InputError, match=r"a.nii needs nibabel.*pip install 'noise2same\[medicine\]'"):
        io.read(path)
