"""The package in an environment of its own, with open ranges: as pip and as the containers install it.

Only torch has the version of this environment, because its builds take gigabytes and come from elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]


def call(command, folder, **variables):
    """Run a shell command without what this environment would add; returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ended = subprocess.run(
        ["bash", "-ec", command], cwd=folder, capture_output=True, text=True, env=environment | variables, timeout=1500
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    return ended.stdout


def torch_alone(folder):
    constraints = folder / "torch.txt"
    constraints.write_text(f"torch=={version('torch').partition('+')[0]}\n")
    return {"PIP_CONSTRAINT": str(constraints)}


def check(binaries, folder):
    """Use what was installed."""
    assert call(f"{binaries}/pip check", folder).startswith("No broken")
    assert json.loads(call(f"{binaries}/noise2same doctor --json", folder))["broken"] == []
    noisy = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.float32)
    np.save(folder / "noisy.npy", noisy)
    call(f"{binaries}/noise2same denoise noisy.npy -o clean.npy --minutes 0", folder)
    assert np.load(folder / "clean.npy").std() < noisy.std() / 2


def test_an_empty_environment(tmp_path):
    own = torch_alone(tmp_path)
    call(f"{sys.executable} -m venv empty", tmp_path)
    call(f"{sys.executable} -m pip wheel -q --no-deps --no-build-isolation -w dist {ROOT}", tmp_path)
    call("empty/bin/pip install -q dist/*.whl", tmp_path, **own)
    check(tmp_path / "empty" / "bin", tmp_path)


def test_the_commands_of_the_dockerfile(tmp_path):
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "pypi_readme.py", tmp_path / "tools")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").replace("/opt/noise2same", f"{tmp_path}/opt")
    arguments = dict(re.findall(r"^ARG (\w+)=(.+)$", text, flags=re.M))
    own = torch_alone(tmp_path) | arguments | {"PATH": f"{tmp_path}/opt/bin:{os.environ['PATH']}"}
    for command in re.findall(r"^RUN (.+)$", text, flags=re.M):
        if "useradd" not in command:  # which is for root in a container
            local = re.sub(r" --index-url \S+", "", command).replace("--no-cache-dir ", "")
            call(local.replace("python -m venv", f"{sys.executable} -m venv"), tmp_path, **own)
    check(tmp_path / "opt" / "bin", tmp_path)
