"""The report of a result: one HTML file for a person, or one PNG for a paper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from noise2same.data import axes as ax
from noise2same.errors import InputError
from noise2same.files import replacing
from noise2same.io import check_place
from noise2same.quality.report.figure import before_after

if TYPE_CHECKING:
    from noise2same.noise.diagnose import Diagnosis
    from noise2same.quality.checks import Verdict

__all__ = ["before_after", "write_report"]


def write_report(
    path: str | os.PathLike[str],
    *,
    noisy: NDArray[Any],
    clean: NDArray[Any],
    axes: str,
    diagnosis: Diagnosis,
    verdict: Verdict,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    truth: NDArray[Any] | None = None,
) -> Path:
    """Write what there is to know of a result, the verdict first; whole or not at all.

    The HTML file holds all of its pictures and asks for nothing from outside. The PNG has the pictures alone.

    Parameters
    ----------
    path : str or path
        The suffix, .html or .png, says which of the two.
    noisy, clean : array with `axes`
        x and f(x) in the same units. The first sample or time point is shown, of a volume its middle slice and maximum
        projections, of more than three channels the first three.
    axes : str
        Such as "YX", "YXC" or "TCZYX".
    diagnosis, verdict
        What the noise is, and what to think of the result.
    settings : mapping
        Name -> value, for the table at the end: configuration, versions, command.
    training : mapping
        The summary of the training run. A list under "history", of dicts with "step", "seconds", "error" and loss terms
        by name, is drawn as curves.
    truth : array with `axes`, optional
        The clean image, for PSNR and SSIM; it is shown beside the zooms.
    """
    from noise2same.quality.report.views import look

    path = Path(path).expanduser()
    if path.suffix.lower() not in (".html", ".png"):
        raise InputError(f"{path}: a report is written as .html or .png; choose one of these suffixes.")
    check_place(path)
    for name, image in {"denoised image": clean, "truth": truth}.items():
        if image is not None and image.shape != noisy.shape:
            raise InputError(f"The {name} has shape {image.shape} but the noisy one has {noisy.shape}: no report.")
    axes = ax.check(axes, noisy.shape, name="the noisy image")
    views = look(noisy, clean, axes, diagnosis, truth)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".png":
            from noise2same.quality.report.figure import draw_figure

            draw_figure(temporary, views, verdict)
        else:
            from noise2same.quality.report.page import page

            scores = _scores(noisy, clean, truth, axes)
            temporary.write_text(page(views, diagnosis, verdict, settings, training, scores), encoding="utf-8")
    return path


def _scores(
    noisy: NDArray[Any], clean: NDArray[Any], truth: NDArray[Any] | None, axes: str
) -> dict[str, tuple[float, float]]:
    """Of noisy and denoised image against the truth: PSNR in dB and SSIM."""
    from noise2same.quality import metrics

    if truth is None:
        return {}
    before, after = (metrics.evaluate(prediction=image, truth=truth, axes=axes) for image in (noisy, clean))
    return {name: (before[name], after[name]) for name in ("psnr", "ssim")}
