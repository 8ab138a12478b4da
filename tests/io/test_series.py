"""Files with several images: every one is named, read, denoised and written."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from roundtrip import copy_all, noise

import noise2same as n2s
from noise2same import io
from noise2same.errors import InputError

SHAPES = [(70, 80), (64, 90), (96, 64)]
Run = Callable[..., tuple[int, str, str]]


def several(path: Path, kind: str = "ome", shapes: list[tuple[int, ...]] = SHAPES) -> list[np.ndarray]:
    """A file with images of different shapes, pixel sizes and names, written by tifffile."""
    images = [noise(shape) + number for number, shape in enumerate(shapes)]
    with tifffile.TiffWriter(path, ome=kind == "ome") as file:
        for number, image in enumerate(images):
            size = {"PhysicalSizeX": 0.5 + number, "PhysicalSizeY": 0.5 + number, "PhysicalSizeXUnit": "µm"}
            told = {"axes": "YX", "Name": f"position {number}", "Channel": {"Name": [f"dye {number}"]}} | size
            file.write(image.astype("uint16"), metadata=told if kind == "ome" else None)
    return images


def assert_holds(path: Path, images: list[np.ndarray]) -> None:
    """Whether a file holds these images, for our reader."""
    found = io.open_images(path)
    assert [image.shape for image in found] == [image.shape for image in images]
    for image, pixels in zip(found, images, strict=True):
        np.testing.assert_array_equal(image.data[...], pixels)


@pytest.mark.parametrize("kind", ["ome", "plain"])
def test_each_image_has_a_name(kind: str, tmp_path: Path) -> None:
    images = several(tmp_path / "a.tif", kind)
    assert_holds(tmp_path / "a.tif", images)
    first, third = io.read(tmp_path / "a.tif"), io.read(tmp_path / "a.tif" / "2")
    assert (first.others, third.others) == (2, 0)
    assert (third.name, third.label) == (str(tmp_path / "a.tif" / "2"), "a.tif/2")
    np.testing.assert_array_equal(third.data[:], images[2])
    if kind == "ome":
        assert [image.pixel_size["X"] for image in io.open_images(tmp_path / "a.tif")] == [0.5, 1.5, 2.5]
        assert io.channels(third)[0].name == "dye 2"
    for bad in ("3", "99"):
        with pytest.raises(InputError, match=r"a.tif/\d+ does not exist: a.tif holds 3 images, 0 to 2"):
            io.read(tmp_path / "a.tif" / bad)
    np.save(tmp_path / "b.npy", images[0])
    assert io.read(tmp_path / "b.npy" / "0").shape == SHAPES[0]  # the only image of a file has a number too
    with pytest.raises(InputError, match=r"b.npy/1 does not exist: b.npy holds one image, number 0"):
        io.read(tmp_path / "b.npy" / "1")


def test_names_of_results() -> None:
    names = {"a.tiff/1": "a_s1", "b.ome.tif/0": "b_s0", "c.png": "c", "7": "7", "folder/2.tif": "2"}
    assert {name: io.stem(Path(name)) for name in names} == names
    assert io.output_name(Path("a.ome.tif/3")) == "a_s3.ome.tif"
    assert io.output_name(Path("a.ome.tif"), ".ome.zarr") == "a.ome.zarr"


def test_previews_are_no_images(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(noise((64, 64)))
        file.write(noise((16, 16)), subfiletype=1)
    assert io.read(tmp_path / "a.tif").others == 0
    assert len(io.open_images(tmp_path / "a.tif")) == 1


@pytest.mark.parametrize("target", ["b.ome.tif", "b.tif", "b.ome.zarr"])
@pytest.mark.parametrize("kind", ["ome", "plain"])
def test_one_file_holds_all_results(kind: str, target: str, tmp_path: Path) -> None:
    images = several(tmp_path / "a.tif", kind)
    copy_all(tmp_path / "a.tif", tmp_path / target)
    assert_holds(tmp_path / target, images)
    before, after = (io.open_images(tmp_path / name) for name in ("a.tif", target))
    assert [image.pixel_size for image in after] == [image.pixel_size for image in before]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tif", target]
    if target.endswith(".tif") and kind == "ome":
        with tifffile.TiffFile(tmp_path / target) as file:
            assert [series.shape for series in file.series] == SHAPES and file.is_ome
            for number, series in enumerate(file.series):
                np.testing.assert_array_equal(series.asarray(), images[number])
            assert file.ome_metadata and all(f'Name="dye {n}"' in file.ome_metadata for n in range(3))
    copy_all(tmp_path / target, tmp_path / "again.tif")  # over formats and back
    assert_holds(tmp_path / "again.tif", images)


def test_stacks_colour_and_compression_stay_together(tmp_path: Path) -> None:
    stack, colour = noise((3, 40, 50)), noise((40, 50, 3), "uint8")
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        file.write(stack, metadata={"axes": "ZYX"}, compression="zlib")
        file.write(colour, metadata={"axes": "YXS"}, photometric="rgb")
    copy_all(tmp_path / "a.ome.tif", tmp_path / "b.ome.tif")
    assert_holds(tmp_path / "b.ome.tif", [stack, colour])
    assert [image.axes for image in io.open_images(tmp_path / "b.ome.tif")] == ["ZYX", "YXC"]
    with tifffile.TiffFile(tmp_path / "b.ome.tif") as file:
        assert [series.keyframe.compression.name for series in file.series] == ["ADOBE_DEFLATE", "NONE"]


def test_a_collection_is_as_bioformats2raw_writes_it(tmp_path: Path) -> None:
    several(tmp_path / "a.ome.tif")
    copy_all(tmp_path / "a.ome.tif", tmp_path / "b.ome.zarr")
    group = zarr.open_group(tmp_path / "b.ome.zarr", mode="r")
    assert group.attrs["ome"] == {"version": "0.5", "bioformats2raw.layout": 3}
    assert io.series.names(tmp_path / "b.ome.zarr") == [tmp_path / "b.ome.zarr" / str(n) for n in range(3)]
    assert io.series.names(tmp_path / "b.ome.zarr", [2]) == [tmp_path / "b.ome.zarr" / "2"]
    with pytest.raises(InputError, match=r"b.ome.zarr/3 does not exist: b.ome.zarr holds 3 images"):
        io.series.names(tmp_path / "b.ome.zarr", [3])
    assert io.stem(tmp_path / "b.ome.zarr" / "2") == "b_s2"


def test_python_gets_a_list(tmp_path: Path) -> None:
    several(tmp_path / "a.ome.tif")
    clean = n2s.denoise(tmp_path / "a.ome.tif", minutes=0)
    assert [one.shape for one in clean] == SHAPES
    alone = n2s.denoise(tmp_path / "a.ome.tif" / "1", minutes=0)
    np.testing.assert_array_equal(alone, clean[1])
    assert n2s.denoise(tmp_path / "a.ome.tif", minutes=0, output=tmp_path / "b.ome.tif") == tmp_path / "b.ome.tif"
    assert_holds(tmp_path / "b.ome.tif", clean)
    paths = n2s.denoise(tmp_path / "a.ome.tif", minutes=0, output=tmp_path / "b.png")
    assert paths == [tmp_path / f"b_s{number}.png" for number in range(3)]
    np.save(tmp_path / "c.npy", noise((64, 64)))
    with pytest.raises(InputError, match="There are 4 images: denoise them one by one"):
        n2s.denoise([tmp_path / "a.ome.tif", tmp_path / "c.npy"], minutes=0)


def test_a_model_denoises_all_images(trained: Path, tmp_path: Path) -> None:
    several(tmp_path / "a.ome.tif")
    model = n2s.Denoiser.load(trained)
    clean = model.denoise(tmp_path / "a.ome.tif", output=tmp_path / "b.ome.zarr")
    assert clean == tmp_path / "b.ome.zarr"
    assert_holds(tmp_path / "b.ome.zarr", model.denoise(tmp_path / "a.ome.tif"))


def test_the_command_line_denoises_all_images(trained: Path, run: Run, tmp_path: Path) -> None:
    several(tmp_path / "a.ome.tif")
    out = tmp_path / "out"
    model = n2s.Denoiser.load(trained)
    clean = model.denoise(tmp_path / "a.ome.tif")
    code, _, err = run("denoise", tmp_path / "a.ome.tif", "-o", out / "b.ome.tif", "-m", trained)
    assert code == 0 and "3 of 3: " in err and "a.ome.tif/2 -> " in " ".join(err.split())
    assert_holds(out / "b.ome.tif", clean)
    assert not [path for path in out.iterdir() if path.name.startswith(".part.")]
    before = (out / "b.ome.tif").stat().st_mtime_ns
    code, _, err = run("denoise", tmp_path / "a.ome.tif", "-o", out / "b.ome.tif", "-m", trained, "--resume")
    assert code == 0 and "3 of these were there already" in err
    assert (out / "b.ome.tif").stat().st_mtime_ns == before
    # some of them: another file, though the first has them too
    some = ("--series", "2,0", "--json")
    code, told, _ = run("denoise", tmp_path / "a.ome.tif", "-o", out / "b.ome.tif", "-m", trained, "--resume", *some)
    assert code == 0
    lines = [json.loads(line) for line in told.splitlines()]
    assert [line["input"] for line in lines[:-1]] == [str(tmp_path / "a.ome.tif" / n) for n in "02"]
    assert {line["output"] for line in lines[:-1]} == {str(out / "b.ome.tif")}
    assert_holds(out / "b.ome.tif", [clean[0], clean[2]])


def test_folders_formats_and_numbers(trained: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    several(tmp_path / "in" / "a.ome.tif")
    np.save(tmp_path / "in" / "b.npy", noise((64, 64)))
    options = ("-m", trained, "--no-verdict", "-q")
    assert run("denoise", tmp_path / "in", "-o", tmp_path / "out", "--format", "png", *options)[0] == 0
    names = {path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "."}
    assert names == {"a_s0.png", "a_s1.png", "a_s2.png", "b.png"}
    assert run("denoise", tmp_path / "in", "-o", tmp_path / "one", "--series", 1, *options)[0] == 1
    names = {path.name for path in (tmp_path / "one").iterdir() if path.name[0] != "."}
    assert names == {"a.ome.tif"}
    assert io.read(tmp_path / "one" / "a.ome.tif").shape == SHAPES[1]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--series", "3"], "a.ome.tif/3 does not exist: a.ome.tif holds 3 images, 0 to 2"),
        (["--series", "first"], "--series first: give numbers, counted from 0, such as 0,2"),
        (["--format", "tiff"], "has a suffix already"),
        (["--format", "docx"], "'.docx' is not supported"),
        (["--format", "dcm"], "DICOM is only read; write .ome.tif"),
    ],
)
def test_what_cannot_be_is_said_first(options: list[str], match: str, trained: Path, run: Run, tmp_path: Path) -> None:
    several(tmp_path / "a.ome.tif")
    code, _, err = run("denoise", tmp_path / "a.ome.tif", "-o", tmp_path / "b.ome.tif", "-m", trained, *options)
    assert code == 2 and match in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["a.ome.tif"]


def test_an_image_that_fails_keeps_the_others(trained: Path, run: Run, tmp_path: Path) -> None:
    shapes = [(64, 64), (2, 64, 64), (70, 64)]
    images = [noise(shape) for shape in shapes]
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        for image, axes in zip(images, ["YX", "CYX", "YX"], strict=True):
            file.write(image, metadata={"axes": axes}, photometric="minisblack")
    command = ("denoise", tmp_path / "a.ome.tif", "-o", tmp_path / "b.ome.tif", "-m", trained)
    code, _, err = run(*command)
    told = " ".join(err.split())
    assert code == 1 and "a.ome.tif/1 has 2 channel(s)" in told and "b.ome.tif is not written, as" in told
    assert not (tmp_path / "b.ome.tif").exists()
    code, _, err = run(*command, "--series", "0,2", "--resume")
    assert code == 0 and "2 of these were there already" in err
    assert [image.shape for image in io.open_images(tmp_path / "b.ome.tif")] == [(64, 64), (70, 64)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".noise2same.jsonl", "a.ome.tif", "b.ome.tif"]


def test_training_takes_all_images(tmp_path: Path) -> None:
    several(tmp_path / "a.ome.tif")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = n2s.train(tmp_path / "a.ome.tif", steps=2, features=4, batch=2, patch=32, progress=False)
    assert model.summary["images"] == 3


def test_workers_share_the_images(trained: Path, run: Run, tmp_path: Path) -> None:
    several(tmp_path / "a.ome.tif")
    code, _, err = run(
        "denoise", tmp_path / "a.ome.tif", "-o", tmp_path / "b.ome.tif", "-m", trained, "--workers", 1, "--no-verdict"
    )
    assert code == 0, err
    assert_holds(tmp_path / "b.ome.tif", n2s.Denoiser.load(trained).denoise(tmp_path / "a.ome.tif"))


def test_images_of_two_files_are_pairs(run: Run, tmp_path: Path) -> None:
    several(tmp_path / "noisy.ome.tif")
    several(tmp_path / "truth.ome.tif")
    code, out, _ = run("evaluate", tmp_path / "noisy.ome.tif", tmp_path / "truth.ome.tif", "--json")
    told = json.loads(out)
    assert code == 0 and len(told["images"]) == 3, told
    images = io.open_images(tmp_path / "noisy.ome.tif")
    partners = io.open_pairs(images, tmp_path / "truth.ome.tif")
    assert [partner.label for partner in partners] == [f"truth.ome.tif/{number}" for number in range(3)]


def test_pixels_that_no_codec_reads(tmp_path: Path) -> None:
    """A compression of which nothing is known but its number."""
    tifffile.imwrite(tmp_path / "a.tif", noise((64, 64)), compression="zlib")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+") as file:
        file.pages.first.tags["Compression"].overwrite(34661)
    with pytest.raises(InputError, match=r"a.tif has a compression that cannot be read .*; save it again"):
        io.read(tmp_path / "a.tif").data[...]
