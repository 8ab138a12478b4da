"""Channels and frames are called as they are in their file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

from noise2same import io
from noise2same.io.ome import channels_of

PIXELS = np.random.default_rng(0).integers(0, 100, (2, 24, 32), dtype=np.uint16)


def names(image: io.Image) -> list[tuple[str, str]]:
    return [(channel.name, channel.color) for channel in io.channels(image)]


def test_of_ome_tiff(tmp_path: Path) -> None:
    path = tmp_path / "cells.ome.tif"
    channels = {"Name": ["DAPI", "Alexa 488"], "Color": [0x0000FFFF, 0x00FF00FF]}
    tifffile.imwrite(path, PIXELS, ome=True, metadata={"axes": "CYX", "Channel": channels})
    assert names(io.read(path)) == [("DAPI", "#0000ff"), ("Alexa 488", "#00ff00")]
    tifffile.imwrite(path, PIXELS, ome=True, metadata={"axes": "CYX", "Channel": {"Name": ["", "GFP"]}})
    assert names(io.read(path)) == [("channel 1", ""), ("GFP", "")]


def test_of_imagej(tmp_path: Path) -> None:
    path, ramp = tmp_path / "cells.tif", np.arange(256, dtype=np.uint8)
    tables = [np.stack([ramp, 0 * ramp, ramp]), np.stack([0 * ramp, ramp, 0 * ramp])]
    metadata: dict[str, Any] = {"axes": "CYX", "mode": "composite", "LUTs": tables, "Labels": ["nuclei", "actin"]}
    tifffile.imwrite(path, PIXELS, imagej=True, metadata=metadata)
    assert names(io.read(path)) == [("nuclei", "#ff00ff"), ("actin", "#00ff00")]
    tifffile.imwrite(path, PIXELS, imagej=True, metadata={"axes": "TYX", "Labels": ["before", "after drug"]})
    film = io.read(path)
    assert [io.frame_name(film, {"T": t}) for t in range(2)] == ["before", "after drug"]
    assert names(film) == [("channel 1", "")]


def test_of_ome_zarr(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "cells.zarr", mode="w")
    group.create_array("0", data=PIXELS, dimension_names=["c", "y", "x"])
    axes = [{"name": "c", "type": "channel"}, *({"name": axis, "type": "space"} for axis in "yx")]
    scales = {
        "axes": axes,
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]}],
    }
    channels = [{"label": "GFP", "color": "00FF00"}, {"color": "nonsense"}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [scales], "omero": {"channels": channels}}
    assert names(io.read(tmp_path / "cells.zarr")) == [("GFP", "#00ff00"), ("channel 2", "")]


def test_where_the_file_has_no_names_they_are_counted() -> None:
    assert names(io.wrap(PIXELS, "CYX")) == [("channel 1", ""), ("channel 2", "")]
    assert names(io.wrap(np.zeros((8, 9, 3), np.uint8), "YXC")) == [
        ("red", "#ff0000"),
        ("green", "#00ff00"),
        ("blue", "#0000ff"),
    ]
    film = io.wrap(np.zeros((2, 3, 8, 9), np.uint8), "STYX")
    assert io.frame_name(film, {"S": 1, "T": 2}) == "sample 2, time point 3"
    assert io.frame_name(film, {}) == ""


@pytest.mark.parametrize(
    "xml", ["", "<OME", '<!DOCTYPE a><OME><Channel Name="x"/></OME>', '<O><Channel Color="red"/></O>']
)
def test_strange_xml_has_no_names(xml: str) -> None:
    assert channels_of(xml) == []


def test_names_are_found_without_reading_all_planes() -> None:
    start = '<OME><Image><Pixels><Channel Name="GFP" Color="-16776961"/><TiffData/>'
    assert channels_of(start + "<Plane/>" * 50_000 + "broken") == [("GFP", "#ff0000")]
