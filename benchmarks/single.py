"""One image, and one volume, each trained on itself alone: PSNR gained over the noisy input."""

from __future__ import annotations

import argparse

import numpy as np
import record
import tifffile
from skimage import data

from noise2same import Config, Denoiser
from noise2same.noise.synthetic import gaussian, poisson_gaussian
from noise2same.quality.metrics import psnr
from noise2same.quality.report import before_after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="for the image")
    parser.add_argument("--minutes-3d", type=float, default=10, help="for the volume")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    camera = data.camera().astype(np.float32)
    neuron = tifffile.imread(record.DATA / "real3d" / "neuron_25pct.tif").astype(np.float32)
    neuron = 255 * (neuron - neuron.min()) / np.ptp(neuron)
    cases = [
        ("camera 512×512, σ = 25", "YX", arguments.minutes, camera, gaussian(camera, 25, rng)),
        ("neuron 50×256×256, Poisson-Gaussian", "ZYX", arguments.minutes_3d, neuron, None),
    ]
    rows = []
    for name, axes, minutes, clean, noisy in cases:
        noisy = poisson_gaussian(clean, gain=2.0, sigma=10.0, rng=rng) if noisy is None else noisy
        model = Denoiser(Config(minutes=minutes, **record.FAIR)).fit(noisy, axes)
        denoised = model.denoise(noisy, axes)
        before, after = (psnr(clean, image, data_range=255) for image in (noisy, denoised))
        rows.append(
            {
                "data": name,
                "minutes": minutes,
                "steps": model.summary["steps"],
                "noisy (dB)": round(before, 2),
                "noise2same (dB)": round(after, 2),
                "gain (dB)": round(after - before, 2),
            }
        )
        titles = (f"noisy, {before:.2f} dB", f"noise2same, {after:.2f} dB", "clean")
        figure = record.HERE / "results" / f"single-{axes.lower()}.png"
        before_after(dict(zip(titles, (noisy, denoised, clean), strict=True)), axes, figure)
    text = "# One image alone\n\nPreset fast, trained on the noisy image itself. The volume (0 to 255) has noise of"
    record.write("single", rows, text + " variance 2·y + 10² and is predicted in tiles.")


if __name__ == "__main__":
    main()
