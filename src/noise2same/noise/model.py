"""NoiseModel: how the variance of the noise depends on the intensity, in one place for arrays and tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from noise2same.data.normalize import Normalization

Images = TypeVar("Images", bound=Any)
"""A NumPy array or a torch tensor of shape (B, C, [Z,] Y, X)."""

FLOOR = 0.01
"""Least variance, as a share of that at the mean intensity: a fitted line can fall below zero in the dark.

The floor that the losses had; other values were not compared."""
TINY = 1e-6
"""Least variance in units of the images' variance: noise that is not there must not be divided by."""
PARAMETRIC = ("gaussian", "poisson", "poisson-gaussian")
"""Kinds of noise that a variance of a·y + b describes completely."""


@dataclass(frozen=True)
class NoiseModel:
    r"""Noise whose variance at the intensity y is :math:`a\,y + b`, for each channel by itself.

    Intensities are in the images' own units, or normalized (see `normalized`). Gaussian noise has a = 0; photon noise
    has the gain of the detector as a, and the variance of its read-out noise as b.

    Parameters
    ----------
    a, b : tuple of float
        One value for each channel, or one for all.
    mean, std : tuple of float
        Mean and standard deviation of the images the noise was measured in, in the same units; as many values.
    correlation : tuple of tuple of float
        For each spatial axis ([Z,] Y, X), the autocorrelation of the noise at the lags 1, 2, ... as far as pixels share
        noise; empty if the noise is independent from pixel to pixel.
    kind : str
        gaussian, poisson, poisson-gaussian, impulse, clipped, quantised or unknown.
    confidence : float
        From 0 to 1: how sure kind and level are.
    certain : tuple of float
        Share of the variance in each channel that is noise for certain; the rest may be fine structure of the image.
    along_time : tuple of float
        Autocorrelation of the noise from one frame of a film to others, at the lags 1, 2, ... as far as frames share
        noise; empty if they do not, or there is no film.

    Examples
    --------
    >>> photons = NoiseModel(a=(2.0,), b=(25.0,), mean=(100.0,), std=(40.0,), kind="poisson-gaussian")
    >>> photons.sigma
    (15.0,)
    >>> photons.variance(np.full((1, 1, 2, 2), 50.0)).max()
    np.float64(125.0)
    """

    a: tuple[float, ...] = (0.0,)
    b: tuple[float, ...] = (0.0,)
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    correlation: tuple[tuple[float, ...], ...] = ()
    kind: str = "unknown"
    confidence: float = 0.0
    certain: tuple[float, ...] = (1.0,)
    along_time: tuple[float, ...] = ()

    @classmethod
    def gaussian(cls, *sigma: float) -> NoiseModel:
        """Independent noise of one standard deviation everywhere: one for each channel, or one for all."""
        none = (0.0,) * len(sigma)
        return cls(none, tuple(s**2 for s in sigma), none, (1.0,) * len(sigma), kind="gaussian", confidence=1.0)

    @property
    def sigma(self) -> tuple[float, ...]:
        """Standard deviation of the noise at the mean intensity of each channel."""
        return tuple(math.sqrt(v) for v in self._mean_variance())

    @property
    def correlated(self) -> bool:
        """Whether neighboring pixels share noise, against what every theorem of the paper assumes."""
        return any(self.correlation)

    @property
    def extent(self) -> tuple[int, ...]:
        """For each spatial axis, over how many further pixels noise is shared; empty if it is independent."""
        return tuple(map(len, self.correlation)) if self.correlated else ()

    @property
    def sure_holds(self) -> bool:
        """Whether Stein's identity gives the error: for independent noise with a known variance."""
        return not self.correlated and self.kind not in ("impulse", "unknown")

    def variance(self, y: Images, strength: Any = None) -> Images:
        """Variance of the noise where the clean images have the values `y`; never below a hundredth of the mean one.

        Parameters
        ----------
        y : array or Tensor, (B, C, [Z,] Y, X)
            Clean images, or the best estimate of them.
        strength : array or Tensor, (B, 1, 1, 1[, 1]), optional
            Factor for each image, where some have stronger noise than others.
        """
        level = np.array(self._mean_variance())
        floor = FLOOR * level + TINY * np.array(self.std) ** 2
        slope, offset, least = (_columns(values, y) for values in (self.a, self.b, floor))
        line = slope * y + offset
        usual = (line - least).clip(0) + least
        return usual if strength is None else strength * usual

    def channel(self, number: int) -> NoiseModel:
        """The noise of one channel."""
        parts = (self.a, self.b, self.mean, self.std, self.certain)
        a, b, mean, std, certain = ((_at(part, number),) for part in parts)
        return replace(self, a=a, b=b, mean=mean, std=std, certain=certain)

    def normalized(self, normalization: Normalization) -> NoiseModel:
        """The same noise in images of which a mean was subtracted, and that were divided by a standard deviation.

        On a stabilized scale it is Gaussian. If it is not the noise that the scale was made for, its level is that at
        the mean of the scale.
        """
        shift, unit = (np.array(part) for part in (normalization.mean, normalization.std))
        a, b, mean, std = (np.array(part) for part in (self.a, self.b, self.mean, self.std))
        scale = normalization.stabilizer
        if scale is not None:
            middle = scale.undo(shift.reshape(1, -1, 1)).ravel()
            made_for = np.maximum(np.multiply(scale.a, middle) + scale.b, np.finfo(np.float32).tiny)
            sigma = np.sqrt(np.maximum(a * middle + b, 0) / made_for) / unit
            steady = NoiseModel.gaussian(*sigma.tolist())
            return replace(self, a=steady.a, b=steady.b, mean=steady.mean, std=steady.std, kind="gaussian")
        return replace(
            self,
            a=_floats(a / unit),
            b=_floats((a * shift + b) / unit**2),
            mean=_floats((mean - shift) / unit),
            std=_floats(std / unit),
        )

    def _mean_variance(self) -> list[float]:
        lines = zip(*(_to(part, len(self.b)) for part in (self.a, self.b, self.mean)), strict=True)
        return [max(0.0, a * mean + b) for a, b, mean in lines]


def _columns(values: Sequence[float] | NDArray[Any], like: Any) -> Any:
    """One value a channel, or one for all, to be combined with images (B, C, [Z,] Y, X)."""
    if isinstance(like, np.ndarray):
        return np.asarray(values).reshape(-1, *[1] * (like.ndim - 2))
    from noise2same.data.columns import columns  # imports torch

    return columns(np.asarray(values).tolist(), like)


def _floats(values: NDArray[Any]) -> tuple[float, ...]:
    return tuple(map(float, np.atleast_1d(values)))


def _to(values: Sequence[float], count: int) -> Sequence[float]:
    return values if len(values) == count else list(values) * count


def _at(values: Sequence[float], number: int) -> float:
    return values[number if len(values) > 1 else 0]
