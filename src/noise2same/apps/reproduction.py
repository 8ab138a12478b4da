"""What `reproduce` shows: the plan, the cells as they are done, and the finished pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markdown import Markdown
from rich.table import Column, Table

from noise2same.apps.terminal import stdout, tell
from noise2same.reproduce import WHATS, cells_of, reproduce
from noise2same.reproduce.cost import RATES, hours


def show_reproduction(
    what: str, out: Path, dataset: str | None, preset: Any, data: Path | None, jobs: int, steps: int | None
) -> None:
    """Run what is not done yet, and show the pages."""
    pages = reproduce(what, out, dataset=dataset, preset=preset, data=data, steps=steps, jobs=jobs, say=tell)
    screen = stdout()
    for page in pages.values():
        screen.print(Markdown(page.read_text(encoding="utf-8")))
        tell(f"Written to {page.resolve()}, with its figures as .json and .png beside it.")


def show_plan(
    what: str, out: Path, dataset: str | None, preset: Any, data: Path | None, jobs: int, steps: int | None
) -> None:
    """List the cells, which of them are done, and the hours that the others will take."""
    whats = WHATS if what == "all" else (what,)
    cells = {cell.name: cell for one in whats for cell in cells_of(one, preset, dataset, steps)}
    table = Table("cell", "data set", "method", Column("steps", justify="right"), Column("hours", justify="right"))
    total = 0.0
    for cell in cells.values():
        done = cell.file(out / preset / "cells").exists()
        count, time = hours(cell, preset)
        total += 0 if done else time
        table.add_row(cell.name, cell.dataset, cell.method, str(count or "–"), "done" if done else f"{time:.2f}")
    screen = stdout()
    screen.print(table)
    rate = RATES[preset]
    screen.print(f"About {total / jobs:.1f} hours of training are left, at {rate / 1e9:,.0f} GFLOP/s a job.")
