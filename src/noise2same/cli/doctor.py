"""`noise2same doctor`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from noise2same import __version__
from noise2same.cli._options import Json
from noise2same.cli._terminal import print_json, stdout, tell

FOR_USERS = {
    "openvino": "faster denoising on a CPU",
    "studio": "Studio, a page in the browser",
    "napari": "widgets for napari",
    "export": "models for other programs",
    "cluster": "many workers",
    "bm3d": "BM3D and BM4D",
    "tensorboard": "loss curves for TensorBoard",
    "microscopes": "CZI, ND2, LIF, MRC",
    "astronomy": "FITS",
    "medicine": "NIfTI, DICOM",
    "camera": "raw files of cameras",
    "video": "films",
    "bioio": "whatever bioio reads",
    "remote": "s3://, gs://, https://",
}
"""Extras, and what each adds."""
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,]+)\])?\s*(?:>=\s*([\w.]+))?")
"""Name, extras and least version."""


def doctor(as_json: Json = False) -> None:
    """Say what is installed, what will compute, and what is missing; exit code 1 if something is broken."""
    required, extras = requirements()
    broken = [f"{name} is broken: {reason}" for name, reason in problems(required).items()]
    facts: dict[str, Any] = {
        "noise2same": __version__,
        "where": str(Path(__file__).parents[1]),
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
    }
    try:
        facts |= computing()
    except Exception as error:  # of whatever kind: a torch that does not load must not hide the rest
        broken.append(f"PyTorch does not work ({' '.join(str(error).split())[:200]}): install it again.")
    facts |= places()
    broken += [f"{place} cannot be written to: set TMPDIR to another folder." for place in unwritable()]
    found = {name: missing(needed) for name, needed in extras.items()}
    versions = {name: version(name) for name, _ in required}
    if as_json:
        rows = {name: {"missing": lacking, "install": install(name)} for name, lacking in found.items()}
        print_json(facts | {"required": versions, "extras": rows, "broken": broken})
    else:
        show(facts, versions, found)
        for sentence in broken:
            tell(sentence, "Broken: ", "red")
        if not broken:
            tell("Nothing is broken.")
    raise typer.Exit(1 if broken else 0)


def requirements() -> tuple[list[tuple[str, str]], dict[str, list[tuple[str, str]]]]:
    """Names and least versions of what is required, and of what each extra for users needs."""
    required: list[tuple[str, str]] = []
    extras: dict[str, list[tuple[str, str]]] = {}
    try:
        lines = metadata.requires("noise2same") or []
    except metadata.PackageNotFoundError:  # run from its source alone
        lines = []
    for line in lines:
        found = REQUIREMENT.match(line)
        assert found is not None
        name, _, least = found.groups()
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra is None:
            required.append((name, least or "0"))
        elif extra[1] in FOR_USERS:
            extras.setdefault(extra[1], []).append((name, least or "0"))
    return required, extras


def version(name: str) -> str | None:
    """The version of a package that is installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def missing(needed: list[tuple[str, str]]) -> list[str]:
    """Of some packages those that are not there, or too old."""
    return [f"{name} {least}" if version(name) else name for name, least in needed if not fits(name, least)]


def fits(name: str, least: str) -> bool:
    """Whether a package is there and not too old."""
    from packaging.version import Version  # comes with accelerate

    found = version(name)
    return found is not None and Version(found) >= Version(least)


def problems(required: list[tuple[str, str]]) -> dict[str, str]:
    """What is wrong with required packages, by their names."""
    found = {}
    for name, least in required:
        if version(name) is None:
            found[name] = f"it is not installed; pip install '{name}>={least}'."
        elif not fits(name, least):
            found[name] = f"{version(name)} is older than {least}; pip install --upgrade {name}."
    return found


def computing() -> dict[str, Any]:
    """Device, engine, threads and memory."""
    import torch

    from noise2same.device import describe, pick
    from noise2same.prediction.engines import choose_engine

    device = pick()
    torch.ones(2, device=device).sum().item()
    engine = choose_engine(device)
    names = {"OpenVINO": "OpenVINO, in 32 bits", "Half": "PyTorch, in half precision"}
    plain = "PyTorch, in 32 bits"
    if device.type == "cpu":
        plain += " (OpenVINO would be faster: pip install 'noise2same[openvino]')"
    found = {
        "device": describe(device),
        "engine": plain if engine is None else names[engine.__name__],
        "threads": f"{torch.get_num_threads()} of {os.cpu_count()}",
        "memory": memory(),
    }
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        found["memory of the GPU"] = f"{_gigabytes(free)} of {_gigabytes(total)} free"
    return found


def memory() -> str:
    """Memory that is free, and all of it."""
    try:
        pages = {name: os.sysconf(f"SC_{name}_PAGES") * os.sysconf("SC_PAGE_SIZE") for name in ("AVPHYS", "PHYS")}
    except (AttributeError, ValueError, OSError):  # Windows, and macOS in part
        return "unknown"
    free, total = pages["AVPHYS"], pages["PHYS"]
    with_cache = Path("/proc/meminfo")
    if with_cache.exists():  # what caches hold can be had too
        found = re.search(r"MemAvailable:\s+(\d+) kB", with_cache.read_text())
        free = free if found is None else int(found[1]) * 1024
    limit = Path("/sys/fs/cgroup/memory.max")
    held = limit.read_text().strip() if limit.exists() else "max"
    bound = "" if held == "max" else f"; a container may use {_gigabytes(int(held))}"
    return f"{_gigabytes(free)} of {_gigabytes(total)} free{bound}"


def places() -> dict[str, Any]:
    """Where files go: there is no cache, only temporary files, and what libraries keep of their own."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    return {"cache": f"none; temporary files in {tempfile.gettempdir()} ({_gigabytes(free)} free)"}


def unwritable() -> list[str]:
    """Folders that have to be written to and cannot."""
    folder = tempfile.gettempdir()
    return [] if os.access(folder, os.W_OK) else [folder]


def install(extra: str) -> str:
    """How to get an extra."""
    return f"pip install 'noise2same[{extra}]'"


def show(facts: dict[str, Any], versions: dict[str, str | None], extras: dict[str, list[str]]) -> None:
    """Print tables."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False)
    for name, value in facts.items():
        table.add_row(name, Text(str(value)))
    table.add_row("required", Text(", ".join(f"{name} {found or 'missing'}" for name, found in versions.items())))
    stdout().print(table)
    table = Table("extra", "adds", "is", "how to get it")
    for name, lacking in extras.items():
        state = f"missing: {', '.join(lacking)}" if lacking else "present"
        table.add_row(name, FOR_USERS[name], state, Text(install(name) if lacking else ""))
    stdout().print(table)


def _gigabytes(value: float) -> str:
    return f"{value / 2**30:.1f} GB"
