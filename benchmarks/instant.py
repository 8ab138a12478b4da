"""The network that comes with the package as it is (`minutes=0`): BSD68 and the even pictures of Kodak24.

Beside it stand published results of networks that were trained on clean photographs and are told σ, and of BM3D.
"""

from __future__ import annotations

import argparse
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record

from noise2same import denoise
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

PUBLISHED = {
    "BSD68": {15: (31.08, 31.73, 31.63), 25: (28.57, 29.23, 29.19), 50: (25.60, 26.23, 26.29)},
    "Kodak24": {25: (32.15, None, 32.13), 50: (28.46, None, 28.98)},
}
"""BM3D, or CBM3D; DnCNN; FFDNet. On all pictures of a set."""


def measure(task: tuple[str, int]) -> dict[str, Any]:
    """Mean scores of a set at a noise level."""
    import torch

    torch.set_num_threads(1)
    name, sigma = task
    paths = sorted((record.DATA / ("bsd" if name == "BSD68" else "color") / name).glob("*.png"))
    rng, before, after = np.random.default_rng(0), [], []
    for path in paths if name == "BSD68" else paths[1::2]:
        clean = imageio.imread(path).astype(np.float32)
        noisy = gaussian(clean, sigma, rng)
        before.append(psnr(clean, noisy, data_range=255))
        after.append(psnr(clean, denoise(noisy, "YX" if clean.ndim == 2 else "YXC", minutes=0), data_range=255))
    bm3d, dncnn, ffdnet = PUBLISHED[name][sigma]
    scores = {"noisy": round(float(np.mean(before)), 2), "instant": round(float(np.mean(after)), 2)}
    return {"set": name, "pictures": len(after), "σ": sigma} | scores | {"BM3D": bm3d, "DnCNN": dncnn, "FFDNet": ffdnet}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = record.side_by_side(measure, [(name, sigma) for name, levels in PUBLISHED.items() for sigma in levels])
    text = (
        "# Without any training on the picture\n\nMean PSNR in dB. *instant* is told nothing. BM3D, DnCNN and FFDNet "
        "are told σ; their figures are published ones, for Kodak24 of all its 24 pictures."
    )
    record.write("instant", rows, text)


if __name__ == "__main__":
    main()
