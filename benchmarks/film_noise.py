"""Is the noise of a film known better from the changes between its frames than from each frame by itself?

Variance at the mean brightness and gain over the truth, on films of odd seeds. Then noise that frames share.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import record
from film_cases import GAINS, Case, calcium, panning, real, still, unrelated
from scipy import ndimage

from noise2same import io
from noise2same.noise.diagnose import diagnose
from noise2same.noise.frames import read_runs
from noise2same.noise.synthetic import gaussian, poisson_gaussian

SEEDS = (1, 3, 5, 7)
WEAK = 5.0
"""Standard deviation of noise that texture hides."""
PHOTONS = (8.0, 100.0)
"""Gain and read variance of photon noise in the photographs."""


def with_weak_noise(make: Callable[[int], Case], seed: int) -> Case:
    clean = make(seed).clean
    return Case(clean, gaussian(clean, WEAK, np.random.default_rng(seed)), {"a": 0.0, "b": WEAK**2})


def with_photons(make: Callable[[int], Case], seed: int) -> Case:
    clean, (gain, read) = make(seed).clean, PHOTONS
    noisy = poisson_gaussian(clean, gain, read**0.5, np.random.default_rng(seed))
    return Case(clean, noisy, {"a": gain, "b": read})


FILMS: dict[str, Callable[[int], Case]] = {
    **{f"calcium, {snr:.0f} dB": partial(calcium, gain=gain) for gain, snr in GAINS.items()},
    **{name: make for name, make in {"still": still, "panning": panning, "unrelated": unrelated}.items()},
    **{f"{make.__name__}, σ = 5": partial(with_weak_noise, make) for make in (still, panning)},
    **{f"{make.__name__}, photons": partial(with_photons, make) for make in (still, panning)},
    **{name: partial(real, name=name) for name in ("brightfield", "bulk_water")},
}


def compared(name: str) -> dict[str, Any]:
    """Errors of the variance and of the gain, without and with the changes between frames."""
    errors: dict[str, list[float]] = {}
    used = 0
    for seed in SEEDS:
        clean, noisy, info = FILMS[name](seed)
        runs = read_runs([io.wrap(noisy, "TYX")])
        slabs = [frame[None, None] for frame in noisy]
        truth = info["a"] * float(clean.mean()) + info["b"]
        for way, film in (("frame by frame", []), ("with changes", runs)):
            found = diagnose(slabs, film)
            used += found.from_frames
            errors.setdefault(f"variance, {way}", []).append(found.sigma**2 / truth)
            errors.setdefault(f"gain, {way}", []).append(found.a / info["a"] if info["a"] else np.nan)
    return {"film": name} | {way: _ends(values) for way, values in errors.items()} | {"used": f"{used} of {len(SEEDS)}"}


def _ends(values: list[float]) -> str | None:
    """The lowest and the highest."""
    return None if np.isnan(values).any() else f"{min(values):.3f} to {max(values):.3f}"


def shared(name: str) -> dict[str, Any]:
    """Correlation from frame to frame that is found in noise as it is, and averaged with that of its neighbors."""
    row: dict[str, Any] = {"film": name}
    for way, weights in (("independent", [1.0]), ("mean of 2", [0.5, 0.5]), ("weights 1 2 1", [0.25, 0.5, 0.25])):
        found = []
        for seed in SEEDS:
            clean, noisy, _ = FILMS[name](seed)
            film = clean + ndimage.convolve1d(noisy - clean, weights, axis=0)
            lags = diagnose([frame[None, None] for frame in film], read_runs([io.wrap(film, "TYX")])).along_time
            found.append(lags[0] if lags else 0.0)
        row[way] = f"{min(found):.2f} to {max(found):.2f}"
    return row


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    record.write("film_noise", [compared(name) for name in FILMS], "# Noise from the changes between frames")
    kinds = [name for name in FILMS if "σ" not in name and "photons" not in name]
    record.write("film_shared", [shared(name) for name in kinds], "# Noise that frames share, correlation at lag 1")
