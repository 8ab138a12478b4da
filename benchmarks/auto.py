"""The noise model that noise2same chooses by itself, against none, and against training on clean images.

All methods on a data set have the same network and minutes, from scratch, on one thread each and as many at once as
there are cores. Nothing is told of the noise. HanZi, ImageNet, w2s and all of FMD are in Table 3 (`noise2same
reproduce`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record
import torch
from scipy import ndimage

from noise2same import Config, Denoiser
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.metrics import psnr_affine

Images = list[Any]
Data = tuple[Images, Images, Images, Images]
"""Training images clean and noisy, and test images clean and noisy."""
METHODS: dict[str, dict[str, Any]] = {
    "none": {"noise_model": "none"},
    "auto": {},
    "noise2true": {"method": "noise2true"},
    "independent J": {"noise_model": "none", "structure": (0, 0)},
}


def bsd(add: Callable[..., Any], *noise: Any) -> Data:
    rng = np.random.default_rng(0)
    clean, test = record.grey_images("bsd/Train400")[:396], record.grey_images("bsd/BSD68")
    noisy, test_noisy = ([add(image, *noise, rng) for image in images] for images in (clean, test))
    return clean, noisy, test, test_noisy


def correlated(clean: Any, size: tuple[int, int], rng: np.random.Generator) -> Any:
    """Noise of σ = 25 that pixels within a box share."""
    noise = ndimage.uniform_filter(rng.standard_normal(clean.shape), size, mode="wrap")
    return (clean + 25 * noise * np.sqrt(np.prod(size))).astype(np.float32)


def widefield() -> Data:
    """FMD's wide-field images, trained on and tested alike: there are only three samples."""
    files = sorted((record.DATA / "fmd48" / "raw").glob("WideField*.png"))
    noisy = [imageio.imread(file).astype(np.float32) for file in files]
    truths = [file.parents[1] / "gt" / f"{file.name.rsplit('_', 1)[0]}.png" for file in files]
    clean = [imageio.imread(file).astype(np.float32) for file in truths]
    return clean, noisy, clean, noisy


SETS: dict[str, Callable[[], Data]] = {
    "BSD68, σ = 25": partial(bsd, gaussian, 25),
    "BSD68, σ = 15": partial(bsd, gaussian, 15),
    "BSD68, σ = 50": partial(bsd, gaussian, 50),
    "BSD68, Poisson, 30 photons": partial(bsd, poisson_gaussian, 255 / 30, 0),
    "BSD68, Poisson–Gaussian": partial(bsd, poisson_gaussian, 4, 10),
    "BSD68, σ = 25 shared by 1×3": partial(bsd, correlated, (1, 3)),
    "BSD68, σ = 25 shared by 3×3": partial(bsd, correlated, (3, 3)),
    "fmd wide-field, real": widefield,
}
SHARED = list(SETS)[-3:]
"""Noise that pixels share: J masks them together, unless it is told that they are independent."""


def measure(task: tuple[str, str], minutes: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    name, method = task
    clean, noisy, test, test_noisy = SETS[name]()
    told: list[str] = []
    model = Denoiser(Config(minutes=minutes, **METHODS[method], **record.FAIR))
    target = clean if method == "noise2true" else None
    model.fit(noisy, target=target, progress=False, say=told.append)
    outputs = [model.denoise(x, tta=False) for x in test_noisy]
    scores, before = (
        [psnr_affine(prediction=f, truth=y, data_range=255) for f, y in zip(images, test, strict=True)]
        for images in (outputs, test_noisy)
    )
    return {"dB": float(np.mean(scores)), "noisy": float(np.mean(before)), "said": told[0].rpartition("; ")[2]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="of each training")
    parser.add_argument("--data", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--name", default="auto", help="of the files that are written")
    arguments = parser.parse_args()
    tasks = [
        (name, method) for name in arguments.data for method in METHODS if method != "independent J" or name in SHARED
    ]
    found = dict(zip(tasks, record.side_by_side(partial(measure, minutes=arguments.minutes), tasks), strict=True))
    rows = []
    for name in arguments.data:
        none, auto, true, independent = (found.get((name, method)) for method in METHODS)
        rows.append(
            {
                "data": name,
                "minutes": arguments.minutes,
                "noisy (dB)": round(none["noisy"], 2),
                "none, independent J (dB)": independent and round(independent["dB"], 2),
                "none (dB)": round(none["dB"], 2),
                "auto (dB)": round(auto["dB"], 2),
                "noise2true (dB)": round(true["dB"], 2),
                "auto − none": round(auto["dB"] - none["dB"], 2),
                "gap closed by auto": f"{(auto['dB'] - auto['noisy']) / (true['dB'] - true['noisy']):.1%}",
                "auto is": auto["said"].rstrip("."),
            }
        )
    text = (
        "# What the noise model is worth\n\nMean PSNR of the test images after an affine fit to the clean ones. Each "
        "training has the minutes on one thread, from scratch, fast preset, and denoises in one orientation. "
        "noise2true is trained on clean images, of fmd on the very images it is tested on. Nothing is told of the "
        "noise, but that it is independent where J is."
    )
    record.write(arguments.name, rows, text)


if __name__ == "__main__":
    main()
