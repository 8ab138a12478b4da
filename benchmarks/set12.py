"""Each image of Set12 alone, σ = 25, on one core: BM3D told σ, the network that comes with the package, and a minute.

Nothing but BM3D is told the noise level, and no image of Set12 was seen in making the network.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import record

from noise2same import denoise
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

SIGMA = 25


def measure(number: int, minutes: float) -> dict[str, Any]:
    """Scores of one image."""
    import torch

    torch.set_num_threads(1)
    rng, images = np.random.default_rng(0), record.grey_images("bsd/Set12")
    noisy = [gaussian(clean, SIGMA, rng) for clean in images][number]
    ways = {
        "BM3D": denoise(noisy, method="bm3d", sigma=SIGMA),
        "instant": denoise(noisy, minutes=0),
        f"{minutes:g} min": denoise(noisy, minutes=minutes, progress=False),
    }
    scores = {way: round(psnr(images[number], result, data_range=255), 2) for way, result in ways.items()}
    return {"image": f"{number + 1:02d}"} | scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="of training, at most")
    minutes = parser.parse_args().minutes
    rows = record.side_by_side(partial(measure, minutes=minutes), range(12))
    means = {way: round(float(np.mean([row[way] for row in rows])), 2) for way in rows[0] if way != "image"}
    text = (
        "# Each image of Set12 alone\n\nPSNR in dB at σ = 25, on one core. *instant* is the network as it comes, "
        "without training on the image. Minutes are the most that training may take; it ends when it is done."
    )
    record.write("set12", [{"image": "mean"} | means, *rows], text)


if __name__ == "__main__":
    main()
