"""`noise2same evaluate`: against the truth, against the noisy image, or the invariance of a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noise2same.cli._options import Axes, Json, Report
from noise2same.cli._terminal import bar, print_json, stdout, tell_verdict
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.quality.checks import Verdict

Scores = dict[str, float]
FORMATS = dict.fromkeys(("psnr", "psnr_affine", "psnr_minmax", "spatial_snr", "temporal_snr", "stsnr"), "{:.2f} dB")
FORMATS |= {"ssim": "{:.4f}", "kept_amplitude": "{:.1%}", "onset_delay": "{:+.2f} frames"}
"""Of the scores against the truth, in the order of neither table."""


def evaluate(
    prediction: Annotated[str, typer.Argument(help="Denoised image or folder; the noisy ones with --invariance.")],
    truth: Annotated[str | None, typer.Argument(help="Clean image, or a folder with the same file names.")] = None,
    noisy: Annotated[
        str | None, typer.Option(metavar="NOISY", help="Judge the denoised image by the noisy one; no truth needed.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="With --noisy: what denoised it, to estimate its error.")
    ] = None,
    report: Report = None,
    invariance: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Measure D(f) of this model on noisy images, which takes no truth."),
    ] = None,
    axes: Axes = None,
    data_range: Annotated[float | None, typer.Option("--range", help="Of the truth, for PSNR; 255 for 8 bit.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a denoised image with the clean one: PSNR (plain, affine-fit, min-max) and SSIM; of a film also in time.

    Without a clean image, --noisy tells whether to trust the denoised one. --invariance MODEL measures how much the
    model's output at a pixel depends on the noisy value there: D(f), equation 5 of the paper.
    """
    if noisy is not None:
        if invariance is not None or data_range is not None:
            raise InputError("--noisy judges a denoised image: leave out --invariance and --range.")
        judge(prediction, noisy, truth, model, axes, report, as_json)
    elif model is not None or report is not None:
        raise InputError("--model and --report need the noisy image too: give it with --noisy.")
    elif invariance is not None:
        if truth is not None or data_range is not None:
            raise InputError("--invariance takes noisy images only: leave out the truth and --range.")
        measure_invariance(invariance.expanduser(), prediction, axes, as_json)
    elif truth is not None:
        compare(prediction, truth, axes, data_range, as_json)
    else:
        raise InputError(
            "evaluate takes a denoised image and the clean one, or --noisy and the noisy one, "
            "or --invariance MODEL and a noisy image."
        )


def compare(prediction: str, truth: str, axes: str | None, data_range: float | None, as_json: bool) -> None:
    """Print PSNR and SSIM of each prediction against the truth of its name, and their means."""
    import numpy as np

    from noise2same import io
    from noise2same.data.film import is_film
    from noise2same.quality import metrics
    from noise2same.quality.film_metrics import evaluate_film

    predictions = io.find_images([prediction])
    rows: dict[str, Scores] = {}
    films: dict[str, Scores] = {}
    references = io.pair(predictions, io.find_images([truth]), "truth")
    for label, ours, reference in zip(_labels(predictions), predictions, references, strict=True):
        known, found = io.read(reference, axes), io.read(ours, axes)
        both: dict[str, Any] = {
            "prediction": np.asarray(found.data),
            "truth": np.asarray(known.data),
            "axes": known.axes,
        }
        try:
            rows[label] = metrics.evaluate(**both, data_range=data_range)
            if is_film(known):
                films[label] = evaluate_film(**both)
        except InputError as error:
            raise InputError(f"{ours} against {reference}: {error}") from None

    def cells(row: Scores) -> list[str]:
        return [FORMATS[name].format(value) for name, value in row.items()]

    if as_json:
        every = {label: row | films.get(label, {}) for label, row in rows.items()}
        print_json({"mean": _mean(rows) | (_mean(films) if films else {}), "images": every})
        return
    for part in filter(None, (rows, films)):
        _show_scores(part, _mean(part), [name.replace("_", " ") for name in _mean(part)], cells, as_json)


def _mean(rows: dict[str, Scores]) -> Scores:
    """Mean of each score over images."""
    return {name: sum(row[name] for row in rows.values()) / len(rows) for name in next(iter(rows.values()))}


def judge(
    prediction: str,
    noisy: str,
    truth: str | None,
    model: Path | None,
    axes: str | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Judge each prediction by the noisy image of its name: a verdict and a table for each, or JSON."""
    from noise2same import io, pipeline
    from noise2same.cli._outputs import plan_reports
    from noise2same.denoiser import Denoiser
    from noise2same.quality.assess import assess

    predictions, noisies = io.find_images([prediction]), io.find_images([noisy])
    truths = [] if truth is None else io.find_images([truth])
    sources = io.pair(predictions, noisies, "noisy image")
    references = io.pair(predictions, truths, "truth") if truths else [None] * len(predictions)
    reports = plan_reports(report, predictions, [*predictions, *noisies, *truths])
    denoiser = None if model is None else Denoiser.load(model.expanduser())
    rows: dict[str, Any] = {}
    every = zip(_labels(predictions), predictions, sources, references, reports, strict=True)
    for label, file, source, reference, page in every:
        before, after = io.read(source, axes), io.read(file, axes)
        if before.shape != after.shape:
            raise InputError(f"{file} has shape {after.shape}, but {source} has {before.shape}: they must agree.")
        tuned = None if denoiser is None else denoiser.tuned_to(before)
        tta = None if denoiser is None else denoiser.uses_tta(before)
        result = assess(before, after, tuned, diagnosis=None if tuned is None else tuned.diagnosis, tta=tta)
        if page is not None:
            pipeline.report(page, result, denoiser, None if reference is None else io.read(reference, axes))
        rows[label] = result.figures()
        if not as_json:
            _show_verdict(label, result.verdict)
    if as_json:
        print_json(rows)


def _show_verdict(label: str, verdict: Verdict) -> None:
    """Print a verdict and the checks that it rests on."""
    from rich.table import Column, Table

    tell_verdict(verdict)
    table = Table("check", "says", Column("", overflow="fold"), title=label)
    for check in verdict.checks:
        table.add_row(check.name, check.word, check.sentence)
    stdout().print(table)


def measure_invariance(model: Path, noisy: str, axes: str | None, as_json: bool) -> None:
    """Print D(f) of a model on each image and its mean, with standard errors; the table in 1e-3 as in the paper."""
    from noise2same import io
    from noise2same.denoiser import Denoiser
    from noise2same.paper.analysis import invariance_of

    files = io.find_images([noisy])
    denoiser = Denoiser.load(model)
    rows: dict[str, Scores] = {}
    with bar("Measuring D(f)") as advance:
        for file in files:
            (d,) = invariance_of(denoiser, file, axes)
            rows[str(file)] = {"invariance": d.value, "standard_error": d.error, "masked_pixels": d.count}
            advance(1 / len(files))
    values, errors, pixels = zip(*(row.values() for row in rows.values()), strict=True)
    mean = {
        "invariance": sum(values) / len(files),
        "standard_error": math.hypot(*errors) / len(files),
        "masked_pixels": sum(pixels),
    }

    def cells(row: Scores) -> list[str]:
        value, error, masked = row.values()
        return [f"{1e3 * value:.4g}", f"{1e3 * error:.2g}", str(masked)]

    _show_scores(rows, mean, ("D(f) / 1e-3", "standard error / 1e-3", "masked pixels"), cells, as_json)


def _show_scores(
    rows: dict[str, Scores],
    mean: Scores,
    columns: Iterable[str],
    cells: Callable[[Scores], list[str]],
    as_json: bool,
) -> None:
    """Print the scores of each image, and their mean if there are several, as a table or as JSON."""
    from rich.table import Column, Table

    if as_json:
        print_json({"mean": mean, "images": rows})
        return
    table = Table(Column("image", overflow="fold"), *columns)
    for name, row in ({**rows, "mean": mean} if len(rows) > 1 else rows).items():
        table.add_row(name, *cells(row))
    stdout().print(table)


def _labels(files: list[Path]) -> list[str]:
    """What to call files in a table: their names or, where two have the same, their paths."""
    names = [file.name for file in files]
    return names if len(set(names)) == len(names) else [str(file) for file in files]
