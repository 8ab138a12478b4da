"""The paper's numbers: PSNR in dB, and D(f) × 10³ (Xie, Wang, Ji: Noise2Same, NeurIPS 2020, Tables 1 to 3)."""

from __future__ import annotations

TABLE1 = {
    "Gaussian, σ = 0.2": (4.326, 26.14),
    "Gaussian, σ = 0.5": (10.91, 26.83),
    "Gaussian, σ = 0.8": (2.141, 26.85),
    "Gaussian, σ = 1.0": (1.569, 26.98),
    "UPS, 5×5": (18.31, 27.71),
    "shifted receptive field": (0.105, 27.15),
}
"""On BSD68, by what replaces the masked pixels: D(f) × 10³ and PSNR."""

TABLE2 = {"bsd68": (10.91, 26.83), "hanzi": (0.249, 13.94), "imagenet": (17.67, 20.38)}
"""With masked pixels replaced by Gaussian noise: D(f) × 10³ and PSNR."""

TABLE3: dict[str, dict[str, float]] = {
    "noisy": {"imagenet": 9.69, "hanzi": 6.45, "planaria C1": 21.52, "planaria C2": 21.09, "planaria C3": 20.82}
    | {"bsd68": 20.19},
    "NLM": {"imagenet": 18.04, "hanzi": 8.41, "planaria C1": 25.80, "planaria C2": 24.03, "planaria C3": 21.62}
    | {"bsd68": 22.73},
    "BM3D": {"imagenet": 18.74, "hanzi": 10.90, "bsd68": 28.59},
    "Noise2True": {"imagenet": 23.39, "hanzi": 15.66, "planaria C1": 31.57, "planaria C2": 30.15, "planaria C3": 28.13}
    | {"bsd68": 29.06},
    "Noise2Noise": {"imagenet": 23.27, "hanzi": 14.30, "bsd68": 28.86},
    "Laine + noise model": {"bsd68": 28.84},
    "Laine": {"imagenet": 20.89, "hanzi": 10.70, "bsd68": 27.15},
    "Noise2Void": {"imagenet": 21.36, "hanzi": 13.72, "planaria C1": 25.84, "planaria C2": 23.57, "planaria C3": 21.60}
    | {"bsd68": 27.71},
    "Noise2Self, noise": {"imagenet": 20.38, "hanzi": 13.94, "planaria C1": 27.58, "planaria C2": 24.83}
    | {"planaria C3": 21.83, "bsd68": 26.98},
    "Noise2Self, donut": {"imagenet": 8.62, "hanzi": 13.29, "planaria C1": 27.63, "planaria C2": 24.72}
    | {"planaria C3": 21.73, "bsd68": 28.20},
    "Noise2Same": {"imagenet": 22.26, "hanzi": 14.38, "planaria C1": 29.48, "planaria C2": 26.93, "planaria C3": 22.41}
    | {"bsd68": 27.95},
}
"""By method, then by data set and condition. The min-max score for HanZi and ImageNet, affine-fit for Planaria."""


def published(method: str, dataset: str, condition: str = "") -> float | None:
    """The paper's PSNR, if it has one; `planaria-like` stands for Planaria."""
    name = f"{dataset.removesuffix('-like')} {condition}".strip()
    return TABLE3.get(method, {}).get(name)
