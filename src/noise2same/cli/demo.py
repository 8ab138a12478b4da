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
    import numpy as np
    from numpy.typing import NDArray


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
    results = {name: _denoise(name, *picture, config, output) for name, picture in _pictures().items()}
    if as_json:
        print_json(results)


def _denoise(
    name: str, axes: str, clean: NDArray[Any], noisy: NDArray[Any], config: Config, folder: Path
) -> dict[str, Any]:
    """Denoise a picture, draw it before and after, and return its PSNR before and after."""
    from noise2same.denoiser import Denoiser
    from noise2same.quality import metrics
    from noise2same.quality.report import before_after

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


def _pictures() -> dict[str, tuple[str, NDArray[Any], NDArray[Any]]]:
    """Axes, clean image and noisy image of each picture, by name."""
    import numpy as np
    from skimage import data

    from noise2same.noise.synthetic import gaussian, poisson_gaussian

    rng = np.random.default_rng(0)
    cells = volume(rng)
    return {
        "gray": ("YX", data.camera(), gaussian(data.camera(), 25, rng)),
        "color": ("YXC", data.chelsea(), gaussian(data.chelsea(), 25, rng)),
        "volume": ("ZYX", cells, poisson_gaussian(cells, gain=2.0, sigma=5.0, rng=rng)),
    }


def volume(rng: np.random.Generator, shape: tuple[int, int, int] = (32, 128, 128)) -> NDArray[np.float32]:
    """A procedural stack of bright round cells and thin fibres on a dim background, in 0 to 255."""
    import numpy as np
    from scipy import ndimage

    z, y, x = np.indices(shape, dtype=np.float32)
    image = np.full(shape, 15.0, np.float32)
    for _ in range(30):
        center, radius = rng.uniform((0, 0, 0), shape), rng.uniform(4, 10)
        distance = np.sqrt((2 * (z - center[0])) ** 2 + (y - center[1]) ** 2 + (x - center[2]) ** 2)
        image += rng.uniform(40, 120) / (1 + np.exp(2 * (distance - radius)))
    fibres = np.zeros(shape, np.float32)
    for _ in range(25):
        start, end = rng.uniform((0, 0, 0), shape), rng.uniform((0, 0, 0), shape)
        for position in np.linspace(start, end, 400):
            fibres[tuple(position.astype(int))] = 1
    fibres = ndimage.gaussian_filter(fibres, (0.7, 1, 1))
    return np.clip(image + 100 * fibres / fibres.max(), 0, 255).astype(np.float32)
