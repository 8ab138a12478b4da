"""What the command line shows: lines and progress on stderr, results on stdout."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

console = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def bar(title: str) -> Iterator[Any]:
    """Progress bar on stderr; yields what to call with the parts that are done and all of them."""
    columns = (TextColumn(title, markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda done, total: progress.update(task, completed=done / total)


def tell(text: str, label: str = "", style: str = "") -> None:
    """Write a line to stderr, as it is: what is in brackets in the name of a file is not markup."""
    console.print(Text.assemble((label, style), text))


def stdout() -> Console:
    """Where tables go: stdout, wide enough for file names where it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def print_json(value: Any) -> None:
    """Write JSON to stdout; numbers it cannot hold (the PSNR of equal images is infinite) become null."""

    def plain(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: plain(inner) for key, inner in item.items()}
        if isinstance(item, list | tuple):
            return [plain(inner) for inner in item]
        return None if isinstance(item, float) and not math.isfinite(item) else item

    print(json.dumps(plain(value), indent=2, allow_nan=False))


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one, with keys such as 'training terms invariance'."""
    rows: dict[str, Any] = {}
    for name, value in tree.items():
        rows |= flat(value, f"{prefix}{name} ") if isinstance(value, dict) else {prefix + name: value}
    return rows


def fail(message: str) -> NoReturn:
    """Say what is wrong and exit."""
    console.quiet = False
    tell(message, "Error: ", "red")
    sys.exit(2)
