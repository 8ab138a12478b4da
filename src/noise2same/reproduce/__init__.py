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

import numpy as np
import torch

from noise2same import io
from noise2same.errors import InputError
from noise2same.provenance import provenance
from noise2same.reproduce import curves, plan, tables
from noise2same.reproduce.cells import Cell, load, picture, run
from noise2same.reproduce.pages import write_page
from noise2same.reproduce.plan import PROTOCOLS, Preset
from noise2same.reproduce.visual import visual

WHATS = ("table1", "table2", "table3", "efficiency", "sigma", "visual", "bound")
"""What there is to reproduce."""
FEW = {"hanzi": {"characters": 8}}
"""Options by which it is quickly seen whether the files of a data set are there."""


def cells_of(what: str, preset: Preset, dataset: str | None = None, steps: int | None = None) -> list[Cell]:
    """The cells that a table or figure is made of."""
    match what:
        case "table1":
            return list(plan.table1(preset, steps).values())
        case "table2":
            return list(plan.table2(preset, steps).values())
        case "table3" | "visual":
            return [cell for row in plan.table3(preset, steps, dataset).values() for cell in row.values()]
        case "efficiency":
            return list(plan.efficiency(preset, steps).values())
        case "sigma":
            return list(plan.sigma(preset, steps).values())
        case "bound":
            return [plan.bound(preset, steps)]
    raise InputError(f"There is no {what} to reproduce: there are {', '.join(WHATS)}, and all of them.")


def reproduce(
    what: str,
    out: Path,
    *,
    dataset: str | None = None,
    preset: Preset = "cpu",
    data: Path | None = None,
    steps: int | None = None,
    jobs: int = 1,
    progress: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Path]:
    """Run the cells that are not done yet, and write the page, figures and picture of each table or figure.

    Parameters
    ----------
    what : str
        One of `WHATS`, or "all".
    out : Path
        Folder for the results; cells that are done there are not run again.
    dataset : str, optional
        For Table 3 and the panels: only this one.
    preset : "cpu" or "paper"
        Minutes for each cell, or the paper's own network and steps, for a GPU.
    data : Path, optional
        Folder of the data; by default the one that `NOISE2SAME_DATA` names.
    steps : int, optional
        So many for each cell, to try it out.
    jobs : int
        Cells that are trained at once, each in a process of its own with its share of the cores.
    """
    if dataset is not None and (dataset not in PROTOCOLS or what not in ("table3", "visual")):
        known = ", ".join(PROTOCOLS)
        raise InputError(f"--dataset {dataset}: Table 3 and the panels take one of {known}; leave it out otherwise.")
    whats = WHATS if what == "all" else (what,)
    cells = {cell.name: cell for one in whats for cell in cells_of(one, preset, dataset, steps)}
    folder = out / preset / "cells"
    todo = [name for name, cell in cells.items() if not cell.file(folder).exists()]
    for name in sorted({cells[one].dataset for one in todo}):
        load(name, data, **FEW.get(name, {}))  # what is missing is said now, not hours later
    if len(todo) < len(cells):
        say(f"{len(cells) - len(todo)} of {len(cells)} cells are done already, in {folder}.")
    work = partial(_work, whats, folder, data, dataset, preset, steps)
    for number, line in enumerate(_finished(work, todo, jobs, progress, say), 1):
        say(f"[{number}/{len(todo)}] {line}")
    return {one: _render(one, out / preset, data, dataset, preset, steps) for one in whats}


def _work(
    whats: tuple[str, ...],
    folder: Path,
    data: Path | None,
    dataset: str | None,
    preset: Preset,
    steps: int | None,
    name: str,
    *,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Run one cell; what came out, in a line."""
    cell = next(one for what in whats for one in cells_of(what, preset, dataset, steps) if one.name == name)
    started = time.monotonic()
    found = run(cell, folder, data, progress=progress, say=say)
    scores = " / ".join(f"{scores[cell.score]:.2f}" for scores in found["scores"].values())
    title = PROTOCOLS[cell.dataset].title
    return f"{title}, {cell.method}: {scores} dB, {(time.monotonic() - started) / 60:.1f} minutes"


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


def _render(what: str, out: Path, data: Path | None, dataset: str | None, preset: Preset, steps: int | None) -> Path:
    """Write the page, the figures and the picture of what the finished cells say; returns the page."""
    folder, image = out / "cells", out / f"{what}.png"
    shown: Path | None = image
    read = {
        cell.name: cell.read(folder) for cell in cells_of(what, preset, dataset, steps) if cell.file(folder).exists()
    }

    def results(cells: dict[Any, Cell]) -> dict[Any, Any]:
        return {key: read[cell.name] for key, cell in cells.items() if cell.name in read}

    match what:
        case "table1":
            text = tables.table1(results(plan.table1(preset, steps)), image)
        case "table2":
            text = tables.table2(results(plan.table2(preset, steps)), image)
        case "table3":
            rows = plan.table3(preset, steps, dataset)
            text = tables.table3({name: results(row) for name, row in rows.items()}, image)
        case "efficiency":
            text = curves.efficiency(results(plan.efficiency(preset, steps)), image)
        case "sigma":
            cells = plan.sigma(preset, steps)
            text = curves.sigma(results(cells), {key: cell.picture(folder) for key, cell in cells.items()}, image)
        case "bound":
            text = curves.bound(results({"": plan.bound(preset, steps)})[""], image)
        case _:
            text, shown = _panels(plan.table3(preset, steps, dataset), results, folder, data, out), None
    with io.replacing(out / f"{what}.json") as path:
        path.write_text(json.dumps({"what": what, "provenance": provenance(), "cells": _short(read)}, indent=1) + "\n")
    return write_page(what, out, text, shown, list(read.values()))


def _panels(
    rows: dict[str, dict[str, Cell]],
    results: Callable[[dict[Any, Cell]], dict[Any, Any]],
    folder: Path,
    data: Path | None,
    out: Path,
) -> str:
    """The panels of every data set, as Markdown with their pictures."""
    parts = []
    for name, row in rows.items():
        found = results(row)
        if not found:
            continue
        one = next(iter(row.values()))
        dataset = load(name, data)
        split = list(dataset.test.values())[len(dataset.test) // 2]
        box = tuple(slice(length) for length in one.corner)
        truth = [picture(split.clean[i][box], split.clean[i][box], dataset) for i in one.examples]
        image = out / f"visual-{name}.png"
        pictures = {method: row[method].picture(folder) for method in found}
        caption = visual(name, found, pictures, np.concatenate(truth, axis=1), image)
        parts.append(f"![{caption}]({image.name})\n\n*{caption}*")
    return "\n\n".join(parts)


def _short(read: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Figures without the history of their training, which stays with the cells."""
    return {
        name: found | {"summary": {key: value for key, value in found.get("summary", {}).items() if key != "history"}}
        for name, found in read.items()
    }
