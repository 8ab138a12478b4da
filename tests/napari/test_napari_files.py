"""Files and samples through the plugin, and what it says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import noise2same
from noise2same import io

MANIFEST = Path(noise2same.__file__).parent / "napari" / "napari.yaml"
VOLUME = np.random.default_rng(0).integers(0, 4000, (3, 5, 20, 24)).astype(np.uint16)


def test_the_manifest_is_valid() -> None:
    done = subprocess.run([sys.executable, "-m", "npe2", "validate", str(MANIFEST)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "valid" in done.stdout


@pytest.mark.parametrize("suffix", [".ome.tif", ".zarr"])
def test_a_layer_that_is_saved_comes_back_as_it_was(viewer: Any, plugin: str, suffix: str, tmp_path: Path) -> None:
    names = {"axis_labels": ("t", "z", "y", "x"), "units": ("s", "um", "um", "um")}
    layer = viewer.add_image(VOLUME, scale=(2, 0.7, 0.2, 0.2), name="worm", **names)
    path = tmp_path / f"worm{suffix}"
    assert layer.save(str(path), plugin=plugin) == [str(path)]
    (back,) = viewer.open(path, plugin=plugin)
    np.testing.assert_array_equal(back.data, VOLUME)
    assert back.axis_labels == layer.axis_labels and back.name.startswith("worm")
    np.testing.assert_allclose(back.scale, layer.scale)
    assert list(map(str, back.units)) == ["second", *["micrometer"] * 3]


def test_layers_are_saved_in_every_format_that_we_write(viewer: Any, plugin: str, tmp_path: Path) -> None:
    photo = np.random.default_rng(0).integers(0, 255, (32, 40, 3)).astype(np.uint8)
    layer = viewer.add_image(photo)
    for suffix in (".tif", ".png", ".npy", ".ome.tif"):
        layer.save(str(tmp_path / f"photo{suffix}"), plugin=plugin)
        assert np.array_equal(io.read(tmp_path / f"photo{suffix}", "YXC").data[...], photo)
    (back,) = viewer.open(tmp_path / "photo.ome.tif", plugin=plugin)
    assert back.rgb and np.array_equal(back.data, photo)


def test_a_large_file_is_read_where_it_is_looked_at(
    viewer: Any, plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noise2same.napari.results.IN_MEMORY", 1000)
    with io.create(tmp_path / "film.zarr", io.wrap(VOLUME, "TZYX")) as out:
        out[...] = VOLUME
    (layer,) = viewer.open(tmp_path / "film.zarr", plugin=plugin)
    assert not isinstance(layer.data, np.ndarray) and np.array_equal(np.asarray(layer.data), VOLUME)


def test_a_bad_file_is_said_and_files_of_others_are_left_to_them(viewer: Any, plugin: str, tmp_path: Path) -> None:
    from noise2same.napari.files import get_reader

    (tmp_path / "bad.ome.tif").write_bytes(b"II*\0 and nothing")
    with pytest.raises(Exception, match=r"bad\.ome\.tif"):
        viewer.open(tmp_path / "bad.ome.tif", plugin=plugin)
    assert get_reader(str(tmp_path / "cells.lof")) is None
    tifffile.imwrite(tmp_path / "good.tif", VOLUME[0])
    assert viewer.open(tmp_path / "good.tif", plugin=None)  # as napari reads it by itself, without a question


def test_samples_open(viewer: Any, plugin: str) -> None:
    shapes = {name: viewer.open_sample(plugin, name)[0].data.shape for name in ("gray", "color", "volume")}
    assert shapes == {"gray": (512, 512), "color": (300, 451, 3), "volume": (32, 128, 128)}
    assert [layer.rgb for layer in viewer.layers] == [False, True, False]
