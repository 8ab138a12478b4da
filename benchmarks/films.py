"""Films with a known truth: denoised with the frames around each frame, frame by frame, and by what else there is.

Every method is told nothing. Networks have the same time, and one core each. The mean over time is given the truth: it
has the window that is best. What "cells known" is given is more: all but the transients of the cells.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import record
import torch
from film_cases import GAINS, Case, calcium, panning, real, still, unrelated
from numpy.typing import NDArray
from scipy import ndimage

import noise2same as n2s
from noise2same.quality.film_metrics import evaluate_film
from noise2same.quality.metrics import psnr

Film = NDArray[np.float32]
SHAPE = 200, 96, 96
"""Of the calcium-like films: BM4D takes minutes for larger ones."""
FILMS: dict[str, Callable[[int], Case]] = {
    f"calcium, {snr:.0f} dB": partial(calcium, gain=gain, shape=SHAPE) for gain, snr in GAINS.items()
}
FILMS |= {"panning": panning, "still": still, "unrelated": unrelated}
FILMS |= {name: partial(real, name=name) for name in ("brightfield", "bulk_water")}
WINDOWS = (3, 5, 7, 15, 31, 63, 127)
"""Frames of the means over time of which the best counts."""
WIDTHS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Standard deviations in frames of the windows of which the best counts."""


def best_mean(case: Case, score: Callable[[Film], float]) -> Film:
    """Mean over time with the window that is best, which only the truth tells."""
    means = [ndimage.uniform_filter1d(case.noisy, n, axis=0, mode="nearest") for n in WINDOWS if n <= len(case.noisy)]
    return max(means, key=score)


def known_cells(case: Case, width: float) -> Film:
    """The truth, but for the transients of its cells: those are fitted to the noisy film, and smoothed in time.

    Only the truth tells where the cells are. Without smoothing, no height is lost, and no way to keep all of it does
    better.
    """
    cells = case.info["footprints"].reshape(len(case.info["footprints"]), -1)
    rest = case.clean.reshape(len(case.clean), -1) - case.info["transients"].T @ cells
    certain = cells / (case.info["a"] * case.clean.mean(axis=0).ravel() + case.info["b"])
    fitted = (case.noisy.reshape(rest.shape) - rest) @ certain.T @ np.linalg.inv(certain @ cells.T)
    smooth = ndimage.gaussian_filter1d(fitted, width, axis=0) if width else fitted
    return (rest + smooth @ cells).reshape(case.clean.shape).astype(np.float32)


def denoised(case: Case, minutes: float, score: Callable[[Film], float]) -> dict[str, tuple[Film, Any]]:
    """Result of each method, and the plan of those that have one."""
    x = case.noisy

    def ours(axes: str, **options: Any) -> tuple[Film, Any]:
        model = n2s.Denoiser(n2s.Config(**options))
        fit = model.use_pretrained if options.get("minutes") == 0 else partial(model.fit, progress=False)
        fit(x, axes)
        return model.denoise(x, axes), model

    known = (
        {}
        if "footprints" not in case.info
        else {
            "cells known": (known_cells(case, 0), None),
            "cells known, smoothed": (max((known_cells(case, width) for width in WIDTHS), key=score), None),
        }
    )
    return known | {
        "noisy": (x, None),
        "mean over time": (best_mean(case, score), None),
        "NLM": (n2s.denoise(x, "TYX", method="nlm"), None),
        "BM4D": (n2s.denoise(x, "ZYX", method="bm3d"), None),
        "frame by frame": ours("TYX", minutes=minutes, time=0),
        "as a volume": ours("ZYX", minutes=minutes),
        "film, at once": ours("TYX", minutes=0),
        "film": ours("TYX", minutes=minutes),
    }


def measured(task: tuple[str, int, float]) -> list[dict[str, Any]]:
    """A row for each method on one film."""
    name, seed, minutes = task
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    case = FILMS[name](seed)
    score = partial(psnr, case.clean, data_range=float(np.ptp(case.clean)))
    rows = []
    for method, (result, model) in denoised(case, minutes, score).items():
        found = evaluate_film(prediction=result, truth=case.clean, axes="TYX")
        rows.append(
            {
                "film": name,
                "seed": seed,
                "method": method,
                "frames": model.frames if model is not None and "film" in method else None,
                "PSNR": round(float(score(result)), 2),
                "stSNR": _rounded(found["stsnr"]),
                "kept amplitude": _rounded(found["kept_amplitude"]),
                "onset delay": _rounded(found["onset_delay"]),
            }
        )
    return rows


def _rounded(value: float) -> float | None:
    return round(value, 2) if np.isfinite(value) else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21], help="odd ones; even ones are for development")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each network")
    parser.add_argument("--films", nargs="+", default=list(FILMS), choices=FILMS)
    given = parser.parse_args()
    tasks = [(name, seed, given.minutes) for seed in given.seeds for name in given.films]
    rows = [row for rows in record.side_by_side(measured, tasks) for row in rows]
    text = f"""# Films

PSNR and stSNR in dB, the kept share of the height of transients, and their delay in frames.
Networks had {given.minutes:g} minutes each."""
    record.write("films", rows, text)
