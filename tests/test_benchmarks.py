"""The scripts that take hours still fit the package: whatever they name of it is there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
PEERS = {"careamics_worker.py"}  # which runs in an environment of its own


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py") if path.name not in PEERS))
def test_it_can_be_started(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("sys.argv", [name, "--help"])
    try:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    except SystemExit as end:
        assert not end.code
