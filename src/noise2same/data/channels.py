"""How much structure the channels of images have in common, measured beneath their noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.data.normalize import fill_invalid
from noise2same.data.sampling import evenly_spread

PIXELS = 2**20
"""About how many pixels are looked at."""
BOX = {2: (256, 256), 3: (8, 256, 256)}
"""Largest part of an image that is looked at as one, in 2D and 3D."""
WINDOW = 9
"""Side of the local mean that is taken off, in pixels of half the resolution; an outline of that size still counts."""


def shared_structure(images: Sequence[NDArray[Any]], extent: Sequence[int] = ()) -> tuple[float, ...]:
    r"""For each channel, the largest correlation of its fine structure with that of another one, without the noise.

    Each plane is split into two of half the resolution, u and v: the means of the pixels on either diagonal of each
    2×2 block. Both show the same signal at the same place, and their noise is independent. So it is in no product of
    the two, within a channel or between channels:

    .. math:: \rho_{ij} = \frac{(\langle u_i, v_j\rangle + \langle v_i, u_j\rangle) / 2}
        {\sqrt{\langle u_i, v_i\rangle\,\langle u_j, v_j\rangle}}

    A local mean is taken off u and v first. The level of the noise need not be known.

    Parameters
    ----------
    images : sequence of ndarray, each (1, C, [Z,] Y, X)
        In any units. Of more than about a million pixels, as many in evenly spread boxes are looked at.
    extent : sequence of int
        Over how many further pixels along [Z,] Y, X noise is shared, of which then only every few are looked at; empty
        if it is independent.

    Returns
    -------
    tuple of float
        Absolute values from 0 to 1, one for each channel; 0 where no structure rises above the noise. Empty for one
        channel.
    """
    count = images[0].shape[1]
    if count == 1:
        return ()
    down, right = (step + 1 for step in extent[-2:]) if extent else (1, 1)
    products = np.zeros((count, count))
    for box in _boxes(images):
        u, v = (_fine(half) for half in _halves(box[..., ::down, ::right]))
        products += np.einsum("cn,dn->cd", u, v)
    signal = np.diag(products)
    both = np.sqrt(np.outer(signal, signal).clip(0)) * (np.minimum.outer(signal, signal) > 0)
    shared = np.abs(products + products.T) / 2
    rho = np.divide(shared, both, out=np.zeros_like(shared), where=both > 0).clip(0, 1)
    np.fill_diagonal(rho, 0)
    return tuple(rho.max(axis=0).tolist())


def _boxes(images: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Evenly spread parts of images, each (C, [Z,] Y, X), without NaN."""
    share = PIXELS / max(1, sum(image.size // image.shape[1] for image in images))
    chosen = evenly_spread([image.shape[2:] for image in images], share, BOX)
    return [fill_invalid(images[number][:, :, *region])[0][0] for number, region in chosen]


def _halves(box: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The means of the two diagonals of each 2×2 block of (C, [Z,] Y, X)."""
    rows, columns = (size // 2 * 2 for size in box.shape[-2:])
    box = box[..., :rows, :columns].astype(np.float64)
    a, b, c, d = (box[..., y::2, x::2] for y in (0, 1) for x in (0, 1))
    return (a + d) / 2, (b + c) / 2


def _fine(half: NDArray[np.float64]) -> NDArray[np.float64]:
    """What differs from the local mean, (C, N)."""
    size = (1,) * (half.ndim - 2) + (WINDOW, WINDOW)
    return (half - ndimage.uniform_filter(half, size, mode="nearest")).reshape(len(half), -1)
