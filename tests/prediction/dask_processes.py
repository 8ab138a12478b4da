"""Dask's own processes, as a cluster has them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

QUIET = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}


@contextmanager
def processes(*commands: list[str], **environment: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Dask's own processes, which end with the block."""
    started = []
    try:
        for command in commands:
            call = [sys.executable, "-m", "dask", *command]
            started.append(
                subprocess.Popen(call, env={**os.environ, **QUIET, **environment}, stderr=subprocess.DEVNULL)
            )
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def scheduler_with(workers: int, **environment: str) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A `dask scheduler` and so many `dask worker`, each with one thread; its address, and the processes of these."""
    address = f"tcp://127.0.0.1:{(port := free_port())}"
    start = ["scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    work = ["worker", address, "--nthreads", "1", "--memory-limit", "0", "--no-dashboard", "--no-nanny"]
    with processes(start) as (scheduler,), processes(*[work] * workers, **environment) as them:
        yield address, [scheduler, *them]
