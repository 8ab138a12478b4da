"""The widget Apply model, on layers in memory and on those that are read piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from qtpy.QtCore import QMimeData, QPointF, Qt, QUrl
from qtpy.QtGui import QDropEvent

from noise2same.denoiser import Denoiser

Until = Callable[..., None]


@pytest.fixture
def panel(viewer: Any, trained: Path, until: Until) -> Any:
    _, widget = viewer.window.add_plugin_dock_widget("noise2same", "Apply model")
    until(lambda: widget._ready)
    assert not widget.start_button.isEnabled()
    widget.open_model(str(trained))
    assert widget.start_button.isEnabled() and "1 channel" in widget.model_label.text()
    return widget


@pytest.fixture
def noisy() -> np.ndarray:
    return np.random.default_rng(1).normal(100, 20, (3, 200, 160)).astype(np.float32)


def test_the_result_is_that_of_python(viewer: Any, panel: Any, noisy: Any, until: Until, trained: Path) -> None:
    viewer.add_image(noisy, name="film", axis_labels=("t", "y", "x"))
    panel.start_button.click()
    until(lambda: panel.made)
    expected = Denoiser.load(trained).denoise(noisy, "TYX")
    np.testing.assert_allclose(viewer.layers["film denoised"].data, expected, atol=1e-3)


def test_a_lazy_layer_is_denoised_where_it_is_looked_at_and_all_of_it_into_a_file(
    viewer: Any, panel: Any, noisy: Any, until: Until, trained: Path, tmp_path: Path, told: Any
) -> None:
    read: list[int] = []

    def plane(block_info: Any = None) -> np.ndarray:
        time = block_info[None]["chunk-location"][0]
        read.append(time)
        return noisy[time : time + 1]

    film = da.map_blocks(plane, chunks=((1, 1, 1), (200,), (160,)), dtype=noisy.dtype, meta=np.empty((0, 0, 0), "f4"))
    layer = viewer.add_image(film, name="film", axis_labels=("t", "y", "x"), scale=(1, 2, 2), contrast_limits=(0, 200))
    viewer.dims.set_current_step(0, 1)
    until(lambda: panel.preview_layer is not None and panel.preview_layer.translate[0] == 1)
    expected = Denoiser.load(trained).denoise(noisy, "TYX", tta=False)
    shown = panel.preview_layer
    row, column = (round(at / 2) for at in shown.translate[1:])
    height, width = shown.data.shape[1:]
    part = slice(1, 2), slice(row, row + height), slice(column, column + width)
    np.testing.assert_allclose(shown.data, expected[part], atol=1e-3)

    panel.denoise_to(str(tmp_path / "no" / "clean.zarr"))
    assert "no" in told()[-1] and panel.start_button.isEnabled()
    panel.denoise_to(str(tmp_path / "clean.zarr"))
    until(lambda: panel.made)
    clean = viewer.layers["film denoised"]
    assert isinstance(clean.data, da.Array) and panel.preview_layer is None
    assert (clean.scale == layer.scale).all()
    result = np.asarray(clean.data)
    panel.strength.setValue(0)
    until(lambda: np.array_equal(np.asarray(clean.data), noisy))
    assert not np.array_equal(result, noisy)


def test_a_model_of_other_channels_and_no_model_are_said_and_change_nothing(
    viewer: Any, panel: Any, noisy: Any, until: Until, told: Any, tmp_path: Path
) -> None:
    viewer.add_image(np.stack([noisy[0]] * 3, -1).astype(np.uint8), name="photo")
    panel.start_button.click()
    until(lambda: told())
    assert told()[-1].startswith("photo has 3 channel(s) but the model takes 1")
    model = panel.model
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    panel.open_model(str(tmp_path / "broken.safetensors"))
    assert "broken.safetensors" in told()[-1] and panel.model is model
    viewer.add_image(noisy[0], name="picture")
    panel.start_button.click()
    until(lambda: panel.made)


def test_models_can_be_dropped_on_the_panel_and_on_the_canvas(viewer: Any, panel: Any, trained: Path) -> None:
    before, data = panel.model, QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(trained))])
    action, button = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    panel.dropEvent(QDropEvent(QPointF(5, 5), action, data, button, Qt.KeyboardModifier.NoModifier))
    dropped = panel.model
    assert dropped is not before
    viewer.open(str(trained), plugin=None)
    assert panel.model is not dropped and not viewer.layers
