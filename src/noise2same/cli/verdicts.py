"""Verdicts on denoised images: as lines after `denoise`, as tables of `evaluate --noisy`, and as reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table

from noise2same import io
from noise2same.cli.files import check_distinct, labels
from noise2same.cli.terminal import print_json, stdout, tell
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser
    from noise2same.quality.assess import Assessment

STYLES = {"trust": "green", "check": "yellow", "do not trust": "red"}


def plan_reports(
    report: Path | None, files: list[Path], inputs: Sequence[Path], outputs: Sequence[Path] = ()
) -> list[Path | None]:
    """Where the report of each file goes: the file that is named, or a page for each in a folder of that name.

    Never in place of an input or an output.
    """
    if report is None:
        return [None] * len(files)
    report = report.expanduser()
    if len(files) > 1:
        if report.suffix in (".html", ".png"):
            raise InputError(f"--report {report}: there are {len(files)} images, so name a folder.")
        if report.exists() and not report.is_dir():
            raise InputError(f"--report {report}: this is a file, and there are {len(files)} images; name a folder.")
        pages = [report / f"{io.stem(file)}.html" for file in files]
        check_distinct(pages)
        return list(pages)
    if report.suffix not in (".html", ".png"):
        raise InputError(f"--report {report}: the name of a report ends in .html or .png.")
    io.check_apart(report, inputs)
    io.check_apart(report, outputs, "output")
    io.check_place(report)
    return [report]


def judge_output(
    denoiser: Denoiser, noisy: io.Image, clean: Path, report: Path | None, tta: bool | None
) -> dict[str, Any]:
    """Say in a line what to think of an image that was just denoised, write its report, and return the figures."""
    from noise2same.quality.assess import assess

    used = denoiser.uses_tta(noisy) if tta is None else tta
    result = assess(noisy, io.read(clean, noisy.axes), denoiser, tta=used)
    tell_verdict(result)
    if report is not None:
        tell(f"Report written to {_write(report, result, denoiser, None)}")
    return result.figures()


def _write(path: Path, result: Assessment, denoiser: Denoiser | None, truth: io.Image | None) -> Path:
    from noise2same.quality.report import write_report

    path.parent.mkdir(parents=True, exist_ok=True)
    if denoiser is None:
        return write_report(path, result, truth=truth)
    settings = denoiser.config.model_dump(mode="json")
    return write_report(path, result, settings=settings, training=denoiser.summary, truth=truth)


def tell_verdict(result: Assessment) -> None:
    """One line: the word, the reason, and the estimated PSNR."""
    verdict, psnr = result.verdict, ""
    if verdict.psnr is not None:
        value, low, high = verdict.psnr
        psnr = f" Estimated PSNR {value:.1f} dB ({low:.1f} to {high:.1f})."
    tell(f"{verdict.reason}{psnr}", f"{verdict.word.capitalize()}: ", STYLES[verdict.word])


def show_verdicts(
    predictions: list[Path],
    noisies: list[Path],
    truths: list[Path] | None,
    model: Path | None,
    axes: str | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Judge each prediction by the noisy image of its name, as a table for each or as JSON."""
    from noise2same.denoiser import Denoiser
    from noise2same.quality.assess import assess

    denoiser = None if model is None else Denoiser.load(model)
    rows: dict[str, Any] = {}
    sources = io.pair(predictions, noisies, "noisy image")
    references = [None] * len(predictions) if truths is None else io.pair(predictions, truths, "truth")
    reports = plan_reports(report, predictions, [*predictions, *noisies, *(truths or [])])
    every = zip(labels(predictions), predictions, sources, references, reports, strict=True)
    for label, file, source, reference, page in every:
        noisy, clean = io.read(source, axes), io.read(file, axes)
        if noisy.shape != clean.shape:
            raise InputError(f"{file} has shape {clean.shape}, but {source} {noisy.shape}.")
        result = assess(noisy, clean, denoiser, tta=None if denoiser is None else denoiser.uses_tta(noisy))
        if page is not None:
            _write(page, result, denoiser, None if reference is None else io.read(reference, axes))
        rows[label] = result.figures()
        if not as_json:
            tell_verdict(result)
            table = Table("check", "value", "limit", Column("", overflow="fold"), title=label)
            for check in result.verdict.checks:
                table.add_row(check.name, f"{check.value:.3g}", f"{check.limit:.3g}", check.sentence)
            stdout().print(table)
    if as_json:
        print_json(rows)
