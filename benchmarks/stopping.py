"""Does early stopping end training at the right time? Each image alone until it ends, and three times as long.

Budgets are in steps, so that the result does not depend on how busy the machine is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record
import tifffile
import torch
from skimage import data

from noise2same import Config, Denoiser
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.metrics import psnr_affine


def synthetic(clean: Any, add: Callable[..., Any], *noise: float) -> tuple[Any, Any]:
    clean = clean.astype(np.float32)
    return clean, add(clean, *noise, np.random.default_rng(0))


def volume(name: str) -> Any:
    clean = tifffile.imread(record.DATA / "real3d" / f"{name}.tif").astype(np.float32)
    return 255 * (clean - clean.min()) / np.ptp(clean)


def picture(name: str) -> Any:
    return imageio.imread(record.DATA / name).astype(np.float32)


def real(clean: str, noisy: str) -> tuple[Any, Any]:
    return picture(clean), picture(noisy)


Sets = dict[str, tuple[str, Callable[[], tuple[Any, Any]]]]  # axes, and what makes the clean and the noisy image
SEEN: Sets = {
    "camera, σ = 25": ("YX", lambda: synthetic(data.camera(), gaussian, 25)),
    "house, Poisson": ("YX", lambda: synthetic(picture("bsd/Set12/02.png"), poisson_gaussian, 8.0, 5.0)),
    "cat, RGB, σ = 25": ("YXC", lambda: synthetic(data.chelsea(), gaussian, 25)),
    "neuron, 3D, Poisson-Gaussian": ("ZYX", lambda: synthetic(volume("neuron_25pct"), poisson_gaussian, 2.0, 10.0)),
    "w2s, real": ("YX", lambda: real("w2s24/avg400/010_0.png", "w2s24/avg1/010_0.png")),
    "fmd confocal, real": ("YX", lambda: real("fmd48/gt/Confocal_FISH.png", "fmd48/raw/Confocal_FISH_1.png")),
}
"""What the rule was made with."""
UNSEEN: Sets = {
    "pollen, 3D, σ = 25": ("ZYX", lambda: synthetic(volume("pollen"), gaussian, 25)),
    "first of BSD68, σ = 25": ("YX", lambda: synthetic(picture("bsd/BSD68/test001.png"), gaussian, 25)),
    "first of Kodak24, RGB, Poisson": (
        "YXC",
        lambda: synthetic(picture("color/Kodak24/kodim01.png"), poisson_gaussian, 8.0, 5.0),
    ),
    "w2s, real, other field and channel": ("YX", lambda: real("w2s24/avg400/120_2.png", "w2s24/avg1/120_2.png")),
    "fmd confocal, real, mouse": ("YX", lambda: real("fmd48/gt/Confocal_MICE.png", "fmd48/raw/Confocal_MICE_1.png")),
    "fmd two-photon, real": ("YX", lambda: real("fmd48/gt/TwoPhoton_BPAE_G.png", "fmd48/raw/TwoPhoton_BPAE_G_1.png")),
    "fmd wide-field, real": ("YX", lambda: real("fmd48/gt/WideField_BPAE_R.png", "fmd48/raw/WideField_BPAE_R_1.png")),
    "barbara, σ = 50": ("YX", lambda: synthetic(picture("bsd/Set12/09.png"), gaussian, 50)),
}
"""What the rule was not made with."""


def measure(name: str, most: int) -> dict[str, Any]:
    """A row, and the PSNR (after an affine fit, as the real references need) in the course of the long run."""
    torch.set_num_threads(1)
    axes, make = (SEEN | UNSEEN)[name]
    clean, noisy = make()

    def scored(model: Denoiser) -> float:
        return round(psnr_affine(prediction=model.denoise(noisy, axes), truth=clean), 2)

    stopped = Denoiser(Config(steps=most)).fit(noisy, axes, progress=False)
    steps = stopped.summary["steps"]
    long = Denoiser(Config(steps=3 * steps, early_stopping=False))
    long.fit(noisy, axes, progress=False, on_point=lambda model: {"dB": scored(model)})
    points = [{"step": point["step"], "dB": point["dB"]} for point in long.summary["history"]]
    last = scored(long)
    best = max(last, *(point["dB"] for point in points))
    return {
        "data": name,
        "start": "pretrained" if stopped.summary["pretrained"] else "from scratch",
        "steps": steps,
        "ended by": "early stopping" if stopped.summary["stopped_early"] else "the limit",
        "PSNR (dB)": scored(stopped),
        "after 3 × the steps (dB)": last,
        "best of the long run (dB)": best,
        "lost (dB)": round(best - scored(stopped), 2),
        "raw": {"points": points},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "images", nargs="?", choices=["seen", "unseen"], default="unseen", help="whether the rule was made with them"
    )
    parser.add_argument("--most", type=int, default=4000, help="steps at which training ends in any case")
    arguments = parser.parse_args()
    names = {"seen": SEEN, "unseen": UNSEEN}[arguments.images]
    rows = record.side_by_side(partial(measure, most=arguments.most), names)
    text = (
        "# Early stopping\n\nEach image alone, with the defaults, until training ends "
        f"({arguments.most} steps at most), and a run three times as long without early stopping, with its best point. "
        "PSNR after an affine fit to the clean image."
    )
    record.write(f"stopping_{arguments.images}", rows, text)


if __name__ == "__main__":
    main()
