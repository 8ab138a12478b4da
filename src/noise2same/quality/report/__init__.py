"""The report of a result: one HTML file for a person, or one PNG for a paper."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from noise2same import __version__
from noise2same.errors import InputError
from noise2same.io import Image, check_place, replacing
from noise2same.quality.report.figure import before_after

if TYPE_CHECKING:
    from noise2same.quality.assess import Assessment

__all__ = ["before_after", "write_report"]


def write_report(
    path: str | os.PathLike[str],
    assessment: Assessment,
    *,
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    truth: Image | None = None,
) -> Path:
    """Write what there is to know of a result: the picture, the verdict on it, and why; whole or not at all.

    The HTML file holds all of its pictures and asks for nothing from outside. The PNG has the pictures alone.

    Parameters
    ----------
    path : str or path
        The suffix, .html or .png, says which of the two.
    assessment : Assessment
        Of the result. Of a volume its middle slice and maximum projections are shown; channels have the colors that the
        file gives them, and otherwise the first three are shown.
    settings : mapping, optional
        Name -> value, for the table at the end: the configuration.
    training : mapping, optional
        The summary of the training run. A list under "history", of dicts with "step", "seconds", "error" and loss terms
        by name, is drawn as curves.
    truth : Image, optional
        The clean image, of the shape of the noisy one, for PSNR and SSIM; it is shown beside the zooms.

    Returns
    -------
    Path
        The file that was written.
    """
    from noise2same.quality.report.views import select_views

    path = Path(path).expanduser()
    if path.suffix.lower() not in (".html", ".png"):
        raise InputError(f"{path}: a report is written as .html or .png; choose one of these suffixes.")
    check_place(path)
    known = None if truth is None else assessment.same_part(truth)
    views = select_views(assessment.noisy, assessment.clean, assessment.axes, assessment.diagnosis, known)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".png":
            from noise2same.quality.report.figure import draw_figure

            draw_figure(temporary, views, assessment.verdict, [channel.color for channel in assessment.channels])
        else:
            from noise2same.quality.report.page import page

            made = {"noise2same": __version__, "command": shlex.join(sys.argv)}
            text = page(views, assessment, made | dict(settings or {}), training or {}, _scores(assessment, known))
            temporary.write_text(text, encoding="utf-8")
    return path


def _scores(assessment: Assessment, truth: NDArray[Any] | None) -> dict[str, tuple[float, float]]:
    """PSNR in dB and SSIM of the noisy and the denoised image, if the truth is known."""
    from noise2same.quality import metrics

    if truth is None:
        return {}
    images = (assessment.noisy, assessment.clean)
    before, after = (metrics.evaluate(prediction=image, truth=truth, axes=assessment.axes) for image in images)
    return {name: (before[name], after[name]) for name in ("psnr", "ssim")}
