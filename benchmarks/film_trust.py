"""Are smeared transients seen without the truth, and good results let pass? Filters stand for denoisers."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import record
from film_cases import GAINS, Case, calcium, panning, real, still
from numpy.typing import NDArray
from scipy import ndimage

from noise2same import io
from noise2same.quality.assess import assess
from noise2same.quality.checks import CHANGES
from noise2same.quality.film_metrics import evaluate_film

FILMS = {f"calcium, {snr:.0f} dB": partial(calcium, gain=gain) for gain, snr in GAINS.items()}
FILMS |= {"panning": panning, "still": still, "real, brightfield": real}
SEEDS = (9, 11, 13, 15, 17, 19)
"""Even ones chose the numbers; 1 to 7 were looked at between three versions of the check, so they do not count here."""


def results(case: Case) -> dict[str, NDArray[np.float32]]:
    """The truth, the truth with a tenth of the noise left in it, and means over frames."""
    means = {f"mean of {n}": ndimage.uniform_filter1d(case.noisy, n, axis=0, mode="nearest") for n in (5, 15)}
    left = case.clean + 0.3 * ndimage.gaussian_filter(case.noisy - case.clean, 1.0)
    return {"truth": case.clean, "noise left": left} | means


def judged(name: str) -> list[dict[str, Any]]:
    """Figures against the truth, and how often the check passed, of each result for one kind of film."""
    rows: dict[str, list[dict[str, float]]] = {}
    for seed in SEEDS:
        case = FILMS[name](seed)
        for result, film in results(case).items():
            found = evaluate_film(prediction=film, truth=case.clean, axes="TYX")
            checks = assess(io.wrap(case.noisy, "TYX"), film).verdict.checks
            word = next(check.word for check in checks if check.name == CHANGES.name)
            rows.setdefault(result, []).append(found | {"seen": float(word != "trust")})
    return [
        {
            "film": name,
            "result": result,
            "stSNR": _mean([one["stsnr"] for one in found]),
            "kept amplitude": _mean([one["kept_amplitude"] for one in found]),
            "called smeared": f"{sum(one['seen'] for one in found):.0f} of {len(found)}",
        }
        for result, found in rows.items()
    ]


def _mean(values: list[float]) -> float | None:
    """Mean of those that are known: a still film has no transients, and the truth no error."""
    known = [value for value in values if np.isfinite(value)]
    return round(float(np.mean(known)), 2) if known else None


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = [row for name in FILMS for row in judged(name)]
    record.write("film_trust", rows, "# Are smeared transients seen?")
