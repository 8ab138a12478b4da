"""A scale on which photon noise is equally strong in dark and bright places, and without bias back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Images = TypeVar("Images", bound=Any)
"""A NumPy array or a torch tensor, of any shape."""
ZERO = 2 * (3 / 8) ** 0.5
"""Where the transform takes a pixel without photons."""


@dataclass(frozen=True)
class Stabilizer:
    r"""The generalized Anscombe transform, for noise of the variance :math:`a\,y + b` at the intensity y.

    .. math:: z = \frac{2}{a}\sqrt{a\,x + \tfrac{3}{8}a^2 + b}

    has noise of about unit variance wherever there are a few photons; for a = 0 it is :math:`z = x/\sqrt{b}`. Below
    zero photons, where read-out noise leads, it goes on as a straight line, so that no value is lost.

    The mean of z is not the transform of the mean, since the root is curved. `undo` maps the mean of z to that of x
    (Mäkitalo and Foi's exact unbiased inverse, in closed form).

    Parameters
    ----------
    a, b : tuple of float
        For each channel, in the images' own units (`noise.NoiseModel`).

    References
    ----------
    Mäkitalo, Foi: Optimal inversion of the generalized Anscombe transformation for Poisson–Gaussian noise. IEEE
    Transactions on Image Processing 22(1), 2013.

    Examples
    --------
    >>> photons = np.random.default_rng(0).poisson(1000, (1, 1, 200, 200))
    >>> z = Stabilizer((1.0,), (0.0,)).apply(photons)
    >>> round(float(z.std()), 1)
    1.0
    """

    a: tuple[float, ...]
    b: tuple[float, ...]

    def apply(self, image: NDArray[Any]) -> NDArray[np.float64]:
        """(N, C, [Z,] Y, X) in its own units -> the stabilized scale."""
        z = np.empty(image.shape)
        for sample, channel, row in np.ndindex(image.shape[:3]):  # little at a time, since images may fill the memory
            z[sample, channel, row] = root(
                np.asarray(image[sample, channel, row], np.float64), self.a[channel], self.b[channel]
            )
        return z

    def undo(self, z: NDArray[Any]) -> NDArray[np.float64]:
        """Means of stabilized values, (N, C, [Z,] Y, X) -> means in the image's own units."""
        image = np.empty(z.shape)
        for sample, channel, row in np.ndindex(z.shape[:3]):
            image[sample, channel, row] = square(
                np.asarray(z[sample, channel, row], np.float64), self.a[channel], self.b[channel]
            )
        return image


def root(x: Images, a: float, b: float) -> Images:
    """Pixels of one channel, floats in their own units -> the stabilized scale."""
    if a <= 0:
        return x / _sigma(b)
    photons = (x + b / a) / a
    return 2 * (photons.clip(min=0) + 3 / 8) ** 0.5 + photons.clip(max=0) * (2 / ZERO)


def square(z: Images, a: float, b: float) -> Images:
    """Means of one channel on the stabilized scale, floats -> means in its own units."""
    if a <= 0:
        return z * _sigma(b)
    d = z.clip(min=ZERO)
    photons = d**2 / 4 - 1 / 8 + 1.5**0.5 / (4 * d) - 11 / (8 * d**2) + 5 * 1.5**0.5 / (8 * d**3)
    return a * (photons + (z - ZERO).clip(max=0) * (ZERO / 2)) - b / a


def _sigma(b: float) -> float:
    return b**0.5 if b > 0 else 1.0
