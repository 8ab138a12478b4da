"""How fast films are denoised and trained on, and how much memory a film of 20 GB takes."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import record
import zarr
from film_cases import calcium, still
from timing import seconds

import noise2same as n2s
from noise2same.errors import Cancelled
from noise2same.quality.metrics import psnr

SIDE, FRAMES, LONG = 512, 200, 40_000
"""Side in pixels of all films, frames of the one that is denoised again and again, and of the one of 20 GB."""
CHUNK = 64, 128, 128
REPEATS = 3
MINUTES = (0, 1, 3, 9)
"""Of training, each from the beginning."""


def ready(film: np.ndarray, frames: int | str) -> n2s.Denoiser:
    """The pretrained network for films that looks at so many frames, or for pictures if at none."""
    return n2s.Denoiser(n2s.Config(minutes=0, time=frames, blend=False)).use_pretrained(film, "TYX")


def speed() -> list[dict[str, Any]]:
    """Frames a second of both, one after the other in each repeat."""
    film = np.tile(still(21, (FRAMES, SIDE // 4, SIDE // 4)).noisy, (1, 4, 4))
    moving = np.stack([np.roll(frame, 2 * number, axis=1) for number, frame in enumerate(film)])
    models = {
        "frame by frame, 32 features": ready(film, 0),
        "film": ready(film, "auto"),
        "film of a scene that moves": ready(moving, "auto"),
    }
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(REPEATS):
        for name, model in models.items():
            times[name].append(seconds(lambda model=model: model.denoise(film, "TYX", tta=False)))
    first = median(next(iter(times.values())))
    return [
        {
            "what": name,
            "frames/s of 512²": round(FRAMES / median(took), 1),
            "time / frame by frame": round(median(took) / first, 2),
            "seconds": {name: took},
        }
        for name, took in times.items()
    ]


def training() -> list[dict[str, Any]]:
    """Error after some minutes of training on a film of 128 × 128 × 1000."""
    case = calcium(21, gain=249, shape=(1000, 128, 128))
    rows = []
    for minutes in MINUTES:
        model = n2s.Denoiser(n2s.Config(minutes=minutes))
        if minutes == 0:
            model.use_pretrained(case.noisy, "TYX")
        else:
            model.fit(case.noisy, "TYX", progress=False)
        found = psnr(case.clean, model.denoise(case.noisy, "TYX"), data_range=float(np.ptp(case.clean)))
        rows.append({"minutes": minutes, "steps": model.summary["steps"], "PSNR": round(found, 2)})
        print(rows[-1], flush=True)
    return rows


def long_film(path: Path, frames: int) -> Path:
    """Write a film of uint16 to disk, which repeats one of 64 frames with other brightness."""
    part = still(21, (CHUNK[0], SIDE // 4, SIDE // 4)).noisy
    pixels = np.tile(part, (1, 4, 4)).clip(0).round().astype(np.uint16)
    store = zarr.create_array(str(path), shape=(frames, SIDE, SIDE), chunks=CHUNK, dtype="uint16")
    store.attrs["axes"] = "TYX"
    for start in range(0, frames, CHUNK[0]):
        store[start : start + CHUNK[0]] = pixels[: frames - start] + np.uint16(start // CHUNK[0] % 7)
    return path


def peak(task: tuple[str, str, float]) -> dict[str, Any]:
    """Speed and peak memory of denoising a film for so many minutes at most, in a process of its own.

    It is read from disk as it is needed, or it is in memory, as its result is then.
    """
    path, where, minutes = task
    store = zarr.open_array(path, mode="r")
    film: Any = path if where == "disk" else store[...]
    model = n2s.Denoiser(n2s.Config(minutes=0)).use_pretrained(film, "TYX")
    output = str(Path(path).with_suffix(".clean.zarr")) if where == "disk" else None
    reports = [(time.monotonic(), time.process_time(), 0.0)]

    def on_block(done: int, total: int) -> bool:
        reports.append((time.monotonic(), time.process_time(), done / total * store.shape[0]))
        return reports[-1][0] > reports[0][0] + 60 * minutes

    with suppress(Cancelled):
        model.denoise(film, "TYX", output=output, tta=False, on_block=on_block)
    before, first, last = *reports[:2], reports[-1]
    took, used, frames = (after - start for start, after in zip(first, last, strict=True))
    return {
        "film": f"{np.prod(store.shape) * 2 / 1e9:.1f} GB, {store.shape[0]} frames of {SIDE}²",
        "in": where,
        "looked at": model.frames,
        "done": f"{last[2] / store.shape[0]:.0%}",
        "first block after (s)": round(first[0] - before[0], 1),
        "frames/s": round(frames / took, 2) if frames else None,
        "CPU s/frame": round(used / frames, 3) if frames else None,
        "peak memory (GB)": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def on_disk(lengths: Sequence[int], minutes: float) -> list[dict[str, Any]]:
    """`peak` of films of so many frames on disk, and of the shortest in memory."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, max_tasks_per_child=1) as pool:
        for frames in lengths:
            film = long_film(Path(folder) / f"{frames}.zarr", frames)
            for where in ("memory", "disk") if frames == min(lengths) else ("disk",):
                rows.append(pool.submit(peak, (str(film), where, minutes)).result())
                print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["speed", "disk", "training"], help="one of the tables")
    parser.add_argument("--frames", type=int, nargs="+", default=[LONG // 20, LONG], help="of the films on disk")
    parser.add_argument("--minutes", type=float, default=4.0, help="for each of them")
    parser.add_argument("--dry", action="store_true", help="print what is found on disk, and write no table")
    given = parser.parse_args()
    if given.only in (None, "training"):
        text = "A calcium-like film of 128 × 128 × 1000 at −21 dB; both cores."
        record.write("film_training", training(), f"# Minutes of training on a film\n\n{text}")
    if given.only in (None, "speed"):
        record.write("film_speed", speed(), "# Speed on films\n\nWithout training; the network's own time, both cores.")
    if given.only in (None, "disk"):
        rows = on_disk(given.frames, given.minutes)
        text = "Of one process with two threads. Speed is that after the first block, for which all of a film is read."
        if not given.dry:
            record.write("film_memory", rows, f"# Memory for films on disk\n\n{text}")
