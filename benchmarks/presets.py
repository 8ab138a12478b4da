"""A handful of settings for the fast preset, one thread each and as many at once as there are cores.

Each candidate changes the preset in one way and is trained on BSD's Train400 (σ = 25, tested on every third image of
BSD68) and on one image alone (camera, σ = 25), for the same minutes.
"""

from __future__ import annotations

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
    "one root over the batch": {"root": "batch"},
    "2 % masked": {"mask_density": 0.02},
    "all of the batch masked": {"masked_fraction": 1.0},
    "Gaussian fill": {"fill": "gaussian"},
    "λ = 2": {"lambda_inv": 2.0},
    "32 features": {"features": 32},
    "no weight average": {"ema": 0.0},
    "batch norm never settles": {"settle": 1.0},
}


def measure(name: str, minutes: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    clean, test = record.grey_images("bsd/Train400"), record.grey_images("bsd/BSD68")
    noisy, test_noisy = ([gaussian(image, 25, rng) for image in images] for images in (clean, test))
    model = Denoiser(Config(minutes=minutes, **CANDIDATES[name], **record.FAIR)).fit(noisy, progress=False)
    scores = [psnr(y, model.denoise(x), data_range=255) for y, x in list(zip(test, test_noisy, strict=True))[::3]]
    camera = data.camera().astype(np.float32)
    one = gaussian(camera, 25, rng)
    alone = Denoiser(Config(minutes=minutes / 2, **CANDIDATES[name], **record.FAIR)).fit(one, progress=False)
    return {
        "candidate": name,
        "BSD68 (dB)": round(float(np.mean(scores)), 2),
        "BSD68 steps": model.summary["steps"],
        "camera alone (dB)": round(psnr(camera, alone.denoise(one), data_range=255), 2),
        "camera steps": alone.summary["steps"],
        "λ": round(model.summary["lambda_inv"], 3),
    }


def main() -> None:
    minutes = record.minutes_option(2)
    rows = record.side_by_side(partial(measure, minutes=minutes), CANDIDATES)
    text = (
        f"# Choosing the fast preset\n\n{minutes:g} minutes for BSD68, {minutes / 2:g} for camera, on one thread each."
    )
    record.write("presets", rows, text)


if __name__ == "__main__":
    main()
