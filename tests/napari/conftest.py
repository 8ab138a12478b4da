"""A real viewer of napari, on a screen that nobody sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import noise2same


@pytest.fixture(scope="session")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A display, and settings of napari that are not the user's."""
    os.environ["NAPARI_CONFIG"] = str(tmp_path_factory.mktemp("napari") / "settings.yaml")
    if os.environ.get("DISPLAY") or not sys.platform.startswith("linux"):
        yield
        return
    if shutil.which("Xvfb") is None and not os.environ.get("CI"):
        pytest.skip("needs a screen: apt-get install xvfb")
    receiving, sending = os.pipe()
    command = ["Xvfb", "-displayfd", str(sending), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[sending], stderr=subprocess.DEVNULL)
    os.close(sending)
    with os.fdopen(receiving) as answer:
        os.environ["DISPLAY"] = f":{answer.readline().strip()}"
    yield
    del os.environ["DISPLAY"]
    server.terminate()
    server.wait()


@pytest.fixture(scope="session")
def plugin(screen: None) -> str:
    """The plugin, known to napari also where the package is not installed."""
    from npe2 import PluginManager, PluginManifest

    manager = PluginManager.instance()
    manager.discover()
    if "noise2same" not in {manifest.name for manifest in manager.iter_manifests()}:
        manager.register(PluginManifest.from_file(Path(noise2same.__file__).parent / "napari" / "napari.yaml"))
    return "noise2same"


@pytest.fixture
def viewer(plugin: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    import napari
    from napari.utils.notifications import notification_manager

    notification_manager.records.clear()
    raised: list[BaseException] = []  # in slots, where Qt would abort the process
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: raised.append(error))
    viewer = napari.Viewer(show=False)
    yield viewer
    viewer.close()
    if raised:
        raise raised[0]


@pytest.fixture
def until(plugin: str) -> Callable[..., None]:
    """Let the window live until something is true."""
    from qtpy.QtWidgets import QApplication

    def wait(condition: Callable[[], Any], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not happen"
            QApplication.processEvents()
            time.sleep(0.01)

    return wait


@pytest.fixture
def told() -> Callable[[], list[str]]:
    """What napari has told the user, as notifications."""
    from napari.utils.notifications import notification_manager

    return lambda: [record.message for record in notification_manager.records]
