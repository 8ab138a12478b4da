"""A handful of settings for the fast preset, one thread each and as many at once as there are cores.

Each candidate changes the preset in one way, without a noise model, and is trained on BSD's Train400 (σ = 25, tested on
every third image of BSD68) and on one image alone (camera, σ = 25), which has half of the minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import record
import torch
from skimage import data

from noise2same import Config, Denoiser
from noise2same.metrics import psnr
from noise2same.noise.synthesise import gaussian

CANDIDATES: dict[str, dict[str, Any]] = {
    "fast": {},
    "8 features": {"features": 8},
    "24 features": {"features": 24},
    "32 features": {"features": 32},
    "2 levels": {"levels": 2},
    "4 levels": {"levels": 4},
    "residual blocks": {"block": "residual"},
    "batches of 2": {"batch": 2},
    "batches of 8": {"batch": 8},
    "patches of 128": {"patch": 128, "batch": 1},
    "learning rate 1e-3": {"learning_rate": 1e-3},
    "learning rate 6e-3": {"learning_rate": 6e-3},
    "learning rate halved ten times": {"schedule": "halving"},
    "equation 6": {"invariance": "whole"},
    "5 % masked": {"mask_density": 0.05},
    "20 % masked": {"mask_density": 0.2},
    "Gaussian fill": {"fill": "gaussian"},
    "λ = 2": {"lambda_inv": 2.0},
    "no weight average": {"ema": 0.0},
    "batch norm never settles": {"settle": 1.0},
}


def bsd68(rng: np.random.Generator) -> tuple[list[Any], list[Any], list[Any]]:
    """Noisy images to train on, and every third image of the test, clean and noisy."""
    clean, test = record.grey_images("bsd/Train400"), record.grey_images("bsd/BSD68")
    noisy, test_noisy = ([gaussian(image, 25, rng) for image in images] for images in (clean, test))
    return noisy, test[::3], test_noisy[::3]


def camera(rng: np.random.Generator) -> tuple[list[Any], list[Any], list[Any]]:
    """One image to train and to be tested on."""
    clean = data.camera().astype(np.float32)
    noisy = gaussian(clean, 25, rng)
    return [noisy], [clean], [noisy]


SETS = {"BSD68": (bsd68, 1.0), "camera": (camera, 0.5)}
"""What makes each, and its share of the minutes."""


def measure(name: str, minutes: float, sets: Sequence[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    row: dict[str, Any] = {"candidate": name}
    settings = {"noise_model": "none", **CANDIDATES[name], **record.FAIR}
    for one in sets:
        make, share = SETS[one]
        noisy, test, test_noisy = make(np.random.default_rng(0))
        model = Denoiser(Config(minutes=share * minutes, **settings)).fit(noisy, progress=False)
        scores = [psnr(y, model.denoise(x), data_range=255) for y, x in zip(test, test_noisy, strict=True)]
        row |= {f"{one} (dB)": round(float(np.mean(scores)), 2), f"{one} steps": model.summary["steps"]}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    parser.add_argument("--name", default="presets", help="of the files that are written")
    parser.add_argument("--data", nargs="+", choices=list(SETS), default=list(SETS))
    arguments = parser.parse_args()
    minutes, sets = arguments.minutes, arguments.data
    rows = record.side_by_side(partial(measure, minutes=minutes, sets=sets), arguments.candidates)
    times = ", ".join(f"{SETS[one][1] * minutes:g} minutes for {one}" for one in sets)
    record.write(arguments.name, rows, f"# Choosing a preset\n\n{times}, on one thread each.")


if __name__ == "__main__":
    main()
