"""Files are opened without their pixels, and these are decoded once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import imagecodecs
import imageio.v3 as imageio
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from roundtrip import copy, noise

from noise2same import io
from noise2same.errors import InputError


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The libraries' own functions that decode pixels, each noted here when it is called."""
    calls: list[str] = []

    def noted(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    noted(imagecodecs, "png_decode")
    noted(imageio, "imread")
    noted(tifffile.TiffFile, "asarray")
    yield calls


def folder(path: Path) -> Path:
    """One image of each format that is decoded, two of them with alpha."""
    path.mkdir()
    tifffile.imwrite(path / "a.tif", noise((20, 30)), compression="zlib")
    tifffile.imwrite(path / "b.tif", noise((20, 30, 4), "uint8"), photometric="rgb", extrasamples=["unassalpha"])
    (path / "c.png").write_bytes(imagecodecs.png_encode(noise((20, 30, 4), "uint8")))
    Pillow.fromarray(noise((20, 30, 3), "uint8")).save(path / "d.jpg")
    return path


def test_opening_a_folder_decodes_nothing_and_reading_twice_decodes_once(tmp_path: Path, decoded: list[str]) -> None:
    images = io.open_images(folder(tmp_path / "in"))
    assert [image.shape for image in images] == [(20, 30), (20, 30, 3), (20, 30, 3), (20, 30, 3)]
    assert decoded == []
    for image in images:
        first, again = np.asarray(image.data), image.data[:10]
        np.testing.assert_array_equal(first[:10], again)
        assert (first.shape, first.dtype) == (image.shape, image.dtype)
        assert io.open_images(image) == [image]  # one that is open is passed on
    assert decoded == ["asarray", "asarray", "png_decode", "imread"]


def test_alpha_is_decoded_with_its_image(tmp_path: Path, decoded: list[str]) -> None:
    for name in ("b.tif", "c.png"):
        pixels = noise((20, 30, 4), "uint8")
        image = io.read(folder(tmp_path / name) / name)
        del decoded[:]
        with io.create(tmp_path / f"out-{name}", image) as out:
            out[...] = image.data[...]
        assert len(decoded) == 1
        np.testing.assert_array_equal(imageio.imread(tmp_path / f"out-{name}"), pixels)


def test_forgotten_pixels_are_decoded_again(tmp_path: Path, decoded: list[str]) -> None:
    for image in io.open_images(folder(tmp_path / "in")):
        before = image.data[...].copy()
        del decoded[:]
        image.forget()
        image.forget()
        np.testing.assert_array_equal(image.data[...], before)
        assert len(decoded) == 1
    io.wrap(np.ones((4, 4))).forget()  # nothing to forget


def test_threads_and_processes_share_what_is_open(tmp_path: Path, decoded: list[str]) -> None:
    image = io.read(folder(tmp_path / "in") / "a.tif")
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda row: image.data[row], range(20)))
    np.testing.assert_array_equal(rows, noise((20, 30)))
    assert len(decoded) == 1
    packed = pickle.dumps(image.data)
    assert len(packed) < 1000  # the name of the file, not its pixels
    np.testing.assert_array_equal(pickle.loads(packed)[...], noise((20, 30)))


@pytest.mark.parametrize(
    "key",
    [..., 3, -1, (slice(2, 5), 4), (..., 1), (0, ...), (slice(None), slice(1, None, 2), slice(0, 2)), (..., slice(1))],
)
@pytest.mark.parametrize("large", [False, True])
def test_colors_without_alpha_are_indexed_like_an_array(
    key: Any, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr("noise2same.io.tiff.LAZY_BYTES", 100)
    pixels = noise((20, 30, 4), "uint8")
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=["unassalpha"], compression="zlib")
    image = io.read(tmp_path / "a.tif")
    np.testing.assert_array_equal(image.data[key], pixels[..., :3][key])
    if not (isinstance(key, tuple) and len(key) == 3):
        np.testing.assert_array_equal(image.details["alpha"][key], pixels[..., 3][key])


def test_a_file_that_changes_or_goes_after_it_was_opened(tmp_path: Path) -> None:
    images = io.open_images(folder(tmp_path / "in"))
    for image in images:
        assert image.path is not None
        if image.path.suffix == ".tif":
            tifffile.imwrite(image.path, noise((5, 5)))
        else:
            Pillow.fromarray(noise((5, 5), "uint8")).save(image.path)
        with pytest.raises(InputError, match=f"{image.path.name} has changed"):
            image.data[...]
        image.path.unlink()
        with pytest.raises(InputError, match=image.path.name):
            image.data[...]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "I;16"])
@pytest.mark.parametrize("transparent", [False, True])
def test_the_header_of_a_png_says_what_is_decoded(mode: str, transparent: bool, tmp_path: Path) -> None:
    pixels = noise((20, 30), "uint16" if mode == "I;16" else "uint8")
    picture = Pillow.fromarray(pixels)
    picture = picture if mode == "I;16" else picture.convert(mode)
    color = (0, 0, 0) if mode == "RGB" else 0
    picture.save(tmp_path / "a.png", **({"transparency": color} if transparent else {}))
    whole = imagecodecs.png_decode((tmp_path / "a.png").read_bytes())
    image = io.read(tmp_path / "a.png")
    samples = 1 if whole.ndim == 2 else whole.shape[2]
    expected = whole if samples in (1, 3) else whole[..., 0] if samples == 2 else whole[..., :3]
    assert (image.shape, image.dtype, "alpha" in image.details) == (expected.shape, whole.dtype, transparent)
    np.testing.assert_array_equal(image.data[...], expected)


def test_damaged_pixels_of_a_whole_png(tmp_path: Path) -> None:
    content = bytearray(imagecodecs.png_encode(noise((40, 50), "uint8")))
    content[200:210] = bytes(10)
    (tmp_path / "a.png").write_bytes(content)
    image = io.read(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a.png is truncated or corrupt"):
        copy(image, tmp_path / "b.tif")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_jpeg_with_a_preview_and_with_bytes_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    picture = Pillow.fromarray(noise((200, 300, 3), "uint8"))
    picture.save(path, exif=b"Exif\0\0" + b"\xff\xd8 a preview \xff\xd9", progressive=True)
    whole = path.read_bytes()
    pixels = io.read(path).data[...]
    path.write_bytes(whole + b"what a telephone writes behind it" * 100)
    np.testing.assert_array_equal(io.read(path).data[...], pixels)
    for length in (len(whole) // 3, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"a.jpg is truncated"):
            io.read(path)


def test_png_under_the_name_of_a_jpeg(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(imagecodecs.png_encode(noise((20, 30), "uint8")))
    np.testing.assert_array_equal(io.read(tmp_path / "a.jpg").data, noise((20, 30), "uint8"))


def test_a_folder_may_have_more_files_than_can_be_open(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no limit on open files")
    for index in range(300):
        np.save(tmp_path / f"{index:03}.npy", np.full((8, 8), index, "uint16"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        images = io.open_images(tmp_path)
        assert [int(image.data[0, 0]) for image in images] == list(range(300))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
