"""What bright sources lose in denoising is given back, so that what is measured of them stays what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.data.normalize import Normalization

WIDTH = 2.0
"""Standard deviation, in pixels, of the Gaussian by which what was removed is smoothed along Y and X.

Of 1.5, 2 and 3 the fluxes of stars changed least between the two development fields of benchmarks/stars.py."""
REACH = 6
"""Pixels along Y and X, to either side, that a result depends on: three times the width."""


def margin(dims: int) -> tuple[int, ...]:
    """Pixels along [Z,] Y, X around a region whose denoised values are needed."""
    return (0, REACH, REACH)[-dims:]


def keep_flux(noisy: NDArray[Any], denoised: NDArray[np.float64], normalization: Normalization) -> NDArray[np.float64]:
    r"""Give bright places back the local mean of what was removed from them.

    .. math:: f + \max(0, 1 - v_0/v(f))\;G*(x - f)

    where v is the variance of the noise and :math:`v_0` that at the mean of the stabilized scale. The sky stays clean.
    On a bright star, most of what the sum over an aperture had lost or gained comes back, and the noise within it stays
    away.

    Parameters
    ----------
    noisy, denoised : ndarray, (1, C, [Z,] Y, X)
        In the images' own units.
    normalization : Normalization
        With a stabilizer, which knows the noise.
    """
    stabilizer = normalization.stabilizer
    assert stabilizer is not None, "on a linear scale nothing is known of the noise"
    shape = (-1, *(1,) * (noisy.ndim - 2))
    a, b = (np.asarray(values).reshape(shape) for values in (stabilizer.a, stabilizer.b))
    usual = a * stabilizer.undo(np.reshape(normalization.mean, (1, *shape))) + b
    brighter = np.maximum(a * denoised + b, usual)
    weight = np.clip(1 - usual / np.maximum(brighter, np.finfo(np.float32).tiny), 0, 1)
    width = (0.0,) * (noisy.ndim - 2) + (WIDTH, WIDTH)
    return denoised + weight * ndimage.gaussian_filter(noisy - denoised, width, radius=REACH)
