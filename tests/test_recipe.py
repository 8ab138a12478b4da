"""Recipes for conda, Docker and Apptainer say what pyproject.toml says, and can be read."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
"""Packages that have another name in conda-forge."""


def requirements():
    return [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]


def test_there_are_no_upper_bounds():
    assert not [line for line in requirements() if re.search(r"<|==|~=|!=", line)]
    assert "<" not in PROJECT["requires-python"]


def test_conda_needs_what_pip_needs():
    yaml = pytest.importorskip("yaml", reason="comes with the extra docs")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    expected = [f"python {PROJECT['requires-python']}"]
    for line in PROJECT["dependencies"]:
        name, least = line.split(">=")
        expected.append(f"{CONDA.get(name, name)} >={least}")
    assert recipe["requirements"]["run"] == expected
    (script,) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(script)]
    assert recipe["about"]["license"] == PROJECT["license"]


def instructions(name="Dockerfile"):
    """Name and argument of each instruction of the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]


KNOWN = {"ARG", "FROM", "WORKDIR", "RUN", "ENV", "COPY", "USER", "ENTRYPOINT", "CMD"}


def test_the_dockerfile_can_be_read():
    found = instructions()
    assert {name for name, _ in found} <= KNOWN
    arguments = {rest.split("=")[0] for name, rest in found if name == "ARG"}
    used = set(re.findall(r"\$\{(\w+)\}", "\n".join(rest for _, rest in found)))
    assert used <= arguments
    assert {"TORCH", "PYTHON"} <= arguments
    for name, rest in found:
        if name == "RUN":
            assert subprocess.run(["bash", "-n", "-c", rest]).returncode == 0, rest


def test_the_container_is_nobody_special_and_has_no_screen():
    last = [index for index, (name, _) in enumerate(instructions()) if name == "FROM"][-1]
    found = instructions()[last:]
    users = [rest for name, rest in found if name == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert [name for name, _ in found][-2:] == ["ENTRYPOINT", "CMD"]
    assert "MPLBACKEND=agg" in dict(found)["ENV"]


def ignored(path):
    """Whether .dockerignore keeps a path from the build."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and (fnmatch(path, pattern) or path.startswith(f"{pattern}/")):
            verdict = not line.startswith("!")
    return verdict


def test_what_is_copied_is_there():
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            *sources, _ = shlex.split(rest)
            assert not [one for one in sources if ignored(one) or not (ROOT / one).exists()]
    assert ignored("docs/guide.md") and ignored(".git/config")


def sections():
    """The sections of the recipe for Apptainer."""
    text = (ROOT / "apptainer.def").read_text()
    return {part.split("\n", 1)[0].strip(): part.split("\n", 1)[1] for part in re.split(r"^%", text, flags=re.M)[1:]}


def test_apptainer_does_what_docker_does():
    found = sections()
    assert found.keys() == {"arguments", "files", "post", "environment", "runscript", "test", "labels"}
    for line in found["files"].splitlines():
        if line.strip():
            source, target = line.split()
            assert (ROOT / source).exists() and target == f"/build/{source}"
    for name in ("post", "environment", "runscript", "test"):
        script = re.sub(r"\{\{ (\w+) \}\}", r"\1", found[name])
        assert subprocess.run(["bash", "-n", "-c", script]).returncode == 0, name
    defaults = dict(rest.split("=") for name, rest in instructions() if name == "ARG")
    arguments = dict(line.strip().split("=") for line in found["arguments"].split())
    assert arguments == {name: defaults[name] for name in ("TORCH", "EXTRAS")}
    installs = [rest for name, rest in instructions() if name == "RUN" and rest.startswith("pip")]
    own = re.findall(r"^ *(pip install.*)$", re.sub(r"\{\{ (\w+) \}\}", r"${\1}", found["post"]), flags=re.M)
    assert own == installs


def test_the_extras_of_the_containers_exist():
    chosen = dict(rest.split("=") for name, rest in instructions() if name == "ARG")["EXTRAS"]
    assert set(chosen.split(",")) <= PROJECT["optional-dependencies"].keys()
