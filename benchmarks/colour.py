"""RGB under the paper's ImageNet noise: does the donut fill, computed per channel, keep up with random values?

The paper's Noise2Self with the donut collapsed here (8.62 dB): the reference mixes channels in the fill.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record
import torch

from noise2same import Config, Denoiser
from noise2same.metrics import psnr, psnr_minmax
from noise2same.noise.synthesise import combined

METHODS: dict[str, tuple[dict[str, Any], float]] = {  # options, and the paper's PSNR (Table 3)
    "noise2self random": ({"method": "noise2self", "fill": "random"}, 20.38),
    "noise2self donut": ({"method": "noise2self", "fill": "donut"}, 8.62),
    "noise2same": ({}, 22.26),
    "noise2true": ({"method": "noise2true"}, 23.39),
}


def measure(name: str, minutes: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    options, published = METHODS[name]
    rng = np.random.default_rng(0)
    pictures = [imageio.imread(path, mode="RGB") for path in sorted((record.DATA / "imagenet").glob("*.JPEG"))]
    clean = [picture[:128, :128].astype(np.float32) for picture in pictures]
    noisy = [combined(picture, rng) for picture in clean]
    config = Config(minutes=minutes, **options, **record.FAIR)
    target = clean[60:] if config.method == "noise2true" else None
    model = Denoiser(config).fit(noisy[60:], target=target, progress=False)
    pairs = [(y, model.denoise(x)) for y, x in zip(clean[:60], noisy[:60], strict=True)]
    return {
        "method": name,
        "PSNR, min-max (dB)": round(float(np.mean([psnr_minmax(y, f, data_range=255) for y, f in pairs])), 2),
        "the paper's": published,
        "PSNR, plain (dB)": round(float(np.mean([psnr(y, f, data_range=255) for y, f in pairs])), 2),
        "steps": model.summary["steps"],
    }


def main() -> None:
    minutes = record.minutes_option(3)
    rows = record.side_by_side(partial(measure, minutes=minutes), METHODS)
    record.write(
        "colour",
        rows,
        "# Colour, combined noise\n\nThe paper's ImageNet noise, as far as it can be reconstructed, on crops of 128×128"
        f" pixels: 340 to train on, 60 to test, {minutes:g} minutes on one thread each. The paper stretches each "
        "prediction to 0 to 255 before it is scored (min-max); plain PSNR beside it.",
    )


if __name__ == "__main__":
    main()
