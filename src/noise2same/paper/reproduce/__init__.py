"""Every table and figure of the paper, from the noisy images to the finished page; see docs/reproduction.md."""

from __future__ import annotations

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
from noise2same.paper.reproduce import curves, protocols, store, tables, visual
from noise2same.paper.reproduce.cells import Cell, load, run
from noise2same.paper.reproduce.pages import write_page
from noise2same.paper.reproduce.protocols import PROTOCOLS, RunSpec
from noise2same.paper.reproduce.store import Result, Store

Draw = Callable[[dict[Any, Result], Store], str]
"""Draws the pictures of a table or figure into the store's folder, and returns the rest of it as Markdown."""
ARTEFACTS: dict[str, tuple[Callable[[RunSpec], dict[Any, Cell]], Draw]] = {
    "table1": (protocols.table1, tables.table1),
    "table2": (protocols.table2, tables.table2),
    "table3": (protocols.table3, tables.table3),
    "efficiency": (protocols.efficiency, curves.efficiency),
    "sigma": (protocols.sigma, curves.sigma),
    "visual": (protocols.table3, visual.visual),
    "bound": (protocols.bound, curves.bound),
}
"""Every table and figure: the cells it is made of, and how it is drawn."""
QUICK_OPTIONS: dict[str, dict[str, Any]] = {"hanzi": {"characters": 8}}
"""Options with which a data set is loaded in seconds, to see whether its files are there."""


def reproduce(
    what: str,
    out: Path,
    spec: RunSpec,
    *,
    data: Path | None = None,
    jobs: int = 1,
    progress: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Run the cells that are not done yet, and write the page and the pictures of each table or figure.

    Parameters
    ----------
    what : str
        One of `ARTEFACTS`, or "all".
    out : Path
        Folder for the results. Cells that are done, in OUT/PRESET/cells or OUT/PRESET.json, are not run again.
    data : Path, optional
        Folder of the data; by default the one that `NOISE2SAME_DATA` names.
    jobs : int
        Cells that are trained at once, each in a process of its own with its share of the cores.

    Returns
    -------
    list of Path
        The pages.
    """
    cells = cells_of(what, spec)
    found = Store(out / spec.preset)
    todo = [name for name in cells if name not in found]
    for name in sorted({cells[one].dataset for one in todo}):
        load(name, data, **QUICK_OPTIONS.get(name, {}))  # what is missing is said now, not hours later
    if len(todo) < len(cells):
        say(f"{len(cells) - len(todo)} of {len(cells)} cells are done already, in {found.folder}.")
    work = partial(_work, what, spec, found.cells, data)
    for number, line in enumerate(_finished(work, todo, jobs, progress, say), 1):
        say(f"[{number}/{len(todo)}] {line}")
    return [render(one, found, spec) for one in names_of(what)]


def names_of(what: str) -> list[str]:
    """The tables and figures that are asked for."""
    if what != "all" and what not in ARTEFACTS:
        raise InputError(f"There is no {what} to reproduce: there are {', '.join(ARTEFACTS)}, and all of them.")
    return list(ARTEFACTS) if what == "all" else [what]


def cells_of(what: str, spec: RunSpec) -> dict[str, Cell]:
    """The cells that are asked for, by name."""
    if spec.dataset is not None and (spec.dataset not in PROTOCOLS or what not in ("table3", "visual")):
        known = ", ".join(PROTOCOLS)
        raise InputError(f"--dataset {spec.dataset}: table3 and visual take one of {known}; leave it out otherwise.")
    return {cell.name: cell for one in names_of(what) for cell in ARTEFACTS[one][0](spec).values()}


def _work(
    what: str,
    spec: RunSpec,
    folder: Path,
    data: Path | None,
    name: str,
    *,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Run one cell; what came out, in a line."""
    cell, started = cells_of(what, spec)[name], time.monotonic()
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


def render(what: str, found: Store, spec: RunSpec) -> Path:
    """Write the page and the pictures of a table or figure from the cells that are done; returns the page."""
    cells, draw = ARTEFACTS[what]
    done = {key: found.read(cell.name) for key, cell in cells(spec).items() if cell.name in found}
    found.folder.mkdir(parents=True, exist_ok=True)
    return write_page(what, found.folder, draw(done, found), list(done.values()))


def pack(folder: Path, file: Path | None = None) -> Path:
    """Write all cells of a preset's folder to one compact file, by default FOLDER.json; see `store.pack`.

    Training histories are kept of the cells that the figures of efficiency and bounds show.
    """
    spec = RunSpec()
    shown = [*protocols.efficiency(spec).values(), *protocols.bound(spec).values()]
    return store.pack(folder, file, with_history={cell.name for cell in shown})
