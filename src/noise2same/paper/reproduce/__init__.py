"""Every table and figure of the paper, from the noisy images to the finished page; see docs/reproduction.md."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from noise2same.errors import InputError
from noise2same.files import replacing
from noise2same.paper.provenance import provenance
from noise2same.paper.reproduce import curves, plan, tables, visual
from noise2same.paper.reproduce.cells import Cell, Result, load, run
from noise2same.paper.reproduce.pages import write_page
from noise2same.paper.reproduce.plan import PROTOCOLS, Order

WHATS: dict[str, tuple[Callable[[Order], dict[Any, Cell]], Callable[[dict[Any, Result], Path], str]]] = {
    "table1": (plan.table1, tables.table1),
    "table2": (plan.table2, tables.table2),
    "table3": (plan.table3, tables.table3),
    "efficiency": (plan.efficiency, curves.efficiency),
    "sigma": (plan.sigma, curves.sigma),
    "visual": (plan.table3, visual.visual),
    "bound": (plan.bound, curves.bound),
}
"""What there is to reproduce: the cells it is made of, and what draws it into a folder and returns it as Markdown."""
FEW: dict[str, dict[str, Any]] = {"hanzi": {"characters": 8}}
"""Options by which it is quickly seen whether the files of a data set are there."""


def reproduce(
    what: str,
    out: Path,
    order: Order,
    *,
    data: Path | None = None,
    jobs: int = 1,
    progress: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Run the cells that are not done yet, and write the page, figures and picture of each table or figure.

    Parameters
    ----------
    what : str
        One of `WHATS`, or "all".
    out : Path
        Folder for the results; cells that are done there are not run again.
    data : Path, optional
        Folder of the data; by default the one that `NOISE2SAME_DATA` names.
    jobs : int
        Cells that are trained at once, each in a process of its own with its share of the cores.

    Returns
    -------
    list of Path
        The pages.
    """
    cells = cells_of(what, order)
    folder = out / order.preset / "cells"
    todo = [name for name, cell in cells.items() if not cell.file(folder).exists()]
    for name in sorted({cells[one].dataset for one in todo}):
        load(name, data, **FEW.get(name, {}))  # what is missing is said now, not hours later
    if len(todo) < len(cells):
        say(f"{len(cells) - len(todo)} of {len(cells)} cells are done already, in {folder}.")
    work = partial(_work, what, order, folder, data)
    for number, line in enumerate(_finished(work, todo, jobs, progress, say), 1):
        say(f"[{number}/{len(todo)}] {line}")
    return [_render(one, out / order.preset, order) for one in names_of(what)]


def names_of(what: str) -> list[str]:
    """The tables and figures that are asked for."""
    if what != "all" and what not in WHATS:
        raise InputError(f"There is no {what} to reproduce: there are {', '.join(WHATS)}, and all of them.")
    return list(WHATS) if what == "all" else [what]


def cells_of(what: str, order: Order) -> dict[str, Cell]:
    """The cells that are asked for, by name."""
    if order.dataset is not None and (order.dataset not in PROTOCOLS or what not in ("table3", "visual")):
        known = ", ".join(PROTOCOLS)
        raise InputError(f"--dataset {order.dataset}: table3 and visual take one of {known}; leave it out otherwise.")
    return {cell.name: cell for one in names_of(what) for cell in WHATS[one][0](order).values()}


def _work(
    what: str,
    order: Order,
    folder: Path,
    data: Path | None,
    name: str,
    *,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Run one cell; what came out, in a line."""
    cell, started = cells_of(what, order)[name], time.monotonic()
    found = run(cell, folder, data, progress=progress, say=say)
    scores = " / ".join(f"{scores[cell.score]:.2f}" for scores in found["scores"].values())
    title, minutes = PROTOCOLS[cell.dataset].title, (time.monotonic() - started) / 60
    return f"{title}, {cell.method}: {scores} dB, {minutes:.1f} minutes"


def _finished(
    work: Callable[..., str], names: list[str], jobs: int, progress: bool, say: Callable[[str], None]
) -> Iterator[str]:
    """What each cell has to say when it is done."""
    if jobs == 1:
        for name in names:
            yield work(name, progress=progress, say=say)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    options: dict[str, Any] = {"mp_context": get_context("spawn"), "initializer": torch.set_num_threads}
    pool = ProcessPoolExecutor(jobs, initargs=(threads,), **options)
    try:
        for future in as_completed([pool.submit(work, name) for name in names]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _render(what: str, out: Path, order: Order) -> Path:
    """Write the page, the figures and the picture of what the finished cells say; returns the page."""
    cells, draw = WHATS[what][0](order), WHATS[what][1]
    done = {key: cell.read(out / "cells") for key, cell in cells.items() if cell.file(out / "cells").exists()}
    page = write_page(what, out, draw(done, out), list(done.values()))
    short = {result["cell"]: _without_history(result) for result in done.values()}
    with replacing(out / f"{what}.json") as path:
        path.write_text(json.dumps({"what": what, "provenance": provenance(), "cells": short}, indent=1) + "\n")
    return page


def _without_history(result: Result) -> Result:
    """Figures without the history of their training, which stays with the cell."""
    summary = {key: value for key, value in result.get("summary", {}).items() if key != "history"}
    return result | {"summary": summary}
