"""PSNR on BSD68, σ = 25, by the minutes of training on all cores: ours, and CAREamics' N2V and N2V2.

Our schedule depends on the budget, so that each point is a training of its own, from scratch. CAREamics' does not: one
run of each is kept at all of the minutes. The clocks run from the first step and stop for what is not training.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import plots
import record
from careamics_peer import TILES, Peer
from numpy.typing import NDArray

from noise2same import Config, Denoiser
from noise2same.metrics import psnr

Images = Sequence[NDArray[np.float32]]


def rows_of(
    minutes: Sequence[float], longest: float, noisy: Images, test: Images, test_noisy: Images, peer: Peer
) -> Iterator[dict[str, Any]]:
    """A row for each method and point, ours up to the `longest`, as soon as it is known; one training at a time."""

    def row(method: str, after: float, steps: int, clean: Images) -> dict[str, Any]:
        scores = [psnr(y, x, data_range=255) for y, x in zip(test, clean, strict=True)]
        return {"method": method, "minutes": after, "PSNR (dB)": round(float(np.mean(scores)), 2), "steps": steps}

    for after in (point for point in minutes if point <= longest):
        model = Denoiser(Config(minutes=after, noise_model="none", **record.FAIR)).fit(noisy, progress=False)
        yield row("noise2same", after, model.summary["steps"], [model.denoise(image) for image in test_noisy])
    for name in ("N2V", "N2V2"):
        for kept in peer.train(name, noisy, n2v2=name == "N2V2", minutes=minutes)["kept"]:
            _, clean = peer.predict(name, test_noisy, TILES[2][0], kept["checkpoint"])
            yield row(f"CAREamics {name}", kept["minutes"], kept["steps"], clean)


def measure(minutes: Sequence[float], longest: float, train: int | None = None, tested: int | None = None) -> None:
    """Measure and write, again after each row; the numbers of images are arguments for trying the script out."""
    _, noisy, test, test_noisy = record.bsd68()
    text = (
        "# PSNR by the minute on BSD68, σ = 25\n\nMean PSNR of the 68 test images after training on 396 images of "
        "Train400, noisy once, on all cores. noise2same has its fast preset, no noise model and a training of its own "
        "for each point; "
        "CAREamics one run of its default network each, with the same batches of 16 patches of 64×64, stopped at each."
    )
    rows: list[dict[str, Any]] = []
    with Peer() as peer:
        versions = peer.ask("versions")  # which says at once if it cannot run
        for row in rows_of(sorted(minutes), longest, noisy[:train], test[:tested], test_noisy[:tested], peer):
            rows.append(row)
            record.write("curve", rows, text, peer=versions)
            plots.curve(rows, record.HERE / "results" / "curve.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 2, 5, 10, 20], help="points of the curve")
    parser.add_argument("--longest", type=float, default=20, help="last point of our own, each of which takes its time")
    arguments = parser.parse_args()
    measure(arguments.minutes, arguments.longest)


if __name__ == "__main__":
    main()
