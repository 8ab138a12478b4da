"""Stored numbers and what they mean: many formats hold small integers, and a factor and an offset for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.io.raw import Boxes


@dataclass(frozen=True)
class Scaling:
    """Physical values zero + scale · raw, and NaN where a stored integer is `blank`.

    Floating point where anything is to be computed: 32 bits for what has at most 16 of its own, else 64.
    """

    raw: np.dtype[Any]
    scale: float = 1.0
    zero: float = 0.0
    blank: int | None = None

    @property
    def exact(self) -> bool:
        """Whether physical values are the stored ones, so that they can be stored in the same way again."""
        return self.scale == 1 and self.zero == 0 and self.blank is None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the physical values."""
        small = self.raw.itemsize <= (2 if self.raw.kind in "ui" else 4)
        return self.raw.newbyteorder("=") if self.exact else np.dtype(np.float32 if small else np.float64)

    def __call__(self, raw: NDArray[Any]) -> NDArray[Any]:
        """The physical values of stored ones."""
        values = raw.astype(self.dtype, copy=False)
        if (self.scale, self.zero) != (1, 0):
            values = values * self.dtype.type(self.scale) + self.dtype.type(self.zero)
        if self.blank is not None:
            values[raw == self.blank] = np.nan
        return values


class Physical(Boxes):
    """The physical values of an array of stored ones."""

    def __init__(self, raw: Boxes, scaling: Scaling) -> None:
        self._raw, self._scaling = raw, scaling
        self.shape, self.dtype = raw.shape, scaling.dtype

    def _box(self, box: Any) -> NDArray[Any]:
        return self._scaling(self._raw[tuple(box)])
