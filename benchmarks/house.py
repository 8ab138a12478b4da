"""Quality of every loss on every kind of data, at fixed seeds and steps on one thread, to compare two commits.

Run it after a change that should not change results. The rows of `house_before.json` are of an earlier commit.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import record
import tifffile
import torch

from noise2same import Config, Denoiser
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.paper.datasets import DATASETS
from noise2same.quality.metrics import evaluate

Row = dict[str, Any]
SETS = (
    ("bsd68", "psnr", "auto", 800),
    ("bsd68", "psnr", "projected", 800),
    ("bsd68", "psnr", "noise2same", 800),
    ("w2s", "psnr_affine", "auto", 500),
    ("fmd", "psnr_affine", "auto", 500),
    ("hanzi", "psnr_minmax", "auto", 600),
    ("imagenet", "psnr_minmax", "auto", 500),
)
"""Data set, score, method and steps."""
TEST_IMAGES = 24
"""Of a data set that are scored, at most."""
ALLOWED_LOSS = 0.05
"""dB; a row that lost more needs an explanation."""


def pictures() -> Iterator[Row]:
    """Each image of Set12 alone, σ = 25, with all defaults but the steps."""
    for number, clean in enumerate(record.grey_images("bsd/Set12")):
        noisy = gaussian(clean, 25, np.random.default_rng(number))
        yield alone(f"Set12 {number + 1:02d}", noisy, clean, "YX", steps=150)


def volume() -> Row:
    """A neuron under photon and read-out noise."""
    clean = tifffile.imread(record.DATA / "real3d" / "neuron_25pct.tif").astype(np.float32)
    clean = 255 * (clean - clean.min()) / np.ptp(clean)
    noisy = poisson_gaussian(clean, 2.0, 5.0, np.random.default_rng(0))
    return alone("neuron", noisy, clean, "ZYX", steps=300, tta=False, early_stopping=False)


def alone(data: str, noisy: Any, clean: Any, axes: str, *, steps: int, tta: bool | None = None, **options: Any) -> Row:
    """Train on one image and score it."""
    start = time.monotonic()
    model = Denoiser(Config.of(steps=steps, **options)).fit(noisy, axes, progress=False)
    output = model.denoise(noisy, axes, tta=tta)
    score = evaluate(prediction=output, truth=clean, data_range=255, axes=axes)["psnr"]
    return {"data": data, "method": "auto", "steps": steps, "score": score, "seconds": time.monotonic() - start}


def trained_on_set(name: str, score: str, method: str, steps: int) -> Row:
    """Train on a data set from scratch, and score its test images."""
    dataset, start = DATASETS[name](record.DATA), time.monotonic()
    config = Config.of(method=method, steps=steps, from_scratch=True, early_stopping=False)
    model = Denoiser(config).fit(list(dataset.train.noisy), dataset.axes, progress=False)
    scores = []
    for split in dataset.test.values():
        part = split[:TEST_IMAGES]
        for noisy, clean in zip(part.noisy, part.clean, strict=True):
            output = model.denoise(noisy, dataset.axes, dtype="float32", tta=False)
            found = evaluate(prediction=output, truth=clean, data_range=dataset.data_range, axes=dataset.axes)
            scores.append(found[score])
    mean, seconds = float(np.mean(scores)), time.monotonic() - start
    return {"data": name, "method": method, "steps": steps, "score": mean, "seconds": seconds, "n": len(scores)}


def measured() -> Iterator[Row]:
    """All rows, as they are done."""
    yield from pictures()
    yield volume()
    for one in SETS:
        yield trained_on_set(*one)


def compared(before: list[Row], after: list[Row]) -> list[Row]:
    """A row of the table for each that was measured, and one for the mean of Set12; raw figures stay in the JSON."""
    earlier = {(row["data"], row["method"], row["steps"]): row["score"] for row in before}
    pairs = [(row, earlier.get((row["data"], row["method"], row["steps"]))) for row in after]
    set12 = [(row, score) for row, score in pairs if row["data"].startswith("Set12") and score is not None]
    if set12:
        mean = {"data": "Set12, mean", "method": "auto", "steps": set12[0][0]["steps"]}
        mean |= {"score": float(np.mean([row["score"] for row, _ in set12]))}
        mean |= {"seconds": sum(row["seconds"] for row, _ in set12)}
        pairs.insert(0, (mean, float(np.mean([score for _, score in set12]))))
    return [
        {
            "data": row["data"],
            "method": row["method"],
            "steps": row["steps"],
            "before (dB)": None if score is None else f"{score:.2f}",
            "after (dB)": f"{row['score']:.2f}",
            "difference": None if score is None else f"{row['score'] - score:+.2f}",
            "seconds": round(row["seconds"]),
            "raw": {"before": score, "after": row["score"]},
        }
        for row, score in pairs
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, default=record.HERE / "house_before.json", help="rows to compare with")
    parser.add_argument("--raw", type=Path, help="also write the rows as such a file, for another commit to compare")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    before = json.loads(arguments.before.read_text())
    rows: list[Row] = []
    for row in measured():
        rows.append(row)
        print(row, flush=True)
        if arguments.raw:
            arguments.raw.write_text(
                json.dumps({"commit": record.provenance()["commit"], "rows": rows}, indent=1) + "\n"
            )
    table = compared(before["rows"], rows)
    worse = [row for row in table if row["raw"]["before"] and row["raw"]["after"] < row["raw"]["before"] - ALLOWED_LOSS]
    names = ", ".join(f"{row['data']} ({row['method']})" for row in worse) or "none"
    text = (
        "# Before and after\n\n"
        f"PSNR in dB at the same seeds and steps, on one thread. Before is commit {before['commit']}.\n"
        "Each image of Set12 (σ = 25) and the neuron (photon and read-out noise) is trained on alone.\n"
        "The other rows are trained on a data set from scratch; w2s and FMD have affine-fit PSNR, HanZi and ImageNet "
        "min-max PSNR.\n"
        f"More than {ALLOWED_LOSS} dB below: {names}."
    )
    record.write("house", table, text, before=before["commit"])


if __name__ == "__main__":
    main()
