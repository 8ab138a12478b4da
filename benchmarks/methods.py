"""Every method of the paper's Table 3 on BSD68, σ = 25, with D(f) of its models (eq. 5).

Each method has the same network and minutes, on one thread each and as many at once as there are cores. None is told
the noise level but the classical ones and Laine's noise model, as in the paper; "auto" finds it out.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import record
import torch

from noise2same import Config, Denoiser
from noise2same.noise.synthetic import gaussian
from noise2same.paper.analysis import invariance_of
from noise2same.quality.metrics import psnr

METHODS: dict[str, tuple[dict[str, Any], float | None]] = {  # options, and the paper's PSNR (Table 3)
    "NLM": ({"method": "nlm", "sigma": 25}, 22.73),
    "BM3D": ({"method": "bm3d", "sigma": 25}, 28.59),
    "noise2true": ({"method": "noise2true"}, 29.06),
    "noise2noise": ({"method": "noise2noise"}, 28.86),
    "laine + gaussian": ({"method": "laine", "noise_model": "gaussian", "sigma": 25}, 28.84),
    "laine + gaussian, σ learned": ({"method": "laine", "noise_model": "gaussian"}, None),
    "laine": ({"method": "laine"}, 27.15),
    "noise2void": ({"method": "noise2void"}, 27.71),
    "noise2void2": ({"method": "noise2void2"}, None),
    "noise2self random": ({"method": "noise2self", "fill": "random"}, 26.98),
    "noise2self donut": ({"method": "noise2self", "fill": "donut"}, 28.20),
    "noise2same": ({"noise_model": "none"}, 27.95),
    "noise2same, auto": ({}, None),
}


def measure(name: str, minutes: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    options, published = METHODS[name]
    rng = np.random.default_rng(1)
    clean, noisy, test, test_noisy = record.bsd68()
    targets = {"noise2true": clean, "noise2noise": [gaussian(image, 25, rng) for image in clean]}
    model = Denoiser(Config(minutes=minutes, **options, **record.FAIR))
    row: dict[str, Any] = {"method": name}
    dependence = None
    if model.method.trained:
        model.fit(noisy, target=targets.get(model.config.method), progress=False)
        dependence = np.mean([each.value for each in invariance_of(model, test_noisy[::17])])
    scores = [psnr(y, model.denoise(x), data_range=255) for y, x in zip(test, test_noisy, strict=True)]
    return row | {
        "PSNR (dB)": round(float(np.mean(scores)), 2),
        "the paper's": published,
        "D(f) × 10³": None if dependence is None else float(f"{1e3 * dependence:.3g}"),
        "steps": model.summary.get("steps"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    rows = record.side_by_side(partial(measure, minutes=minutes), METHODS)
    record.write(
        "methods",
        rows,
        "# Every method on BSD68, σ = 25\n\nMean PSNR of the 68 test images after training on 396 images of Train400, "
        f"noisy once, for {minutes:g} minutes each, fast preset, on one thread; beside it the paper's, after many "
        "hours on a GPU. D(f) is the mean over four test images.",
    )


if __name__ == "__main__":
    main()
