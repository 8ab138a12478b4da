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
from pathlib import Path
from typing import Any

import numpy as np
import record
import torch
import zarr
from skimage.data import binary_blobs

from noise2same import Denoiser, train

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


def training(volume: Path, model: Path) -> int:
    """Train for a few steps; returns 0, as no pixel is predicted."""
    train(str(volume), steps=STEPS, progress=False).save(model)
    return 0


def prediction(volume: Path, model: Path) -> int:
    """Predict all of a volume; returns the number of its pixels."""
    Denoiser.load(model).denoise(str(volume), output=volume.with_suffix(".clean.zarr"), tta=False)
    return int(np.prod(zarr.open_array(str(volume), mode="r").shape))


def measured(work: Callable[[Path, Path], int], volume: Path, model: Path) -> tuple[float, float, int]:
    """Peak of this process in GB, seconds, and pixels predicted."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    pixels = work(volume, model)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9, seconds, pixels


def rows_of(shape: tuple[int, ...], folder: Path) -> list[dict[str, Any]]:
    """Training on a volume and prediction of it."""
    volume, model = folder / "volume.zarr", folder / "model.safetensors"
    write_volume(volume, shape)
    rows = []
    for work in (training, prediction):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            peak, seconds, pixels = fresh.submit(measured, work, volume, model).result()
        rows.append(
            {
                "what": work.__name__,
                "volume": "×".join(map(str, shape)),
                "peak GB": round(peak, 2),
                "allowed GB": LIMITS[work.__name__],
                "MPix/s": round(pixels / 1e6 / seconds, 2) or None,
                "seconds": round(seconds, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planes", type=int, default=0, help="keep only so many planes of each volume")
    parser.add_argument("--side", type=int, default=0, help="keep only so many rows and columns")
    parser.add_argument(
        "--growth", type=float, default=0.15, help="allowed difference of peaks between sizes, as a share"
    )
    options = parser.parse_args()
    most = (options.planes or 10**9, options.side or 10**9, options.side or 10**9)
    sizes = dict.fromkeys(tuple(map(min, size, most)) for size in SIZES)
    if len(sizes) == 1:  # a part: beside it one that is twice as wide, which must not take more
        (size,) = sizes
        sizes[(*size[:2], 2 * size[2])] = None
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            rows += rows_of(size, Path(folder))
    text = (
        "# Peak memory\n\nPeak resident memory of a process that trains on a volume for "
        f"{STEPS} steps, and of one that predicts it, from Zarr to Zarr, on one thread."
    )
    name = "memory_part" if options.planes or options.side else "memory"
    record.write(name, rows, text)
    for row in rows:
        assert row["peak GB"] <= row["allowed GB"], row
    peaks = [row["peak GB"] for row in rows if row["what"] == "prediction"]
    assert max(peaks) <= (1 + options.growth) * min(peaks), "the peak of prediction depends on the size of the volume"


if __name__ == "__main__":
    main()
