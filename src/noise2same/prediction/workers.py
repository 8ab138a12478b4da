"""Work that is done by the workers of a Dask cluster, a bounded number of items ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from noise2same.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2
"""Items that are sent for each thread of a worker, so that none waits for the next."""
FEWEST_AHEAD = 64
"""Items that are sent however few threads there are: quick ones are handed out and collected in batches."""
LOOK_SECONDS = 2.0
"""How often it is looked which workers there are."""
ALONE_SECONDS = 30.0
"""How long a job waits for a worker when all are gone; those that crashed are started again in a few seconds."""
RETRIES = 2
"""How often an item is tried again after an error, which may be that of a file system."""


def run_on(
    client: Client,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    on_done: Callable[[list[tuple[Item, Result]]], None],
) -> None:
    """Call a function with each item, on the workers.

    Parameters
    ----------
    client : Client
        Of the cluster.
    work : callable
        A function, or an object, that can be pickled. It is called again where a worker died, so twice must be as once.
    items : iterable
        Small things; there may be any number of them, as a few are taken at a time.
    on_done : callable
        Called here, with some items and their results, as they are done. What it raises ends the work.

    Raises
    ------
    InputError
        If an item fails, all workers are gone or the scheduler is.
    """
    finished: SimpleQueue[Future] = SimpleQueue()
    waiting: dict[Future, Item] = {}
    source, threads, looked = iter(items), 0, 0.0
    try:
        while True:
            if time.monotonic() > looked + LOOK_SECONDS:
                threads, looked = _threads(client, fewest=1 if waiting else 0), time.monotonic()
            fresh = list(islice(source, max(0, max(AHEAD * threads, FEWEST_AHEAD) - len(waiting))))
            if fresh:
                futures = client.map(work, fresh, pure=False, retries=RETRIES)
                waiting.update(zip(futures, fresh, strict=True))
                for future in futures:
                    future.add_done_callback(finished.put)
            if not waiting:
                return
            done = []
            for future in _taken(finished):
                if future.status in ("pending", "lost"):  # its worker died with the result: it is computed again
                    future.add_done_callback(finished.put)
                else:
                    done.append(future)
            results = _results(client, done)
            if results is None:  # some were lost since: they are computed again, if there are workers
                for future in done:
                    future.add_done_callback(finished.put)
            elif results:
                on_done([(waiting.pop(future), result) for future, result in zip(done, results, strict=True)])
    finally:
        if waiting and client.status == "running":
            client.cancel(list(waiting), force=True)


def _taken(finished: SimpleQueue[Future]) -> list[Future]:
    """All that are done, after a wait for the first one that ends in time to look at the workers."""
    done = []
    with suppress(Empty):
        done.append(finished.get(timeout=LOOK_SECONDS))
        while True:
            done.append(finished.get_nowait())
    return done


def _threads(client: Client, fewest: int) -> int:
    """How many threads all workers have together; waits a while for the first one."""
    end = time.monotonic() + ALONE_SECONDS
    while True:
        try:
            threads = sum(client.nthreads().values())
        except Exception as error:  # whatever a closed connection raises
            raise _scheduler_gone() from error
        if threads >= fewest:
            return threads
        if time.monotonic() > end:
            raise InputError("All Dask workers are gone: start some again.")
        time.sleep(0.5)


def _results(client: Client, done: list[Future]) -> list[Any] | None:
    """What came out, or None if it does not arrive; the first error as a sentence."""
    for future in done:
        if future.status == "error":
            raise _told(future.exception())
        if future.status == "cancelled":  # which happens when the scheduler ends
            raise _scheduler_gone()
    try:
        return list(client.sync(lambda: client.gather(done, asynchronous=True), callback_timeout=ALONE_SECONDS))
    except TimeoutError:
        return None
    except Exception as error:
        raise _told(error) from error


def _scheduler_gone() -> InputError:
    return InputError("The connection to the Dask scheduler is lost: start it and its workers again.")


def _told(error: BaseException) -> BaseException:
    """An error of a worker, for people."""
    import distributed

    if isinstance(error, distributed.KilledWorker):
        return InputError("Several Dask workers died over the same part: give them more memory, or look at their logs.")
    if type(error).__name__ in ("FutureCancelledError", "CancelledError", "CommClosedError"):
        return _scheduler_gone()
    return error
