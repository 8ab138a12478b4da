"""Files that are whole or not there: written under a temporary name, which changes when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from noise2same.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path` to write to, which takes its place at the end of the block.

    An exception in the block leaves nothing behind, and what had the name before untouched.
    """
    temporary = path.with_name(f".{uuid4().hex[:8]}.part.{path.name[-40:]}")
    try:
        yield temporary
        move(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path} cannot be written: {reason}; free space or write elsewhere.") from error
    finally:
        remove(temporary)


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
    old = path.with_name(f"{path.name}.old")
    target.rename(old)
    try:
        path.rename(target)
    except OSError:
        old.rename(target)
        raise
    remove(old)


def reserve(path: Path) -> None:
    """Claim a new file's whole size on disk: in a mapped file, a full disk would end the process without a word."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    elif shutil.disk_usage(path.parent).free < path.stat().st_size:
        raise OSError(28, "No space left on device")
