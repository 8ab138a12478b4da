"""Several processes that train one network: starting them, and which of them this one is."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

from noise2same.errors import InputError

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

INTERRUPTED = 130
"""Exit code after Ctrl-C or SIGTERM, as a shell has it."""
PORT = 29500
"""Where machines meet if MASTER_PORT does not say, as torchrun has it."""
JOIN_SECONDS = 600
"""That a machine waits for the others."""


def is_worker() -> bool:
    """Whether torchrun, or `relaunch`, has started this process as one of several."""
    return "RANK" in os.environ


def is_first_worker() -> bool:
    """Whether this process is the first of those that train one network, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def count_workers() -> int:
    """Number of processes that train one network."""
    return int(os.environ.get("WORLD_SIZE", "1")) if is_worker() else 1


def local_rank() -> int:
    """Number of this process among those of this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def wait_for_everyone() -> None:
    """Wait until all processes of a training have come here: torchrun ends all of them as soon as one has failed."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


def check_devices(device: str | None, devices: int) -> None:
    """Raise InputError if this machine does not have a device for each of its processes."""
    import torch

    from noise2same.device import pick

    chosen = pick(device)
    if devices == 1 or chosen.type == "cpu":
        return
    if chosen.type != "cuda" or chosen.index is not None:
        raise InputError(
            f"--devices {devices} trains on the CPU or on NVIDIA GPUs, not on {chosen}: use --device cuda."
        )
    if torch.cuda.device_count() < devices:
        count = torch.cuda.device_count()
        raise InputError(f"--devices {devices}: this machine has {count} GPU(s); use as many, or --device cpu.")


def meeting_point(nodes: int, environment: Mapping[str, str]) -> tuple[str, str]:
    """Where the machines of a training meet, HOST:PORT, and a name that they all have for it.

    Examples
    --------
    >>> meeting_point(2, {"MASTER_ADDR": "10.0.0.5"})
    ('10.0.0.5:29500', 'noise2same')
    >>> meeting_point(2, {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "gpu[03-04,09],big1"})
    ('gpu03:29507', 'noise2same-7')
    """
    if nodes == 1:
        return "localhost:0", uuid4().hex
    job = environment.get("SLURM_JOB_ID", "")
    port = environment.get("MASTER_PORT") or str(PORT + int(job or 0) % 1000)  # jobs that share a machine do not meet
    name = f"noise2same-{job}" if job else "noise2same"
    if environment.get("MASTER_ADDR"):
        return f"{environment['MASTER_ADDR']}:{port}", name
    first = re.match(r"([^,\[]+)(?:\[(\d+))?", environment.get("SLURM_JOB_NODELIST", ""))
    if first is None:
        raise InputError(
            f"--nodes {nodes}: the machines need an address to meet. Start the same command on each of them with "
            "MASTER_ADDR=the name of one of them, or with SLURM's srun."
        )
    return f"{first[1]}{first[2] or ''}:{port}", name


def relaunch(devices: int, nodes: int = 1) -> int:
    """Start the command line of this process again, as several workers that train one network.

    It is what `python -m torch.distributed.run --nproc-per-node DEVICES --nnodes NODES -m noise2same ...` does, but the
    exit code is that of the worker that failed first, and its message is not buried in a traceback. The first worker
    of each machine has this process's stdout and stderr.

    Parameters
    ----------
    devices : int
        Number of workers on this machine, each of which takes a GPU, or an equal part of the CPU.
    nodes : int
        Number of machines, each of which runs this command.

    Returns
    -------
    int
        Exit code: 0 if all workers ended with 0, 130 if they were interrupted.
    """
    endpoint, name = meeting_point(nodes, os.environ)
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // devices)))
    with TemporaryDirectory(prefix="noise2same-") as folder:
        others = dict.fromkeys(range(1, devices), Std.ALL)
        config = LaunchConfig(
            min_nodes=nodes,
            max_nodes=nodes,
            nproc_per_node=devices,
            run_id=name,
            rdzv_backend="c10d",
            rdzv_endpoint=endpoint,
            rdzv_configs={"join_timeout": JOIN_SECONDS},
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
        except RendezvousError as error:
            raise InputError(
                f"The {nodes} machines did not meet at {endpoint} within {JOIN_SECONDS} s: start the same command on "
                "all of them, with an address in MASTER_ADDR that all can reach."
            ) from error
        finally:
            logging.disable(logging.NOTSET)
    return 0


def _cores() -> int:
    """Number of the CPU's cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _exit_code(failures: dict[int, ProcessFailure], logs: Path) -> int:
    """Exit code of the worker that failed first, whose last line is shown if the first worker did not fail alike."""
    rank, failure = min(failures.items(), key=lambda item: item[1].timestamp)
    if failure.exitcode < 0:
        how = signal.Signals(-failure.exitcode).name
        why = ", as when memory runs out" if how == "SIGKILL" else ""
        sys.stderr.write(f"Process {rank} of the training was ended by {how}{why}, and so all ended.\n")
        return 128 - failure.exitcode
    if all(other.exitcode != failure.exitcode for number, other in failures.items() if number == 0):
        lines = [line for file in logs.glob(f"*/attempt_0/{rank}/stderr.log") for line in file.open()]
        sys.stderr.writelines(lines[-1:])
    return failure.exitcode
