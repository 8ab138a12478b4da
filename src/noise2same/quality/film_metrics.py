"""How close a denoised film is to the truth: in space, in time, and in its transients."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage, signal

from noise2same.data import axes as ax
from noise2same.quality.metrics import Array, by_name, pair

LIVELIEST, FEWEST, MOST = 0.02, 16, 2048
"""Share and number of the pixels whose transients are compared: those that change most in the truth."""
SMOOTH = 1.0
"""Standard deviation in pixels of the window over which traces are averaged in space."""
PROMINENT = 0.5
"""Height of a peak above its surroundings, as a share of the trace's range, from which on it is a transient."""
RISE = 16
"""Frames before a peak in which its foot is looked for."""
LAGS = 8
"""Longest delay that is looked for, in frames."""
SHORTEST = 8
"""Frames that a film needs for transients."""
EXACT = 1e-12
"""Least error that counts, as a share of the power: 120 dB."""


@by_name
def evaluate_film(*, prediction: ArrayLike, truth: ArrayLike, axes: str) -> dict[str, float]:
    r"""Figures of a film, each the mean over its samples and channels.

    The signal-to-noise ratios are those of the calcium-imaging challenge CIDC25, :math:`10 \log_{10}(\sum y^2 / \sum
    (y - f)^2)`: of each frame and of the trace of each pixel. For the transients, frames are smoothed a little, and the
    2 % of the pixels that change most in the truth count. A transient is a peak of such a trace that stands out by half
    of its range; its foot is the lowest of the 16 frames before it.

    Parameters
    ----------
    prediction, truth : array_like with `axes`
        The denoised film and the clean one.
    axes : str
        One letter of S, T, C, Z, Y and X per dimension, T among them.

    Returns
    -------
    dict
        'spatial_snr', the mean over frames, 'temporal_snr', the mean over pixels, and 'stsnr', the mean of both, in dB;
        'kept_amplitude', the slope of the least-squares line through the heights of transients in the prediction, from
        foot to peak, against those in the truth: 1 if they are kept; and 'onset_delay', by how many frames the rises of
        the prediction come after those of the truth, where they fit best. The last two are NaN if nothing changes.
    """
    y, f = pair(truth, prediction)
    axes = ax.check(axes, y.shape, name="the truth")
    scores = [_scores(*film) for film in zip(_films(y, axes), _films(f, axes), strict=True)]
    return {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}


def _films(array: Array, axes: str) -> Array:
    """Films of one channel each, (films, T, [Z,] Y, X)."""
    order = [letter for letter in "SCTZYX" if letter in axes]
    ordered = array.transpose([axes.index(letter) for letter in order])
    return ordered.reshape(-1, *ordered.shape[order.index("T") :])


def _scores(y: Array, f: Array) -> dict[str, float]:
    """Figures of one film, (T, [Z,] Y, X)."""
    spatial, temporal = _snr(y, f, tuple(range(1, y.ndim))), _snr(y, f, (0,))
    kept, delay = _transients(y, f)
    return {
        "spatial_snr": spatial,
        "temporal_snr": temporal,
        "stsnr": (spatial + temporal) / 2,
        "kept_amplitude": kept,
        "onset_delay": delay,
    }


def _snr(y: Array, f: Array, over: tuple[int, ...]) -> float:
    """Mean signal-to-noise ratio in dB, of which each is taken over some axes; those without a signal do not count."""
    known = np.isfinite(y)
    power, error = (np.where(known, values, 0).sum(over) for values in (y**2, (y - f) ** 2))
    if not error.any():
        return float("inf")
    lit = power > 0
    ratios = power[lit] / np.maximum(error[lit], EXACT * power[lit])
    return float(10 * np.log10(ratios).mean()) if lit.any() else float("nan")


def _transients(y: Array, f: Array) -> tuple[float, float]:
    """Share of the height of transients that is kept, and their delay in frames."""
    if len(y) < SHORTEST:
        return float("nan"), float("nan")
    smooth = (0, *[SMOOTH] * (y.ndim - 1))
    y, f = (
        ndimage.gaussian_filter(np.nan_to_num(film - np.nanmean(film)), smooth).reshape(len(y), -1) for film in (y, f)
    )
    change = y.var(axis=0)
    count = min(max(FEWEST, min(MOST, round(LIVELIEST * change.size))), change.size)
    lively = np.argsort(change)[-count:]
    y, f = y[:, lively], f[:, lively]
    if change.max() <= EXACT * (y**2).mean():
        return float("nan"), float("nan")
    return _kept(y, f), _best_lag(y, f) - _best_lag(y, y)


def _kept(y: Array, f: Array) -> float:
    """Slope of the heights of transients in f against those in y, both (T, traces)."""
    products = squares = 0.0
    for before, after in zip(y.T, f.T, strict=True):
        for peak in signal.find_peaks(before, prominence=PROMINENT * np.ptp(before))[0]:
            start = max(0, peak - RISE)
            foot = start + int(np.argmin(before[start:peak]))
            height = before[peak] - before[foot]
            products += height * (after[peak] - after[foot])
            squares += height**2
    return products / squares if squares > 0 else float("nan")


def _best_lag(y: Array, f: Array) -> float:
    """Frames by which the changes of f follow the rises of y, between frames by a parabola."""
    rises, changes = np.maximum(np.diff(y, axis=0), 0), np.diff(f, axis=0)
    reach = min(LAGS, len(rises) // 2)
    lags = np.arange(-reach, reach + 1)
    fits = np.array([_product(rises, changes, int(lag)) for lag in lags])
    best = int(np.clip(fits.argmax(), 1, len(fits) - 2))
    left, middle, right = fits[best - 1 : best + 2]
    bend = left - 2 * middle + right
    return float(lags[best] + (0.5 * (left - right) / bend if bend < 0 else 0.0))


def _product(rises: NDArray[np.float64], changes: NDArray[np.float64], lag: int) -> float:
    """Mean product of rises and the changes `lag` frames later."""
    length = len(rises) - abs(lag)
    return float((rises[max(0, -lag) :][:length] * changes[max(0, lag) :][:length]).mean())
