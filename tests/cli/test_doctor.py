"""`noise2same doctor` says what is there, what will compute and what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import noise2same
from noise2same.cli.doctor import FOR_USERS

ROOT = Path(__file__).parents[2]


def test_all_is_well(run):
    code, out, err = run("doctor")
    assert code == 0
    for word in (noise2same.__version__, "the CPU", "engine", "threads", "memory", "cache", "torch 2."):
        assert word in out
    assert "Nothing is broken." in err


def test_as_json(run):
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["broken"] == []
    assert found["required"]["torch"].startswith("2.")
    assert found["extras"]["openvino"]["install"] == "pip install 'noise2same[openvino]'"


def test_every_extra_for_users_is_known():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras.keys() - {"formats", "docs", "dev", "all"} == FOR_USERS.keys()


def elsewhere(folder):
    """The command in a process of its own, for which a folder comes before all other packages."""
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    command = [sys.executable, "-m", "noise2same", "doctor"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}, timeout=120)


def install(folder, name, version):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_a_library_that_is_too_old_is_broken_or_missing(tmp_path):
    install(tmp_path, "zarr", "2.18.0")
    install(tmp_path, "openvino", "2020.1")
    ended = elsewhere(tmp_path)
    assert ended.returncode == 1
    assert "Broken: zarr is broken: 2.18.0 is older than 3.1; pip install --upgrade zarr." in ended.stderr
    assert "pip install 'noise2same[openvino]'" in ended.stdout


def test_a_torch_that_does_not_load_hides_nothing_else(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12 is not there')")
    ended = elsewhere(tmp_path)
    assert ended.returncode == 1
    assert "PyTorch does not work (libcudart.so.12 is not there)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "memory" not in ended.stdout and "cache" in ended.stdout
