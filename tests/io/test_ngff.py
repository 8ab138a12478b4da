"""OME-Zarr out, judged by others: `yaozarrs` validates it and `ome-zarr` reads it; levels are means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaozarrs
import zarr
from roundtrip import copy, noise

from noise2same import io
from noise2same.errors import InputError
from noise2same.io import pyramid

TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
OMERO = {
    "channels": [
        {"label": name, "color": "00FF00", "active": True, "window": {"min": 0, "max": 255, "start": 5, "end": 200}}
        for name in ("DAPI", "GFP")
    ],
    "rdefs": {"defaultZ": 3, "model": "color"},
}
SHAPES = [(2, 9, 70, 50), (2, 9, 35, 25), (2, 5, 18, 12)]
"""Of levels: Z is halved in the second one only; the far ends are cut off once and kept once."""


def write_image(group: zarr.Group, version: str, shapes: list[tuple[int, ...]] = SHAPES, **options: Any) -> None:
    """An OME-NGFF image with a shift, transformations of all levels together and odd sizes."""
    levels = []
    for number, shape in enumerate(shapes):
        scale = [1.0, 2.0 * shapes[0][1] / shape[1], 0.3 * 2**number, 0.3 * 2**number]
        shift = [0.0, 0.0, 0.15 * (2**number - 1), 7.25]
        steps = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": shift}]
        levels.append({"path": f"s{number}", "coordinateTransformations": steps})
        array = group.create_array(f"s{number}", shape=shape, dtype="uint16", **({"chunks": (1, 4, 16, 16)} | options))
        array[...] = noise(shape) if number == 0 else 1
    axes = [{"name": n, "type": TYPES[n]} | ({"unit": "micrometer"} if n in "zyx" else {}) for n in "czyx"]
    multiscale = {
        "name": "embryo",
        "axes": axes,
        "datasets": levels,
        "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.5, 1.0, 1.0]}],
        "type": "gaussian",
        "metadata": {"sigma": 2},
    }
    if version == "0.4":
        group.attrs.update({"multiscales": [multiscale | {"version": "0.4"}], "omero": OMERO})
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale], "omero": OMERO}


def new_group(path: Path, version: str) -> zarr.Group:
    return zarr.open_group(path, mode="w", zarr_format={"0.4": 2, "0.5": 3}[version])


def validated(path: Path, version: str) -> Any:
    """The metadata of an image as an independent package understands it, which raises if it finds a fault."""
    if version == "0.5":
        yaozarrs.validate_zarr_store(path)
        return yaozarrs.validate_ome_json((path / "zarr.json").read_text()).attributes.ome
    return yaozarrs.validate_ome_json((path / ".zattrs").read_text())


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_levels_and_metadata_survive(version: str, tmp_path: Path) -> None:
    options = {"shards": (1, 8, 32, 32)} if version == "0.5" else {}
    write_image(new_group(tmp_path / "a.zarr", version), version, **options)
    image = io.read(tmp_path / "a.zarr")
    assert image.pixel_size == pytest.approx({"Z": 3.0, "Y": 0.3, "X": 0.3})
    copied = copy(image, tmp_path / "b.zarr")
    assert copied.pixel_size == image.pixel_size and copied.unit == image.unit
    found = validated(tmp_path / "b.zarr", version)
    (multiscale,) = found.multiscales
    before = image.details["multiscale"]
    assert multiscale.name == "embryo" and multiscale.type == "mean"
    assert found.omero.channels[1].label == "GFP" and found.omero.rdefs.defaultZ == 3
    told = json.loads(multiscale.model_dump_json(exclude_none=True))
    assert told["axes"] == before["axes"] and told["coordinateTransformations"] == before["coordinateTransformations"]
    for number, level in enumerate(before["datasets"]):
        assert told["datasets"][number]["coordinateTransformations"] == level["coordinateTransformations"]
        old, new = (zarr.open(tmp_path / name, mode="r") for name in ("a.zarr", "b.zarr"))
        old, new = old[f"s{number}"], new[str(number)]
        for name in ("shape", "chunks", "shards", "dtype", "compressors"):
            assert getattr(new, name) == getattr(old, name), name


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_levels_are_means_of_the_pixels_below(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyramid, "MEAN_PIXELS", 5000)  # many boxes
    write_image(new_group(tmp_path / "a.zarr", version), version)
    copy(io.read(tmp_path / "a.zarr"), tmp_path / "b.zarr")
    levels = [zarr.open(tmp_path / "b.zarr", mode="r")[str(number)][...] for number in range(3)]
    blocks = levels[0].astype(float).reshape(2, 9, 35, 2, 25, 2)
    np.testing.assert_array_equal(levels[1], np.rint(blocks.mean((3, 5))))
    fine = levels[1].astype(float)
    np.testing.assert_allclose(levels[2][0, 4, 17, 3], fine[0, 8, 34, 6:8].mean(), atol=0.5)  # as many as there are
    np.testing.assert_allclose(levels[2][1, 2, 5, 11], fine[1, 4:6, 10:12, 22:24].mean(), atol=0.5)


def test_ome_zarr_reads_what_is_written(tmp_path: Path) -> None:
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    for version in ("0.4", "0.5"):
        source, copied = tmp_path / f"{version}.zarr", tmp_path / f"{version}.copy.zarr"
        write_image(new_group(source, version), version)
        copy(io.read(source), copied)
        (node,) = Reader(parse_url(copied, mode="r"))()
        assert [level.shape for level in node.data] == SHAPES
        np.testing.assert_array_equal(node.data[0].compute(), io.read(source).data[...])
        assert node.metadata["channel_names"] == ["DAPI", "GFP"]
        assert len(node.metadata["coordinateTransformations"]) == 3


def test_from_another_format(tmp_path: Path) -> None:
    image = io.Image(noise((5, 40, 60)), "TYX", {"Y": 0.5, "X": 0.25, "T": 3.0}, "micrometer")
    with io.create(tmp_path / "a.zarr", image) as out:
        out[...] = image.data
    found = validated(tmp_path / "a.zarr", "0.5")
    (level,) = found.multiscales[0].datasets
    assert level.coordinateTransformations[0].scale == [3.0, 0.5, 0.25]
    assert [axis.unit for axis in found.multiscales[0].axes] == ["second", "micrometer", "micrometer"]


def test_axes_that_are_told_replace_those_of_the_file(tmp_path: Path) -> None:
    write_image(new_group(tmp_path / "a.zarr", "0.5"), "0.5")
    copied = copy(io.read(tmp_path / "a.zarr", "TZYX"), tmp_path / "b.zarr")
    assert copied.axes == "TZYX"
    assert [axis.name for axis in validated(tmp_path / "b.zarr", "0.5").multiscales[0].axes] == list("tzyx")


@pytest.mark.parametrize("shape", [(2, 9, 50, 50), (9, 35, 25), (2, 9, 70, 51)])
def test_a_level_that_is_no_mean_is_left_out_and_said(shape: tuple[int, ...], tmp_path: Path) -> None:
    group = new_group(tmp_path / "a.zarr", "0.5")
    write_image(group, "0.5", SHAPES[:2])
    del group["s1"]
    group.create_array("s1", shape=shape, dtype="uint16")
    with pytest.warns(UserWarning, match="its resolution level 1 cannot be made by means"):
        image = io.read(tmp_path / "a.zarr")
    copy(image, tmp_path / "b.zarr")
    assert len(validated(tmp_path / "b.zarr", "0.5").multiscales[0].datasets) == 1


def test_names_of_levels_do_not_lead_out_of_the_store(tmp_path: Path) -> None:
    group = new_group(tmp_path / "a.zarr", "0.5")
    write_image(group, "0.5", SHAPES[:2])
    ome = group.attrs["ome"]
    ome["multiscales"][0]["datasets"][1]["path"] = "../../elsewhere"
    group.attrs["ome"] = ome
    with pytest.raises(InputError, match=r"corrupt .*\.\./\.\./elsewhere"):
        io.read(tmp_path / "a.zarr")


def test_labels_and_other_images_are_left_alone(tmp_path: Path) -> None:
    group = new_group(tmp_path / "a.zarr", "0.5")
    write_image(group, "0.5")
    group.create_array("labels/cells/0", data=noise((9, 70, 50)), chunks=(9, 70, 50))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a.zarr").rglob("*")}
    copy(io.read(tmp_path / "a.zarr"), tmp_path / "b.zarr")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a.zarr").rglob("*")} == before
    assert sorted(path.name for path in (tmp_path / "b.zarr").iterdir()) == ["0", "1", "2", "zarr.json"]


def test_several_images_in_a_group_and_plates(tmp_path: Path) -> None:
    group = new_group(tmp_path / "a.zarr", "0.5")
    write_image(group, "0.5")
    ome = group.attrs["ome"]
    ome["multiscales"] *= 3
    group.attrs["ome"] = ome
    assert io.read(tmp_path / "a.zarr").others == 2
    plate = new_group(tmp_path / "plate.zarr", "0.5")
    plate.attrs["ome"] = {"version": "0.5", "plate": {"wells": [{"path": "A/1"}, {"path": "B/2"}]}}
    write_image(plate.create_group("A/1/0"), "0.5")
    with pytest.raises(InputError, match=r"is a plate of 2 wells: name its images, such as .*plate.zarr/A/1/0"):
        io.read(tmp_path / "plate.zarr")
    assert io.read(tmp_path / "plate.zarr" / "A" / "1" / "0").shape == SHAPES[0]
