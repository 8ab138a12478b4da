"""HanZi: Chinese characters with missing pixels and Gaussian noise (Batson and Royer 2019)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from noise2same.errors import InputError
from noise2same.paper.datasets.dataset import Dataset, divided, folder

SOURCE = "The list of characters is that of github.com/tsroten/zhon (MIT), one line of text."
FONTS = ("wqy-zenhei.ttc", "NotoSansCJK-Regular.ttc", "NotoSansCJKsc-Regular.otf", "SourceHanSansSC-Regular.otf")
PLACES = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts", "/Library/Fonts")
SIDE, SIZE, COPIES, DROPPED = 64, 50, 6, 2048
"""Of an image and of a character, in pixels; noisy images of each character; draws of a pixel to lose."""


def hanzi(
    data: str | os.PathLike[str] | None = None,
    *,
    sigma: float = 0.7,
    missing: bool = True,
    by: Literal["tile", "glyph"] = "tile",
    characters: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Six noisy images of 64×64 of each of 13,028 characters: 70 % to train on, 20 % for validation, 10 % to test.

    2048 pixels drawn with replacement, 39 %, are set to 0, then noise of σ is added, then the values are cut to 0 to 1.
    So the noise does not have zero mean. With WenQuanYi Zen Hei the noisy images have 6.74 dB (the paper's Table 3:
    6.45): white pixels suffer more than black ones, and the original font, which is not available, has bolder strokes.

    Parameters
    ----------
    missing : bool
        False for Gaussian noise alone, neither missing pixels nor cut values, as in the paper's study of σ.
    by : "tile" or "glyph"
        How they are divided: by image as in the paper, so that the same character is in all three parts, or by
        character.
    characters : int, optional
        Take only the first so many.
    """
    text = folder(data, "hanzi", "cedict_chars_zhon.txt", source=SOURCE).read_text(encoding="utf-8").strip()
    glyphs = render(text[:characters])
    rng = np.random.default_rng(seed)
    count = COPIES * len(glyphs)
    if by == "tile":
        order = rng.permutation(np.repeat(np.arange(len(glyphs)), COPIES))
    else:
        order = np.repeat(rng.permutation(len(glyphs)), COPIES)
    clean = glyphs[order]

    def noise(image: NDArray[Any]) -> NDArray[np.float32]:
        return spoilt(image[None], sigma, missing, rng)[0]

    noisy = np.empty(clean.shape, np.float32)
    for start, stop in batches(count):
        noisy[start:stop] = spoilt(clean[start:stop], sigma, missing, rng)
    train, validation, test = divided(list(noisy), list(clean), (0.7, 0.2))
    return Dataset("hanzi", "YX", train, validation, {"": test}, 1.0, noise)


def spoilt(clean: NDArray[np.float32], sigma: float, missing: bool, rng: np.random.Generator) -> NDArray[np.float32]:
    """Noisy images of clean ones, (N, 64, 64) in 0 to 1."""
    noise = sigma * rng.standard_normal(clean.shape, dtype=np.float32)
    if not missing:
        return clean + noise
    kept = clean.copy()
    rows, columns = rng.integers(0, SIDE - 1, (2, len(clean), DROPPED))  # not the last row and column, as published
    np.put_along_axis(kept.reshape(len(clean), -1), rows * SIDE + columns, 0.0, axis=1)
    return np.clip(kept + noise, 0, 1)


def batches(count: int, size: int = 4096) -> Iterator[tuple[int, int]]:
    for start in range(0, count, size):
        yield start, min(start + size, count)


def render(text: str) -> NDArray[np.float32]:
    """White characters on black, (N, 64, 64) in 0 to 1."""
    font = ImageFont.truetype(str(find_font()), SIZE)
    images = np.empty((len(text), SIDE, SIDE), np.float32)
    for image, character in zip(images, text, strict=True):
        canvas = Image.new("L", (SIDE, SIDE))
        ImageDraw.Draw(canvas).text((SIDE / 2, SIDE / 2), character, fill=255, font=font, anchor="mm")
        image[...] = np.asarray(canvas, dtype=np.float32) / 255
    return images


def find_font() -> Path:
    """A font with Chinese characters on this system."""
    for name in FONTS:
        for place in PLACES:
            for path in Path(place).expanduser().rglob(name):
                return path
    raise InputError(
        f"HanZi needs a font with Chinese characters ({', '.join(FONTS)}): on Debian or Ubuntu, install the package "
        "fonts-wqy-zenhei."
    )
