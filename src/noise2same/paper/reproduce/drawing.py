"""How the figures look: one style, large enough for a paper, on white so that they are legible on any page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.facecolor": "white",
}
OURS, PAPERS, OTHERS = "#0072b2", "#e69f00", "#7f7f7f"
"""Colours that the colour-blind can distinguish (Okabe and Ito)."""
COLOURS = (OURS, "#d55e00", "#009e73", "#cc79a7", PAPERS, "#56b4e9")


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of so many inches, written to `path` as PNG at the end."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        drawn = Figure(figsize=(width, height), layout="constrained", dpi=160)
        FigureCanvasAgg(drawn)
        yield drawn
        drawn.savefig(path, format="png")
