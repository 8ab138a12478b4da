"""Denoise what is looked at, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noise2same import io
from noise2same.data import axes as ax
from noise2same.napari.layers import Part

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser
    from noise2same.one_image import Tuned
    from noise2same.training.state import TrainingState

LONGEST = {2: 1024, 3: 256}
"""Pixels a side of a view that is denoised, in 2D and 3D: about a second, and a gigabyte of memory, on a CPU."""
LIVE = {2: 384, 3: 128}
"""The same while a network learns, which is not to be kept from it."""
LIVE_DEPTH = 8
"""Planes above and below a plane that a network for volumes sees of it meanwhile."""


class Looker:
    """Denoises parts of an image; what it finds of the image and its noise is kept for the next part."""

    def __init__(self) -> None:
        self._known: tuple[Denoiser, io.Image, Tuned] | None = None

    def denoise(self, model: Denoiser | None, image: io.Image, part: Part) -> NDArray[Any]:
        """A part as the whole result has it; without a model, as the pretrained network for pictures denoises it."""
        if model is None:
            return _as_a_picture(image, part)
        if self._known is None or self._known[0] is not model or self._known[1].data is not image.data:
            model.check_fits(image)
            self._known = model, image, model.tuned_to(image)
        return self._known[2].denoise_part(image, part)


def _as_a_picture(image: io.Image, part: Part) -> NDArray[Any]:
    from noise2same.config import Config
    from noise2same.denoiser import Denoiser

    pixels, depth = np.asarray(image.data[part]), image.axes.find("Z")
    flat, axes = (pixels, image.axes) if depth < 0 else (pixels.take(0, depth), image.axes.replace("Z", ""))
    model = Denoiser(Config(minutes=0, blend=False)).use_pretrained(flat, axes)
    clean = np.asarray(model.denoise(flat, axes, tta=False))
    return clean.reshape(pixels.shape)


def live(state: TrainingState, image: io.Image, part: Part) -> NDArray[Any]:
    """A part as the network that is being trained denoises it now."""
    if "Z" not in image.axes:
        return np.asarray(state.preview(np.asarray(image.data[part]), image.axes))
    depth = image.axes.index("Z")
    plane = part[depth].start
    first, last = max(0, plane - LIVE_DEPTH), min(image.shape[depth], plane + LIVE_DEPTH + 1)
    slab = np.asarray(image.data[(*part[:depth], slice(first, last), *part[depth + 1 :])])
    clean = np.asarray(state.preview(slab, image.axes))
    return clean.take([plane - first], depth)


def longest(image: io.Image, sizes: dict[int, int], flat: bool = False) -> int:
    """Of `sizes`, the one for the dimensions of an image; `flat` if it is taken plane by plane."""
    return sizes[2 if flat else len(ax.spatial(image.axes))]
