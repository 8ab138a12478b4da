"""What consecutive frames of a film tell of its noise: how strong it is, whatever the texture, and if they share it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn

from noise2same.data import axes as ax
from noise2same.data.sampling import evenly_spread
from noise2same.errors import InputError
from noise2same.io import Image
from noise2same.noise.level import (
    COARSE,
    FINE,
    MAX_BLOCKS,
    STRIDE,
    Levels,
    by_brightness,
    cut_blocks,
    squared_frequencies,
    usable,
)

RUN = (64, 128, 128)
"""Largest part of a film that is looked at as one, in frames and pixels along T, Y, X."""
VALUES = 4 * prod(RUN)
"""About how many values of a channel are read."""
WINDOW = 16
"""Frames over which changes are averaged at each place.

Single changes of photon noise differ so much that flat ones would be chosen because their noise is weak: at 0.1 photons
a pixel, the variance came out 9 % too low."""
WINDOWS = 8
"""Windows of a run that are looked at, at most."""
LAGS = 5
"""Frames up to which shared noise is looked for."""
SHORTEST = 8
"""Frames that a run needs for that: its mean, which is subtracted, has some of the noise."""
FLATTEST, FEWEST = 0.1, 32
"""Share and least number of the places whose fine frequencies count there: those with the least texture."""
MAX_PLACES = 4096
"""Blocks of a frame that are looked at there."""
SHARED = 0.1
"""Correlation from which on frames share noise. Independent noise had at most 0.013 in films of 32 frames."""


def read_runs(images: Sequence[Image]) -> list[NDArray[Any]]:
    """Read evenly spread runs of consecutive frames of films, each (C, T, Y, X); none if there are no films.

    Of several samples the first is read, and of volumes the middle slice. What cannot be read is left out.
    """
    films = [image for image in images if "T" in image.axes and image.shape[image.axes.index("T")] > 1]
    shapes = [tuple(film.shape[film.axes.index(axis)] for axis in "TYX") for film in films]
    share = VALUES / max(1, sum(map(prod, shapes)))
    runs = []
    for number, (time, *region) in evenly_spread(shapes, share, {3: RUN}):
        film = films[number]
        index: dict[str, int | slice] = {"T": time} | ({"S": 0} if "S" in film.axes else {})
        sample = ax.Sample(film.data, film.axes, index)
        middle = sample.size[0] // 2
        try:
            pixels = sample.read(*([slice(middle, middle + 1)] if "Z" in film.axes else []), *region)
        except InputError:
            continue
        runs.append((pixels[:, :, 0] if "Z" in film.axes else pixels).swapaxes(0, 1))
    return runs


def measure_changes(runs: Sequence[NDArray[Any]]) -> Levels | None:
    r"""Noise variance at several levels of brightness, from :math:`(x_{t+1} - x_t)/\sqrt 2` of one channel of a film.

    What stays from frame to frame cancels, and what moves or flickers is texture of the difference, which `level`
    tells from noise as in a picture, in blocks of 8 × 8 pixels. The squares of their frequencies are averaged over 16
    frames, and so is the brightness, which is then known better than from one frame.

    Parameters
    ----------
    runs : sequence of ndarray, (T, Y, X)
        Consecutive frames, in which noise is independent from frame to frame.

    Returns
    -------
    Levels or None
        None if no block is left.
    """
    windows = [window for run in runs for window in _windows(_shown(run))]
    stride = max(STRIDE, round((sum(window[0].size for window in windows) / MAX_BLOCKS) ** 0.5))
    found = [changes for window in windows if (changes := _changes(window, stride)) is not None]
    return by_brightness(*map(np.concatenate, zip(*found, strict=True))) if found else None


def _shown(run: NDArray[Any]) -> NDArray[Any]:
    """The frames of a run that show something: frames that were lost are NaN, or have one value."""
    some = [np.isfinite(frame).mean() > 0.5 and np.nanmax(frame) > np.nanmin(frame) for frame in run]
    return run[np.array(some, dtype=bool)]


def _windows(run: NDArray[Any]) -> list[NDArray[Any]]:
    length = min(WINDOW, len(run))
    if length < 2:
        return []
    count = min(max(1, len(run) // WINDOW), WINDOWS)
    return [run[at : at + length] for at in np.linspace(0, len(run) - length, count).round().astype(int)]


def _changes(window: NDArray[Any], stride: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Brightness and mean squares of the frequencies of the changes, of the usable blocks of a window."""
    blocks, known = _blocks(window, stride)
    if blocks.shape[1] == 0:
        return None
    squares = [squared_frequencies((after - before) / 2**0.5, known) for before, after in pairwise(blocks)]
    return blocks.mean(axis=(0, 2, 3)), np.mean(squares, axis=0)


def _blocks(frames: NDArray[Any], stride: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Blocks that are usable in every frame, (T, blocks, 8, 8), and the least number of their known pixels."""
    if min(frames.shape[1:]) < len(FINE):
        return np.zeros((len(frames), 0, *FINE.shape)), np.zeros(0)
    cut = [usable(cut_blocks(frame, stride)) for frame in frames]
    fit = np.all([one for _, _, one in cut], axis=0)
    return np.stack([blocks[fit] for blocks, _, _ in cut]), np.min([known[fit] for _, known, _ in cut], axis=0)


def along_time(runs: Sequence[NDArray[Any]]) -> tuple[float, ...]:
    """Autocorrelation of the noise from frame to frame, as far as frames share it; empty if they do not.

    Films that were interpolated in time, averaged, or compressed share noise. It is looked for in the fine frequencies
    of the flattest blocks, whose mean over time, which may be texture, is subtracted.

    Parameters
    ----------
    runs : sequence of ndarray, (T, Y, X)
        Consecutive frames of one channel.
    """
    found = [lags for run in runs if (lags := _lags(_shown(run))) is not None]
    if not found:
        return ()
    mean = np.mean([lags[: min(map(len, found))] for lags in found], axis=0)
    apart = np.flatnonzero(np.abs(mean) <= SHARED)
    return tuple(mean[: apart[0] if apart.size else None].tolist())


def _lags(run: NDArray[Any]) -> NDArray[np.float64] | None:
    """Autocorrelation at the lags 1, 2, ... of one run; None if too few places can be measured."""
    length = len(run)
    if length < SHORTEST:
        return None
    blocks, _ = _blocks(run, max(STRIDE, round((run[0].size / MAX_PLACES) ** 0.5)))
    if blocks.shape[1] < FEWEST:
        return None
    frequencies = dctn(blocks, axes=(2, 3), norm="ortho")
    texture = (frequencies[..., COARSE] ** 2).mean(axis=(0, 2))
    fine = frequencies[:, np.argsort(texture)[: max(FEWEST, round(FLATTEST * len(texture)))]][..., FINE]
    fine -= fine.mean(axis=0)
    power = (fine**2).mean()
    if power == 0:
        return None
    lags = np.array([(fine[lag:] * fine[:-lag]).mean() / power for lag in range(1, min(LAGS, length // 3) + 1)])
    # the mean that is subtracted has a share of the noise's variance, the larger the more frames share
    mean = (1 + 2 * lags[lags > SHARED].sum()) / length
    return (lags + mean) / (1 + mean)
