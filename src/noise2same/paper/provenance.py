"""Where a figure comes from: command, commit, machine and versions, kept with it."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from noise2same import __version__
from noise2same.device import describe, pick

HERE = Path(__file__).parent


def provenance() -> dict[str, Any]:
    """Command, commit, date, machine and versions of this run."""
    program = Path(sys.argv[0])
    command = ["python", program.name] if program.suffix == ".py" else [program.name]
    return {
        "command": shlex.join([*command, *sys.argv[1:]]),
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{cpu_name()}, {os.cpu_count()} cores, {'no GPU' if pick().type == 'cpu' else describe(pick())}",
        "threads": torch.get_num_threads(),
        "versions": {
            "noise2same": __version__,
            "python": platform.python_version(),
            "torch": version("torch"),
            "accelerate": version("accelerate"),
        },
    }


def commit() -> str:
    """The commit of this package's checkout, and whether it has been changed since; empty outside of one."""

    def git(*words: str) -> str:
        try:
            ran = subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True)
        except FileNotFoundError:
            return ""
        return ran.stdout.strip() if ran.returncode == 0 else ""

    if not git("ls-files", "provenance.py"):  # installed, perhaps inside of another project's checkout
        return ""
    return git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain", ".") else "")


def cpu_name() -> str:
    """The processor's own name, where Linux reports it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
