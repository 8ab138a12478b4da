"""Films whose truth is known: calcium-like, panning, still, unrelated frames, and a real film with noise added.

Each function takes a seed, from which all of the film follows. Even seeds are for development, odd ones for reports.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import imageio.v3 as imageio
import numpy as np
import record
import tifffile
from numpy.typing import NDArray
from scipy import ndimage

from noise2same.noise.synthetic import gaussian, poisson_gaussian

Film = NDArray[np.float32]
GAINS = {28: -14.0, 249: -21.0, 991: -24.0}
"""Gain of the detector, and the SNR in dB of the field's benchmark at it (CIDC25)."""
READ_VARIANCE = (2500.0, 3700.0)
"""Of the same benchmark; which one follows from the seed."""
RATE = 15.0
"""Frames a second, to which all traces are resampled; the benchmark's films are about as fast."""
SIGMA = 25.0
"""Of the noise in all films but the calcium-like ones, whose range is 0 to 255."""


class Case(NamedTuple):
    """A film, (T, Y, X)."""

    clean: Film
    noisy: Film
    info: dict[str, Any]
    """`a` and `b`, where the variance of the noise is a·y + b, and what else is known of the film."""


def calcium(seed: int, gain: float = 249, shape: tuple[int, int, int] = (300, 128, 128)) -> Case:
    r"""10 to 40 cells with measured transients on a background of neuropil, seen by a detector of low light.

    The film is scaled so that :math:`10 \log_{10}(\mathrm{Var}\,y / \mathrm{E}[a y + b])` is that of `GAINS`. `info`
    has `footprints`, (cells, Y, X) with a maximum of 1, and `transients`, (cells, T) in units of the film.
    """
    rng = np.random.default_rng(seed)
    length, *size = shape
    count = int(rng.integers(10, 41))
    footprints = np.stack([_cell(rng, size) for _ in range(count)])
    transients = rng.uniform(30, 120, (count, 1)) * np.stack([_transients(rng, length) for _ in range(count)])
    shade, fine = (_cloud(rng, size, width) for width in (12.0, 1.5))
    neuropil = 8 * ndimage.gaussian_filter1d(rng.normal(size=length), 6.0) / 0.22  # of the size of its deviation
    resting = rng.uniform(5, 30, (count, 1, 1))
    still = 95 + 8 * shade + 3 * fine + (resting * footprints).sum(axis=0)
    film = still + neuropil[:, None, None] * np.clip(0.5 + 0.3 * shade, 0, 1)
    film += np.tensordot(transients.T, footprints, axes=1)
    film = np.clip(film, 5, None)
    read = float(rng.uniform(*READ_VARIANCE))
    scale = _scale(film, gain, read, GAINS[int(gain)])
    clean = (scale * film).astype(np.float32)
    noisy = poisson_gaussian(clean, gain, read**0.5, rng)
    info = {"a": float(gain), "b": read, "footprints": footprints, "transients": scale * transients}
    return Case(clean, noisy, info)


def panning(seed: int, shape: tuple[int, int, int] = (32, 160, 160)) -> Case:
    """A photograph that the camera pans over, 1 to 4 pixels a frame, and a disk of another one that moves against it.

    `info` has `velocity`, that of the scene, and `masks`, (T, Y, X), where the object covers it.
    """
    rng = np.random.default_rng(seed)
    length, *size = shape
    pictures = _photographs("color/Kodak24")
    scene, other = (pictures[i] for i in rng.choice(len(pictures), 2, replace=False))
    angle = rng.uniform(0, 2 * np.pi)
    velocity = rng.uniform(1, 4) * np.array([np.sin(angle), np.cos(angle)])
    own = -rng.uniform(0.3, 0.8) * velocity  # of the object, in the frame
    radius = min(size) / 6
    frames, masks = [], []
    for t in range(length):
        moved = (t - length / 2) * velocity
        middle = np.array(size) / 2 + (t - length / 2) * own
        at = np.stack(np.mgrid[: size[0], : size[1]]).astype(np.float64)
        distance = np.hypot(*(at - middle[:, None, None]))
        alpha = np.clip(radius - distance + 0.5, 0, 1)
        background = _seen(scene, at + _centered(scene, size, moved))
        foreground = _seen(other, at + _centered(other, size, np.array(size) / 2 - middle))
        frames.append(alpha * foreground + (1 - alpha) * background)
        masks.append(alpha > 0.5)
    info = {"velocity": tuple(velocity.tolist()), "masks": np.stack(masks)}
    return _with_gaussian(np.stack(frames), rng, **info)


def still(seed: int, shape: tuple[int, int, int] = (32, 160, 160)) -> Case:
    """A photograph in which nothing moves."""
    rng = np.random.default_rng(seed)
    pictures = _photographs("color/Kodak24")
    picture = _crop(pictures[int(rng.integers(len(pictures)))], shape[1:])
    return _with_gaussian(np.repeat(picture[None], shape[0], axis=0), rng)


def unrelated(seed: int, shape: tuple[int, int, int] = (32, 160, 160)) -> Case:
    """A different photograph in each frame, no larger than 180 × 180."""
    rng = np.random.default_rng(seed)
    pictures = _photographs("bsd/Train400")
    chosen = rng.choice(len(pictures), shape[0], replace=shape[0] > len(pictures))
    return _with_gaussian(np.stack([_crop(pictures[i], shape[1:]) for i in chosen]), rng)


def real(seed: int, name: str = "brightfield", shape: tuple[int, int, int] = (50, 256, 256)) -> Case:
    """The middle of a recording with little noise, brightfield or bulk_water, and noise that is added to it."""
    film = tifffile.imread(record.DATA / "films" / f"{name}.tif")[: shape[0]]
    return _with_gaussian(np.stack([_crop(frame, shape[1:]) for frame in film]), np.random.default_rng(seed))


CASES = {"calcium": calcium, "panning": panning, "still": still, "unrelated": unrelated, "real": real}


def _with_gaussian(clean: NDArray[Any], rng: np.random.Generator, **info: Any) -> Case:
    clean = clean.astype(np.float32)
    return Case(clean, gaussian(clean, SIGMA, rng), {"a": 0.0, "b": SIGMA**2} | info)


@cache
def _traces() -> tuple[NDArray[np.float64], ...]:
    """Measured traces from 0 (at rest) to 1, at `RATE`, without what is faster than a frame."""
    found = []
    with np.load(record.DATA / "films" / "calcium_traces.npz") as file:
        for key in sorted(file):
            step = float(key.rsplit("_", 1)[1].removesuffix("Hz")) / RATE
            smooth = ndimage.gaussian_filter1d(file[key].astype(np.float64), 0.8 * step)
            trace = np.interp(np.arange(0, len(smooth) - 1, step), np.arange(len(smooth)), smooth)
            trace = np.clip(trace - np.quantile(trace, 0.2), 0, None)
            found.append(trace / np.quantile(trace, 0.995))
    return tuple(found)


def _transients(rng: np.random.Generator, length: int) -> NDArray[np.float64]:
    """A part of a measured trace, mirrored at its end if it is too short."""
    traces = _traces()
    trace = traces[int(rng.integers(len(traces)))]
    start = int(rng.integers(max(1, len(trace) - length + 1)))
    return np.pad(trace, (0, max(0, length - len(trace))), mode="reflect")[start : start + length]


def _cell(rng: np.random.Generator, size: list[int]) -> NDArray[np.float64]:
    """An ellipse of 6 to 12 pixels with a soft edge and a darker nucleus."""
    middle = [rng.uniform(min(4, side / 4), side - min(4, side / 4)) for side in size]
    radius, stretch, angle = rng.uniform(3, 6), rng.uniform(0.75, 1.33), rng.uniform(0, np.pi)
    y, x = (axis - center for axis, center in zip(np.mgrid[: size[0], : size[1]], middle, strict=True))
    along, across = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    distance = np.hypot(along * stretch, across / stretch)
    shape = (1 - 0.5 * np.exp(-((2 * distance / radius) ** 2))) / (1 + np.exp(2 * (distance - radius)))
    return shape / shape.max()


def _cloud(rng: np.random.Generator, size: list[int], width: float) -> NDArray[np.float64]:
    """Smooth random structure of standard deviation 1."""
    cloud = ndimage.gaussian_filter(rng.normal(size=size), width, mode="wrap")
    return (cloud - cloud.mean()) / cloud.std()


def _scale(film: NDArray[np.float64], gain: float, read: float, snr: float) -> float:
    """The factor k with Var(k y) / (gain E[k y] + read) = SNR: the positive root of a quadratic equation."""
    ratio, square = 10 ** (snr / 10), float(film.var())
    linear = ratio * gain * float(film.mean())
    return float((linear + np.sqrt(linear**2 + 4 * square * ratio * read)) / (2 * square))


@cache
def _photographs(folder: str) -> tuple[NDArray[np.float64], ...]:
    """All photographs of a folder, in grey."""
    pictures = [imageio.imread(path).astype(np.float64) for path in sorted((record.DATA / folder).glob("*.png"))]
    return tuple(picture if picture.ndim == 2 else picture[..., :3].mean(axis=-1) for picture in pictures)


def _crop(picture: NDArray[Any], size: tuple[int, ...]) -> NDArray[Any]:
    """The middle of a picture."""
    top, left = ((whole - part) // 2 for whole, part in zip(picture.shape, size, strict=True))
    return picture[top : top + size[0], left : left + size[1]]


def _centered(picture: NDArray[Any], size: list[int], moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """What to add to the places of a frame to find them in a picture, seen from its middle and moved."""
    return ((np.array(picture.shape) - size) / 2 + moved)[:, None, None]


def _seen(picture: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of a picture between its pixels, mirrored at its ends."""
    return np.clip(ndimage.map_coordinates(picture, at, order=3, mode="mirror"), 0, 255)
