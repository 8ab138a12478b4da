"""The widget Denoise, driven in a real viewer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from qtpy.QtCore import Qt

from noise2same.denoiser import Denoiser
from noise2same.napari import work
from noise2same.noise.samples import samples

Until = Callable[..., None]


@pytest.fixture
def panel(viewer: Any, until: Until) -> Any:
    _, widget = viewer.window.add_plugin_dock_widget("noise2same", "Denoise")
    until(widget.start_button.isEnabled)
    return widget


def choose(panel: Any, effort: str) -> None:
    panel.effort.setCurrentIndex(panel.effort.findText(effort, Qt.MatchFlag.MatchStartsWith))


def noisy_camera(size: int = 96) -> np.ndarray:
    return np.clip(samples()["gray"].noisy[100 : 100 + size, 200 : 200 + size], 0, 255).astype(np.uint8)


def test_instant_gives_a_layer_with_all_that_the_noisy_one_has(viewer: Any, panel: Any, until: Until) -> None:
    looks = {"scale": (0.5, 0.25), "translate": (3, 4), "units": ("um", "um"), "colormap": "magenta"}
    looks |= {"contrast_limits": (10, 180), "blending": "additive", "gamma": 0.8, "metadata": {"stain": "DAPI"}}
    noisy = viewer.add_image(noisy_camera(), name="cells", **looks)
    assert panel.axes.currentText() == "YX" and panel.layer_label.text() == "cells"
    choose(panel, "Instant")
    panel.start_button.click()
    assert not panel.start_button.isEnabled()
    until(lambda: panel.made)
    clean = viewer.layers["cells denoised"]
    assert clean.data.dtype == np.uint8 and clean.data.shape == noisy.data.shape
    truth = samples()["gray"].clean[100:196, 200:296]
    errors = [np.mean((layer.data.astype(float) - truth) ** 2) for layer in (noisy, clean)]
    assert errors[1] < errors[0] / 3
    for name in ("scale", "translate", "units", "contrast_limits", "blending", "gamma"):
        assert np.all(getattr(clean, name) == getattr(noisy, name)), name
    assert clean.colormap.name == "magenta" and clean.metadata["stain"] == "DAPI"
    assert viewer.layers.selection == {noisy}
    until(lambda: panel.start_button.isEnabled())
    assert panel.verdict.text().split(".")[0] in ("Trust", "Check", "Do not trust")


def test_the_plan_and_a_preview_of_what_is_looked_at_come_by_themselves(viewer: Any, panel: Any, until: Until) -> None:
    stack = np.stack([noisy_camera()] * 5)
    viewer.add_image(stack, axis_labels=("t", "y", "x"), scale=(2, 1, 1), name="film")
    assert panel.axes.currentText() == "TYX"
    viewer.dims.set_current_step(0, 3)
    until(lambda: panel.preview_layer is not None and panel.plan is not None)
    assert panel.plan_label.text().startswith("Noise of 5 images") and "0.5 minutes" in panel.plan_label.text()
    assert panel.preview_layer.data.shape[0] == 1 and panel.preview_layer.translate[0] == 6
    viewer.dims.set_current_step(0, 1)
    until(lambda: panel.preview_layer.translate[0] == 2)
    choose(panel, "Instant")
    assert "No training" in panel.plan_label.text()
    panel.follow.setChecked(False)
    assert list(viewer.layers) == panel.chosen


def test_training_shows_loss_and_preview_and_stop_here_keeps_what_was_learned(
    viewer: Any, panel: Any, until: Until, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noise2same.napari.panel.LIVE_SECONDS", 0.5)
    noisy = viewer.add_image(noisy_camera(), name="cells")
    panel.start_button.click()
    until(lambda: len(panel.curve.points) > 2 and panel.preview_layer is not None)
    assert panel.stop_button.isEnabled() and "Learning: step" in panel.status.text()
    assert panel.preview_layer.data.std() < noisy.data.std()
    panel.stop_button.click()
    until(lambda: panel.start_button.isEnabled())
    assert panel.preview_layer is None and panel.trained.summary["stopped"]
    clean = viewer.layers["cells denoised"]

    full = clean.data.copy()
    panel.strength.setValue(50)
    half = np.rint((full.astype(float) + noisy.data) / 2)
    until(lambda: np.abs(clean.data.astype(float) - half).max() <= 1)
    panel.strength.setValue(0)
    until(lambda: (clean.data == noisy.data).all())
    panel.strength.setValue(100)
    until(lambda: (clean.data == full).all())

    panel.save_model(str(tmp_path / "cells.safetensors"))
    assert Denoiser.load(tmp_path / "cells.safetensors").channels == 1


def test_a_lazy_layer_is_learned_from_and_then_shown_where_it_is_looked_at(
    viewer: Any, panel: Any, until: Until
) -> None:
    pyramid = [da.from_array(np.tile(noisy_camera(), (6, 6))[::step, ::step], chunks=128) for step in (1, 2)]
    viewer.add_image(pyramid, name="slide", multiscale=True)
    until(lambda: panel.preview_layer is not None and panel.plan is not None)
    assert panel.preview_layer.data.shape == (576, 576)  # in full resolution
    panel.start_button.click()
    until(lambda: panel.curve.points)
    panel.stop_button.click()
    until(lambda: panel.trained is not None and panel.preview_layer is not None)
    assert panel.model is panel.trained and not panel.made
    assert isinstance(panel.preview_layer.data, np.ndarray) and panel.all_button.isEnabled()
    assert panel.all_button.isVisibleTo(panel)


def test_a_volume_is_looked_at_plane_by_plane_also_in_3d(viewer: Any, panel: Any, until: Until) -> None:
    turned = np.array([[1, 0, 0], [0, 0.8, -0.6], [0, 0.6, 0.8]])
    viewer.add_image(samples()["volume"].noisy[:8, :64, :64], name="stack", rotate=turned, scale=(3, 1, 1))
    viewer.dims.set_current_step(0, 6)
    until(lambda: panel.preview_layer is not None)
    assert panel.preview_layer.data.shape == (1, 64, 64)
    place = panel.preview_layer.data_to_world((0, 0, 0))
    np.testing.assert_allclose(place, viewer.layers["stack"].data_to_world((6, 0, 0)))
    viewer.dims.ndisplay = 3
    panel.follow.setChecked(False)
    panel.start_button.click()
    until(lambda: panel.curve.points)
    panel.stop_button.click()
    until(lambda: panel.made)
    assert viewer.layers["stack denoised"].data.shape == (8, 64, 64)


def test_cancel_is_at_once_and_leaves_nothing(viewer: Any, panel: Any, until: Until) -> None:
    noisy = viewer.add_image(noisy_camera())
    panel.follow.setChecked(False)
    panel.start_button.click()
    until(lambda: panel.curve.points)
    panel.cancel_button.click()
    assert panel.start_button.isEnabled() and panel.status.text() == "Cancelled."
    until(lambda: not work._running)
    assert list(viewer.layers) == [noisy] and not panel.made and panel.trained is None


def test_a_widget_that_is_closed_ends_its_training(viewer: Any, panel: Any, until: Until) -> None:
    viewer.add_image(noisy_camera())
    panel.start_button.click()
    until(lambda: panel.curve.points)
    viewer.window.remove_dock_widget(panel)
    assert all(one.cancelled for one in work._running)
    until(lambda: not work._running)


def test_several_layers_with_colors_and_alpha_share_a_network(viewer: Any, panel: Any, until: Until) -> None:
    color = np.clip(samples()["color"].noisy[:64, :64], 0, 255).astype(np.uint8)
    alpha = np.full((64, 64, 1), 77, np.uint8)
    layers = [viewer.add_image(np.concatenate([color, alpha], -1), name="a"), viewer.add_image(color, name="b")]
    viewer.layers.selection = set(layers)
    assert panel.axes.currentText() == "YXC"
    choose(panel, "Instant")
    panel.start_button.click()
    until(lambda: len(panel.made) == 2)
    assert viewer.layers["a denoised"].data.shape == (64, 64, 4)
    assert (viewer.layers["a denoised"].data[..., 3] == 77).all()
    panel.strength.setValue(40)
    until(lambda: (panel.made[0].layer.data != np.concatenate([panel.made[0].clean, alpha], -1)).any())
    assert panel.made[0].layer.data.shape == (64, 64, 4)


def test_wrong_input_becomes_a_notification_and_the_session_goes_on(
    viewer: Any, panel: Any, until: Until, told: Callable[[], list[str]], tmp_path: Path
) -> None:
    viewer.add_labels(np.ones((32, 32), int), name="nuclei")
    panel.start_button.click()
    assert told()[-1] == "nuclei is a labels layer: select an image layer."
    volume = viewer.add_image(samples()["volume"].noisy[:8, :64, :64], name="stack")
    assert panel.axes.currentText() == "ZYX"
    choose(panel, "Instant")
    panel.start_button.click()
    assert told()[-1].startswith("Instant is for pictures")
    panel.axes.setEditText("ZY")
    panel.start_button.click()
    assert told()[-1] == "stack: axes 'ZY' must contain both Y and X."
    panel.axes.setEditText("syx")  # plane by plane
    panel.start_button.click()
    until(lambda: panel.made)
    assert viewer.layers["stack denoised"].data.shape == volume.data.shape
    until(panel.save_button.isEnabled)
    panel.save_model(str(tmp_path / "no folder" / "model.safetensors"))
    assert "no folder" in told()[-1]
    viewer.add_image(np.zeros((40, 40), bool), name="mask")
    panel.start_button.click()
    assert told()[-1].startswith("mask has pixels of type bool")
    assert panel.start_button.isEnabled()


def test_the_layer_stays_chosen_while_its_result_is_selected(viewer: Any, panel: Any, until: Until) -> None:
    noisy = viewer.add_image(noisy_camera(), name="cells")
    choose(panel, "Instant")
    panel.start_button.click()
    until(lambda: panel.made)
    viewer.layers.selection.select_only(viewer.layers["cells denoised"])
    assert panel.chosen == [noisy] and panel.layer_label.text() == "cells"
    viewer.dims.ndisplay = 3
    viewer.dims.ndisplay = 2
    other = viewer.add_image(noisy_camera(64), name="other")
    assert panel.chosen == [other]
    until(lambda: panel.preview_layer is not None)
    viewer.layers.remove(other)
    viewer.layers.selection.clear()
    assert other not in panel.chosen


@pytest.mark.parametrize(
    ("shape", "labels", "rgb", "axes"),
    [
        ((64, 64), ("-2", "-1"), False, "YX"),
        ((9, 64, 64), ("-3", "-2", "-1"), False, "ZYX"),
        ((2, 64, 64), ("-3", "-2", "-1"), False, "CYX"),
        ((9, 64, 64), ("t", "y", "x"), False, "TYX"),
        ((9, 64, 64), ("depth", "y", "x"), False, "ZYX"),
        ((9, 64, 64, 3), ("-3", "-2", "-1"), True, "TYXC"),
        ((9, 3, 64, 64), ("-4", "-3", "-2", "-1"), False, "TCYX"),
        ((3, 9, 64, 64), ("-4", "-3", "-2", "-1"), False, "CZYX"),
        ((9, 9, 64, 64), ("-4", "-3", "-2", "-1"), False, "TZYX"),
        ((9, 3, 9, 64, 64), ("-5", "-4", "-3", "-2", "-1"), False, "TCZYX"),
        ((2, 2, 2, 2, 64, 64), tuple("abcdef"), False, ""),
    ],
)
def test_axes_are_guessed(plugin: str, shape: tuple[int, ...], labels: tuple[str, ...], rgb: bool, axes: str) -> None:
    from noise2same.napari.layers import axes_of

    assert axes_of(shape, labels, rgb) == axes
