"""`noise2same diagnose`: a paragraph for people, JSON for programs, and a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noise2same.cli._options import Axes, Inputs, Json
from noise2same.cli._terminal import print_json, stdout
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.noise.diagnose import Diagnosis

MAX_VALUES = 2**26
"""Of larger files, evenly spread boxes with about this many values are read, which takes seconds."""


def diagnose(
    inputs: Inputs,
    axes: Axes = None,
    picture: Annotated[
        Path | None, typer.Option(help="PNG file to draw: noise variance against intensity, and correlation.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what noise the images have: its kind and strength, and whether neighboring pixels share it."""
    from noise2same import io

    files = io.find(inputs)
    if picture is not None:
        picture = picture.expanduser()
        if picture.suffix.lower() != ".png":
            raise InputError(f"{picture}: the name of the picture must end in .png.")
        io.check_apart(picture, files)
        io.check_place(picture)
    diagnosis = _diagnose_files(files, axes)
    if picture is not None:
        draw(diagnosis, picture)
    if as_json:
        print_json({"images": [str(file) for file in files], **asdict(diagnosis)})
    else:
        _show(diagnosis)


def _diagnose_files(files: list[Path], axes: str | None) -> Diagnosis:
    """One diagnosis of all files, which should have been recorded alike."""
    from noise2same import io
    from noise2same.data.sampling import read_boxes
    from noise2same.noise.diagnose import diagnose
    from noise2same.noise.frames import read_runs

    images = io.open_images(list(files), axes)
    boxes = read_boxes(images, MAX_VALUES)
    if len({(box.ndim, box.shape[1]) for box in boxes}) > 1:
        raise InputError("The images differ in dimensions or channels: diagnose them one by one.")
    return diagnose(boxes, read_runs(images))


def _show(diagnosis: Diagnosis) -> None:
    """Print a diagnosis in words, and the evidence for it."""
    from rich.table import Column, Table

    from noise2same.noise.describe import paragraph

    screen = stdout()
    screen.print(paragraph(diagnosis), highlight=False, markup=False)
    table = Table(Column("evidence", overflow="fold"), Column("value", justify="right"))
    for name, value in diagnosis.evidence.items():
        table.add_row(name.replace("_", " "), f"{value:.3g}")
    for axis, lags in diagnosis.correlation.items():
        table.add_row(f"correlation along {axis}", " ".join(f"{value:.2f}" for value in lags) or "too small to tell")
    if diagnosis.evidence:
        screen.print(table)


def draw(diagnosis: Diagnosis, path: Path) -> None:
    """Draw the noise variance against brightness with the fitted line, and the autocorrelation along each axis."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from noise2same.noise.correlation import NEIGHBOR

    figure = Figure(figsize=(9, 3.6), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    if diagnosis.levels:
        brightness, variance = np.array(diagnosis.levels).T
        ends = np.array([brightness.min(), brightness.max()])
        left.plot(brightness, variance, "o", color="tab:blue", label="flattest places of the images")
        label = f"{diagnosis.a:.3g} · y + {diagnosis.b:.3g}".replace("+ -", "− ")
        left.plot(ends, np.maximum(diagnosis.a * ends + diagnosis.b, 0), color="tab:orange", label=label)
        left.set_ylim(bottom=0)
        left.legend(frameon=False)
    left.set(title=f"Noise: {diagnosis.kind}, σ = {diagnosis.sigma:.3g}", xlabel="intensity y", ylabel="noise variance")
    lengths = [len(lags) for lags in diagnosis.correlation.values()]
    width = 0.8 / max(1, len(lengths))
    for number, (axis, lags) in enumerate(diagnosis.correlation.items()):
        places = np.arange(1, len(lags) + 1) + width * (number - (len(lengths) - 1) / 2)
        right.bar(places, lags, width, label=f"along {axis}")
    for limit in (-NEIGHBOR, NEIGHBOR):
        right.axhline(limit, color="grey", linestyle=":", linewidth=1)
    right.set(title="correlated" if diagnosis.correlated else "independent", xlabel="distance of pixels")
    right.set(ylabel="correlation of their noise", ylim=(-0.4, 1), xticks=range(1, max([1, *lengths]) + 1))
    if any(lengths):
        right.legend(frameon=False)
    figure.savefig(path, format="png")
