"""Files that are whole or not there: written under a temporary name, which changes when they are complete.

The temporary name follows from the final one, so what a killed process leaves behind does not pile up. A lock beside it
tells the file of a process that still writes from one of a process that is gone, and keeps out a second writer.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from noise2same.errors import InputError, NoSpace

try:
    import fcntl
except ImportError:  # Windows: a second writer is not noticed there
    fcntl = None  # type: ignore[assignment]

PREFIX = ".part."
"""Of all temporary names."""
LONGEST_NAME = 240
"""Bytes of a temporary name; file systems allow 255, and the lock adds five."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a full disk, a used-up quota and a limit on the size of files say."""

_held: Counter[Path] = Counter()
"""What this process has claimed, and how often."""
_held_lock = threading.Lock()


def temporary_name(path: Path) -> Path:
    """The name under which `path` is written until it is complete."""
    name = f"{PREFIX}{path.name}"
    if len(os.fsencode(name)) > LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]
        name = f"{PREFIX}{digest}.{path.name[-40:]}"
    return path.with_name(name)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path` to write to, which takes its place at the end of the block.

    An exception in the block leaves nothing behind, and what had the name before untouched. InputError if another
    process is writing the same path; `NoSpace`, which is one too, if the disk is full.
    """
    temporary = temporary_name(path)
    try:
        with claim(path):
            _finish_move(temporary, path)
            if os.path.lexists(temporary):
                warnings.warn(f"{temporary} was left by a run that was killed, and is replaced.", stacklevel=1)
                remove(temporary)
            try:
                yield temporary
                move(temporary, path)
            finally:
                remove(temporary)
    except OSError as error:
        reason = error.strerror or error
        kind = NoSpace if error.errno in FULL else InputError
        raise kind(f"{path} cannot be written: {reason}; free space or write elsewhere.") from error


@contextmanager
def claim(path: Path) -> Iterator[None]:
    """Keep other processes from writing `path` within the block; InputError if one is writing it.

    The same process may claim a path several times. A lock ends with its process, however that ends. Where the file
    system has no locks, nothing is kept out.
    """
    key = path.absolute()
    with _held_lock:
        _held[key] += 1
        first = _held[key] == 1
    try:
        lock = _lock(path) if first else None
        try:
            yield
        finally:
            if lock is not None:
                with suppress(OSError):
                    os.unlink(_lock_name(path))
                os.close(lock)
    finally:
        with _held_lock:
            _held[key] -= 1


def abandon() -> None:
    """Remove all temporary files of this process, which is about to end at once."""
    for path in list(+_held):
        remove(temporary_name(path))
        remove(_lock_name(path))


def _lock_name(path: Path) -> Path:
    temporary = temporary_name(path)
    return temporary.with_name(f"{temporary.name}.lock")


def _lock(path: Path) -> int | None:
    """Lock a path and return the open lock; None where there are no locks."""
    if fcntl is None:
        return None
    name = _lock_name(path)
    while True:
        lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, name):  # or its holder has just removed it, and another process may have a new one
                with suppress(OSError):  # on a full disk it locks all the same
                    os.ftruncate(lock, 0)
                    os.pwrite(lock, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
                return lock
        except BlockingIOError:
            owner = _owner(lock)
            os.close(lock)
            raise InputError(
                f"{path} is being written by another process{owner}: wait for that, or choose another name."
            ) from None
        except OSError:  # a file system without locks
            os.close(lock)
            with suppress(OSError):
                os.unlink(name)
            return None
        os.close(lock)


def _is_at(file: int, name: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(name))
    except FileNotFoundError:
        return False


def _owner(lock: int) -> str:
    """Who holds a lock, for a message; '' if that is not written yet."""
    try:
        found = json.loads(os.pread(lock, 1000, 0))
        return f" ({found['pid']} on {found['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def left_behind(folder: Path) -> list[Path]:
    """Temporary files and folders in `folder` that no process is writing: those of runs that were killed."""
    with suppress(OSError):
        found = sorted(path for path in folder.iterdir() if path.name.startswith(PREFIX) and path.suffix != ".lock")
        return [path for path in found if not _is_locked(path.with_name(f"{path.name}.lock"))]
    return []


def _is_locked(name: Path) -> bool:
    if fcntl is None or not name.is_file():
        return False
    with name.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def append_line(path: Path, line: str) -> None:
    """Add a line to a text file that several processes may write to.

    A line that a killed process left unfinished ends before it.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        unfinished = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        os.write(file, f"{chr(10) * unfinished}{line}\n".encode())
    finally:
        os.close(file)


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def move(path: Path, target: Path) -> None:
    """Give a finished file or folder its name, in place of what had it before."""
    if not target.is_dir():
        os.replace(path, target)
        return
    old = _old_name(path)
    target.rename(old)
    try:
        path.rename(target)
    except OSError:
        old.rename(target)
        raise
    remove(old)


def _old_name(temporary: Path) -> Path:
    """Where a folder waits that is being replaced."""
    return temporary.with_name(f"{temporary.name}.old")


def _finish_move(temporary: Path, path: Path) -> None:
    """Put a folder back, or delete it, that a killed process was about to replace."""
    old = _old_name(temporary)
    if old.is_dir() and not path.exists():
        old.rename(path)
    remove(old)


def reserve(file: Path | BinaryIO) -> None:
    """Claim a new file's whole size on disk: in a mapped file, a full disk would end the process without a word."""
    if isinstance(file, Path):
        with file.open("r+b") as opened:
            reserve(opened)
        return
    size = os.fstat(file.fileno()).st_size
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    elif isinstance(file.name, str) and shutil.disk_usage(os.path.dirname(file.name) or ".").free < size:
        raise OSError(errno.ENOSPC, "No space left on device")


def file_of(path: Path) -> Path:
    """The file that a path is or, for the name of an image of a file, such as scan.czi/2, the file."""
    return path.parent if path.name.isdecimal() and os.path.isfile(path.parent) else path


def identity(path: Path) -> str:
    """What changes when a file does, without reading it: size, time of the last change and number (inode).

    Of a folder, such as a Zarr store, it is of all that is in it; of an image of a file, it is of the file.
    """
    path = file_of(path)
    if not path.is_dir():
        found = path.stat()
        return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"
    entries = 0
    size = last = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                found = os.stat(os.path.join(folder, name))
                entries, size, last = entries + 1, size + found.st_size, max(last, found.st_mtime_ns)
    return f"{entries}-{size}-{last}"
