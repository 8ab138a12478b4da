"""Volumes: a network that begins with the weights of the one for pictures, against one from random weights.

That the network for pictures can be inflated was tried on 8 planes of the neuron first. The volumes here have 16.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from typing import Any

import numpy as np
import record
import tifffile
from numpy.typing import NDArray
from volumes import real_volume

from noise2same import Config, Denoiser
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.metrics import psnr, psnr_affine

PLANES, LEVEL, PHOTONS = 16, 0.5, 50
STEPS = (500, 2000)
"""About one and four minutes of one core that is not busy."""
Case = tuple[NDArray[np.float32], NDArray[np.float32]]


def worm() -> Case:
    """The middle of a real C. elegans at high and at low laser power."""
    middle = np.s_[12 : 12 + PLANES, 128:384, 128:384]
    clean, noisy = (tifffile.imread(record.DATA / "real3d" / f"{name}_5.tif")[middle] for name in ("gt", "noisy"))
    return clean.astype(np.float32), noisy.astype(np.float32)


def gaussian_case(name: str) -> Case:
    """A smoothed volume with Gaussian noise of half its contrast."""
    clean = real_volume(name, PLANES)
    return clean, gaussian(clean, LEVEL * float(clean.std()), np.random.default_rng(0))


def photon_case(name: str) -> Case:
    """A smoothed volume with the noise of so many photons at its brightest."""
    clean = real_volume(name, PLANES)
    clean = PHOTONS * np.clip(clean, 0, None) / clean.max()
    return clean, poisson_gaussian(clean, gain=1.0, sigma=1.0, rng=np.random.default_rng(0))


CASES = {
    "pollen, Gaussian": partial(gaussian_case, "pollen"),
    "neuron, Gaussian": partial(gaussian_case, "neuron_25pct"),
    "pollen, photons": partial(photon_case, "pollen"),
    "C. elegans, real": worm,
}


def measure(task: tuple[str, int, bool]) -> float:
    """PSNR after a training; after an affine fit for the real pair, whose scales differ."""
    import torch

    name, steps, scratch = task
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    clean, noisy = CASES[name]()
    score = psnr_affine if "real" in name else psnr
    result = noisy
    if steps > 0:
        model = Denoiser(Config(steps=steps, from_scratch=scratch)).fit(noisy, "ZYX", progress=False)
        result = model.denoise(noisy, tta=False)
    return round(score(truth=clean, prediction=result, data_range=float(np.ptp(clean))), 2)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    runs = [(0, True), *((steps, scratch) for steps in STEPS for scratch in (True, False))]
    found = record.side_by_side(measure, [(name, *run) for name in CASES for run in runs])
    rows: list[dict[str, Any]] = []
    for name in CASES:
        values, found = found[: len(runs)], found[len(runs) :]
        row: dict[str, Any] = {"volume": name, "noisy": values[0]}
        for number, steps in enumerate(STEPS):
            row[f"from scratch, {steps} steps"], row[f"inflated, {steps} steps"] = values[1 + 2 * number :][:2]
        rows.append(row)
    text = (
        f"# How a network for volumes begins\n\nPSNR in dB; after an affine fit for the real pair, whose reference has "
        f"noise too. {PLANES}×256×256 pixels, smoothed volumes with noise added: Gaussian of {LEVEL} of the contrast, "
        f"or {PHOTONS} photons at the brightest. Without test-time augmentation."
    )
    record.write("inflated", rows, text)


if __name__ == "__main__":
    main()
