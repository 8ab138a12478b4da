"""A store that is being filled, under a name of its own until it is complete, and what of it is done.

`clean.zarr` is made in the folder `clean.zarr.unfinished`: the store itself, `job.json`, which says what job it belongs
to, `done.jsonl`, a line for each part that is written, the model for the workers, and `lock`, who works on it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from noise2same.errors import Cancelled, InputError
from noise2same.files import move, remove

SUFFIX = ".unfinished"


class Unfinished:
    """A store that is being filled. `unfinished` makes it.

    Attributes
    ----------
    folder : Path
        Where it is.
    store : Path
        The store, which may not be there yet.
    model : Path
        Room for the model that fills it.
    chunks : Path
        Room for a list of the chunks that the input had when the job began.
    done : dict
        What was found in each part that is written, by the part.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.folder = output, folder_of(output)
        self.store = self.folder / output.name
        self.model, self.chunks = self.folder / "model.safetensors", self.folder / "chunks.npy"
        self.done: dict[Hashable, Any] = {}
        self._job, self._lines = self.folder / "job.json", self.folder / "done.jsonl"

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Write down what job this is; before, nothing that is there is worth to be kept."""
        temporary = self._job.with_suffix(".part")
        temporary.write_text(json.dumps(identity, indent=2))
        os.replace(temporary, self._job)

    def identity(self) -> dict[str, Any] | None:
        """What job this is; None if that was not written yet."""
        with suppress(OSError, ValueError):
            return dict(json.loads(self._job.read_text()))
        return None

    def record(self, items: Sequence[tuple[Hashable, Any]]) -> None:
        """Note that parts are written, with what JSON can hold of each. It is on the disk when this returns."""
        with self._lines.open("ab") as file:
            file.write(b"".join(json.dumps(item).encode() + b"\n" for item in items))
            file.flush()
            os.fsync(file.fileno())
        self.done.update(items)

    def read_done(self) -> None:
        """Take up what `record` wrote. A last line that is cut is taken away."""
        with suppress(FileNotFoundError), self._lines.open("r+b") as file:
            whole = 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                part, found = json.loads(line)
                self.done[_tuples(part)] = found
                whole += len(line)
            file.truncate(whole)


def folder_of(output: Path) -> Path:
    """Where a store is made, until it is complete."""
    return output.with_name(output.name + SUFFIX)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@contextmanager
def unfinished(output: Path, identity: Mapping[str, Any], *, resume: bool = False) -> Iterator[Unfinished]:
    """Yield a folder in which a store is made, which gets its name at the end of the block.

    An exception leaves what is done, if anything is, to be resumed, and the error says so. `Cancelled` leaves nothing.
    What had the name before is there until the end.

    Parameters
    ----------
    output : Path
        Name of the store.
    identity : mapping
        What makes it this job: anything that JSON can hold, by a name for people.
    resume : bool
        Go on with what a stopped job left. Otherwise such is an error.

    Raises
    ------
    InputError
        If another process works on it, or it is another job that was stopped.
    """
    job = Unfinished(output)
    try:
        job.folder.mkdir(exist_ok=True)
        with _locked(job.folder):
            _take_up(job, identity, resume)
            try:
                yield job
                move(job.store, output)
            except BaseException as error:
                if isinstance(error, Cancelled) or not job.done:
                    remove(job.folder)
                raise
            remove(job.folder)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{output} cannot be written: {reason}; free space or write elsewhere.{_kept(job)}") from error
    except InputError as error:
        raise InputError(f"{error}{_kept(job)}") from error
    except Cancelled:
        raise
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"{str(error) or 'Interrupted.'}{_kept(job)}") from None


def _kept(job: Unfinished) -> str:
    if not job.done or not job.folder.exists():
        return ""
    return (
        f" The {len(job.done)} parts that are done are kept in {job.folder}: --resume (resume=True) goes on with them."
    )


def _take_up(job: Unfinished, identity: Mapping[str, Any], resume: bool) -> None:
    """Begin a job, or see whether what is there belongs to it."""
    begun = job.identity()
    wanted = json.loads(json.dumps(identity))
    if begun is None:  # new, or stopped before anything was done
        for item in job.folder.iterdir():
            if item.name != "lock":
                remove(item)
    elif not resume:
        raise InputError(
            f"{job.folder} is left from a job that was stopped: give --resume (resume=True) to go on with it, "
            "or delete it to start anew."
        )
    elif different := [name for name in wanted if begun.get(name) != wanted[name]]:
        raise InputError(
            f"{job.folder} belongs to another job, with another {different[0]}: "
            "delete it to start anew, or write elsewhere."
        )
    else:
        job.read_done()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from the folder. The lock of a process that is dead does not count."""
    lock, here = folder / "lock", socket.gethostname()
    for _ in range(2):
        with suppress(FileExistsError):
            with os.fdopen(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY), "w") as file:
                file.write(f"{os.getpid()} {here}")
            break
        pid, _, host = lock.read_text().partition(" ")
        if host != here or _is_alive(pid):
            raise InputError(
                f"{folder} is being filled by process {pid} on {host or 'this machine'}: wait for it, write elsewhere "
                f"or, if it does not run any more, delete {lock}."
            )
        lock.unlink(missing_ok=True)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _is_alive(pid: str) -> bool:
    if os.name == "nt":  # where a signal of 0 is Ctrl-C
        return True
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return True


def left_over(folder: Path) -> list[Path]:
    """Unfinished stores in a folder that no living process of this machine works on."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        lock = path / "lock"
        pid, _, host = lock.read_text().partition(" ") if lock.is_file() else ("", "", "")
        if (path / "job.json").is_file() and not (pid and (host != socket.gethostname() or _is_alive(pid))):
            found.append(path)
    return found
