"""How close a denoised image is to the truth: PSNR (plain, affine-fit, min-max) and SSIM.

All are computed in float64. `data_range`, the span L between the darkest and the brightest value, follows the field's
convention unless it is given: 255 for a uint8 truth, and max − min of the truth itself for every other dtype. NaN and
infinite pixels of the truth or the prediction are left out.

Measures that differ when truth and prediction are swapped, even with a `data_range`, take both by name. `psnr` and
`ssim` take the truth first, as scikit-image does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage.metrics import structural_similarity
from skimage.morphology import erosion, footprint_rectangle

from noise2same.data import axes as ax
from noise2same.errors import InputError

Array = NDArray[np.float64]
Ends = tuple[float, float]
P = ParamSpec("P")
T = TypeVar("T")


def by_name(measure: Callable[P, T]) -> Callable[P, T]:
    """Say how to call a measure when its images are given without their names, which are easily swapped."""

    @wraps(measure)
    def call(*args: P.args, **named: P.kwargs) -> T:
        if args:
            name = measure.__name__
            raise TypeError(f"{name} takes its images by name: {name}(prediction=..., truth=...).")
        return measure(*args, **named)

    return call


def psnr(truth: ArrayLike, prediction: ArrayLike, data_range: float | None = None) -> float:
    r"""Peak signal-to-noise ratio in dB, :math:`10 \log_{10}(L^2 / \mathrm{MSE})`; infinite for equal images.

    Parameters
    ----------
    truth, prediction : array_like, any shape, the same for both
        The prediction is neither clipped nor rounded.
    data_range : float, optional
        L; by default 255 for a uint8 truth, else the truth's max − min.
    """
    y, f = pair(truth, prediction)
    return _decibel(y, f, _ends(truth, data_range))


@by_name
def psnr_affine(*, prediction: ArrayLike, truth: ArrayLike, data_range: float | None = None) -> float:
    r"""PSNR of :math:`a f + b`, with a and b the least-squares fit of the prediction f to the truth; at least `psnr`.

    For truths taken at another exposure or offset than the noisy image, as CARE scores the Planaria data (Weigert et
    al.: Content-aware image restoration. Nature Methods 15, 2018). Parameters as for `psnr`.
    """
    y, f = pair(truth, prediction)
    return _decibel(y, affine_fit(y, f), _ends(truth, data_range))


@by_name
def psnr_minmax(*, prediction: ArrayLike, truth: ArrayLike, data_range: float | None = None) -> float:
    """PSNR of the prediction stretched so that its minimum and maximum meet the two ends of the data range.

    How the paper (Xie et al. 2020) scores HanZi and ImageNet, image by image. The ends are 0 and 255 for a uint8 truth,
    0 and `data_range` where that is given, and otherwise the truth's own minimum and maximum. A constant prediction is
    set to the lower end. Parameters as for `psnr`.
    """
    y, f = pair(truth, prediction)
    ends = _ends(truth, data_range)
    return _decibel(y, _stretch(f, ends), ends)


def ssim(
    truth: ArrayLike, prediction: ArrayLike, data_range: float | None = None, *, channel_axis: int | None = None
) -> float:
    """Mean structural similarity (Wang et al. 2004) with scikit-image's uniform window of 7 pixels a side.

    Parameters
    ----------
    truth, prediction : array_like, (Y, X) or (Z, Y, X), or either with a channel axis
        The window shrinks to the largest odd size that fits. NaN if an axis is under 3 pixels long or no window is
        free of NaN pixels.
    data_range : float, optional
        L; by default 255 for a uint8 truth, else the truth's max − min.
    channel_axis : int, optional
        Axis of the channels, which are compared one by one and averaged.

    References
    ----------
    Wang, Bovik, Sheikh, Simoncelli: Image quality assessment: from error visibility to structural similarity. IEEE
    Transactions on Image Processing 13(4), 2004.
    """
    y, f = pair(truth, prediction)
    ends = _ends(truth, data_range)
    if channel_axis is None:
        return _similarity(y, f, ends)
    channels = zip(np.moveaxis(y, channel_axis, 0), np.moveaxis(f, channel_axis, 0), strict=True)
    return float(np.mean([_similarity(*channel, ends) for channel in channels]))


@by_name
def evaluate(
    *, prediction: ArrayLike, truth: ArrayLike, data_range: float | None = None, axes: str | None = None
) -> dict[str, float]:
    """All four measures of an image with axes, each the mean over its samples and time points.

    Parameters
    ----------
    prediction, truth : array_like with `axes`
        The denoised image and the clean one. Affine fit and min-max stretch are made for each sample and time point,
        over all of its channels.
    data_range : float, optional
        L, one for the whole array; by default 255 for a uint8 truth, else the truth's max − min.
    axes : str, optional
        One letter of S, T, C, Z, Y and X per dimension; by default YX or YXC where the shape leaves no doubt.

    Returns
    -------
    dict
        'psnr', 'psnr_affine' and 'psnr_minmax' in dB, and 'ssim', which takes volumes under 3 planes plane by plane.

    Examples
    --------
    >>> clean = np.arange(256, dtype=np.uint8).reshape(16, 16)
    >>> round(evaluate(prediction=clean + 1.0, truth=clean)["psnr"], 2)
    48.13
    """
    y, f = pair(truth, prediction)
    ends = _ends(truth, data_range)
    axes = ax.check(ax.guess(y.shape) if axes is None else axes, y.shape, name="the truth")
    scores = [_scores(*pair, ends) for pair in zip(ax.to_network(y, axes), ax.to_network(f, axes), strict=True)]
    return {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}


def _scores(y: Array, f: Array, ends: Ends) -> dict[str, float]:
    """The four measures of one image, (C, [Z,] Y, X)."""
    planes = (-1, *y.shape[-2:]) if y.ndim == 4 and y.shape[1] < 3 else y.shape
    channels = zip(y.reshape(planes), f.reshape(planes), strict=True)
    return {
        "psnr": _decibel(y, f, ends),
        "psnr_affine": _decibel(y, affine_fit(y, f), ends),
        "psnr_minmax": _decibel(y, _stretch(f, ends), ends),
        "ssim": float(np.mean([_similarity(*channel, ends) for channel in channels])),
    }


def pair(truth: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
    """Both as float64, with NaN in both wherever either is not finite."""
    y, f = np.array(truth, dtype=np.float64), np.array(prediction, dtype=np.float64)
    if y.shape != f.shape:
        raise InputError(f"the truth has shape {y.shape} but the prediction has {f.shape}: they must be the same.")
    unknown = ~(np.isfinite(y) & np.isfinite(f))
    if unknown.all():
        raise InputError("truth and prediction have no finite pixel in common: there is nothing to compare.")
    y[unknown] = f[unknown] = np.nan
    return y, f


def _ends(truth: ArrayLike, data_range: float | None) -> Ends:
    """The darkest and the brightest value of the data range."""
    array = np.asarray(truth)
    if data_range is not None:
        low, high = 0.0, float(data_range)
    elif array.dtype == np.uint8:
        low, high = 0.0, 255.0
    else:
        finite = array[np.isfinite(array)]
        low, high = float(finite.min()), float(finite.max())
    if not high > low:
        raise InputError(
            f"the data range is {high - low}, but must be positive: pass data_range (the truth is constant?)."
        )
    return low, high


def _decibel(y: Array, f: Array, ends: Ends) -> float:
    error = np.nanmean((y - f) ** 2)
    return float(10 * np.log10((ends[1] - ends[0]) ** 2 / error)) if error > 0 else float("inf")


def affine_fit(y: Array, f: Array) -> Array:
    """The prediction f with the gain and offset that fit y best, in least squares."""
    centred = f - np.nanmean(f)
    power = np.nanmean(centred**2)
    return np.nanmean(y) + (np.nanmean(y * centred) / power if power > 0 else 0.0) * centred


def _stretch(f: Array, ends: Ends) -> Array:
    low, high = np.nanmin(f), np.nanmax(f)
    return ends[0] + (ends[1] - ends[0]) * (f - low) / (high - low if high > low else 1.0)


def _similarity(y: Array, f: Array, ends: Ends) -> float:
    """SSIM of one channel, ([Z,] Y, X): the mean of its map over the windows that hold known pixels only."""
    shortest = min(y.shape)
    if shortest < 3:
        return float("nan")
    window = min(7, shortest - 1 + shortest % 2)
    known = np.isfinite(y)
    y, f = np.where(known, y, ends[0]), np.where(known, f, ends[0])
    _, similarity = structural_similarity(y, f, win_size=window, data_range=ends[1] - ends[0], full=True)
    if not known.all():
        known = erosion(known, footprint_rectangle((window,) * y.ndim, decomposition="separable"))
    inner = (slice(window // 2, -(window // 2)),) * y.ndim
    whole = similarity[inner][known[inner]]
    return float(whole.mean()) if whole.size else float("nan")
