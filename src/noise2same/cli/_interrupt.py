"""Ctrl-C and SIGTERM on the command line."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from noise2same.cli._terminal import tell
from noise2same.files import abandon

END_SECONDS = 8.0
"""After which a process that was interrupted is ended by force; users are promised ten seconds."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it, SIGTERM is as good as Ctrl-C, which raises KeyboardInterrupt.

    That waits for the block of an image, or for a library that does not look up. If it takes too long, temporary files
    are removed and the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timer = threading.Timer(END_SECONDS, _end)
    timer.daemon = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not timer.is_alive():
            timer.start()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt

    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _end() -> None:
    abandon()
    tell("Interrupted.")
    os._exit(130)
