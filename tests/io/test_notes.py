"""What was done is said in each result: version, method and model, where programs of others find it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from roundtrip import noise

import noise2same as n2s
from noise2same import io

ome_types = pytest.importorskip("ome_types")


def comments(path: Path) -> list[str]:
    """The comments on the first image of an OME-TIFF."""
    told = ome_types.from_xml(tifffile.tiffcomment(path), validate=False)
    assert told.structured_annotations is not None
    by_name = {one.id: one.value for one in told.structured_annotations.comment_annotations}
    return [by_name[one.id] for one in told.images[0].annotation_refs if one.id in by_name]


@pytest.fixture
def model(trained: Path) -> n2s.Denoiser:
    return n2s.Denoiser.load(trained)


def test_what_the_note_says(model: n2s.Denoiser) -> None:
    assert model.note() == f"noise2same {n2s.__version__}, {model.method.name}, model {model.digest()[:12]}"
    assert model.note(0.5).endswith(", strength 0.5")


def test_ome_tiff(model: n2s.Denoiser, tmp_path: Path) -> None:
    size = {"PhysicalSizeX": 0.1, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.1, "PhysicalSizeYUnit": "µm"}
    tifffile.imwrite(tmp_path / "a.ome.tif", noise((64, 64)), metadata={"axes": "YX", **size})
    model.denoise(tmp_path / "a.ome.tif", output=tmp_path / "b.ome.tif")
    assert comments(tmp_path / "b.ome.tif") == [model.note()]
    model.denoise(tmp_path / "b.ome.tif", output=tmp_path / "c.ome.tif", strength=0.5)
    assert comments(tmp_path / "c.ome.tif") == [model.note(), model.note(0.5)]  # one after the other
    model.denoise(io.Image(noise((64, 64)), "YX", {"Y": 1.0, "X": 1.0}, "micrometer"), output=tmp_path / "d.ome.tif")
    assert comments(tmp_path / "d.ome.tif") == [model.note()]  # where nothing was known before


def test_several_images(model: n2s.Denoiser, tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        for _ in range(2):
            file.write(noise((64, 64)), metadata={"axes": "YX"})
    model.denoise(tmp_path / "a.ome.tif", output=tmp_path / "b.ome.tif")
    told = ome_types.from_xml(tifffile.tiffcomment(tmp_path / "b.ome.tif"), validate=False)
    assert [len(image.annotation_refs) for image in told.images] == [1, 1]
    assert comments(tmp_path / "b.ome.tif") == [model.note()]


def test_imagej_and_plain_tiff(model: n2s.Denoiser, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", noise((64, 64)), imagej=True, metadata={"Info": "mouse = 7"})
    model.denoise(tmp_path / "a.tif", output=tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.imagej_metadata and file.imagej_metadata["Info"] == f"mouse = 7\nnoise2same = {model.note()}\n"
        assert file.pages.first.software == model.note()
    tifffile.imwrite(tmp_path / "c.tif", noise((64, 64)), software="scope 1.0", metadata=None)
    model.denoise(tmp_path / "c.tif", output=tmp_path / "d.tif")
    with tifffile.TiffFile(tmp_path / "d.tif") as file:
        assert file.pages.first.software == f"scope 1.0; {model.note()}"


@pytest.mark.parametrize("axes", ["YX", "SYX"])
def test_zarr(axes: str, model: n2s.Denoiser, tmp_path: Path) -> None:
    pixels = noise((64, 64) if axes == "YX" else (2, 64, 64))
    model.denoise(pixels, axes, output=tmp_path / "a.zarr")
    attributes = zarr.open(tmp_path / "a.zarr", mode="r").attrs.asdict()
    assert attributes["noise2same"] == model.note()
    if axes == "YX":
        group = zarr.open_group(tmp_path / "a.zarr", mode="a")
        group.attrs["lab"] = {"mouse": 7}
        model.denoise(tmp_path / "a.zarr", output=tmp_path / "b.zarr")
        assert zarr.open_group(tmp_path / "b.zarr", mode="r").attrs["lab"] == {"mouse": 7}


def test_tags_of_no_use_do_no_harm(tmp_path: Path) -> None:
    """Tags of the wrong kind are left out, and what is kept is kept again."""
    tags = [(269, "H", 2, (1, 2), True), (33723, "I", 2, (7, 8), True), (315, "s", 0, "someone", True)]
    tifffile.imwrite(tmp_path / "a.tif", noise((64, 64)), extratags=tags, description="a stage", metadata=None)
    for source, target in (("a", "b"), ("b", "c")):
        image = io.read(tmp_path / f"{source}.tif")
        with io.create(tmp_path / f"{target}.tif", image) as out:
            out[...] = np.asarray(image.data[...])
    with tifffile.TiffFile(tmp_path / "c.tif") as file:
        page = file.pages.first
        assert (page.description, page.tags[315].value, 269 in page.tags) == ("a stage", "someone", False)


def test_formats_of_other_fields(model: n2s.Denoiser, tmp_path: Path) -> None:
    """Where programs of astronomers, microscopists, radiologists and photographers look."""
    import mrcfile
    import nibabel
    from astropy.io import fits
    from PIL import Image as Pillow

    pixels = noise((64, 64), "uint8")
    for name in ("a.fits", "a.png", "a.jpg"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of JPEG's artefacts
            model.denoise(pixels, output=tmp_path / name)
    for name in ("a.mrc", "a.nii"):
        model.denoise(pixels.astype("int16"), output=tmp_path / name)
    assert str(fits.getheader(tmp_path / "a.fits")["HISTORY"]) == model.note()
    with Pillow.open(tmp_path / "a.png") as png, Pillow.open(tmp_path / "a.jpg") as jpeg:
        assert png.info["Comment"] == model.note() and jpeg.info["comment"].decode() == model.note()
    with mrcfile.open(tmp_path / "a.mrc") as mrc:
        assert mrc.get_labels() == [model.note()]
    assert nibabel.load(tmp_path / "a.nii").header.extensions[0].get_content().rstrip(b"\0").decode() == model.note()
    model.denoise(tmp_path / "a.fits", output=tmp_path / "b.fits", strength=0.5)
    assert list(fits.getheader(tmp_path / "b.fits")["HISTORY"]) == [model.note(), model.note(0.5)]
