"""Pictures of the results, drawn from the rows that the JSON files hold."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from timing import OURS

Row = dict[str, Any]
COLOURS = {True: "tab:blue", False: "tab:gray"}  # whether it is ours


def speed(rows: list[Row], path: Path) -> None:
    """Throughput of each case as bars, and the cost of prediction by the size of the image."""
    raw = [row["raw"] for row in rows]
    groups = groupby((one for one in raw if one["unit"] == "MPix/s"), lambda one: one["case"])
    cases = {case: list(found) for case, found in groups}
    costs = [one for one in raw if one["unit"] == "s/MPix"]
    count = len(cases) + 1
    figure = Figure(figsize=(13, 2.4 * -(-count // 2)), layout="constrained", dpi=120)
    panels = figure.subplots(-(-count // 2), 2).flatten()
    for panel, (case, found) in zip(panels, cases.items(), strict=False):
        bars(panel, case, found)
    growth(panels[len(cases)], costs)
    for panel in panels[count:]:
        panel.set_axis_off()
    figure.savefig(path)


def bars(panel: Axes, case: str, found: list[Row]) -> None:
    """One bar for each who, the fastest repeat and the slowest as its whisker."""
    found = found[::-1]  # drawn from below
    names, values = [one["who"] for one in found], [one["value"] for one in found]
    extremes = [[one["value"] * median(one["times"]) / end(one["times"]) for one in found] for end in (max, min)]
    whiskers = np.abs(np.array(extremes) - values)
    colours = [COLOURS[name.startswith(OURS)] for name in names]
    drawn = panel.barh(names, values, xerr=whiskers, color=colours, ecolor="black", capsize=3)
    panel.bar_label(drawn, [f"{value:.3g}" for value in values], padding=4)
    panel.margins(x=0.15)
    panel.set_title(case, fontsize="medium")
    panel.set_xlabel("MPix/s (more is better)")


def growth(panel: Axes, costs: list[Row]) -> None:
    """Cost of a pixel over the number of pixels: flat, if images of any size can be denoised."""
    sizes, values = [one["MPix"] for one in costs], [one["value"] for one in costs]
    panel.plot(sizes, values, "o-", color=COLOURS[True])
    for size, value in zip(sizes, values, strict=True):
        panel.annotate(f"{value:.3g}", (size, value), xytext=(0, 7), textcoords="offset points", ha="center")
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [f"{size:g}" for size in sizes])
    panel.set_ylim(0, 1.4 * max(values))
    panel.set_title("cost of prediction, fast preset", fontsize="medium")
    panel.set_xlabel("size of the image (2²⁰ pixels)")
    panel.set_ylabel("s/MPix (less is better)")
