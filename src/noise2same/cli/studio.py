"""`noise2same studio`: the page in the browser."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from noise2same.cli._terminal import tell
from noise2same.errors import InputError

LOCAL = ("127.0.0.1", "localhost")


def studio(
    host: Annotated[str, typer.Option(help="Address to listen on; one that others reach needs a password.")] = LOCAL[0],
    port: Annotated[
        int | None, typer.Option(help="Port to listen on.", show_default="the first free from 7860")
    ] = None,
    password: Annotated[
        str | None, typer.Option(help="Asked for with the name noise2same.", envvar="NOISE2SAME_PASSWORD")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    upload: Annotated[int, typer.Option(help="Largest upload in megabytes.", min=1)] = 2048,
) -> None:
    """Open Studio, a page in the browser to denoise images without typing."""
    if host not in LOCAL and not password:
        raise InputError(f"--host {host}: others could use this machine, so set a --password as well.")
    with TemporaryDirectory(prefix="noise2same-studio-") as folder:
        os.environ["GRADIO_TEMP_DIR"] = str(Path(folder) / "uploads")  # removed with the rest
        try:
            from noise2same.studio.page import Studio
        except ModuleNotFoundError as error:
            raise InputError(f"Studio needs {error.name}: pip install 'noise2same[studio]'.") from None
        page = Studio(Path(folder), local=host in LOCAL)
        try:
            address = page.launch(host=host, port=port, password=password, browser=browser, upload=upload)
        except OSError as error:
            raise InputError(f"The page cannot be opened at {host}: {error}; choose another --port.") from None
        tell(f"Studio is at {address} (Ctrl-C ends it).")
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()
        page.close()
