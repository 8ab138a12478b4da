"""Each image of Set12 alone, σ = 25, on all cores: BM3D told σ, from scratch, and beginning with the starter network.

Nothing but BM3D is told the noise level, and no image of Set12 was seen in making the starter.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import record

from noise2same import Config, Denoiser, denoise, starter
from noise2same.metrics import psnr
from noise2same.noise.synthesise import gaussian

SIGMA = 25


def starter_alone(noisy: Any) -> Any:
    """Denoised by the starter network as it is."""
    model = Denoiser(Config(normalization="image"))
    model.network = model.new_network()
    assert starter.begin(model.network)
    return model.denoise(noisy)


def mean(rows: list[dict[str, Any]], name: str) -> float | None:
    """Of a column, if it is complete."""
    values = [row[name] for row in rows]
    return None if None in values else round(float(np.mean(values)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--long", type=int, default=4, help="images that are also trained from scratch for 2 minutes, and warm for 30 s"
    )
    long = parser.parse_args().long
    ways: dict[str, Callable[[Any], Any]] = {
        "BM3D": lambda x: denoise(x, method="bm3d", sigma=SIGMA),
        "from scratch, 1 min": lambda x: denoise(x, minutes=1, progress=False, **record.FAIR),
        "from scratch, 2 min": lambda x: denoise(x, minutes=2, progress=False, **record.FAIR),
        "starter as it is": starter_alone,
        "warm, 30 s": lambda x: denoise(x, minutes=0.5, progress=False),
        "warm, 1 min": lambda x: denoise(x, minutes=1, progress=False),
    }
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for i, clean in enumerate(record.grey_images("bsd/Set12")):
        noisy = gaussian(clean, SIGMA, rng)
        row: dict[str, Any] = {"image": f"{i + 1:02d}"}
        for name, way in ways.items():
            skipped = name in ("from scratch, 2 min", "warm, 30 s") and i >= long
            row[name] = None if skipped else round(psnr(clean, way(noisy), data_range=255), 2)
        rows.append(row)
        print(row, flush=True)
    means = [
        {"image": f"mean of {len(some)}"} | {name: mean(some, name) for name in ways} for some in (rows, rows[:long])
    ]
    text = (
        "# Each image of Set12 alone\n\nPSNR in dB at σ = 25, on all cores, with means over all images and over those "
        "that have every figure. Minutes are the most that training may take; it ends when it is done."
    )
    record.write("set12", [*means, *rows], text)


if __name__ == "__main__":
    main()
