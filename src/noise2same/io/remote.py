"""Zarr stores elsewhere: s3://, gs://, http:// and https://, read in place by fsspec; whole results are uploaded.

A URL is a `Path`, so that it goes wherever names of files go. What is at the end of it is seen when it is opened.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from noise2same.errors import InputError
from noise2same.io.extras import load

CONNECT_SECONDS, READ_SECONDS = 10, 60
"""How long to wait for a server to answer, and for more of an answer."""
WRITTEN = ("s3", "gs", "gcs", "memory")
"""Schemes of stores that can be written."""
METADATA = ("zarr.json", ".zgroup", ".zarray")
"""What makes a folder a Zarr store; uploaded last, so that half a store is none."""
UNREACHABLE = {"ClientConnectionError", "ConnectionError", "TimeoutError", "EndpointConnectionError", "HTTPClientError"}
"""Names of exceptions, of libraries that may not be there, when no server answers."""
_URL = re.compile(r"(s3|gs|gcs|https?|memory):/+(?=[^/])", re.IGNORECASE)  # with one slash, as Path leaves it


class Url(Path):
    """The address of a store."""

    if sys.version_info < (3, 12):
        _flavour = type(Path())._flavour  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return _URL.sub(r"\1://", super().__str__(), count=1)

    def __fspath__(self) -> str:
        return str(self)

    @property
    def scheme(self) -> str:
        """Such as 's3'."""
        return self.parts[0].removesuffix(":")

    def resolve(self, strict: bool = False) -> Url:
        return self

    def absolute(self) -> Url:
        return self

    def expanduser(self) -> Url:
        return self

    def exists(self, **_: Any) -> bool:
        return True

    def is_dir(self, **_: Any) -> bool:
        return True

    def is_file(self, **_: Any) -> bool:
        return False


def as_path(name: str | os.PathLike[str]) -> Path:
    """The path of a name, or of a URL, which may have gone through `Path` and lost a slash; file:// is a plain path."""
    text = os.fspath(name)
    if re.match(r"file:/", text, re.IGNORECASE):
        return Path("/" + unquote(text[5:].lstrip("/")))
    found = _URL.match(text)
    return Url(found[1].lower() + text[len(found[1]) :]) if found else Path(text).expanduser()


def store_options(path: Path) -> dict[str, Any]:
    """What zarr needs to open a path besides its name. FileNotFoundError, or another, if there is no store at a URL.

    That is seen by one request after the other: of several at once, those that fail later would print tracebacks.
    """
    if not isinstance(path, Url):
        return {}
    files = _file_system(path)
    for name in METADATA:
        with suppress(FileNotFoundError):
            files.cat_file(str(path / name))
            return {"storage_options": _options(path)}
    raise FileNotFoundError(str(path))


def _options(path: Url) -> dict[str, Any]:
    """Options of the file system of a URL. Public buckets are read without credentials where there are none."""
    load("fsspec", "remote", path)
    if path.scheme == "s3":
        load("s3fs", "remote", path)
        wait = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "retries": {"max_attempts": 2}}
        return {"anon": not _has_credentials(), "config_kwargs": wait}
    if path.scheme in ("http", "https"):
        aiohttp = load("aiohttp", "remote", path)
        wait = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
        return {"client_kwargs": {"timeout": wait}}
    if path.scheme in ("gs", "gcs"):
        load("gcsfs", "remote", path)
    return {}


@cache
def _has_credentials() -> bool:
    session: Any = import_module("botocore.session").get_session()
    return session.get_credentials() is not None


def explain(path: Path, error: BaseException) -> InputError:
    """A sentence for what went wrong with a URL."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    names = {type(one).__name__ for one in chain}
    kinds = {kind.__name__ for one in chain for kind in type(one).__mro__}
    codes = {getattr(one, "status", 0) for one in chain}
    if kinds & {"PermissionError", "NoCredentialsError"} or codes & {401, 403}:
        return InputError(f"{path} may not be opened: the server refused the credentials, or asks for some.")
    if kinds & {"FileNotFoundError", "NodeNotFoundError"}:
        return InputError(f"{path} does not exist, or is no Zarr store; check the address.")
    if kinds & UNREACHABLE:
        return InputError(f"{path}: the server does not answer; check the address and the network.")
    reason = " ".join(str(chain[0]).split())[:120] or ", ".join(sorted(names))
    return InputError(f"{path} cannot be read ({reason}); check the address, or copy the store here.")


def stage(output: str | os.PathLike[str], inputs: Sequence[Any] = ()) -> Path:
    """Where to write what belongs to `output`: itself or, for a URL, a place here, from which `uploading` takes it.

    The place is the same each time, so that a job which was stopped can go on. InputError if the store cannot be
    written, before any work starts, or if it is one of the inputs.
    """
    target = as_path(output)
    if not isinstance(target, Url):
        return target
    for other in (as_path(one) for one in inputs if isinstance(one, str | os.PathLike)):
        if other == target or other in target.parents or target in other.parents:
            raise InputError(f"{target} would overwrite the input {other.name}; choose another name for it.")
    _check_writable(target)
    _folder(target).mkdir(exist_ok=True)
    return _folder(target) / target.name


def _folder(target: Url) -> Path:
    return Path(tempfile.gettempdir()) / f"noise2same-{hashlib.sha256(str(target).encode()).hexdigest()[:12]}"


@contextmanager
def uploading(output: str | os.PathLike[str]) -> Iterator[None]:
    """Upload what is written within the block to the place of `stage`; nothing is done for an output that is here."""
    target = as_path(output)
    if not isinstance(target, Url):
        yield
        return
    folder = _folder(target)
    try:
        yield
        try:
            _upload(_file_system(target), folder, target)
        except Exception as error:
            reason = explain(target, error)
            raise InputError(f"{reason} The result is complete in {folder}: upload it from there.") from error
        shutil.rmtree(folder)
    finally:
        with suppress(OSError):
            folder.rmdir()  # unless there is something to go on with


def _file_system(target: Url) -> Any:
    return load("fsspec", "remote", target).filesystem(target.scheme, **_options(target))


def _check_writable(target: Url) -> None:
    """Raise InputError if nothing can be written to a URL, by a trial."""
    if target.scheme not in WRITTEN:
        raise InputError(f"{target}: {target.scheme}:// is only read; write to a folder here, or to s3://.")
    files, trial = _file_system(target), f"{target}.part"
    try:
        files.pipe_file(trial, b"noise2same")
        files.rm_file(trial)
    except Exception as error:
        told = str(explain(target, error))
        told = told.replace("does not exist, or is no Zarr store", "cannot be written: there is no such bucket")
        raise InputError(told.replace("may not be opened", "may not be written")) from error


def _upload(files: Any, folder: Path, target: Url) -> None:
    """Put what is in a folder beside the target, in place of what had its name; what makes it a store comes last."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(".lock")]
    found = [path for path in found if not path.relative_to(folder).parts[0].startswith(".")]
    for top in {path.relative_to(folder).parts[0] for path in found}:
        if files.exists(str(target.parent / top)):
            files.rm(str(target.parent / top), recursive=True)
    found.sort(key=lambda path: (path.name in METADATA, -len(path.parts)))
    last = [path for path in found if path.name in METADATA]
    places = {path: str(target.parent / path.relative_to(folder)) for path in found}
    others = [path for path in found if path not in last]
    if others:
        files.put([str(path) for path in others], [places[path] for path in others])
    for path in last:
        files.put_file(str(path), places[path])
