"""Files that are whole but cannot be read, encrypted or packed in an unknown way: the sentence says so."""

from __future__ import annotations

import gzip
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
import zarr
from field_files import write_dicom
from microscope_files import write_czi
from roundtrip import noise

from noise2same import io
from noise2same.errors import InputError

CMS = bytes.fromhex("3080 06092a864886f70d010703 a080")  # what a secure DICOM file begins with


def sentence(path: Path) -> str:
    """What is said of a file that is read whole."""
    with pytest.raises(InputError) as refused:
        io.read(io.find([path])[0]).data[...]
    told = str(refused.value)
    assert told.startswith(str(path)) and "\n" not in told and told.endswith(".")
    return told.removeprefix(str(path))


def zipped(path: Path, *, encrypted: bool) -> None:
    """An archive, and the mark that its only file is encrypted, as Python cannot encrypt."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.tif", noise((40, 40)).tobytes())
    content = bytearray(path.read_bytes())
    for start, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(start) + flags] |= encrypted
    path.write_bytes(content)


PICTURES = (".tif", ".png", ".jpg", ".npy", ".zarr", ".gif", ".avi")
SCIENCE = (".czi", ".nd2", ".lif", ".mrc", ".mrc.gz", ".fits", ".fits.gz", ".nii", ".nii.gz", ".dcm")


@pytest.mark.parametrize("suffix", (*PICTURES, *SCIENCE))
def test_an_archive_under_the_name_of_an_image(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    zipped(path, encrypted=True)
    assert sentence(path) == " is an encrypted zip archive; unpack it first."
    zipped(path, encrypted=False)
    assert sentence(path) == " is a zip archive; unpack it first."


@pytest.mark.parametrize(
    ("name", "start", "words"),
    [
        ("a.tif", b"Salted__", " is encrypted by OpenSSL; decrypt it first."),
        ("a.fits", b"age-encryption.org/v1\n-> X25519", " is encrypted by age; decrypt it first."),
        ("a.png", b"-----BEGIN PGP MESSAGE-----\n", " is encrypted by PGP; decrypt it first."),
        ("a.dcm", CMS, " is encrypted (CMS); decrypt it first."),
        ("a.tif.gpg", b"\x85", ": the format '.gpg' is not supported; decrypt first."),
    ],
)
def test_encrypted(name: str, start: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(start + np.random.default_rng(0).bytes(1000))
    assert sentence(tmp_path / name) == words


def test_dicom_with_an_encrypted_image(tmp_path: Path) -> None:
    pydicom = pytest.importorskip("pydicom")
    sealed = pydicom.Dataset()
    sealed.EncryptedContentTransferSyntaxUID, sealed.EncryptedContent = "1.2.840.10008.1.2.1", bytes(100)
    path = write_dicom(tmp_path / "a.dcm", noise((40, 40)), EncryptedAttributesSequence=[sealed])
    assert io.read(path).shape == (40, 40)  # where only the names of the patient are
    dataset = pydicom.dcmread(path)
    for name in ("PixelData", "Rows", "Columns"):
        del dataset[name]
    dataset.save_as(path)
    assert sentence(path) == " is encrypted, with its image; export it again without protection."


def test_dicom_with_syntaxes_that_are_rare(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    pixels = noise((40, 50))
    deflated = write_dicom(tmp_path / "a.dcm", pixels, "1.2.840.10008.1.2.1.99")
    np.testing.assert_array_equal(io.read(deflated).data[...], pixels)
    for syntax in ("1.2.3.4.5.6", "1.2.840.113619.5.2"):
        own = write_dicom(tmp_path / "b.dcm", pixels)
        content = own.read_bytes()
        start = content.index(plain := b"1.2.840.10008.1.2.1\0")
        own.write_bytes(content[:start] + syntax.encode().ljust(len(plain), b"\0") + content[start + len(plain) :])
        assert sentence(own) == f" has a transfer syntax that is not of the standard ({syntax}); export it again."


def unknown_tiff(path: Path) -> None:
    tifffile.imwrite(path, noise((64, 64)), compression="zlib")
    with tifffile.TiffFile(path, mode="r+") as file:
        file.pages.first.tags["Compression"].overwrite(9999)


def unknown_png(path: Path) -> None:
    content = bytearray(imagecodecs.png_encode(noise((64, 64), "uint8")))
    content[26] = 7  # the method, behind size, depth and color
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    path.write_bytes(content)


def unknown_gzip(path: Path) -> None:
    content = bytearray(gzip.compress(bytes(5000)))
    content[2] = 5
    path.write_bytes(content)


def unknown_zarr(path: Path) -> None:
    array = zarr.create_array(str(path), shape=(64, 64), dtype="uint16", zarr_format=2)
    array[:] = noise((64, 64))
    told = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps(told | {"compressor": {"id": "of_my_own"}}))


def unknown_czi(path: Path) -> None:
    pytest.importorskip("pylibCZIrw")
    write_czi(path, [noise((1, 1, 1, 64, 64))])
    content = path.read_bytes()
    gray16 = b"DV" + struct.pack("<i", 1)  # how an entry begins; then place, part and compression
    for start in [at for at in range(len(content)) if content.startswith(gray16, at)]:
        content = content[: start + 18] + struct.pack("<i", 77) + content[start + 22 :]
    path.write_bytes(content)


def unknown_fits(path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    fits.HDUList([fits.PrimaryHDU(), fits.CompImageHDU(noise((64, 64), "int32"))]).writeto(path)
    path.write_bytes(path.read_bytes().replace(b"'RICE_1  '", b"'MAGIC_9 '"))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.tif", unknown_tiff),
        ("a.png", unknown_png),
        ("a.mrc.gz", unknown_gzip),
        ("a.zarr", unknown_zarr),
        ("a.czi", unknown_czi),
        ("a.fits.fz", unknown_fits),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_unknown_compression(
    name: str, make: Callable[[Path], None], lazy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lazy:
        monkeypatch.setattr("noise2same.io.image.LAZY_BYTES", 100)
        monkeypatch.setattr("noise2same.io.tiff.LAZY_BYTES", 100)
    make(tmp_path / name)
    assert sentence(tmp_path / name).startswith(" has a compression that cannot be read (")
