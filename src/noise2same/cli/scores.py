"""What `evaluate` measures, image by image and on average, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.table import Column, Table

from noise2same import io
from noise2same.cli.files import labels
from noise2same.cli.terminal import bar, print_json, stdout
from noise2same.errors import InputError

Scores = dict[str, float]


def show_comparison(
    predictions: list[Path], truths: list[Path], axes: str | None, data_range: float | None, as_json: bool
) -> None:
    """Print PSNR and SSIM of each prediction against the truth of its name, and their means."""
    import numpy as np

    from noise2same.quality import metrics

    rows: dict[str, Scores] = {}
    references = io.pair(predictions, truths, "truth")
    for label, ours, reference in zip(labels(predictions), predictions, references, strict=True):
        truth, prediction = io.read(reference, axes), io.read(ours, axes)
        try:
            scores = metrics.evaluate(
                prediction=np.asarray(prediction.data),
                truth=np.asarray(truth.data),
                data_range=data_range,
                axes=truth.axes,
            )
        except InputError as error:
            raise InputError(f"{ours} against {reference}: {error}") from None
        rows[label] = scores
    mean = {name: float(np.mean([row[name] for row in rows.values()])) for name in next(iter(rows.values()))}
    show(
        rows,
        mean,
        mean,
        lambda row: [f"{value:.2f} dB" if "psnr" in key else f"{value:.4f}" for key, value in row.items()],
        as_json,
    )


def show_invariance(model: Path, files: list[Path], axes: str | None, as_json: bool) -> None:
    """Print D(f) of a model on each image and its mean, with standard errors; the table in 1e-3 as in the paper."""
    from noise2same.denoiser import Denoiser
    from noise2same.paper.analysis import invariance_of

    denoiser = Denoiser.load(model)
    rows: dict[str, Scores] = {}
    with bar("Measuring D(f)") as on_file:
        for done, file in enumerate(files, start=1):
            (d,) = invariance_of(denoiser, file, axes)
            rows[str(file)] = {"invariance": d.value, "standard_error": d.error, "masked_pixels": d.count}
            on_file(done, len(files))
    values, errors, pixels = zip(*(row.values() for row in rows.values()), strict=True)
    mean = {
        "invariance": sum(values) / len(files),
        "standard_error": math.hypot(*errors) / len(files),
        "masked_pixels": sum(pixels),
    }

    def cells(row: Scores) -> list[str]:
        value, error, masked = row.values()
        return [f"{1e3 * value:.4g}", f"{1e3 * error:.2g}", str(masked)]

    show(rows, mean, ("D(f) / 1e-3", "standard error / 1e-3", "masked pixels"), cells, as_json)


def show(
    rows: dict[str, Scores],
    mean: Scores,
    columns: Iterable[str],
    cells: Callable[[Scores], list[str]],
    as_json: bool,
) -> None:
    """Print the scores of each image, and their mean if there are several, as a table or as JSON."""
    if as_json:
        print_json({"mean": mean, "images": rows})
        return
    table = Table(Column("image", overflow="fold"), *columns)
    for name, row in ({**rows, "mean": mean} if len(rows) > 1 else rows).items():
        table.add_row(name, *cells(row))
    stdout().print(table)
