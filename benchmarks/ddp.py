"""Training by two processes against one, with one thread each: samples a second, and PSNR after as many samples."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import record
from skimage import data

from noise2same import Denoiser
from noise2same.quality.metrics import psnr

SIGMA = 25.0
"""Of the noise, on a scale of 255."""
REACH = 1.7
"""Times the samples a second of one process that two are to have (issue 27)."""


def train(folder: Path, processes: int, steps: int, seed: int, method: str) -> tuple[float, Path]:
    """Train on the picture in a folder by the command line; seconds in the loop, and the model."""
    model = folder / f"{method}-{processes}-{seed}.safetensors"
    command = [sys.executable, "-m", "noise2same", "train", "noisy.npy", "--model", model.name, "--json"]
    command += ["--method", method, "--from-scratch", "--set", "early_stopping=false", "--device", "cpu"]
    command += ["--steps", str(steps // processes), "--seed", str(seed), "--devices", str(processes)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["training"]["seconds"]), model


def measure(steps: int, seeds: int, method: str) -> list[dict[str, Any]]:
    """A row for one and for two processes, interleaved, so that a busy machine disturbs both alike."""
    clean = data.camera().astype(np.float32)
    noisy = clean + np.random.default_rng(0).normal(0, SIGMA, clean.shape).astype(np.float32)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    quality: dict[int, list[float]] = {1: [], 2: []}
    batch = 0
    with TemporaryDirectory() as name:
        np.save(Path(name) / "noisy.npy", noisy)
        for seed in range(seeds):
            for processes in (1, 2):
                taken, model = train(Path(name), processes, steps, seed, method)
                denoiser = Denoiser.load(model)
                assert denoiser.plan is not None
                batch = denoiser.plan.batch.value
                seconds[processes].append(taken)
                quality[processes].append(psnr(clean, denoiser.denoise(noisy, tta=False), 255.0))
                print(
                    time.strftime("%X"),
                    method,
                    processes,
                    seed,
                    f"{taken:.1f} s, {quality[processes][-1]:.3f} dB",
                    flush=True,
                )
    rates = {processes: steps * batch / median(taken) for processes, taken in seconds.items()}
    return [
        {
            "method": method,
            "processes": processes,
            "samples": steps * batch,
            "samples/s": round(rates[processes], 1),
            "times one process": round(rates[processes] / rates[1], 2),
            "PSNR (dB)": round(mean(quality[processes]), 3),
            "difference (dB)": round(mean(quality[processes]) - mean(quality[1]), 3),
            "raw": {"seconds": seconds[processes], "psnr": quality[processes]},
        }
        for processes in (1, 2)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4000, help="of one process; two make half as many")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each, of which times are the median")
    parser.add_argument("--methods", nargs="+", default=["noise2same", "sure"])
    options = parser.parse_args()
    rows = [row for method in options.methods for row in measure(options.steps, options.seeds, method)]
    text = (
        "# Training by two processes\n\n"
        f"*camera* with noise of σ = {SIGMA:g}, trained from scratch by one process and by two (`--devices 2`), "
        "with one thread each.\n"
        "Two processes make half as many steps, each with twice the patches, and so see as many samples.\n"
        f"To reach: {REACH} times the samples a second, and the same PSNR within 0.05 dB.\n"
        f"PSNR is the mean of {options.seeds} seeds, and times are their median."
    )
    record.write("ddp", rows, text)


if __name__ == "__main__":
    main()
