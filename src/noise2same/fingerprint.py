"""The fingerprint of training images: what is measured of them and their noise, before anything is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from noise2same.config import Config
from noise2same.data.channels import shared_structure
from noise2same.data.film import BOX, along_times, read_crops
from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.data.stabilize import Stabilizer
from noise2same.data.training_data import TrainingData, read_training_data
from noise2same.errors import InputError
from noise2same.io import Image
from noise2same.networks import film
from noise2same.noise.diagnose import Diagnosis
from noise2same.noise.frames import along_time, read_runs
from noise2same.noise.level import HUGE, brightness_range, noise_level
from noise2same.noise.model import NoiseModel
from noise2same.noise.survey import majority_diagnosis, strength_per_image

DOUBLED = 10.0
"""Standard deviations above the median at which the noise's variance is taken to be doubled, if no gain was found.

For photon noise it is the root of the sky's photons. Tried on two fields of stars with 10 and 20."""
RANGE_PIXELS = 2**20
"""About how many pixels the range of brightness is measured of."""


class Frozen(BaseModel):
    """Data that does not change, with no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Fingerprint(Frozen):
    """What was measured of the training images."""

    dims: int
    """Number of spatial dimensions, of which time is one in a film that is denoised along it."""
    time: int = 0
    """Frames of a film before and after each frame that it is denoised with; 0 for none."""
    channels: int
    shared_structure: tuple[float, ...] = ()
    """Largest correlation of each channel's fine structure with another's, beneath the noise; empty for one channel."""
    images: int
    """Number of images, or of the boxes that represent them."""
    pixels: int
    """Of all of them."""
    noise: NoiseModel
    """In the images' own units."""
    steady: bool
    """Whether the noise is equally strong in dark and bright places, and its level is sure."""
    noise_varies: bool
    """Whether some images have much stronger noise than others."""
    mean_strength: float = 1.0
    """Mean variance of the noise over all images, as a share of what `noise` says; 1 where it does not vary."""
    scale: Normalization
    """What a normalized unit is worth in the images' own units."""
    brightness_range: float = 1.0
    """Standard deviation of the images over their usual spread (`noise.level`), of the channel with the largest."""
    stabilized: Normalization | None = None
    """What a normalized unit is worth on the scale on which photon noise is steady; None if it was not looked at."""


@dataclass(frozen=True)
class Measured:
    """Training images as they were read, and what was measured of them."""

    data: TrainingData
    fingerprint: Fingerprint
    strengths: tuple[float, ...] | None
    """Of the noise in each image, where it differs."""
    diagnosis: Diagnosis


def read_and_measure(
    images: list[Image],
    targets: list[Image] | None,
    config: Config,
    *,
    time: int,
    normalization: Literal["dataset", "image"],
    on_unreadable: Callable[[InputError], None] | None = None,
) -> Measured:
    """Read training images and their targets, films along time if `time` says so, and measure them."""
    runs = read_runs(images)
    if time:
        images, targets = along_times(images), along_times(targets)
    box = BOX if time else None
    data = read_training_data(images, targets, normalization=normalization, box=box, on_unreadable=on_unreadable)
    return Measured(data, *fingerprint(data, config, runs, time=time))


def fingerprint(
    data: TrainingData, config: Config, runs: Sequence[NDArray[Any]] = (), *, time: int = 0
) -> tuple[Fingerprint, tuple[float, ...] | None, Diagnosis]:
    """Measure what a plan rests on, the strength of the noise in each image where it differs, and the diagnosis.

    Parameters
    ----------
    data : TrainingData
        The images.
    config : Config
        What the user asks for.
    runs : sequence of ndarray
        Consecutive frames of the images, where they are films, as `noise.frames.read_runs` reads them.
    time : int
        Frames before and after each frame that films are denoised with.
    """
    diagnosis, correlated = majority_diagnosis(data.raw, runs)
    noise = diagnosis.noise if diagnosis.sigma > 0 else _level_alone(data)
    noise = replace(noise, mean=data.scale.mean, std=data.scale.std)  # of all pixels, not of those diagnosed
    strengths = None
    if not config.level_given:
        strengths = strength_per_image(data.images, noise.normalized(data.scale), correlated=correlated)
    ranges, middles = _brightness(data, noise)
    stabilized = None
    if config.scale == "stabilized" or max(ranges) > HUGE:
        stabilized = Normalization.measure(data.raw, _stabilizer(as_given(noise, config), ranges, middles))
    found = Fingerprint(
        dims=data.dims,
        time=time,
        channels=data.channels,
        shared_structure=shared_structure(data.raw, noise.extent),
        images=len(data.images),
        pixels=data.pixels,
        noise=noise,
        steady=diagnosis.steady,
        noise_varies=strengths is not None,
        mean_strength=_mean_strength(data, strengths),
        scale=data.scale,
        brightness_range=max(ranges),
        stabilized=stabilized,
    )
    return found, strengths, diagnosis


def _brightness(data: TrainingData, noise: NoiseModel) -> tuple[list[float], list[float]]:
    """Range of brightness and median of each channel."""
    step = max(1, round(data.pixels / RANGE_PIXELS))
    ranges, middles = [], []
    for channel in range(data.channels):
        pixels = np.concatenate([box[:, channel].reshape(-1)[::step] for box in data.raw]).astype(np.float64)
        pixels = pixels[np.isfinite(pixels)]
        pixels = pixels if pixels.size else np.zeros(1)
        middles.append(float(np.median(pixels)))
        ranges.append(brightness_range(pixels, _variance_at(noise, channel, middles[-1]) ** 0.5))
    return ranges, middles


def _stabilizer(noise: NoiseModel, ranges: list[float], middles: list[float]) -> Stabilizer:
    """What makes the noise steady. A channel with a huge range, but no gain that could be found, is given one."""
    slopes, offsets = [], []
    for channel, (extent, middle) in enumerate(zip(ranges, middles, strict=True)):
        one = noise.channel(channel)
        a, b = one.a[0], one.b[0]
        if a <= 0 and extent > HUGE:
            variance = _variance_at(noise, channel, middle)
            a = variance**0.5 / DOUBLED
            b = variance - a * middle
        slopes.append(a)
        offsets.append(b)
    return Stabilizer(tuple(slopes), tuple(offsets))


def _variance_at(noise: NoiseModel, channel: int, intensity: float) -> float:
    return float(noise.channel(channel).variance(np.full((1, 1, 1), intensity)).item())


def _mean_strength(data: TrainingData, strengths: tuple[float, ...] | None) -> float:
    """Mean of the strengths over all pixels."""
    if strengths is None:
        return 1.0
    sizes = [image.size for image in data.images]
    return sum(size * strength for size, strength in zip(sizes, strengths, strict=True)) / sum(sizes)


def _level_alone(data: TrainingData) -> NoiseModel:
    """The noise of images that are too small to diagnose, or constant almost everywhere."""
    scale = Normalization.measure([data.raw[0]])
    level = noise_level(data.raw[0])
    offsets = tuple(s**2 - a * m for s, a, m in zip(level.sigma, level.slope, scale.mean, strict=True))
    return NoiseModel(level.slope, offsets, scale.mean, scale.std)


def as_given(noise: NoiseModel, config: Config) -> NoiseModel:
    """The noise, with the level that the user gave, if any."""
    if not config.level_given:
        return noise
    count = len(noise.b)
    return replace(noise, a=(config.gain or 0.0,) * count, b=((config.sigma or 0.0) ** 2,) * count)


def frames_share_noise(films: Sequence[Image]) -> bool:
    """Whether noise stays from frame to frame in any channel of films."""
    runs = read_runs(films)
    return any(along_time([run[channel] for run in runs]) for channel in range(min(map(len, runs), default=0)))


def measure_films(images: Sequence[Image], frames: int) -> list[film.Statistics]:
    """What a network that looks at so many frames is told of films: of all channels together, then of each."""
    crops = read_normalized_crops(images)
    count = crops[0].shape[1]
    each = [[crop[:, [channel]] for crop in crops] for channel in range(count) if count > 1]
    return [film.measure(part, min(noise_of_frames(part)), frames) for part in [crops, *each]]


def read_normalized_crops(images: Sequence[Image]) -> list[Tensor]:
    """Crops of films, (1, C, T, Y, X), with the mean 0 and the variance 1."""
    crops = read_crops(images)
    scale = Normalization.measure(crops)
    return [torch.from_numpy(scale.apply(fill_invalid(crop)[0])) for crop in crops]


def noise_of_frames(crops: Sequence[Tensor]) -> tuple[float, float]:
    """Variance of the noise, by what differs from frame to frame and by what differs from pixel to pixel."""
    apart = [float((one[:, :, 1:] - one[:, :, :-1]).square().mean()) / 2 for one in crops]
    within = [np.square(noise_level(one[:, :, one.shape[2] // 2].numpy()).sigma).mean() for one in crops]
    return float(np.mean(apart)), float(np.mean(within))
