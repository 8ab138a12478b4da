"""`noise2same reproduce`: the plan, the cells as they are done, and the finished pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noise2same.cli._terminal import stdout, tell
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.paper.reproduce.protocols import RunSpec


def reproduce(
    what: Annotated[
        str, typer.Argument(help="table1, table2, table3, efficiency, sigma, visual or bound; all for every one.")
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Only this one of table3 and visual: bsd68, hanzi, imagenet, planaria, planaria-like, w2s, fmd."
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="cpu: minutes a cell. paper: the paper's network and steps, for a GPU.")
    ] = "cpu",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data.", envvar="NOISE2SAME_DATA", show_envvar=True)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the results; what is done there is not done again.")
    ] = Path("reproduction"),
    jobs: Annotated[int, typer.Option(min=1, help="Cells to train at once, on a CPU.")] = 1,
    steps: Annotated[int | None, typer.Option(min=1, help="Train each cell so long only, to try it out.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only list the cells, and how long they will take.")] = False,
) -> None:
    """Regenerate a table or figure of the paper: train, test, and write a page with the paper's numbers beside ours."""
    from rich.markdown import Markdown

    from noise2same.paper.reproduce import reproduce
    from noise2same.paper.reproduce.protocols import RunSpec

    if preset not in ("cpu", "paper"):
        raise InputError(f"--preset {preset}: it is cpu or paper.")
    spec, out = RunSpec("paper" if preset == "paper" else "cpu", dataset, steps), out.expanduser()
    if plan:
        _show_plan(what, out, spec, jobs)
        return
    screen = stdout()
    for page in reproduce(what, out, spec, data=data, jobs=jobs, say=tell):
        screen.print(Markdown(page.read_text(encoding="utf-8")))
        tell(f"Written to {page.resolve()}, with its pictures beside it.")


def _show_plan(what: str, out: Path, spec: RunSpec, jobs: int) -> None:
    """List the cells, which of them are done, and the hours that the others will take."""
    from rich.table import Column, Table

    from noise2same.paper.reproduce import cells_of
    from noise2same.paper.reproduce.cost import RATES, hours
    from noise2same.paper.reproduce.store import Store

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
