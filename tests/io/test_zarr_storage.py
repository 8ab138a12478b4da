"""How Zarr is stored: the output like the input, and what cannot be stored again said in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from roundtrip import assert_same, copy, noise

from noise2same import io
from noise2same.data import axes as ax
from noise2same.data.sampling import read_boxes


def files(path: Path) -> int:
    return sum(item.is_file() for item in path.rglob("c/**/*"))


@pytest.mark.parametrize("group", [False, True])
def test_sharded_stays_sharded(group: bool, tmp_path: Path) -> None:
    pixels = noise((4, 64, 96))
    options: dict[str, Any] = {
        "chunks": (1, 16, 16),
        "shards": (2, 64, 48),
        "compressors": zarr.codecs.ZstdCodec(level=7),
    }
    if group:
        root = zarr.open_group(tmp_path / "a.zarr", mode="w")
        root.create_array("0", data=pixels, **options)
        named = [{"name": name, "type": "space"} for name in "zyx"]
        root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": named, "datasets": [{"path": "0"}]}]}
    else:
        zarr.create_array(tmp_path / "a.zarr", data=pixels, attributes={"axes": "ZYX"}, **options)
    image = io.read(tmp_path / "a.zarr")
    assert_same(copy(image, tmp_path / "b.zarr"), image)
    written: Any = zarr.open(tmp_path / "b.zarr", mode="r")
    written = written["0"] if group else written
    assert (written.shards, written.chunks) == ((2, 64, 48), (1, 16, 16))
    assert written.compressors == (zarr.codecs.ZstdCodec(level=7),)
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr") == 4
    assert copy(image, tmp_path / "c.zarr", "float32").details["levels"][0]["shards"] == (2, 64, 48)


def test_the_grid_that_is_written_at_once(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(64, 64), shards=(32, 64), chunks=(16, 16), dtype="uint8")
    zarr.create_array(tmp_path / "b.zarr", shape=(64, 64), chunks=(16, 8), dtype="uint8")
    for name, grid in (("a.zarr", (32, 64)), ("b.zarr", (16, 8))):
        with io.create(tmp_path / "out.zarr", io.read(tmp_path / name)) as out:
            assert io.write_grid(out) == grid
    for suffix in (".tif", ".npy", ".png"):
        with io.create(tmp_path / f"out{suffix}", io.wrap(noise((20, 30)))) as out:
            assert io.write_grid(out) is None


@pytest.mark.parametrize(
    "size", [{"Y": "wide", "X": 0.5}, {"Y": None, "X": 1}, [0.5, 0.5], 0.5, "0.5", {"Y": -1.0, "X": 1.0}, {"X": [1]}]
)
def test_pixel_size_that_is_no_number(size: Any, tmp_path: Path) -> None:
    attributes = {"axes": "YX", "pixel_size": size, "unit": 7}
    zarr.create_array(tmp_path / "a.zarr", data=noise((20, 30)), attributes=attributes)
    with pytest.warns(UserWarning, match=r"a.zarr: its pixel size .* is not made of positive numbers"):
        image = io.read(tmp_path / "a.zarr")
    assert (image.pixel_size, image.unit) == ({}, "")
    assert_same(copy(image, tmp_path / "b.zarr"), image)


def test_compression_that_is_read_but_cannot_be_written(tmp_path: Path) -> None:
    store = tmp_path / "a.zarr"
    zarr.create_array(store, data=noise((20, 30)), zarr_format=2, attributes={"axes": "YX"}, compressors=None)
    header = json.loads((store / ".zarray").read_text())
    with_zlib = zarr.create_array(
        tmp_path / "b.zarr", data=noise((20, 30)), zarr_format=2, compressors={"id": "zlib", "level": 1}
    )
    (chunk,) = (tmp_path / "b.zarr").glob("0.0")
    (store / "0.0").write_bytes(chunk.read_bytes())
    header["compressor"] = {"id": "zlib", "level": 77}  # a level that only compressing minds
    (store / ".zarray").write_text(json.dumps(header))
    image = io.read(store)
    np.testing.assert_array_equal(image.data[...], with_zlib[...])
    with pytest.warns(UserWarning, match=r"a.zarr: its compression cannot be written .*default"):
        copied = copy(image, tmp_path / "c.zarr")
    assert_same(copied, image)


def test_a_trillion_pixels_are_opened_and_sampled(tmp_path: Path) -> None:
    options = {"dtype": "uint8", "chunks": (1, 64, 64), "fill_value": 3}
    zarr.create_array(tmp_path / "a.zarr", shape=(10**9, 32, 32), attributes={"axes": "SYX"}, **options)
    zarr.create_array(tmp_path / "b.zarr", shape=(4, 10**6, 10**6), attributes={"axes": "TYX"}, **options)
    for name, shape in (("a.zarr", (1, 1, 32, 32)), ("b.zarr", (1, 1, 256, 4081))):
        image = io.read(tmp_path / name)
        samples = ax.samples(image.data, image.axes)
        assert len(samples) == image.shape[0]
        assert samples[-1].index == {image.axes[0]: image.shape[0] - 1}
        boxes = read_boxes([image], 2 * int(np.prod(shape)))
        assert [box.shape[:2] for box in boxes] == [(1, 1)] * 2 and all((box == 3).all() for box in boxes)
        with io.create(tmp_path / "out.zarr", image) as out:
            ax.samples(out, image.axes)[-1].write(np.ones((1, 1, 8, 8), "uint8"), slice(0, 8), slice(0, 8))
        assert io.read(tmp_path / "out.zarr").data[-1, 7, 7] == 1
