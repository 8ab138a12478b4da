"""What the command line shows: lines and progress on stderr, results on stdout."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress

    from noise2same import io
    from noise2same.plan import Plan
    from noise2same.quality.checks import Verdict

console = Console(stderr=True, highlight=False, soft_wrap=True)
STYLES = {"trust": "green", "check": "yellow", "do not trust": "red"}


def _new_bar() -> Progress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[speed]}"), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


@contextmanager
def bar(title: str) -> Iterator[Any]:
    """Progress bar on stderr; yields what to call with each further share of the work."""
    with _new_bar() as progress:
        task = progress.add_task(title, total=1.0, speed="")
        yield lambda share: progress.advance(task, share)


class DenoisingBar:
    """Progress bar for a number of images, on stderr; it listens to `on_image` and `on_block`."""

    def __init__(self, images: int) -> None:
        self._images, self._done = images, 0
        self._progress = _new_bar()
        self._task = self._progress.add_task("Denoising", total=images, speed="")
        self._began: tuple[io.Image, float, float] | None = None

    def __enter__(self) -> DenoisingBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, image: io.Image) -> None:
        """Show which image is next: of a large one, all is read before the first block is done."""
        count = f"{self._done + 1} of {self._images}: " if self._images > 1 else ""
        self._progress.start()
        self._progress.update(self._task, description=f"Denoising {count}{image.label}", speed="")

    def __call__(self, image: io.Image, done: int, total: int) -> None:
        """Show how many blocks of an image are done."""
        self._progress.update(self._task, completed=self._done + done / total, speed=self._speed(image, done / total))

    def _speed(self, image: io.Image, share: float) -> str:
        """Pixels, or frames of a film, in a second since the first report on an image.

        What was done before a resume does not count.
        """
        from noise2same.data.film import is_film

        now = time.monotonic()
        if self._began is None or self._began[0] is not image:
            self._began = image, share, now
        _, before, began = self._began
        if now == began:
            return ""
        speed = (share - before) / (now - began)
        if is_film(image):
            return f"{speed * image.shape[image.axes.index('T')]:.3g} frames/s"
        return f"{speed * math.prod(image.shape) / 1e6:.3g} MPix/s"

    def next(self) -> str:
        """Go on to the next image; which one this was, such as "12 of 200: ", if there are several."""
        self._done += 1
        self._progress.update(self._task, completed=self._done)
        return f"{self._done} of {self._images}: " if self._images > 1 else ""


def tell(text: str, label: str = "", style: str = "") -> None:
    """Write a line to stderr, as it is: what is in brackets in the name of a file is not markup."""
    console.print(Text.assemble((label, style), text))


def tell_error(text: str) -> None:
    """Write a line to stderr that --quiet does not silence."""
    before, console.quiet = console.quiet, False
    tell(text, "Error: ", "red")
    console.quiet = before


def tell_verdict(verdict: Verdict) -> None:
    """Write a line to stderr: the word, the reason, the estimated PSNR, and what to do next."""
    psnr = ""
    if verdict.psnr is not None:
        value, low, high = verdict.psnr
        psnr = f" Estimated PSNR {value:.1f} dB ({low:.1f} to {high:.1f})."
    tell(f"{verdict.reason}{psnr} {verdict.advice}".rstrip(), f"{verdict.word.capitalize()}: ", STYLES[verdict.word])


def stdout() -> Console:
    """Where tables go: stdout, wide enough for file names where it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def print_plan(plan: Plan, title: str | None = None) -> None:
    """Write a table to stdout: each decision of a plan, and why."""
    from rich.table import Column, Table

    table = Table("decision", Column("value", overflow="fold"), Column("because", overflow="fold"), title=title)
    for row in plan.rows():
        table.add_row(*map(Text, row))
    stdout().print(table)


def print_json(value: Any, *, line: bool = False) -> None:
    """Write JSON to stdout, in one line at once or indented.

    Numbers it cannot hold (the PSNR of equal images is infinite) become null.
    """

    def plain(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: plain(inner) for key, inner in item.items()}
        if isinstance(item, list | tuple):
            return [plain(inner) for inner in item]
        return None if isinstance(item, float) and not math.isfinite(item) else item

    print(json.dumps(plain(value), indent=None if line else 2, allow_nan=False), flush=line)


def fail(message: str) -> NoReturn:
    """Say what is wrong and exit."""
    tell_error(message)
    sys.exit(2)
