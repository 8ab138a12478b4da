"""Several processes that train one network: starting them, and which of them this one is."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

INTERRUPTED = 130
"""Exit code after Ctrl-C or SIGTERM, as a shell has it."""


def is_worker() -> bool:
    """Whether torchrun, or `relaunch`, has started this process as one of several."""
    return "RANK" in os.environ


def is_first_worker() -> bool:
    """Whether this process is the first of those that train one network, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def wait_for_everyone() -> None:
    """Wait until all processes of a training have come here: torchrun ends all of them as soon as one has failed."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


def relaunch(devices: int) -> int:
    """Start the command line of this process again, as several workers that train one network.

    It is what `python -m torch.distributed.run --standalone --nproc-per-node DEVICES -m noise2same ...` does, but the
    exit code is that of the worker that failed first, and its message is not buried in a traceback. The first worker
    has this process's stdout and stderr.

    Parameters
    ----------
    devices : int
        Number of workers, each of which takes a GPU, or an equal part of the CPU.

    Returns
    -------
    int
        Exit code: 0 if all workers ended with 0, 130 if they were interrupted.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // devices)))
    with TemporaryDirectory(prefix="noise2same-") as folder:
        others = dict.fromkeys(range(1, devices), Std.ALL)
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=devices,
            run_id=uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder, redirects=others),
        )
        logging.disable(logging.CRITICAL)  # what the launcher reports of failed workers, they have said
        try:
            elastic_launch(config, sys.executable)("-P", "-m", "noise2same", *sys.argv[1:])
        except SignalException:
            return INTERRUPTED
        except ChildFailedError as error:
            return _exit_code(error.failures, Path(folder))
        finally:
            logging.disable(logging.NOTSET)
    return 0


def _exit_code(failures: dict[int, ProcessFailure], logs: Path) -> int:
    """Exit code of the worker that failed first, whose last line is shown if the first worker did not fail alike."""
    rank, failure = min(failures.items(), key=lambda item: item[1].timestamp)
    if all(other.exitcode != failure.exitcode for number, other in failures.items() if number == 0):
        lines = [line for file in logs.glob(f"*/attempt_0/{rank}/stderr.log") for line in file.open()]
        sys.stderr.writelines(lines[-1:])
    return failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
