"""Colour photographs alone, one minute on one core each, against CBM3D told σ: some of Kodak24 and CBSD68.

Nothing but CBM3D is told the noise level, and no picture was seen in making the network that training begins with.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record

from noise2same import denoise
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

SETS = {
    ("Kodak24", 25): slice(1, None, 4),
    ("Kodak24", 50): slice(1, None, 4),
    ("CBSD68", 25): slice(0, None, 3),
    ("CBSD68", 50): slice(0, None, 12),
}
"""Which pictures of each set at each noise level: those of Kodak24 are even ones, which nothing was chosen with."""


def measure(task: tuple[str, str, int], minutes: float) -> dict[str, Any]:
    """Scores of one picture at one noise level, over all channels, and of the worst channel."""
    import torch

    torch.set_num_threads(1)
    folder, name, sigma = task
    clean = imageio.imread(record.DATA / "color" / folder / name).astype(np.float32)
    noisy = gaussian(clean, sigma, np.random.default_rng(0))
    results = {
        "CBM3D": denoise(noisy, "YXC", method="bm3d", sigma=sigma),
        "instant": denoise(noisy, "YXC", minutes=0),
        "ours": denoise(noisy, "YXC", minutes=minutes, progress=False),
    }
    scores = {way: psnr(clean, result, data_range=255) for way, result in results.items()}
    behind = [
        psnr(clean[..., c], results["CBM3D"][..., c], data_range=255)
        - psnr(clean[..., c], results["ours"][..., c], data_range=255)
        for c in range(3)
    ]
    row = {"set": folder, "picture": name, "σ": sigma} | {way: round(score, 2) for way, score in scores.items()}
    return row | {"channel farthest behind": round(max(behind), 2)}


def mean(rows: list[dict[str, Any]], folder: str, sigma: int) -> dict[str, Any]:
    """Row of the means over a set at a noise level."""
    some = [row for row in rows if row["set"] == folder and row["σ"] == sigma]
    means = {way: round(float(np.mean([row[way] for row in some])), 2) for way in ("CBM3D", "instant", "ours")}
    farthest = max(row["channel farthest behind"] for row in some)
    return (
        {"set": folder, "picture": f"mean of {len(some)}", "σ": sigma} | means | {"channel farthest behind": farthest}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="of training, at most")
    parser.add_argument("--all", action="store_true", help="take all pictures")
    arguments = parser.parse_args()
    tasks = [
        (folder, path.name, sigma)
        for (folder, sigma), some in SETS.items()
        for path in sorted((record.DATA / "color" / folder).glob("*.png"))[slice(None) if arguments.all else some]
    ]
    rows = record.side_by_side(partial(measure, minutes=arguments.minutes), tasks)
    means = [mean(rows, *which) for which in dict.fromkeys((row["set"], row["σ"]) for row in rows)]
    text = (
        "# Colour photographs, each alone\n\nPSNR in dB over all channels. CBM3D is told σ; ours is told nothing, and "
        f"trains for at most {arguments.minutes:g} min on one core, or not at all (*instant*). The last column is by "
        "how many dB the worst channel is behind CBM3D's, in the mean rows the largest of the set; negative is ahead."
    )
    record.write("colour", [*means, *rows], text)


if __name__ == "__main__":
    main()
