"""What a report shows of a result: one plane of it, what was removed there, and the squares where it matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage

from noise2same.data import axes as ax
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.noise.diagnose import Diagnosis

Array = NDArray[np.float32]
Box = tuple[slice, slice]

ZOOM = 128
"""Largest side of a zoomed square in pixels."""
LAGS = 10
"""Distances in pixels up to which the autocorrelation is drawn."""
SLAB = 16
"""Planes of a volume that are projected at a time."""


@dataclass(frozen=True)
class Zoom:
    """A square of the plane that deserves a closer look."""

    letter: str
    why: str
    box: Box


@dataclass(frozen=True)
class ReportViews:
    """One plane of a result, each array of shape (Y, X, C) and in the image's units, and what else is shown of it."""

    noisy: Array
    clean: Array
    truth: Array | None
    residual: Array
    """x − f(x); 0 where either is not finite."""
    relative: Array
    """The residual in standard deviations of the noise: standard normal if exactly the noise was removed."""
    zooms: tuple[Zoom, ...]
    grey: tuple[Array, Array]
    """Values (C,) shown as black and as white."""
    projections: dict[str, dict[str, Array]]
    """Of a volume, "noisy" and "denoised": the maximum along Z, Y and X as "XY" (Y, X, C), "XZ" (Z, X, C) and "YZ"
    (Y, Z, C)."""
    shape: tuple[int, ...]
    axes: str
    dtype: str

    def images(self) -> dict[str, Array]:
        """Noisy and denoised image, and the truth where it is known, by name."""
        known = {} if self.truth is None else {"truth": self.truth}
        return {"noisy": self.noisy, "denoised": self.clean, **known}


def select_views(noisy: Any, clean: Any, axes: str, diagnosis: Diagnosis, truth: Any = None) -> ReportViews:
    """Select what is shown of a result: arrays with `axes`, the truth if it is known, and the noise as diagnosed."""
    if clean.shape != noisy.shape:
        raise InputError(f"The denoised image has shape {clean.shape} but the noisy one has {noisy.shape}: no report.")
    x, f = plane_of(noisy, axes), plane_of(clean, axes)
    y = None if truth is None else _filled(plane_of(truth, axes))
    known = np.isfinite(x) & np.isfinite(f)
    x, f = _filled(x), _filled(f)
    residual: Array = np.where(known, x - f, np.float32(0))
    relative: Array = residual / _noise_std(diagnosis, f, residual)
    return ReportViews(
        noisy=x,
        clean=f,
        truth=y,
        residual=residual,
        relative=relative,
        zooms=_zooms(f, relative),
        grey=grey_range(f if y is None else y),
        projections={"noisy": projections(noisy, axes), "denoised": projections(clean, axes)} if "Z" in axes else {},
        shape=noisy.shape,
        axes=axes,
        dtype=str(noisy.dtype),
    )


def plane_of(image: Any, axes: str, frame: int = 0, depth: int | None = None, box: Box | None = None) -> Array:
    """One plane (Y, X, C) of an image, or a box of it: of the first sample and the middle slice by default."""
    sample = ax.samples(image, axes)[frame]
    region = (slice(None), slice(None)) if box is None else box
    if "Z" in axes:
        at = sample.size[0] // 2 if depth is None else depth
        slab = sample.read(slice(at, at + 1), *region)
    else:
        slab = sample.read(*region)
    return np.moveaxis(slab.reshape(slab.shape[1], *slab.shape[-2:]), 0, -1).astype(np.float32)


def projections(volume: Any, axes: str) -> dict[str, Array]:
    """Maximum of the first sample along Z, Y and X, which is read a few planes at a time."""
    sample = ax.samples(volume, axes)[0]
    slabs = (sample.read(slice(start, start + SLAB))[0] for start in range(0, sample.size[0], SLAB))
    parts = [[slab.max(axis) for axis in (1, 2, 3)] for slab in slabs]  # each (C, ., .)
    along_z, along_y, along_x = zip(*parts, strict=True)
    whole = {
        "XY": np.maximum.reduce(along_z),
        "XZ": np.concatenate(along_y, axis=1),
        "YZ": np.concatenate(along_x, axis=1).swapaxes(1, 2),
    }
    return {name: _filled(np.moveaxis(image, 0, -1).astype(np.float32)) for name, image in whole.items()}


def grey_range(plane: Array) -> tuple[Array, Array]:
    """Values (C,) to show as black and white: the same for all channels if they are alike, as a photograph's."""
    low, high = np.percentile(plane, (0.5, 99.5), axis=(0, 1)).astype(np.float32)
    if len(low) >= 3 and (high - low).max() <= 2 * (high - low).min():
        low, high = np.full_like(low, low.min()), np.full_like(high, high.max())
    return low, np.where(high > low, high, low + 1)


def autocorrelation(residual: Array, lags: int = LAGS) -> NDArray[np.float64]:
    """Autocorrelation of a residual (Y, X, C) at lags up to `lags` in Y and X, (2·lags+1, 2·lags+1).

    The mean over channels, by the Wiener–Khinchin theorem, padded with zeros so that opposite borders do not meet. It
    is 0 for a constant residual, and where the lag is as long as the image.
    """
    height, width, _ = residual.shape
    centred = residual - residual.mean((0, 1))
    size = [fft.next_fast_len(length + lags, real=True) for length in (height, width)]
    power = np.abs(fft.rfft2(centred, s=size, axes=(0, 1))) ** 2
    products = fft.irfft2(power, s=size, axes=(0, 1))
    near = np.arange(-lags, lags + 1)
    overlap = np.outer(*(np.maximum(length - np.abs(near), 0) for length in (height, width)))[..., None]
    covariance = np.where(overlap > 0, products[np.ix_(near, near)], 0) / np.maximum(overlap, 1)
    variance = covariance[lags, lags]
    return (covariance / np.where(variance > 0, variance, 1)).mean(-1, dtype=np.float64)


def busiest(plane: NDArray[np.floating], side: int) -> Box:
    """The square of a plane (Y, X) with the largest variance, on a coarse grid."""
    return max(squares(plane.shape, side), key=lambda box: plane[box].var())


def squares(shape: tuple[int, ...], side: int) -> Iterator[Box]:
    """Squares of a plane (Y, X), half overlapping; at most some 32 of them along each axis."""
    starts, sides = [], [min(side, length) for length in shape]
    for length, part in zip(shape, sides, strict=True):
        starts.append(range(0, length - part + 1, max(1, part // 2, length // 32)))
    for y in starts[0]:
        for x in starts[1]:
            yield slice(y, y + sides[0]), slice(x, x + sides[1])


def _zooms(clean: Array, relative: Array) -> tuple[Zoom, ...]:
    """Squares with most detail, with most structure removed, and a flat one, apart from each other."""
    plane, noise = clean.mean(-1), relative.mean(-1)
    detail = (plane - ndimage.gaussian_filter(plane, 4)) ** 2
    structure = ndimage.gaussian_filter(noise, 2) ** 2
    free = list(squares(plane.shape, min(ZOOM, max(1, min(plane.shape) // 3))))
    usual = np.median([noise[box].var() for box in free])
    scores: dict[str, Callable[[Box], float]] = {
        "where the image has most detail": lambda box: float(detail[box].mean()),
        "where what was removed looks least like noise": lambda box: float(structure[box].mean()),
        # a masked or saturated background is flat, but there is no noise to look for
        "where the image is flattest": lambda box: (
            -float(detail[box].mean()) if noise[box].var() >= usual / 10 else -np.inf
        ),
    }
    zooms: list[Zoom] = []
    for letter, (why, score) in zip("ABC", scores.items(), strict=True):
        if free:
            zooms.append(Zoom(letter, why, max(free, key=score)))
            free = [box for box in free if not _overlap(box, zooms[-1].box)]
    return tuple(zooms)


def _overlap(one: Box, other: Box) -> bool:
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=True))


def _filled(plane: Array) -> Array:
    """The plane with its median in place of NaN and infinite pixels."""
    finite = np.isfinite(plane)
    return plane if finite.all() else np.where(finite, plane, np.median(plane[finite]) if finite.any() else 0)


def _noise_std(diagnosis: Diagnosis, clean: Array, residual: Array) -> Array:
    """Standard deviation of the noise at each pixel as diagnosed, or that of the residual if there is no diagnosis."""
    if diagnosis.sigma == 0:
        return np.full_like(clean, residual.std() or 1)
    variance = diagnosis.noise.variance(np.moveaxis(clean, -1, 0)[None])
    return np.sqrt(np.moveaxis(variance[0], 0, -1)).astype(np.float32)
