"""Noise of a known law, added to clean images.

The output is float32. Gaussian and Poisson–Gaussian noise are neither clipped nor rounded: clipping would give the
noise a mean, which self-supervised denoisers assume it does not have (BSD68's protocol in Xie et al. 2020 leaves it
unclipped too).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noise2same.errors import InputError


def gaussian(clean: ArrayLike, sigma: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Add white Gaussian noise: x = y + n, n ~ N(0, sigma²).

    Parameters
    ----------
    clean : array_like, any shape
        The clean image y.
    sigma : float
        Standard deviation of the noise, in the image's own units.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of float32, the shape of `clean`
    """
    image = np.asarray(clean, dtype=np.float64)
    _require(sigma >= 0, f"sigma must not be negative, but is {sigma}.")
    return (image + sigma * rng.standard_normal(image.shape)).astype(np.float32)


def poisson_gaussian(clean: ArrayLike, gain: float, sigma: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Add a detector's noise: photon counting and Gaussian read-out (Foi et al. 2008).

    x = gain · Poisson(y / gain) + N(0, sigma²), so that E[x] = y and Var[x] = gain · y + sigma².

    Parameters
    ----------
    clean : array_like, any shape
        The clean image y; must not be negative.
    gain : float
        Image units per photon: a pixel of value y collects y / gain photons on average.
    sigma : float
        Standard deviation of the read-out noise, in the image's own units.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of float32, the shape of `clean`

    References
    ----------
    Foi, Trimeche, Katkovnik, Egiazarian: Practical Poissonian-Gaussian noise modeling and fitting for single-image
    raw-data. IEEE Transactions on Image Processing 17(10), 2008.
    """
    image = np.asarray(clean, dtype=np.float64)
    _require(gain > 0, f"gain must be positive, but is {gain}.")
    _require(sigma >= 0, f"sigma must not be negative, but is {sigma}.")
    _require(bool(np.all(image >= 0)), "Poisson noise needs a clean image without negative or NaN pixels.")
    return (gain * rng.poisson(image / gain) + sigma * rng.standard_normal(image.shape)).astype(np.float32)


def combined(clean: ArrayLike, rng: np.random.Generator) -> NDArray[np.float32]:
    """Add the combined noise of the paper's ImageNet experiment to an image in 0 to 255.

    Photon noise at 30 photons for white, then Gaussian noise of σ = 60, clipped to 0 to 255, then a fifth of the values
    set to 0 or 255 with equal chance. Reconstructed from published statistics: the order of the three is not settled.

    Parameters
    ----------
    clean : array_like, any shape
        The clean image y, in 0 to 255.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of float32, the shape of `clean`
    """
    detected = np.clip(poisson_gaussian(clean, 255 / 30, 60, rng), 0, 255)
    replaced = rng.random(detected.shape) < 0.2
    return np.where(replaced, 255.0 * rng.integers(0, 2, detected.shape), detected).astype(np.float32)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)
