"""The charts of a report, drawn on matplotlib's axes, and as SVG that takes on the colours of its page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noise2same.quality.report.views import LAGS, Array, ReportViews, autocorrelation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noise2same.noise.diagnose import Diagnosis

# Legible on white and on black alike.
BLUE, ORANGE, GREEN, PURPLE = COLOURS = "#3f83c8", "#d2761e", "#2f9e6e", "#9a6dd7"
GRAY = "#8a8f98"
INK = "#123456"  # stands for the text's colour in an SVG

STYLE = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "text.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "noise2same",
}
Array64 = NDArray[np.float64]
SIZE = 3.9, 2.7
PIXELS = 2**18
BINS = 12


def svg(draw: Callable[[Axes], None], alt: str) -> str:
    """What `draw` draws, as an element of an HTML page: scalable, and in the colour and font of the text around it."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(STYLE):  # type: ignore[arg-type] # its stubs want the names of all settings
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text).replace(INK, "currentColor")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)


def draw_autocorrelation(axes: Axes, residual: Array) -> None:
    """Map of the autocorrelation of a residual (Y, X, C); what is 0 is transparent."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    values = autocorrelation(residual)
    beside = np.abs(values).ravel()
    beside[beside.size // 2] = 0
    limit = max(0.1, float(np.ceil(20 * beside.max())) / 20)
    colours = [to_rgba(BLUE), to_rgba("#888888", 0), to_rgba(ORANGE)]
    extent = (-LAGS - 0.5, LAGS + 0.5, LAGS + 0.5, -LAGS - 0.5)
    colourmap = LinearSegmentedColormap.from_list("signed", colours)
    image = axes.imshow(values, cmap=colourmap, vmin=-limit, vmax=limit, extent=extent, interpolation="none")
    ticks = [-LAGS, 0, LAGS]
    axes.set(xlabel="distance in X, pixels", ylabel="distance in Y, pixels", xticks=ticks, yticks=ticks)
    axes.spines[:].set_visible(True)
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, extend="max", shrink=0.8, ticks=[-limit, 0, limit])
    bar.outline.set_visible(False)


def draw_histogram(axes: Axes, relative: Array) -> None:
    """Histogram of a residual in standard deviations of the noise, with the standard normal density."""
    edges = np.linspace(-5, 5, 81)
    density, _ = np.histogram(np.clip(thinned(relative), -5, 5), edges, density=True)
    axes.stairs(density, edges, fill=True, color=BLUE, alpha=0.6, label="removed")
    axes.plot(edges, np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi), color=ORANGE, label="noise alone")
    axes.set(xlabel="removed, in standard deviations of the noise", yticks=[], xlim=(-5, 5))
    axes.spines["left"].set_visible(False)
    axes.legend(loc="upper right")


def draw_variance(axes: Axes, diagnosis: Diagnosis, views: ReportViews) -> None:
    """The noise-level function and the flat places it was fitted to, and the variance of what was removed."""
    intensity, variance = removed_variance(views.clean, views.residual)
    ends = np.array([intensity.min(), intensity.max()])
    line = np.maximum(diagnosis.a * ends + diagnosis.b, 0)
    axes.plot(ends, line, color=ORANGE, label="noise: a·y + b")
    brightness, measured = np.reshape(diagnosis.levels, (-1, 2)).T
    axes.plot(brightness, measured, "x", color=ORANGE, markersize=5, label="flat areas")
    axes.plot(intensity, variance, "o", color=BLUE, markersize=4, label="removed")
    axes.set(xlabel="intensity y", ylabel="variance", ylim=(0, 1.4 * max(*variance, *line, *measured)))
    axes.ticklabel_format(scilimits=(-2, 4))
    axes.legend(loc="upper left")


def draw_correlation(axes: Axes, correlation: Mapping[str, Iterable[float]]) -> None:
    """Correlation of the noise by distance, a line for each axis of the image."""
    from matplotlib.ticker import MaxNLocator

    axes.axhline(0, color=INK, linewidth=0.8)
    for colour, marker, (letter, values) in zip(COLOURS, "osD^", correlation.items(), strict=False):
        heights = [1.0, *values]
        axes.plot(heights, f"{marker}-", color=colour, markersize=4, label=f"along {letter}", alpha=0.9)
    axes.set(xlabel="distance in pixels", ylabel="correlation of the noise")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper right")


def draw_traces(axes: Axes, before: Array64, after: Array64, start: int) -> None:
    """Brightness over time before and after, each (places, frames), one place above the other; 1 is at the top."""
    from matplotlib.ticker import MaxNLocator

    frames = np.arange(start, start + before.shape[1])
    low, high = np.percentile(before, (0.5, 99.5), axis=1)
    middles, spans = (low + high) / 2, np.where(high > low, high - low, 1)
    for place, (noisy, clean, middle, span) in enumerate(zip(before, after, middles, spans, strict=True)):
        level = len(before) - place
        axes.plot(frames, level + 0.85 * (noisy - middle) / span, color=GRAY, linewidth=0.6, label="noisy")
        axes.plot(frames, level + 0.85 * (clean - middle) / span, color=BLUE, linewidth=1.1, label="denoised")
    axes.set(xlabel="frame", ylabel="place", xlim=(frames[0], max(frames[-1], frames[0] + 1)))
    axes.set_ylim(0.4, len(before) + 1.1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks(range(1, len(before) + 1), [str(number) for number in range(len(before), 0, -1)])
    axes.legend(*(part[:2] for part in axes.get_legend_handles_labels()), loc="upper right", ncols=2)


def draw_training(axes: Axes, curves: Mapping[str, tuple[list[float], list[float]]]) -> None:
    """Steps and values of each curve by name; logarithmic if all are positive."""
    for colour, (name, (steps, values)) in zip(COLOURS * len(curves), curves.items(), strict=False):
        axes.plot(steps, values, "." * (len(steps) == 1) or "-", color=colour, label=name)
    if all(value > 0 for _, values in curves.values() for value in values):
        axes.set_yscale("log")
    axes.set(xlabel="step", ylabel="in units of the image's variance")
    axes.legend(loc="best")


def curves_of(history: Iterable[Mapping[str, Any]]) -> dict[str, tuple[list[float], list[float]]]:
    """Steps and finite values of each entry of a training's history but its time."""
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for entry in history:
        for name, value in entry.items():
            if name not in ("step", "seconds") and value is not None and np.isfinite(value):
                steps, values = curves.setdefault(
                    "estimated error" if name == "error" else name.replace("_", " "), ([], [])
                )
                steps.append(entry["step"])
                values.append(value)
    return curves


def removed_variance(clean: Array, residual: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean intensity f(x) and mean square of x − f(x) in groups of pixels of like intensity."""
    values, squares = thinned(clean), thinned(residual) ** 2
    groups = np.array_split(np.argsort(values), min(BINS, values.size))
    means = [(values[group].mean(), squares[group].mean()) for group in groups]
    intensity, variance = np.array(means, dtype=np.float64).T
    return intensity, variance


def thinned(array: Array) -> Array:
    """Values of an array at random places, the same for all arrays of its shape; all of a small one."""
    return (
        array.ravel()
        if array.size <= PIXELS
        else array.ravel()[np.random.default_rng(0).integers(array.size, size=PIXELS)]
    )
