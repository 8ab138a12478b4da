"""One picture and a pretrained network: how wide should it be? PSNR and CPU time of 16 and 32 features.

The widths were compared on odd pictures of Kodak24 first. These are pictures of BSD68, σ = 25, each alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import record

from noise2same import Config, Denoiser
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

EVERY = 23
"""Of the 68 pictures, every 23rd is taken."""
RUNS = ((16, 0), (32, 0), (16, 200), (32, 60), (16, 600), (32, 180))
"""Features and steps; those of the wider network are chosen to take no longer."""


def measure(number: int) -> list[dict[str, Any]]:
    """Score and CPU seconds of each run on one picture."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    clean = record.grey_images("bsd/BSD68")[number]
    noisy = gaussian(clean, 25, np.random.default_rng(number))
    rows = []
    for features, steps in RUNS:
        budget: dict[str, Any] = {"steps": steps} if steps else {"minutes": 0}
        model, start = Denoiser(Config(features=features, **budget)), time.process_time()
        if steps:
            model.fit(noisy, progress=False)
        else:
            model.use_pretrained(noisy)
        trained = time.process_time()
        result = model.denoise(noisy)
        rows.append(
            {
                "features": features,
                "steps": steps,
                "PSNR": psnr(clean, result, data_range=255),
                "s to train": trained - start,
                "s to denoise": time.process_time() - trained,
            }
        )
    return rows


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = record.side_by_side(measure, range(0, 68, EVERY))
    rows = []
    for same in zip(*found, strict=True):
        means = {name: round(float(np.mean([row[name] for row in same])), 2) for name in same[0]}
        rows.append(means | {"features": same[0]["features"], "steps": same[0]["steps"]})
    text = (
        f"# How wide a network for one picture\n\nMeans over {len(found)} pictures of BSD68, each alone, σ = 25, on "
        "one thread; CPU seconds. No steps: the pretrained network as it is."
    )
    record.write("widths", rows, text)


if __name__ == "__main__":
    main()
