"""Arrays to pictures of 8 bits, and to the data URIs by which a page holds them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from skimage.transform import resize_local_mean

from noise2same.quality.report.views import Array

Picture = NDArray[np.uint8]

# Longest side in pixels of what is shown whole, JPEG's quality, and the most values that are kept without loss there:
# a noisy picture of 2048² then takes under 1 MB.
LONGEST = 1024
QUALITY = 85
SMALL = 2**18


def picture(plane: Array, grey: tuple[Array, Array], colours: Sequence[str] = ()) -> Picture:
    """(Y, X, C) -> (Y, X) for one channel, else (Y, X, 3), the sum of the channels in their colours.

    Parameters
    ----------
    grey : pair of arrays, (C,)
        Values that become 0 and 255.
    colours : sequence of str, optional
        Of the channels, as "#rrggbb". Without one for each, two are magenta and green, and the first three of more are
        red, green and blue.
    """
    low, high = grey
    values = np.clip((plane - low) / (high - low), 0, 1) * 255
    count = values.shape[-1]
    if count == 1:
        return values[..., 0].round().astype(np.uint8)
    if len(colours) != count or not all(colours) or len(set(colours)) == 1:
        colours = ("#ff00ff", "#00ff00") if count == 2 else ("#ff0000", "#00ff00", "#0000ff")
    mixing = np.array([[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in colours], np.float32)
    return (values[..., : len(mixing)] @ mixing).clip(0, 255).round().astype(np.uint8)


def fitted(plane: Array, longest: int = LONGEST) -> Array:
    """A plane (Y, X, C) whose longest side has at most that many pixels, by the mean over areas."""
    factor = min(max(plane.shape[:2]) // longest, *plane.shape[:2])
    if factor > 1:  # for which the mean over areas of any size would be slow
        height, width = (length // factor for length in plane.shape[:2])
        squares = plane[: height * factor, : width * factor].reshape(height, factor, width, factor, -1)
        plane = squares.mean((1, 3))
    scale = longest / max(plane.shape[:2])
    if scale >= 1:
        return plane
    size = tuple(max(1, round(length * scale)) for length in plane.shape[:2])
    smaller: Array = resize_local_mean(plane, size, preserve_range=True, channel_axis=-1)
    return smaller


def around_zero(residual: Array) -> tuple[Array, Array]:
    """Values (C,) to show as black and white, so that 0 is mid-grey and three standard deviations are in range."""
    spread = 3 * residual.std((0, 1))
    spread = np.where(spread > 0, spread, 1)
    return -spread, spread


def orthogonal(projections: dict[str, Array], gap: Array) -> tuple[Array, int]:
    """XY with YZ to its right and XZ below, (Y, X, C), and how often each of their planes in Z is repeated.

    Planes in Z mostly lie farther apart than pixels; here they take at least about a sixth of the length of X.

    Parameters
    ----------
    projections : dict
        As in `ReportViews`.
    gap : array, (C,)
        Value between the three.
    """
    (height, width, _), depth = projections["XY"].shape, len(projections["XZ"])
    repeats = max(1, round(width / 6 / depth))
    between, side = max(2, width // 128), repeats * depth
    whole = np.tile(gap, (height + between + side, width + between + side, 1))
    whole[:height, :width] = projections["XY"]
    whole[-side:, :width] = projections["XZ"].repeat(repeats, axis=0)
    whole[:height, -side:] = projections["YZ"].repeat(repeats, axis=1)
    return whole, repeats


def data_uri(image: Picture, *, lossless: bool = False) -> str:
    """The picture as PNG if it is small or must lose nothing, else as JPEG."""
    import imagecodecs

    if lossless or image.size <= SMALL:
        return f"data:image/png;base64,{b64encode(imagecodecs.png_encode(image)).decode()}"
    return f"data:image/jpeg;base64,{b64encode(imagecodecs.jpeg_encode(image, level=QUALITY)).decode()}"
