"""`noise2same demo`: noise is added to three pictures and removed again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noise2same.cli._options import Json
from noise2same.cli._terminal import print_json, tell
from noise2same.config import Config
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.noise.samples import Sample


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")] = Path("demo"),
    minutes: Annotated[float, typer.Option(help="Training time per picture.")] = 1.2,
    as_json: Json = False,
) -> None:
    """Add noise to three pictures, denoise them and show before and after."""
    config = Config.of(minutes=minutes)
    if not minutes:
        raise InputError(f"minutes={minutes}: the demo trains, so it should be greater than 0.")
    output.mkdir(parents=True, exist_ok=True)
    from noise2same.noise.samples import samples

    results = {name: _denoise(name, sample, config, output) for name, sample in samples().items()}
    if as_json:
        print_json(results)


def _denoise(name: str, sample: Sample, config: Config, folder: Path) -> dict[str, Any]:
    """Denoise a picture, draw it before and after, and return its PSNR before and after."""
    from noise2same.denoiser import Denoiser
    from noise2same.quality import metrics
    from noise2same.quality.report import before_after

    axes, clean, noisy = sample.axes, sample.clean, sample.noisy
    tell(f"{' × '.join(map(str, noisy.shape))}, axes {axes}", f"{name}: ", "bold")
    model = Denoiser(config).fit(noisy, axes, say=tell)
    if model.summary["interrupted"]:
        raise KeyboardInterrupt
    denoised = model.denoise(noisy, axes)
    before, after = (metrics.psnr(clean, image, data_range=255) for image in (noisy, denoised))
    figure = folder / f"{name}.png"
    titles = (f"noisy, {before:.1f} dB", f"denoised, {after:.1f} dB", "clean (never shown to the network)")
    before_after(dict(zip(titles, (noisy, denoised, clean), strict=True)), axes, figure)
    tell(f"PSNR {before:.2f} dB -> {after:.2f} dB; before and after: {figure.resolve()}")
    return {"before": before, "after": after, "figure": str(figure.resolve())}
