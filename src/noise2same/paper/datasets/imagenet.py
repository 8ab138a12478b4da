"""ImageNet: colour photographs with the paper's combined noise, reconstructed from published statistics."""

from __future__ import annotations

import os

import numpy as np

from noise2same.noise.synthetic import combined
from noise2same.paper.datasets.dataset import Dataset, Split, divided, folder, read_folder

SIDE = 128
SOURCE = (
    "Any RGB photographs of at least 128×128 pixels will do, such as ILSVRC2012's; put them there as .JPEG or .jpg."
)


def imagenet(data: str | os.PathLike[str] | None = None, *, crops: int = 4, seed: int = 0) -> Dataset:
    """Crops of 128×128, several of each training image and one of each test image, which are other photographs.

    Photon, Gaussian and impulse noise, cut to 0 to 255; the order of the three is not settled. The noisy images have
    9.73 dB (the paper's Table 3: 9.69).
    """
    images = read_folder(folder(data, "imagenet", source=SOURCE), "*.[jJ][pP]*[gG]", 10, SOURCE)
    rgb = [image for image in images if image.ndim == 3 and min(image.shape[:2]) >= SIDE]
    rng = np.random.default_rng(seed)

    def cut(image: np.ndarray, count: int) -> list[np.ndarray]:
        corners = [[int(rng.integers(0, size - SIDE + 1)) for size in image.shape[:2]] for _ in range(count)]
        return [image[y : y + SIDE, x : x + SIDE, :3].astype(np.float32) for y, x in corners]

    def noise(clean: np.ndarray) -> np.ndarray:
        return combined(clean, rng)

    train, validation, test = divided(rgb, rgb, (0.8, 0.1))
    parts = []
    for part, count in ((train, crops), (validation, 1), (test, 1)):
        clean = [crop for image in part.clean for crop in cut(image, count)]
        parts.append(Split([noise(crop) for crop in clean], clean))
    return Dataset("imagenet", "YXC", parts[0], parts[1], {"": parts[2]}, 255.0, noise)
