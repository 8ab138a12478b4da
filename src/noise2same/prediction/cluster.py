"""A Dask cluster to work with: processes on this machine, or a scheduler that runs already."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import pkgutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from noise2same import __version__
from noise2same.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

ANSWER_SECONDS = 10
"""How long a scheduler may take to answer, or to find its first worker; on one machine it takes a few milliseconds."""
START_SECONDS = 120
"""How long processes on this machine may take to start; a busy one takes ten seconds for torch alone."""


@contextmanager
def connect(workers: int | None = None, scheduler: str | None = None) -> Iterator[Client]:
    """Yield a client of a Dask cluster, all of whose workers have this version of the package.

    Parameters
    ----------
    workers : int, optional
        Processes to start on this machine, with one thread each; they end with the block.
    scheduler : str, optional
        Address of a scheduler that runs already, such as tcp://10.0.0.1:8786; it and its workers are left alone.

    Raises
    ------
    InputError
        If Dask is not installed, nothing answers, or a worker lacks the package or has another version of it.
    """
    if (workers is None) == (scheduler is None):
        raise InputError("Give the number of workers or the address of a scheduler, one of them.")
    distributed = _import_distributed()
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        if workers is not None:
            where: Any = stack.enter_context(_local(distributed, workers))
        else:
            where = _answering(distributed, str(scheduler))
        client = stack.enter_context(distributed.Client(where, timeout=ANSWER_SECONDS, set_as_default=False))
        _check_workers(client, str(scheduler))
        yield client


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError("Several workers need Dask: pip install 'noise2same[cluster]'.") from None
    return distributed


def _answering(distributed: Any, scheduler: str) -> str:
    """The address of a scheduler that answers. A `Client` would take a minute to give one up that does not."""

    async def ask() -> Any:
        async with distributed.rpc(scheduler, timeout=ANSWER_SECONDS) as remote:
            return await asyncio.wait_for(remote.identity(), ANSWER_SECONDS)

    with ThreadPoolExecutor(1) as apart:  # because a notebook has an event loop in this thread
        try:
            kind = apart.submit(asyncio.run, ask()).result()["type"]
        except Exception as error:  # of whatever kind: a name that is none, a port that something else listens to
            raise InputError(
                f"The Dask scheduler {scheduler} does not answer: check its address, such as tcp://10.0.0.1:8786, "
                "and that it runs ('dask scheduler')."
            ) from error
    if kind != "Scheduler":
        raise InputError(f"At {scheduler} there is a {kind} of Dask, not a scheduler: give the address of that.")
    return scheduler


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask logs what it does about workers that come and go; what matters reaches us as an exception."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _local(distributed: Any, workers: int) -> Iterator[Any]:
    """Processes on this machine with one thread each. They have no limit of memory: what they hold is bounded by us."""
    if workers < 1:
        raise InputError(f"{workers} workers cannot do anything: give 1 or more.")
    guard = "put what your script does under if __name__ == '__main__':, because each worker imports the script"
    if multiprocessing.parent_process() is not None and getattr(
        multiprocessing.current_process(), "_inheriting", False
    ):
        raise InputError(f"Workers cannot be started from a worker: {guard}.")
    import dask

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="noise2same-", ignore_cleanup_errors=True))
        stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": f"{START_SECONDS}s"}))
        try:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                dashboard_address="127.0.0.1:0",  # any free port: the usual one may be taken by another cluster
                local_directory=folder,
                silence_logs=logging.CRITICAL,
            )
        except (OSError, RuntimeError) as error:
            raise InputError(f"{workers} workers could not be started ({error}): give fewer, or {guard}.") from error
        yield stack.enter_context(cluster)


def _check_workers(client: Client, scheduler: str) -> None:
    """Raise InputError unless there are workers and each has this version of the package."""
    try:
        client.wait_for_workers(1, timeout=ANSWER_SECONDS)
    except TimeoutError:
        raise InputError(f"The Dask scheduler {scheduler} has no workers: start some ('dask worker').") from None
    # a function of the standard library, which a worker without the package can be sent
    found = client.run(pkgutil.resolve_name, "noise2same:__version__", on_error="return")
    for worker, version in found.items():
        if isinstance(version, BaseException):
            raise InputError(
                f"The worker {worker} cannot import noise2same ({version}): install noise2same {__version__} there."
            )
        if version != __version__:
            raise InputError(
                f"The worker {worker} has noise2same {version} but this is {__version__}: install the same version."
            )
