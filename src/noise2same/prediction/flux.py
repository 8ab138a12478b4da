"""What sources lose in denoising is given back, so that what is measured of them stays what it was."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Images = TypeVar("Images", bound=Any)
"""A NumPy array or a torch tensor, (1, C, [Z,] Y, X)."""

# Chosen on the development scenes of benchmarks/stars.py and on a field of narrow stars, of widths from 1 to 3, weights
# by the variance of the noise or by the signal, and signals of 1 to 6: fluxes without bias, and no noise that shows.
WIDTH = 1.5
"""Standard deviation, in pixels, of the Gaussian by which what was removed is smoothed along Y and X."""
REACH = 4
"""Pixels along Y and X, to either side, that a result depends on."""
HALF = 2.0
"""Signal, in standard deviations of the noise, of a pixel that gets half of it."""


def margin(dims: int) -> tuple[int, ...]:
    """Pixels along [Z,] Y, X around a region whose denoised values are needed."""
    return (0, REACH, REACH)[-dims:]


def keep_flux(noisy: NDArray[Any], denoised: NDArray[np.float64], signal: NDArray[Any]) -> NDArray[np.float64]:
    r"""Give sources back the local mean of what was removed from them.

    .. math:: f + \frac{s^2}{s^2 + 2^2}\;G*(x - f)

    The sky, where there is no signal s, stays clean. On a source, most of what the sum over an aperture had lost or
    gained comes back, and the noise within it stays away.

    Parameters
    ----------
    noisy, denoised : ndarray, (1, C, [Z,] Y, X)
        In the images' own units.
    signal : ndarray, (1, C, [Z,] Y, X)
        What is denoised is above the mean, on the stabilized scale.
    """
    width = (0.0,) * (noisy.ndim - 2) + (WIDTH, WIDTH)
    return give_back(denoised, ndimage.gaussian_filter(noisy - denoised, width, radius=REACH), signal)


def give_back(denoised: Images, removed: Images, signal: Images) -> Images:
    """`keep_flux`, of arrays or tensors, where the local mean of what was removed is known."""
    square = signal.clip(min=0) ** 2
    return denoised + square / (square + HALF**2) * removed
