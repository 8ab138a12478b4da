"""λ_inv as it is chosen by itself, against a sweep around it, on five data sets: so many steps each, on one thread."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import record
import torch

from noise2same import Config, Denoiser
from noise2same.paper.datasets import DATASETS
from noise2same.quality.metrics import psnr_affine

SETS: dict[str, dict[str, Any]] = {
    "bsd68": {},
    "hanzi": {"characters": 2600},
    "imagenet": {},
    "planaria-like": {},
    "w2s": {},
}
FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
"""Times 2σ, the noise level as it is estimated."""
TESTED, CORNER = 40, 256
"""Test images of each condition, and the most of their height and width."""


def measure(task: tuple[str, float | None], steps: int) -> tuple[float, float]:
    """The λ of a training, and PSNR after an affine fit: with a factor, or as it is chosen by itself."""
    torch.set_num_threads(1)
    name, factor = task
    dataset = DATASETS[name](record.DATA, **SETS[name])

    def trained(**settings: Any) -> Denoiser:
        config = Config(noise_model="none", **settings, **record.FAIR)
        return Denoiser(config).fit(list(dataset.train.noisy), dataset.axes, progress=False)

    if factor is None:
        model = trained(steps=steps)
    else:
        chosen = trained(steps=1).summary["lambda_inv"]
        model = trained(steps=steps, lambda_inv=factor * chosen)
    scores = []
    for split in dataset.test.values():
        for noisy, clean in zip(split.noisy[:TESTED], split.clean[:TESTED], strict=True):
            noisy, clean = (image[..., :CORNER, :CORNER] for image in (noisy, clean))  # colours are smaller
            scores.append(psnr_affine(prediction=model.denoise(noisy, dataset.axes), truth=clean))
    return model.summary["lambda_inv"], float(np.mean(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--data", nargs="+", choices=list(SETS), default=list(SETS))
    arguments = parser.parse_args()
    tasks = [(name, factor) for name in arguments.data for factor in (None, *FACTORS)]
    found = dict(zip(tasks, record.side_by_side(partial(measure, steps=arguments.steps), tasks), strict=True))
    rows = []
    for name in arguments.data:
        chosen, by_itself = found[name, None]
        swept = {factor: found[name, factor][1] for factor in FACTORS}
        best = max(swept, key=lambda factor: swept[factor])
        rows.append(
            {"data": name, "λ": round(chosen, 2), "auto (dB)": round(by_itself, 2)}
            | {f"{factor:g} × (dB)": round(value, 2) for factor, value in swept.items()}
            | {"auto − best": round(by_itself - swept[best], 2)}
        )
    text = (
        f"# The weight of the invariance\n\nPSNR after an affine fit, {arguments.steps} steps each from scratch, no "
        "noise model: with λ_inv as it is chosen (*auto*: 2σ, for each image or brightness where they differ), and "
        "with one number for all, so many times its mean."
    )
    record.write("weight", rows, text)


if __name__ == "__main__":
    main()
