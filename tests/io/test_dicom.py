"""DICOM: single files, frames, and folders that are a volume."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from field_files import JPEG_LOSSLESS, JPEG_LS
from field_files import write_dicom as write
from roundtrip import copy, noise

from noise2same import io
from noise2same.errors import InputError

nibabel = pytest.importorskip("nibabel")
pydicom = pytest.importorskip("pydicom")
encapsulate = pytest.importorskip("pydicom.encaps").encapsulate


def series(folder: Path, pixels: np.ndarray, name: Callable[[int], str] = "{}.dcm".format, **values: Any) -> Path:
    """Slices 2 mm apart, in files whose names do not tell their order."""
    folder.mkdir()
    for number, plane in enumerate(pixels):
        position = {"ImagePositionPatient": [10.0, 20.0, 2.0 * number], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}
        write(folder / name(len(pixels) - number), plane, InstanceNumber=100 - number, **position, **values)
    return folder


def test_a_folder_of_slices_is_a_volume(tmp_path: Path) -> None:
    pixels = noise((5, 20, 30), "int16")
    folder = series(tmp_path / "scan", pixels, RescaleSlope=1, RescaleIntercept=-1024, BitsStored=12, HighBit=11)
    assert io.find([folder]) == [folder]
    image = io.read(folder)
    assert (image.axes, image.dtype, image.unit) == ("ZYX", np.int16, "millimeter")
    assert image.pixel_size == {"Z": 2.0, "Y": 0.5, "X": 0.25}
    np.testing.assert_array_equal(image.data[1:4, 3], pixels[1:4, 3] - 1024)
    assert io.output_name(folder) == "scan.ome.tif"
    copied = copy(image, tmp_path / "scan.ome.tif")
    assert (copied.axes, copied.pixel_size, copied.unit) == (image.axes, image.pixel_size, image.unit)
    copy(image, tmp_path / "scan.nii.gz")
    volume = nibabel.load(tmp_path / "scan.nii.gz")
    np.testing.assert_array_equal(np.asanyarray(volume.dataobj).T, pixels - 1024)
    np.testing.assert_allclose(volume.affine @ [4, 6, 3, 1], [-(10 + 4 * 0.25), -(20 + 6 * 0.5), 6, 1])


def test_files_without_a_suffix(tmp_path: Path) -> None:
    folder = series(tmp_path / "scan", noise((3, 20, 30)), "IM{:04}".format)
    (folder / "DICOMDIR").write_bytes((folder / "IM0001").read_bytes())
    (folder / "notes").write_text("hello")
    assert io.open_images(folder)[0].shape == (3, 20, 30)


def test_slopes_of_slices_and_volumes_in_time(tmp_path: Path) -> None:
    folder = series(tmp_path / "pet", noise((3, 20, 30)))
    for number, path in enumerate(sorted(folder.iterdir()), 1):
        slice_ = pydicom.dcmread(path)
        slice_.RescaleSlope, slice_.RescaleIntercept = number * 0.5, 0
        slice_.save_as(path)
    image = io.read(folder)
    assert image.dtype == np.float32
    np.testing.assert_allclose(image.data[0], noise((3, 20, 30))[0] * 1.5)  # 3.dcm is the lowest
    for number in (1, 2, 3):
        slice_ = pydicom.dcmread(folder / f"{number}.dcm")
        slice_.InstanceNumber = 200
        slice_.save_as(folder / f"{number}_later.dcm")
    assert (io.read(folder).axes, io.read(folder).shape) == ("TZYX", (2, 3, 20, 30))
    (folder / "1_later.dcm").unlink()
    with pytest.raises(InputError, match=r"pet has some slices more often than others"):
        io.read(folder)


def test_folders_of_several_images(tmp_path: Path) -> None:
    folder = tmp_path / "chests"
    folder.mkdir()
    for name in "ab":
        write(folder / f"{name}.dcm", noise((20, 30)), SeriesInstanceUID=pydicom.uid.generate_uid())
    assert [path.name for path in io.find([folder])] == ["a.dcm", "b.dcm"]
    write(folder / "c.dcm", noise((20, 30)))
    write(folder / "d.dcm", noise((20, 30)))
    with pytest.raises(InputError, match=r"chests has 3 series of DICOM.*a folder of its own"):
        io.find([folder])
    tifffile.imwrite(folder / "e.tif", noise((20, 30)))
    assert len(io.find([folder])) == 5


def test_missing_slices_are_told(tmp_path: Path) -> None:
    folder = series(tmp_path / "scan", noise((5, 20, 30)))
    (folder / "3.dcm").unlink()
    with pytest.warns(UserWarning, match="not evenly spaced, or some are missing"):
        assert io.read(folder).shape == (4, 20, 30)
    write(folder / "x.dcm", noise((10, 30)))
    with pytest.raises(InputError, match="slices of several sizes"):
        io.read(folder)


def test_frames_and_colors(tmp_path: Path) -> None:
    film = write(tmp_path / "film.dcm", noise((6, 20, 30), "uint8"), NumberOfFrames=6, FrameTime=40.0)
    image = io.read(film)
    assert (image.axes, image.pixel_size) == ("TYX", {"T": 0.04, "Y": 0.5, "X": 0.25})
    np.testing.assert_array_equal(image.data[2:4], noise((6, 20, 30), "uint8")[2:4])
    assert io.read(write(tmp_path / "rgb.dcm", noise((20, 30, 3), "uint8"))).axes == "YXC"
    places = [pydicom.Dataset() for _ in range(6)]
    for number, place in enumerate(places):
        position = pydicom.Dataset()
        position.ImagePositionPatient = [0, 0, 3 * number]
        place.PlanePositionSequence = [position]
    groups = {"NumberOfFrames": 6, "PerFrameFunctionalGroupsSequence": places}
    image = io.read(write(tmp_path / "enhanced.dcm", noise((6, 20, 30)), **groups))
    assert (image.axes, image.pixel_size["Z"]) == ("ZYX", 3.0)
    with pytest.raises(InputError, match="pass axes"):
        io.read(write(tmp_path / "unknown.dcm", noise((6, 20, 30)), NumberOfFrames=6))


@pytest.mark.parametrize("syntax", [JPEG_LOSSLESS, JPEG_LS])
def test_lossless_compression(syntax: str, tmp_path: Path) -> None:
    pixels = noise((20, 30))
    image = io.read(write(tmp_path / "a.dcm", pixels, syntax))
    np.testing.assert_array_equal(image.data[...], pixels)


def test_slices_of_a_scanner(data_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "scan"
    folder.mkdir()
    for name in ("0.dcm", "1.dcm"):
        (folder / name).symlink_to(data_dir / "formats" / name)
    image = io.read(folder)
    assert (image.axes, image.shape) == ("ZYX", (2, 256, 256))
    assert image.pixel_size == pytest.approx({"Z": 3.0, "Y": 1.796875, "X": 1.796875}, rel=1e-4)
    stored = [pydicom.dcmread(folder / name).pixel_array for name in ("0.dcm", "1.dcm")]
    np.testing.assert_array_equal(image.data[...], stored)
    image = io.read(data_dir / "formats" / "decimal_rescale.dcm")
    assert (image.axes, image.shape, image.dtype) == ("YX", (96, 128), np.float32)


def test_what_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.dcm", noise((20, 30)))
    whole = path.read_bytes()
    for length in (0, 1, 200, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"a.dcm (is truncated|has no image)"):
            io.read(path)
    path.write_bytes(b"This is no image. " * 100)
    with pytest.raises(InputError, match=r"a.dcm is truncated or corrupt"):
        io.read(path)
    video = write(tmp_path / "a.dcm", noise((20, 30)))
    dataset = pydicom.dcmread(video)
    dataset.file_meta.TransferSyntaxUID = pydicom.uid.UID("1.2.840.10008.1.2.4.102")
    dataset.PixelData = encapsulate([b"film"])
    dataset["PixelData"].VR = "OB"
    dataset.save_as(video)
    with pytest.raises(InputError, match=r"a.dcm is compressed as MPEG-4 .*cannot be decoded here"):
        io.read(video)
    with pytest.raises(InputError, match=r"b.dcm: DICOM is only read; write .ome.tif"):
        io.check_output(tmp_path / "b.dcm", [])
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(InputError, match=r"a.dcm needs pydicom.*pip install 'noise2same\[medicine\]'"):
        io.read(video)
