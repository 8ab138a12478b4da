"""The demo: noise is added to three pictures and taken away again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy import ndimage
from skimage import data

from noise2same.config import Config
from noise2same.denoiser import Denoiser
from noise2same.errors import InputError
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality import metrics
from noise2same.quality.report import before_after


def run(folder: Path, minutes: float, console: Console) -> dict[str, Any]:
    """Denoise each picture for `minutes` of training; write a figure of each and return PSNR before and after."""
    config = Config.of(minutes=minutes)
    if not minutes:
        raise InputError(f"minutes={minutes}: the demo trains, so that it should be greater than 0.")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    cells = volume(rng)
    pictures = {
        "grey": ("YX", data.camera(), gaussian(data.camera(), 25, rng)),
        "colour": ("YXC", data.chelsea(), gaussian(data.chelsea(), 25, rng)),
        "volume": ("ZYX", cells, poisson_gaussian(cells, gain=2.0, sigma=5.0, rng=rng)),
    }
    results: dict[str, Any] = {}
    for name, (axes, clean, noisy) in pictures.items():
        console.print(f"\n[bold]{name}[/]: {' x '.join(map(str, noisy.shape))}, axes {axes}")
        model = Denoiser(config).fit(noisy, axes, say=console.print)
        if model.summary["interrupted"]:
            raise KeyboardInterrupt
        denoised = model.denoise(noisy, axes)
        before, after = (metrics.psnr(clean, image, data_range=255) for image in (noisy, denoised))
        figure = folder / f"{name}.png"
        titles = (f"noisy, {before:.1f} dB", f"denoised, {after:.1f} dB", "clean (never shown to the network)")
        before_after(dict(zip(titles, (noisy, denoised, clean), strict=True)), axes, figure)
        console.print(f"PSNR {before:.2f} dB -> [bold]{after:.2f} dB[/]; before and after: {figure.resolve()}")
        results[name] = {"before": before, "after": after, "figure": str(figure.resolve())}
    return results


def volume(rng: np.random.Generator, shape: tuple[int, int, int] = (32, 128, 128)) -> NDArray[np.float32]:
    """A procedural stack of bright round cells and thin fibres on a dim background, in 0 to 255."""
    z, y, x = np.indices(shape, dtype=np.float32)
    image = np.full(shape, 15.0, np.float32)
    for _ in range(30):
        centre, radius = rng.uniform((0, 0, 0), shape), rng.uniform(4, 10)
        distance = np.sqrt((2 * (z - centre[0])) ** 2 + (y - centre[1]) ** 2 + (x - centre[2]) ** 2)
        image += rng.uniform(40, 120) / (1 + np.exp(2 * (distance - radius)))
    fibres = np.zeros(shape, np.float32)
    for _ in range(25):
        start, end = rng.uniform((0, 0, 0), shape), rng.uniform((0, 0, 0), shape)
        for position in np.linspace(start, end, 400):
            fibres[tuple(position.astype(int))] = 1
    fibres = ndimage.gaussian_filter(fibres, (0.7, 1, 1))
    return np.clip(image + 100 * fibres / fibres.max(), 0, 255).astype(np.float32)
