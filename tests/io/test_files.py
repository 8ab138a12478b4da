"""Which files are found, what is refused before work, and that nothing half-written is left."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

from noise2same import io
from noise2same.errors import InputError

SUFFIXES = [".tif", ".png", ".npy", ".zarr"]


def image(side: int = 20) -> io.Image:
    return io.Image(np.arange(side * side).reshape(side, side).astype("uint8"), "YX")


def write(path: Path, pixels: io.Image | None = None) -> Path:
    pixels = pixels or image()
    with io.create(path, pixels) as out:
        out[:] = pixels.data
    return path


def content(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {str(file): file.read_bytes() for file in files}


def test_find(tmp_path: Path) -> None:
    for name in ("b.tif", "a.PNG", "c.npy", ".hidden.tif", "notes.txt"):
        (tmp_path / name).touch()
    write(tmp_path / "d.ome.zarr")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "e.tif").touch()
    names = ["a.PNG", "b.tif", "c.npy", "d.ome.zarr"]
    assert [path.name for path in io.find([tmp_path])] == names
    assert [path.name for path in io.find([str(tmp_path / "*")])] == names
    assert [path.name for path in io.find([tmp_path / "**" / "*.tif"])] == ["b.tif", "e.tif"]
    assert io.find([tmp_path / "d.ome.zarr"]) == [tmp_path / "d.ome.zarr"]
    assert io.find([tmp_path / "c.npy", tmp_path / "*.npy", tmp_path / "b.tif"]) == [
        tmp_path / "c.npy",
        tmp_path / "b.tif",
    ]
    (tmp_path / "odd[1].tif").touch()
    assert io.find([tmp_path / "odd[1].tif"]) == [tmp_path / "odd[1].tif"]


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("missing.tif", "missing.tif does not exist"),
        ("empty", "empty is a folder without images"),
        ("*.png", r"\*.png' matches no image"),
        ("notes.txt", "notes.txt.*not supported; use one of .tif, .*zarr"),
    ],
)
def test_find_says_what_is_wrong(name: str, match: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=match):
        io.find([tmp_path / name])


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("a.ZVI", r"a.ZVI: the format '.zvi' is not supported; export as OME-TIFF from ZEN, or in Fiji"),
        ("a.lof", "'.lof'.*LAS X"),
        ("a.fits.bz2", "'.fits.bz2' is not supported; unpack first"),
        ("a.mha.gz", "'.mha.gz'.*SimpleITK"),
        ("a.tif.gz", "'.tif.gz' is not supported; unpack first"),
        ("b.2024.gz", "'.gz'.*unpack"),
        ("a.X3F", "'.x3f'.*16-bit TIFF"),
        ("a.heic", "'.heic'.*PNG or TIFF"),
        ("a.jp2", "'.jp2'.*PNG or TIFF"),
        ("a.bmp", "'.bmp'.*PNG or TIFF"),
        ("a.xyz", "'.xyz' is not supported; use one of .tif"),
    ],
)
def test_how_to_export_what_cannot_be_read(name: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.touch()
    for read in (io.read, lambda item: io.find([item])):
        with pytest.raises(InputError, match=match):
            read(path)
    with pytest.raises(InputError, match=r"not supported; use one of .tif"):  # exporting is no help in writing
        io.check_output(path, [])


def skipped(folder: Path, *names: str) -> str:
    """The warning when these files are in a folder beside an image; '' without one."""
    for name in ("image.png", *names):
        (folder / name).touch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert io.find([folder]) == [folder / "image.png"]
    assert len(caught) < 2
    return str(caught[0].message) if caught else ""


def test_skipped_images_are_named(tmp_path: Path) -> None:
    text = skipped(tmp_path, "a.zvi", "b.ZVI", "c.zvi", "d.mha.gz", "e.xyz", "notes.txt")
    assert text.startswith(f"{tmp_path}: skipped 3 .zvi (a.zvi, b.ZVI, ...), 1 .mha.gz (d.mha.gz), 1 .xyz (e.xyz), wh")
    assert "for .zvi: export as OME-TIFF from ZEN" in text and "for .mha.gz: save as" in text
    assert text.count(".xyz") == 2 and text.endswith(".")  # for which there is no advice


def test_the_list_of_skipped_images_is_short(tmp_path: Path) -> None:
    kinds = ("dv", "sif", "lof", "oib", "xcf", "bmp")
    text = skipped(tmp_path, *(f"{index:03}.{kind}" for kind in kinds for index in range(100)))
    assert "100 .dv (000.dv, 001.dv, ...)" in text and "200 of other kinds" in text and ".xcf" not in text
    assert len(text) < 900


def test_films_beside_images_are_previews(tmp_path: Path) -> None:
    assert "skipped a.gif, b.mp4 beside other images; name films" in skipped(tmp_path, "a.gif", "b.mp4")
    (tmp_path / "image.png").unlink()
    assert [path.name for path in io.find([tmp_path])] == ["a.gif", "b.mp4"]


def test_what_is_no_image_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "folder.zvi").mkdir()
    names = ("Thumbs.db", ".DS_Store", "._a.zvi", ".a.zvi.part", "a.txt", "a.csv", "a.json", "a.xml", "a.html", "a.pdf")
    assert skipped(tmp_path, *names, "m.safetensors", "x.part", "README", "a.companion.ome") == ""


def test_folder_of_foreign_files_says_so(tmp_path: Path) -> None:
    for name in ("a.zvi", "b.zvi", "a.txt"):
        (tmp_path / name).touch()
    end = r": there are 2 .zvi \(a.zvi, b.zvi\); export as OME-TIFF from ZEN, or in Fiji .*\.$"
    for item, start in (
        (tmp_path, "is a folder without images that can be read"),
        (tmp_path / "*.zv?", "matches no im"),
    ):
        with pytest.raises(InputError, match=f"{start}.*{end}"):
            io.find([item])
    (tmp_path / "c.xyz").touch()
    with pytest.raises(InputError, match=r"2 .zvi \(.*1 .xyz \(c.xyz\); for .zvi: export"):
        io.find([tmp_path])


def test_patterns_name_known_images_only(tmp_path: Path) -> None:
    write(tmp_path / "a.zarr")
    (tmp_path / "b.sif").touch()
    with pytest.warns(UserWarning, match=r"skipped 1 .sif \(b.sif\), which") as caught:
        io.find([tmp_path / "**" / "*"])
    assert len(caught) == 1


def test_read_says_what_is_wrong(tmp_path: Path) -> None:
    for path, match in ((tmp_path / "a.tif", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(InputError, match=match):
            io.read(path)


def test_arrays_and_fallback_axes(tmp_path: Path) -> None:
    volume = np.ones((5, 20, 20), "float32")
    np.save(tmp_path / "a.npy", volume)
    assert io.wrap(volume[0]).axes == io.wrap(volume[0], fallback="ZYX").axes == "YX"
    assert io.wrap(volume, fallback="ZYX").axes == io.read(tmp_path / "a.npy", fallback="ZYX").axes == "ZYX"
    assert io.wrap(volume, "tyx", fallback="ZYX").axes == "TYX"
    for array, match in ((volume, "pass axes"), (volume > 0, "bool"), (volume[:0], "empty"), (volume * 1j, "complex")):
        with pytest.raises(InputError, match=f"the array.*{match}"):
            io.wrap(array)


def test_output_must_not_be_an_input(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif")
    store = write(tmp_path / "a.zarr")
    os.symlink(path, tmp_path / "link.tif")
    os.link(path, tmp_path / "hard.tif")
    (tmp_path / "inner").mkdir()
    outputs = [path, tmp_path / "link.tif", tmp_path / "hard.tif", tmp_path / "inner" / ".." / "a.tif"]
    for output in [*outputs, store, store / "0.tif"]:
        with pytest.raises(InputError, match="would overwrite the input"):
            io.check_output(output, [tmp_path / "other.tif", path, store])
    with pytest.raises(InputError, match="would overwrite the input"):
        io.check_output(store, [store / "0"])
    io.check_output(tmp_path / "b.tif", [path, store])
    io.check_output(store, [path])


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("a.txt", "a.txt.*not supported"),
        ("a", "not supported"),
        ("nowhere/a.tif", "nowhere is not a folder"),
        ("file.npy/a.tif", "file.npy is not a folder"),
        ("folder.tif", "is a folder"),
        ("folder.zarr", "is a folder"),
        ("file.zarr", "is a file"),
    ],
)
def test_output_that_cannot_be(name: str, match: str, tmp_path: Path) -> None:
    (tmp_path / "file.npy").touch()
    (tmp_path / "file.zarr").touch()
    (tmp_path / "folder.tif").mkdir()
    (tmp_path / "folder.zarr").mkdir()
    (tmp_path / "folder.zarr" / "thesis.docx").touch()
    with pytest.raises(InputError, match=match):
        io.check_output(tmp_path / name, [])
    with pytest.raises(InputError, match=match), io.create(tmp_path / name, image()):
        pytest.fail("the block was entered")
    assert (tmp_path / "folder.zarr" / "thesis.docx").exists()


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_interrupted_writing_leaves_nothing(
    suffix: str, error: type[BaseException], compression: str | None, tmp_path: Path
) -> None:
    like = io.Image(image().data, "YX", details={"compression": compression, "predictor": False})
    path = tmp_path / f"a{suffix}"
    for before in (False, True):
        if before:
            write(path)
        old = content(tmp_path)
        with pytest.raises(error), io.create(path, like) as out:
            out[:5] = 1
            assert content(path) == {name: data for name, data in old.items() if path.name in name}
            raise error
        assert content(tmp_path) == old


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writing_replaces_what_was_there(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a{suffix}", image(40))
    write(path)
    assert io.read(path).shape == (20, 20)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_name_that_cannot_be(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"{'a' * 300}{suffix}"
    with pytest.raises(InputError, match="cannot be written: File name too long"), io.create(path, image()) as out:
        out[:] = 0
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="does not exist"):
        io.find([path])
    write(tmp_path / f"{'a' * 240}{suffix}")


def test_no_permission(tmp_path: Path) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        pytest.skip("root may write everywhere, and Windows has no such permissions")
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="no permission"):
        io.check_output(tmp_path / "a.tif", [])


FULL = """
import resource, sys, numpy as np
from noise2same import io
from noise2same.errors import InputError
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
noise = np.random.default_rng(0).integers(0, 255, (600, 600)).astype("uint8")
like = io.Image(noise, "YX", details=eval(sys.argv[2]))
try:
    with io.create(sys.argv[1], like) as out:
        out[:] = like.data
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_space(suffix: str, compression: str | None, tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="Windows has no limit on the size of files")
    path = tmp_path / f"a{suffix}"
    details = repr({"compression": compression, "predictor": False})
    command = [sys.executable, "-c", FULL, str(path), details]
    environment = {**os.environ, "PYTHONPATH": str(Path(io.__file__).parents[2])}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.stdout.startswith(f"{path} cannot be written: File too large"), result.stderr
    assert not list(tmp_path.iterdir())


def test_importing_is_light() -> None:
    code = "import sys, noise2same.io; print([m for m in ('torch', 'tifffile', 'zarr', 'imageio') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(Path(io.__file__).parents[2])}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert result.stdout.strip() == "[]"


def test_writing_needs_no_copy_in_memory(tmp_path: Path) -> None:
    with io.create(tmp_path / "a.tif", image()) as out:
        assert isinstance(out, np.memmap)
    with io.create(tmp_path / "a.zarr", image()) as out:
        assert isinstance(out, zarr.Array)
