"""Draw docs/napari.png, the widget Denoise at work: xvfb-run -a .venv/bin/python tools/napari_screenshot.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import napari
from npe2 import PluginManager, PluginManifest
from qtpy.QtWidgets import QApplication

import noise2same

TARGET = Path(__file__).parents[1] / "docs" / "napari.png"


def wait(condition: Callable[[], object]) -> None:
    """Let the window live until something is true."""
    while not condition():
        QApplication.processEvents()
        time.sleep(0.02)


def main() -> None:
    """Train on a sample, and take the picture after a while."""
    manager = PluginManager.instance()
    manager.discover()
    if "noise2same" not in {manifest.name for manifest in manager.iter_manifests()}:
        manager.register(PluginManifest.from_file(Path(noise2same.__file__).parent / "napari" / "napari.yaml"))
    viewer = napari.Viewer()
    viewer.window.resize(1280, 660)
    _, panel = viewer.window.add_plugin_dock_widget("noise2same", "Denoise")
    viewer.open_sample("noise2same", "volume")
    viewer.reset_view()
    wait(lambda: panel.plan is not None and panel.start_button.isEnabled())
    panel.effort.setCurrentIndex(2)
    panel.start_button.click()
    wait(lambda: panel.curve.points and panel.curve.points[-1][0] > 0.4 and panel.preview_layer is not None)
    viewer.canvas.grid.enabled = True  # noisy and denoised side by side
    viewer.reset_view()
    wait(iter((False, False, True)).__next__)
    viewer.window.screenshot(str(TARGET), canvas_only=False, flash=False)
    panel.cancel_button.click()
    viewer.close()


if __name__ == "__main__":
    main()
