"""Work in a thread of its own, so that the window never waits."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject, Signal

from noise2same.errors import Cancelled

LAST_WORDS = 5.0
"""Seconds that each thread is given to end with the process; PyTorch aborts it otherwise."""

_running: set[Work] = set()
"""What a thread still needs, whoever else has forgotten it."""


class Work(QObject):
    """A function that runs in a thread, told to the window by signals, which arrive in the window's own thread.

    Parameters
    ----------
    function : callable
        Given this object; it calls `tell`, and looks at `stopped` and `cancelled` now and then.
    """

    told = Signal(object)
    """What the function tells while it works."""
    done = Signal(object)
    """What the function returned."""
    failed = Signal(object)
    """The exception that it raised."""

    def __init__(self, function: Callable[[Work], Any]) -> None:
        super().__init__()
        self.stopped, self._cancelled = False, threading.Event()
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Work:
        """Begin, and return self."""
        _running.add(self)
        self._thread.start()
        return self

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Forget the work at once; the thread ends when its function next asks. No signal comes after this."""
        self._cancelled.set()
        self.blockSignals(True)

    def finish(self) -> None:
        """Cancel, and wait a moment for the thread."""
        self.cancel()
        self._thread.join(LAST_WORDS)

    def tell(self, what: Any) -> None:
        """Tell the window something; ends the function if the work was cancelled."""
        self.check()
        self.told.emit(what)

    def check(self) -> None:
        """End the function if the work was cancelled."""
        if self.cancelled:
            raise Cancelled("cancelled in napari")

    def _run(self) -> None:
        try:
            result = self._function(self)
        except Cancelled:
            pass
        except Exception as error:
            self._send(self.failed, error)
        else:
            self._send(self.done, result)
        finally:
            _running.discard(self)

    def _send(self, signal: Any, what: Any) -> None:
        if not self.cancelled:
            signal.emit(what)


@atexit.register
def _finish_all() -> None:
    for work in list(_running):
        work.finish()
