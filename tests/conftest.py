"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the shared data sets, which are not part of the repository."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("NOISE2SAME_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"needs the data sets, but there is no folder {folder}; set NOISE2SAME_DATA to it")
    return folder


@pytest.fixture
def font() -> None:
    """Skip on machines without a font that has Chinese characters; CI, which installs one, must not."""
    from noise2same.errors import InputError
    from noise2same.paper.datasets.hanzi import find_font

    try:
        find_font()
    except InputError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process: run("info", "m.safetensors") -> exit code, stdout, stderr."""
    from noise2same.cli.main import console, main

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["noise2same", *map(str, arguments)])
        monkeypatch.setattr("sys.warnoptions", [])
        capsys.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as exit_:
            main()
        console.quiet = False
        return int(exit_.value.code or 0), *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file, hardly trained, for grey 2D images."""
    import numpy as np

    from noise2same import train

    image = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.float32)
    model = train(image, steps=3, features=4, batch=2, patch=32, progress=False)
    return model.save(tmp_path_factory.mktemp("model") / "grey.safetensors")


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Press Ctrl-C during the given step of the next training, each of which draws a batch."""
    from noise2same.data.patches import Patches

    draw = Patches.draw

    def at(number: int) -> None:
        left = number

        def drawn(self: Patches, *arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= not options.get("held")
            if left == 0:
                monkeypatch.setattr(Patches, "draw", draw)
                signal.raise_signal(signal.SIGINT)
            return draw(self, *arguments, **options)

        monkeypatch.setattr(Patches, "draw", drawn)

    return at


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium. Tests that need it are skipped on machines without it; CI, which installs it, must not."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and not os.environ.get("CI"):
        pytest.skip("needs Chromium, which is not installed: apt-get install chromium")
    assert found, "needs Chromium, which is not installed: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
