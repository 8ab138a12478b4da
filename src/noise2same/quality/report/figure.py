"""Results as PNG: images side by side, and the whole report for a paper."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from noise2same.quality.report.pictures import Picture, around_zero, fitted, picture
from noise2same.quality.report.views import ZOOM, Box, ReportViews, busiest, grey_range, plane_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noise2same.quality.checks import Verdict

MARK = "tab:orange"


def before_after(panels: dict[str, NDArray[Any]], axes: str, path: Path) -> None:
    """Draw images side by side, the whole above and a zoomed square below, all with the same grey values.

    Parameters
    ----------
    panels : dict
        Title -> image; all of one shape. The last one sets the range of grey values that is shown and the square, which
        is where it varies most.
    axes : str
        Their axes. Of several samples the first is shown, of a volume its middle slice.
    path : Path
        PNG file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {title: plane_of(image, axes) for title, image in panels.items()}
    *_, last = shown.values()
    grey = grey_range(last)
    box = busiest(last.mean(-1), min(ZOOM, max(1, min(last.shape[:2]) // 2)))
    ratio = last.shape[0] / last.shape[1]
    figure = Figure(figsize=(4 * len(shown), 4 * (ratio + 1) + 0.4), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(shown), squeeze=False, height_ratios=(ratio, 1))
    for (title, plane), whole, detail in zip(shown.items(), *grid, strict=True):
        _show(whole, picture(plane, grey), title)
        _show(detail, picture(plane[box], grey))
        _mark(whole, box)
    figure.savefig(path)


def draw_figure(path: Path, views: ReportViews, verdict: Verdict, colours: Sequence[str] = ()) -> None:
    """Draw the verdict, the whole images, what was removed and its autocorrelation, and the zooms below."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from noise2same.quality.report.charts import draw_autocorrelation

    images, residual = views.images(), fitted(views.residual)
    wholes = {name: picture(fitted(plane), views.grey, colours) for name, plane in images.items()}
    wholes["removed (noisy − denoised)"] = picture(residual, around_zero(residual))
    columns, details = len(wholes) + 1, len(views.zooms) * len(images)
    line = textwrap.fill(f"{verdict.word.capitalize()}: {verdict.reason} {verdict.advice}", 28 * columns)
    side, ratio = 2.4, views.clean.shape[0] / views.clean.shape[1]  # inches a column
    heights = side * max(ratio, 0.8) + 0.3, side * columns / details + 0.3
    size = side * columns, sum(heights) + 0.2 * (line.count("\n") + 2)
    with rc_context({"font.size": 7, "axes.titlesize": 8}):
        figure = Figure(figsize=size, layout="constrained", dpi=200)
        FigureCanvasAgg(figure)
        figure.suptitle(line, fontsize=10, fontweight="bold")
        above, below = figure.subfigures(2, 1, height_ratios=heights, squeeze=False).flat
        *panels, last = above.subplots(1, columns)
        for panel, (name, image) in zip(panels, wholes.items(), strict=True):
            _show(panel, image, name)
        for zoom in views.zooms:
            _mark(panels[0], zoom.box, wholes["noisy"].shape[1] / views.noisy.shape[1], zoom.letter)
        draw_autocorrelation(last, views.relative)
        last.set_title("its autocorrelation")
        cells = iter(below.subplots(1, details, squeeze=False)[0])
        for zoom in views.zooms:
            for name, plane in images.items():
                _show(next(cells), picture(plane[zoom.box], views.grey, colours), f"{zoom.letter}, {name}")
        figure.savefig(path, format="png")


def _show(panel: Axes, image: Picture, title: str = "") -> None:
    panel.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="antialiased")
    panel.set_title(title)
    panel.set_axis_off()
    panel.autoscale(False)


def _mark(panel: Axes, box: Box, scale: float = 1, letter: str = "") -> None:
    """Outline a square of the image, which is drawn at `scale`."""
    (top, bottom), (left, right) = ((scale * cut.start, scale * cut.stop) for cut in box)
    corners = [left, right, right, left, left], [top, top, bottom, bottom, top]
    panel.plot(*corners, color=MARK, linewidth=1, clip_on=False)
    if letter:
        label = {"facecolor": "black", "alpha": 0.7, "pad": 1.5, "linewidth": 0}
        panel.annotate(letter, (left, top), (3, -3), textcoords="offset points", color="white", va="top", bbox=label)
