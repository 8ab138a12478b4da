"""PSNR on BSD68, σ = 25, by the minutes of training: ours, and CAREamics' N2V and N2V2, on one core each.

Our schedule depends on the budget, so that each point is a training of its own, from scratch. CAREamics' does not: one
run of each is kept at all of the minutes. The clocks run from the first step and stop for what is not training.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import plots
import record
import torch
from careamics_peer import TILES, Peer

from noise2same import Config, Denoiser
from noise2same.quality.metrics import psnr


def measure(task: tuple[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Rows of a method, one for each of the minutes."""
    torch.set_num_threads(1)
    method, minutes = task
    _, noisy, test, test_noisy = record.bsd68()

    def row(after: float, steps: int, clean: Sequence[Any]) -> dict[str, Any]:
        scores = [psnr(y, x, data_range=255) for y, x in zip(test, clean, strict=True)]
        return {"method": method, "minutes": after, "PSNR (dB)": round(float(np.mean(scores)), 2), "steps": steps}

    if method == "noise2same":
        rows = []
        for after in minutes:
            model = Denoiser(Config(minutes=after, noise_model="none", **record.FAIR)).fit(noisy, progress=False)
            rows.append(row(after, model.summary["steps"], [model.denoise(image) for image in test_noisy]))
        return rows
    with Peer() as peer:
        kept = peer.train(method, noisy, n2v2=method.endswith("N2V2"), minutes=minutes)["kept"]
        denoised = [peer.predict(method, test_noisy, TILES[2][0], point["checkpoint"])[1] for point in kept]
    return [row(point["minutes"], point["steps"], clean) for point, clean in zip(kept, denoised, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 2, 5, 10, 20], help="points of the curve")
    minutes = sorted(parser.parse_args().minutes)
    with Peer() as peer:
        versions = peer.ask("versions")  # which installs it, and says at once if it cannot run
    tasks = [("CAREamics N2V", minutes), ("CAREamics N2V2", minutes), ("noise2same", minutes[-1:])]
    tasks.append(("noise2same", minutes[:-1]))
    found = [row for rows in record.side_by_side(measure, tasks) for row in rows]
    rows = sorted(found, key=lambda row: (row["method"] != "noise2same", row["method"], row["minutes"]))
    text = (
        "# PSNR by the minute on BSD68, σ = 25\n\nMean PSNR of the 68 test images after training on 396 images of "
        "Train400, noisy once, on one core, two trainings at a time. noise2same has its fast preset, no noise model, "
        "and a training of its own for each point. CAREamics has one run of its default network each, with the same "
        "batches of 16 patches of 64×64, kept at each."
    )
    record.write("curve", rows, text, peer=versions)
    plots.curve(rows, record.HERE / "results" / "curve.png")


if __name__ == "__main__":
    main()
