"""What `reproduce` shows: the plan, the cells as they are done, and the finished pages."""

from __future__ import annotations

from pathlib import Path

from rich.markdown import Markdown
from rich.table import Column, Table

from noise2same.cli.terminal import stdout, tell
from noise2same.paper.reproduce import cells_of, reproduce
from noise2same.paper.reproduce.cost import RATES, hours
from noise2same.paper.reproduce.protocols import RunSpec
from noise2same.paper.reproduce.store import Store


def show_reproduction(what: str, out: Path, spec: RunSpec, data: Path | None, jobs: int) -> None:
    """Run what is not done yet, and show the pages."""
    screen = stdout()
    for page in reproduce(what, out, spec, data=data, jobs=jobs, say=tell):
        screen.print(Markdown(page.read_text(encoding="utf-8")))
        tell(f"Written to {page.resolve()}, with its pictures beside it.")


def show_plan(what: str, out: Path, spec: RunSpec, jobs: int) -> None:
    """List the cells, which of them are done, and the hours that the others will take."""
    total, screen, found = 0.0, stdout(), Store(out / spec.preset)
    table = Table("cell", "data set", "method", Column("steps", justify="right"), Column("hours", justify="right"))
    for cell in cells_of(what, spec).values():
        done = cell.name in found
        steps, time = hours(cell, spec.preset)
        total += 0 if done else time
        table.add_row(cell.name, cell.dataset, cell.method, str(steps or "–"), "done" if done else f"{time:.2f}")
    screen.print(table)
    rate = RATES[spec.preset]
    screen.print(f"About {total / jobs:.1f} hours of training are left, at {rate / 1e9:,.0f} GFLOP/s a job.")
