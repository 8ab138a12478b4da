"""Films without a truth: which part of one is looked at, where it is liveliest, and whether its changes were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from noise2same import io
from noise2same.data import axes as ax
from noise2same.noise.model import NoiseModel

Array = NDArray[np.float64]

MAX_VALUES = 2**23
"""Values of a channel that are looked at, at most: 512 frames of 128 × 128 pixels."""
MAX_LENGTH = 512
"""Frames that are looked at, at most."""
SIDE = 6
"""Side in pixels of the squares whose traces are looked at: about that of a cell."""
LAGS = 4
"""Frames up to which two of them are compared to find what changes: calcium transients last longer."""
LIVELIEST, FEWEST = 0.06, 8
"""Share and least number of the squares that count as lively."""
WINDOWS = (1, 2, 4, 8)
"""Frames over whose means changes are measured."""
VISIBLE = 4.0
"""Standard errors by which changes must stand out of the noise."""
SHORTEST = 16
"""Frames that a film needs to be checked."""


@dataclass(frozen=True)
class FilmPart:
    """Consecutive frames of a film and of its result, (C, T, Y, X): the middle of it, of a volume the middle slice."""

    noisy: NDArray[np.float32]
    clean: NDArray[np.float32]
    start: int
    """Number of the first frame, from 0."""
    corner: tuple[int, int]
    """Where the part begins, in Y and X."""
    axes: str
    """Of the film as it is."""
    total: int
    """Frames of all of it."""


class Lost(NamedTuple):
    """How much of a film's changes in time was removed."""

    share: float
    """Of their variance at the liveliest places: 0 if only noise was removed, less if noise is left."""
    error: float
    """Standard error of it."""


def read_part(noisy: io.Image, clean: io.Image | NDArray[Any]) -> FilmPart:
    """Read the middle of a film, of its first sample, and the same of its result."""
    sizes = dict(zip(noisy.axes, noisy.shape, strict=True))
    length = min(sizes["T"], MAX_LENGTH)
    side = max(4 * SIDE, int((MAX_VALUES / length) ** 0.5))
    region = {axis: _middle(sizes[axis], side) for axis in "YX"} | {"T": _middle(sizes["T"], length)}
    region |= {"Z": _middle(sizes["Z"], 1)} if "Z" in sizes else {}
    result = clean.data if isinstance(clean, io.Image) else clean
    corner = (region["Y"].start, region["X"].start)
    pair = [_cut(array, noisy.axes, region) for array in (noisy.data, result)]
    return FilmPart(pair[0], pair[1], region["T"].start, corner, noisy.axes, sizes["T"])


def _middle(size: int, length: int) -> slice:
    start = max(0, size - length) // 2
    return slice(start, start + min(size, length))


def _cut(array: Any, axes: str, region: dict[str, slice]) -> NDArray[np.float32]:
    """A region of a film as (C, T, Y, X), without S and Z."""
    index: dict[str, int | slice] = {"T": region["T"]} | ({"S": 0} if "S" in axes else {})
    pixels = ax.Sample(array, axes, index).read(*(region[axis] for axis in ax.spatial(axes)))
    frames = pixels[:, :, 0] if "Z" in axes else pixels
    return frames.swapaxes(0, 1).astype(np.float32)


def liveliness(film: NDArray[Any], smooth: float = 2.0) -> Array:
    """How much each place of a film (T, Y, X) changes in time, (Y, X): the covariance of frames that follow each other.

    Noise that is independent from frame to frame adds nothing to it on average.

    Parameters
    ----------
    smooth : float
        Standard deviation in pixels of the window over which frames are averaged first.
    """
    known = np.isfinite(film)
    frames = np.where(known, film, film[known].mean() if known.any() else 0.0)
    frames = (frames - frames.mean(axis=0, dtype=np.float64)).astype(np.float32)  # which filters twice as fast
    frames = ndimage.gaussian_filter(frames, (0, smooth, smooth)) if smooth else frames
    if len(frames) < 2:
        return np.zeros(film.shape[1:])
    lags = range(1, min(LAGS, len(frames) - 1) + 1)
    return np.mean([(frames[lag:] * frames[:-lag]).mean(axis=0, dtype=np.float64) for lag in lags], axis=0)


def liveliest(lively: Array, count: int, apart: int = 12) -> list[tuple[int, int]]:
    """Places (Y, X) with the largest liveliness, at least so many pixels apart; fewer if there is no room."""
    left = lively.copy()
    places: list[tuple[int, int]] = []
    while len(places) < count and np.isfinite(left).any():
        y, x = (int(at) for at in np.unravel_index(int(np.nanargmax(left)), left.shape))
        places.append((y, x))
        left[max(0, y - apart) : y + apart + 1, max(0, x - apart) : x + apart + 1] = np.nan
    return places


def changes_lost(noisy: NDArray[Any], clean: NDArray[Any], noise: NoiseModel) -> Lost | None:
    r"""Measure how much of the changes in time was removed from one channel of a film together with the noise.

    Each place is a square of 6 × 6 pixels. Its even columns, :math:`x_e`, and its odd ones, :math:`x_o`, show about the
    same signal and have noise of their own. So :math:`\mathrm{Cov}(x_o, x_e)` of the changes from some frames to the
    next is that of the signal, and :math:`\mathrm{Cov}(x_o - f_o, x_e)` is the part of it that was removed. Noise that
    the result still has, as in every filter's, makes the latter smaller; it does so everywhere, and what it is at quiet
    places is subtracted. The even columns also tell which places are lively, by other products of them. Then both
    change places.

    Parameters
    ----------
    noisy, clean : ndarray, (T, Y, X)
        The film and its result.
    noise : NoiseModel
        Of this channel, independent from pixel to pixel.

    Returns
    -------
    Lost or None
        At the time scale at which the loss is most certain. None if the film is too short or too small, or nothing in
        it changes enough beside its noise.
    """
    length, height, width = noisy.shape
    if length < SHORTEST or (height // SIDE) * (width // SIDE) < 4 * FEWEST:
        return None
    usual = noise.variance(clean.mean(axis=0, dtype=np.float64)[None, None])[0, 0] ** 0.5
    columns = [_squares(noisy / usual, column) for column in (0, 1)]
    removed = [_squares((noisy - clean) / usual, column) for column in (0, 1)]
    found = []
    for window in (window for window in WINDOWS if length >= 4 * window):
        ways = (
            _covariances(columns[0], columns[1], removed[1], window),
            _covariances(columns[1], columns[0], removed[0], window),
        )
        signal, lost, variance = np.sum(ways, axis=0)
        if signal > VISIBLE * variance**0.5:
            found.append(Lost(float(lost / signal), float(variance**0.5 / signal)))
    return max(found, key=lambda lost: lost.share / lost.error) if found else None


def _covariances(before: Array, beside: Array, removed: Array, window: int) -> tuple[float, float, float]:
    """Covariance of the changes of `before`, (T, squares), with those beside it and with what was removed there.

    At the liveliest squares, each by how lively it is, without what it is at quiet ones; and the variance of the second
    by chance.
    """
    lively = liveliness(before[:, None], smooth=0)[0]
    order = np.argsort(lively)
    quiet, busy = order[: len(order) // 2], order[-max(FEWEST, round(LIVELIEST * len(order))) :]
    weight = np.zeros(len(order))
    weight[busy] = np.maximum(lively[busy], 0)
    weight /= max(weight.sum(), np.finfo(float).tiny)
    weight[quiet] -= 1 / len(quiet)
    changes, others, gone = (_changes(traces, window) for traces in (before, beside, removed))
    signal, lost = (float((part * changes).mean(axis=0) @ weight) for part in (others, gone))
    # neighboring changes share a mean: their products are worth 2/3 of their number
    power = float((changes**2).mean(axis=0) @ weight**2)
    return signal, lost, 1.5 * float((gone[:, quiet] ** 2).mean()) * power / len(gone)


def _squares(film: NDArray[Any], column: int) -> Array:
    """Means over the even (0) or odd (1) columns of squares, (T, squares); unknown pixels count as 0."""
    rows, columns = (size // SIDE for size in film.shape[1:])
    cut = np.nan_to_num(film[:, : rows * SIDE, : columns * SIDE], posinf=0.0, neginf=0.0)
    split = cut.reshape(len(film), rows, SIDE, columns, SIDE)[..., column::2]
    means: Array = split.mean(axis=(2, 4), dtype=np.float64).reshape(len(film), -1)
    return means


def _changes(traces: Array, window: int) -> Array:
    """Changes of traces (T, places) from the mean over some frames to the next."""
    whole = traces[: len(traces) // window * window]
    return np.diff(whole.reshape(-1, window, whole.shape[1]).mean(axis=1), axis=0)


def traces_at(film: NDArray[Any], places: Sequence[tuple[int, int]]) -> Array:
    """Traces of small squares around places of a film (T, Y, X), (places, T)."""
    half = SIDE // 2
    cuts = [film[:, max(0, y - half) : y + half, max(0, x - half) : x + half] for y, x in places]
    return np.stack([np.nan_to_num(cut).mean(axis=(1, 2), dtype=np.float64) for cut in cuts])
