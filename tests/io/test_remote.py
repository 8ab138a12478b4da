"""Stores elsewhere: an S3 server and web servers on this machine, and what is said if they do not do what is asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from format_cases import make_ome_zarr
from roundtrip import noise

import noise2same as n2s
from noise2same import io
from noise2same.errors import InputError
from noise2same.io import remote

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("moto")

TINY = ("--steps", 2, "--set", "features=4", "--set", "patch=32", "--set", "batch=2")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """An S3 server with a bucket, and credentials for it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    told = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    told |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in told.items():
            patch.setenv(name, value)
        remote._has_credentials.cache_clear()
        files = fsspec.filesystem("s3", skip_instance_cache=True)
        files.mkdir("scans")
        yield "s3://scans"
        remote._has_credentials.cache_clear()
    server.stop()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Start a web server and return its address."""
    servers: list[ThreadingHTTPServer] = []

    def start(handler: Any) -> str:
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def put(path: Path, address: str) -> None:
    fsspec.filesystem("s3").put(str(path), address, recursive=True)


def test_names_of_urls() -> None:
    for name in ("s3://scans/a.ome.zarr", Path("s3://scans/a.ome.zarr"), "S3:/scans/a.ome.zarr"):
        path = io.as_path(name)
        assert isinstance(path, io.Url) and str(path) == "s3://scans/a.ome.zarr"
        assert str(path.parent / "b.zarr" / "0") == "s3://scans/b.zarr/0" and io.stem(path) == "a"
        assert io.as_path(path) == path and path.resolve() == path.absolute() == path
    assert io.as_path("file:///data/a%20b.zarr") == Path("/data/a b.zarr")
    assert type(io.as_path("scans/s3:/x")) is type(Path())


def test_a_store_is_read_over_http_and_written_here(serve: Callable[[Any], str], run: Run, tmp_path: Path) -> None:
    pixels = noise((2, 3, 32, 40))
    make_ome_zarr(tmp_path / "a.ome.zarr", pixels)
    address = serve(partial(Quiet, directory=str(tmp_path))) + "/a.ome.zarr"
    image = io.read(address)
    assert (image.axes, image.name, image.pixel_size) == ("CZYX", address, {"Z": 0.5, "Y": 0.2, "X": 0.1})
    np.testing.assert_array_equal(image.data[1, :, 4:9], pixels[1, :, 4:9])
    code, _, errors = run("denoise", address, "-o", tmp_path / "out.zarr", *TINY)
    assert (code, io.read(tmp_path / "out.zarr").shape) == (0, (2, 3, 32, 40)), errors
    code, printed, errors = run("diagnose", address, "--json")
    assert (code, "noise" in printed) == (0, True), errors
    code, printed, errors = run("plan", address)
    assert code == 0, errors
    (tmp_path / "clean").mkdir()
    code, _, errors = run("denoise", address, "-o", tmp_path / "clean", *TINY)
    assert (code, io.read(tmp_path / "clean" / "a.ome.zarr").axes) == (0, "CZYX"), errors


def test_from_bucket_to_bucket(bucket: str, run: Run, tmp_path: Path) -> None:
    pixels = noise((2, 3, 32, 40))
    make_ome_zarr(tmp_path / "a.ome.zarr", pixels)
    put(tmp_path / "a.ome.zarr", f"{bucket}/a.ome.zarr")
    np.testing.assert_array_equal(io.read(f"{bucket}/a.ome.zarr").data[...], pixels)
    for _ in range(2):  # over the first
        code, printed, errors = run("denoise", f"{bucket}/a.ome.zarr", "-o", f"{bucket}/out.ome.zarr", *TINY, "--json")
        assert (code, json.loads(printed)["outputs"]) == (0, [f"{bucket}/out.ome.zarr"]), errors
    assert f"Uploaded to {bucket}/out.ome.zarr." in " ".join(errors.split())
    written = io.read(f"{bucket}/out.ome.zarr")
    assert (written.axes, written.shape, written.dtype) == ("CZYX", (2, 3, 32, 40), np.uint16)
    assert not list(Path(tempfile.gettempdir()).glob("noise2same-*/out.ome.zarr*"))
    assert not fsspec.filesystem("s3").exists(f"{bucket}/out.ome.zarr.part")


def test_from_python(bucket: str, tmp_path: Path) -> None:
    pixels = noise((64, 64))
    io_path = tmp_path / "b.zarr"
    with io.create(io_path, io.wrap(pixels)) as out:
        out[...] = pixels
    put(io_path, f"{bucket}/b.zarr")
    options: dict[str, Any] = {"steps": 2, "features": 4, "patch": 32, "batch": 2, "progress": False}
    assert n2s.denoise(f"{bucket}/b.zarr", **options).shape == (64, 64)
    result = n2s.denoise(f"{bucket}/b.zarr", output=f"{bucket}/clean.zarr", **options)
    assert str(result) == f"{bucket}/clean.zarr" and io.read(result).shape == (64, 64)
    model = n2s.train(f"{bucket}/b.zarr", **options)
    assert str(model.denoise(f"{bucket}/b.zarr", output=f"{bucket}/other.tif")) == f"{bucket}/other.tif"
    assert fsspec.filesystem("s3").exists(f"{bucket}/other.tif")  # any format can be uploaded


def test_what_goes_wrong_is_said_in_a_sentence(bucket: str, serve: Callable[[Any], str], tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        silent = f"http://127.0.0.1:{free.getsockname()[1]}/a.zarr"
    web = serve(partial(Quiet, directory=str(tmp_path)))
    for address, match in (
        (silent, "the server does not answer; check the address and the network"),
        (f"{web}/a.zarr", "does not exist, or is no Zarr store; check the address"),
        (f"{bucket}/nothing.zarr", "does not exist, or is no Zarr store"),
        ("s3://no-such-bucket/a.zarr", "does not exist, or is no Zarr store"),
        (f"{serve(Refusing)}/a.zarr", "the server refused the credentials, or asks for some"),
    ):
        with pytest.raises(InputError, match=f"^{address}.*{match}") as caught:
            io.read(address)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="only Zarr stores are read from elsewhere; download the file first"):
        io.find([f"{web}/a.tif"])


def test_what_cannot_be_written_is_said_first(bucket: str, run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise((64, 64)))
    for output, match in (
        ("http://127.0.0.1:1/out.zarr", "http:// is only read; write to a folder here, or to s3://."),
        ("s3://no-such-bucket/out.zarr", "there is no such bucket"),
    ):
        code, _, errors = run("denoise", tmp_path / "a.npy", "-o", output, *TINY)
        assert code == 2 and match in " ".join(errors.split()) and "Traceback" not in errors, errors
    code, _, errors = run("denoise", f"{bucket}/a.ome.zarr", "-o", f"{bucket}/a.ome.zarr", *TINY)
    assert code == 2 and "would overwrite the input" in " ".join(errors.split())


def test_refused_credentials(tmp_path: Path) -> None:
    """In a process of its own: moto checks credentials only if it is told to for all of its requests."""
    script = """
import os, boto3
os.environ.update(INITIAL_NO_AUTH_ACTION_COUNT="1", AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
host, port = server.get_host_and_port()
os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
boto3.client("s3").create_bucket(Bucket="scans")
from noise2same import io
for work in (lambda: io.read("s3://scans/a.zarr"), lambda: io.stage("s3://scans/a.zarr")):
    try:
        work()
    except io.InputError as error:
        print(error)
server.stop()
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    first, second = (line for line in told.stdout.splitlines() if line.startswith("s3://"))
    assert first.startswith("s3://scans/a.zarr may not be opened: the server refused the credentials"), told
    assert second.startswith("s3://scans/a.zarr may not be written: the server refused the credentials"), told


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=r"s3://scans/a.zarr needs s3fs.*pip install 'noise2same\[remote\]'"):
        io.read("s3://scans/a.zarr")
