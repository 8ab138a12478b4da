"""The progress bar of a training run."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from noise2same import markup
from noise2same.training.state import TrainingState

SHOW_EVERY = 5
"""Steps from one update of the bar to the next; each waits for a GPU."""
PAGE_SECONDS = 0.3
"""From one update of the bar in a notebook to the next."""


class ProgressBar:
    """Listens to a run (`on_step`): a live bar with loss terms and time left; ten plain lines without a terminal.

    The bar is on stderr from the first step on, and goes at the end of the block. In a notebook it is a part of the
    page, and stays.

    Examples
    --------
    >>> with ProgressBar() as bar:
    ...     pass  # training.loop.fit(..., on_step=bar)
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("Training"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[terms]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=self._console.is_jupyter or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0, terms="")
        self._printed_tenths = 0
        self._last: TrainingState | None = None
        self._on_page: Any = None
        self._shown = 0.0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._last is not None:
            self._shown = 0.0
            self._show(self._last)
        self._bar.stop()

    def __call__(self, state: TrainingState) -> None:
        """Show a step."""
        if self._last is None:
            self._bar.start()
        self._last = state
        if state.step % SHOW_EVERY == 0:
            self._show(state)

    def _show(self, state: TrainingState) -> None:
        if self._console.is_jupyter:
            return self._show_on_page(state)
        terms = "  ".join(f"{name} {value:.4f}" for name, value in state.terms.items())
        self._bar.update(self._task, completed=state.share, terms=f"step {state.step}  {terms}")
        tenths = int(10 * state.share)
        if tenths > self._printed_tenths and not self._console.is_terminal:
            self._printed_tenths = tenths
            line = f"Training {10 * tenths:3d} %  step {state.step}  {terms}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _show_on_page(self, state: TrainingState) -> None:
        from IPython.display import HTML, DisplayHandle

        now = time.monotonic()
        if now - self._shown < PAGE_SECONDS:
            return
        self._shown = now
        left = "" if state.seconds_left is None else f", {state.seconds_left:.0f} s left"
        loss = f"loss {sum(state.terms.values()):.4f}"
        page = HTML(markup.bar(state.share, f"step {state.step}, {loss}{left}"))
        if self._on_page is None:
            self._on_page = DisplayHandle()
            self._on_page.display(page)
        else:
            self._on_page.update(page)
