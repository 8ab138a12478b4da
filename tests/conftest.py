"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the shared data sets, which are not part of the repository."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("NOISE2SAME_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"needs the data sets, but there is no folder {folder}; set NOISE2SAME_DATA to it")
    return folder
