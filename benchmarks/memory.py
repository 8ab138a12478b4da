"""Peak memory of training and prediction on volumes that are much larger than it, each in a process of its own."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch
import zarr
from skimage.data import binary_blobs

from noise2same import Denoiser, train
from noise2same.errors import Cancelled

SIZES = [(64, 4096, 4096), (256, 2048, 2048)]
CHUNK = 32, 256, 256
STEPS = 5
"""Of training: the peak is reached when the data is read and in the first step."""
LIMITS = {"training": 4.0, "prediction": 2.0}
"""GB that a process may hold."""


def write_volume(path: Path, shape: tuple[int, ...]) -> None:
    """Write a Zarr of uint16 that repeats one noisy tile of blobs."""
    clean = binary_blobs(max(CHUNK), n_dim=3, rng=0)[: CHUNK[0]] * 500.0 + 100
    tile = np.random.default_rng(0).poisson(clean).astype(np.uint16)
    store = zarr.create_array(str(path), shape=shape, chunks=CHUNK, dtype="uint16", attributes={"axes": "ZYX"})
    for z in range(0, shape[0], CHUNK[0]):
        for y in range(0, shape[1], CHUNK[1]):
            columns = -(-shape[2] // CHUNK[2])
            strip = np.tile(tile, (1, 1, columns))[: shape[0] - z, : shape[1] - y, : shape[2]]
            store[z : z + CHUNK[0], y : y + CHUNK[1]] = strip


def training(volume: Path, model: Path, minutes: float) -> int:
    """Train for a few steps; returns 0, as no pixel is predicted."""
    train(str(volume), steps=STEPS, progress=False).save(model)
    return 0


def prediction(volume: Path, model: Path, minutes: float) -> int:
    """Predict a volume for so many minutes at most; returns the number of pixels that were predicted."""
    pixels = int(np.prod(zarr.open_array(str(volume), mode="r").shape))
    end, share = time.monotonic() + 60 * minutes, 0.0

    def on_block(done: int, total: int) -> bool:
        nonlocal share
        share = done / total
        return time.monotonic() > end

    with suppress(Cancelled):
        output = volume.with_suffix(".clean.zarr")
        Denoiser.load(model).denoise(str(volume), output=output, tta=False, on_block=on_block)
    return round(share * pixels)


def measured(
    work: Callable[[Path, Path, float], int], volume: Path, model: Path, minutes: float
) -> tuple[float, float, int]:
    """Peak of this process in GB, seconds, and pixels predicted."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    pixels = work(volume, model, minutes)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, seconds, pixels


def rows_of(shape: tuple[int, ...], folder: Path, minutes: float) -> list[dict[str, Any]]:
    """Training on a volume and prediction of it."""
    volume, model = folder / "volume.zarr", folder / "model.safetensors"
    write_volume(volume, shape)
    rows = []
    for work in (training, prediction):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            peak, seconds, pixels = fresh.submit(measured, work, volume, model, minutes).result()
        rows.append(
            {
                "what": work.__name__,
                "volume": "×".join(map(str, shape)),
                "peak GB": round(peak, 2),
                "allowed GB": LIMITS[work.__name__],
                "MPix/s": round(pixels / 1e6 / seconds, 2) or None,
                "seconds": round(seconds, 1),
                "share": f"{pixels / np.prod(shape):.0%}" if pixels else None,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="after which the prediction of a volume is ended")
    parser.add_argument(
        "--growth", type=float, default=0.15, help="allowed difference of peaks between sizes, as a share"
    )
    options = parser.parse_args()
    rows = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows += rows_of(size, Path(folder), options.minutes)
    text = (
        "# Peak memory\n\nPeak resident memory of a process that trains on a volume for "
        f"{STEPS} steps, and of one that predicts it, from Zarr to Zarr, on one thread. "
        f"Prediction is ended after {options.minutes:g} minutes; *share* is what was predicted by then."
    )
    record.write("memory", rows, text)
    for row in rows:
        assert row["peak GB"] <= row["allowed GB"], row
    peaks = [row["peak GB"] for row in rows if row["what"] == "prediction"]
    assert max(peaks) <= (1 + options.growth) * min(peaks), "the peak of prediction depends on the size of the volume"


if __name__ == "__main__":
    main()
