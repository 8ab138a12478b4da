"""Ctrl-C and SIGTERM while training."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Within it, the first Ctrl-C or SIGTERM sets `requested`; a second Ctrl-C is an ordinary interrupt.

    The handlers from before are put back at the end. Outside of the main thread, where signals cannot be handled, it
    does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._request) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
