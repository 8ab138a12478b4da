"""A handful of settings for the fast preset, one thread each and as many at once as there are cores.

Each candidate changes the preset in one way, without a noise model, and is trained on BSD's Train400 (σ = 25, tested on
every third image of BSD68) and on one image alone (camera, σ = 25), for the same minutes.
"""

from __future__ import annotations

import argparse
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


def measure(name: str, minutes: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    clean, test = record.grey_images("bsd/Train400"), record.grey_images("bsd/BSD68")
    noisy, test_noisy = ([gaussian(image, 25, rng) for image in images] for images in (clean, test))
    settings = {"noise_model": "none", **CANDIDATES[name], **record.FAIR}
    model = Denoiser(Config(minutes=minutes, **settings)).fit(noisy, progress=False)
    scores = [psnr(y, model.denoise(x), data_range=255) for y, x in list(zip(test, test_noisy, strict=True))[::3]]
    camera = data.camera().astype(np.float32)
    one = gaussian(camera, 25, rng)
    alone = Denoiser(Config(minutes=minutes / 2, **settings)).fit(one, progress=False)
    return {
        "candidate": name,
        "BSD68 (dB)": round(float(np.mean(scores)), 2),
        "BSD68 steps": model.summary["steps"],
        "camera alone (dB)": round(psnr(camera, alone.denoise(one), data_range=255), 2),
        "camera steps": alone.summary["steps"],
        "λ": round(model.summary["lambda_inv"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    parser.add_argument("--name", default="presets", help="of the files that are written")
    arguments = parser.parse_args()
    minutes = arguments.minutes
    rows = record.side_by_side(partial(measure, minutes=minutes), arguments.candidates)
    text = f"# Choosing a preset\n\n{minutes:g} minutes for BSD68, {minutes / 2:g} for camera, on one thread each."
    record.write(arguments.name, rows, text)


if __name__ == "__main__":
    main()
