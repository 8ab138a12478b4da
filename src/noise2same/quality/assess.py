"""Assess a denoised image without the clean one: diagnose its noise, judge frame by frame, keep what a report shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from noise2same import io, markup
from noise2same.data import axes as ax
from noise2same.data.film import is_film
from noise2same.errors import InputError
from noise2same.noise.diagnose import Diagnosis, diagnose
from noise2same.noise.frames import read_runs
from noise2same.quality.checks import CLOSER, TRAIN, WORDS, Verdict, judge, judge_film
from noise2same.quality.film import FilmPart, read_part
from noise2same.quality.risk import PROBED_PIXELS, Response

CROP = {"Z": 32, "Y": 2048, "X": 2048}
"""Largest part of an image that is assessed, in pixels along each axis: its center."""
HALO = {"Z": 8, "Y": 32, "X": 32}
"""Pixels around the center that are denoised with it and cut off: the reach of the default network is 23."""
MAX_FRAMES = 8
"""Samples and time points that are judged."""
MIN_SHARE = 0.05
"""Share of the input in the result from which on it is mentioned."""
PROBED_SHARE = {True: 1 / 2, False: 1 / 16}
"""Share of the pixels that is probed, at most, by whether the image was denoised with tta.

A probe denoises twice and without tta, so either takes about an eighth of the time that the image took.
"""
MIN_PROBED = 2**16
"""Smaller images are probed whole: that takes a fraction of a second, and less would not give an estimate."""


class SupportsDenoise(Protocol):
    """A denoiser, such as `noise2same.Denoiser`."""

    @property
    def network(self) -> Any:
        """None for a method without one, whose error cannot be estimated."""

    def denoise(self, image: Any, axes: str | None = None, *, dtype: str = "same", tta: bool | None = None) -> Any:
        """Denoise an array, with test-time augmentation or without."""


@dataclass(frozen=True)
class Frame:
    """One sample or time point of an image."""

    index: dict[str, int]
    """Position along S and T; empty if the image has neither."""
    name: str = "the image"
    """By its label in the file, or counted from 1."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Assessment:
    """What to think of a denoised image, and the part of it that shows why: the center of its worst frame."""

    noisy: NDArray[Any]
    clean: NDArray[Any]
    axes: str
    """Of both: [C][Z]YX."""
    diagnosis: Diagnosis
    verdict: Verdict
    """On the worst of the frames."""
    sizes: dict[str, int]
    """Length of each axis of the whole image."""
    source: dict[str, str] = field(default_factory=dict)
    """Name, shape and axes of the whole image, and which frame of it this is."""
    frames: dict[str, str] = field(default_factory=dict)
    """The frames that were judged, by name, and the word on each."""
    frame: Frame = field(default_factory=lambda: Frame({}))
    region: tuple[slice, ...] = ()
    """Where the center is, [Z,] Y, X."""
    channels: tuple[io.Channel, ...] = ()
    """Names and colors of the channels in the file."""
    input_share: tuple[float, ...] = ()
    """Share of the noisy input, for each channel, that was blended into the result."""
    film: FilmPart | None = None
    """Consecutive frames, if there are several and the whole result is known."""

    def _repr_html_(self) -> str:
        source = markup.table(self.source.items())
        return f"{source}{self.verdict._repr_html_()}{markup.folded('the noise', self.diagnosis._repr_html_())}"

    def figures(self) -> dict[str, Any]:
        """Verdict, frames and diagnosis as JSON holds them."""
        shares = {"input_share": list(self.input_share)} if any(self.input_share) else {}
        return {"verdict": asdict(self.verdict), "frames": self.frames, "noise": asdict(self.diagnosis)} | shares

    def same_part(self, image: io.Image) -> NDArray[Any]:
        """Cut the part that `noisy` and `clean` show out of another image of the same size, such as the truth."""
        sizes = dict(zip(image.axes, image.shape, strict=True))
        if sizes != self.sizes:
            raise InputError(
                f"{image.name} has the axes {sizes} but the noisy image has {self.sizes}: they must agree."
            )
        return _cut(image.data, image.axes, self.frame, self.region)


def assess(
    noisy: io.Image,
    clean: io.Image | NDArray[Any] | None,
    denoiser: SupportsDenoise | None = None,
    *,
    diagnosis: Diagnosis | None = None,
    tta: bool | None = None,
    input_share: Sequence[float] | None = None,
    film: FilmPart | None = None,
) -> Assessment:
    """Judge a denoised image without a clean one; with the denoiser that made it, its error is estimated too.

    Of several samples or time points, up to eight evenly spread ones are judged, first and last included, and the worst
    counts. Of large frames only the center is read: 2048 × 2048 pixels (× 32 planes), fewer of each of several frames.

    Parameters
    ----------
    noisy : Image
        What was denoised; only what is judged is read.
    clean : Image or array, optional
        The result, of the same shape and axes. Without it, the denoiser denoises what is judged.
    denoiser : SupportsDenoise, optional
        What made the result. Its network denoises parts of the image twice more, which takes at most a third of the
        time that the whole image took.
    diagnosis : Diagnosis, optional
        Of the noise, if it is known already.
    tta : bool, optional
        Whether the result was made with test-time augmentation; None if it is not known.
    input_share : sequence of float, optional
        Share of the noisy input, 0 to 1 for each channel, that was blended into the result for safety.
    film : FilmPart, optional
        Consecutive frames, where time is the depth of `noisy`, as in films that are denoised along time; by default
        those of a film.

    Returns
    -------
    Assessment
        The verdict, and what a report shows of the image.
    """
    frames = spread_frames(noisy)
    if film is not None and noisy.axes != film.axes and "Z" in film.axes:  # whose slices are films of their own
        frames = [replace(frame, name=frame.name.replace("sample", "slice")) for frame in frames]
    region = central_region(noisy, len(frames))
    before = [_cut(noisy.data, noisy.axes, frame, region) for frame in frames]
    after = [_result(noisy, clean, denoiser, frame, region, tta) for frame in frames]
    axes = _axes_of(before[0], noisy.axes)
    if diagnosis is None:
        diagnosis = diagnose([ax.to_network(crop, axes) for crop in before], read_runs([noisy]))
    channels = io.channels(noisy)
    options: dict[str, Any] = {
        "diagnosis": diagnosis,
        "response": _response(denoiser, axes),
        "probed_pixels": _probed_pixels(noisy, len(frames), bool(tta)),
        "names": [channel.name for channel in channels],
        "photograph": is_photograph(noisy),
    }
    verdicts = [_judge(*pair, axes, options) for pair in zip(before, after, strict=True)]
    worst = max(range(len(frames)), key=lambda number: _badness(verdicts[number]))
    if film is None and clean is not None and is_film(noisy):
        film = read_part(noisy, clean)
    verdict = _name_frame(verdicts[worst], frames, frames[worst])
    if film is not None:
        verdict = judge_film(verdict, film, diagnosis, options["names"])
    source = {
        "image": noisy.name,
        "shape": " × ".join(map(str, noisy.shape)),
        "axes": noisy.axes if film is None else film.axes,
    }
    return Assessment(
        noisy=before[worst],
        clean=after[worst],
        axes=axes,
        diagnosis=diagnosis,
        verdict=_name_share(verdict, input_share or (), channels),
        sizes=dict(zip(noisy.axes, noisy.shape, strict=True)),
        source=source | ({"frame": str(frames[worst])} if len(frames) > 1 else {}),
        frames={str(frame): verdict.word for frame, verdict in zip(frames, verdicts, strict=True)},
        frame=frames[worst],
        region=region,
        channels=channels,
        input_share=tuple(input_share or ()),
        film=film,
    )


def is_photograph(image: io.Image) -> bool:
    """Whether an image is what a camera made: a JPEG, or colors of 8 bits."""
    jpeg = image.path is not None and image.path.suffix.lower() in (".jpg", ".jpeg")
    return jpeg or (image.dtype == np.uint8 and image.axes.endswith("YXC") and image.shape[-1] == 3)


def spread_frames(image: io.Image) -> list[Frame]:
    """Choose evenly spread samples and time points of an image, first and last included."""
    letters = [letter for letter in image.axes if letter in ax.SAMPLES]
    sizes = [image.shape[image.axes.index(letter)] for letter in letters]
    count = math.prod(sizes)
    chosen = np.linspace(0, count - 1, min(count, MAX_FRAMES)).round().astype(int)
    places = [np.unravel_index(number, sizes) if sizes else () for number in chosen]
    found = [dict(zip(letters, map(int, place), strict=True)) for place in places]
    return [Frame(index, io.frame_name(image, index) or "the image") for index in found]


def central_region(image: io.Image, frames: int = 1) -> tuple[slice, ...]:
    """Slices of the center of a frame, [Z,] Y, X; of several frames each gets its share of the pixels of one."""
    region = []
    for axis in ax.spatial(image.axes):
        size = image.shape[image.axes.index(axis)]
        length = min(size, CROP[axis] if axis == "Z" else int(CROP[axis] / math.sqrt(frames)))
        start = (size - length) // 2
        region.append(slice(start, start + length))
    return tuple(region)


def _cut(array: Any, axes: str, frame: Frame, region: Sequence[slice]) -> NDArray[Any]:
    """Read a region of a frame, ([C,] [Z,] Y, X): without C if there is one channel."""
    pixels = ax.Sample(array, axes, frame.index).read(*region)[0]
    return pixels[0] if len(pixels) == 1 else pixels


def _axes_of(crop: NDArray[Any], axes: str) -> str:
    """Axes of what `_cut` reads out of an image with `axes`."""
    spatial = ax.spatial(axes)
    return spatial if crop.ndim == len(spatial) else f"C{spatial}"


def _result(
    noisy: io.Image,
    clean: io.Image | NDArray[Any] | None,
    denoiser: SupportsDenoise | None,
    frame: Frame,
    region: Sequence[slice],
    tta: bool | None,
) -> NDArray[Any]:
    """Read a region of a frame of the result; without one, denoise the region with its surroundings."""
    if clean is not None:
        array = clean.data if isinstance(clean, io.Image) else clean
        if tuple(array.shape) != noisy.shape:
            raise InputError(f"{noisy.name} has shape {noisy.shape} but its result has {array.shape}: they must agree.")
        return _cut(array, noisy.axes, frame, region)
    if denoiser is None:
        raise InputError("There is neither a denoised image to assess nor a denoiser to make one: give one of them.")
    halo = [HALO[axis] for axis in ax.spatial(noisy.axes)]
    wider = [slice(max(0, cut.start - more), cut.stop + more) for cut, more in zip(region, halo, strict=True)]
    pixels = _cut(noisy.data, noisy.axes, frame, wider)
    denoised: NDArray[Any] = denoiser.denoise(pixels, _axes_of(pixels, noisy.axes), tta=tta)
    inner = [slice(cut.start - more.start, cut.stop - more.start) for cut, more in zip(region, wider, strict=True)]
    center: tuple[Any, ...] = (..., *inner)
    return denoised[center]


def _response(denoiser: SupportsDenoise | None, axes: str) -> Response | None:
    if denoiser is None or denoiser.network is None:
        return None
    return partial(denoiser.denoise, axes=f"C{ax.spatial(axes)}", dtype="float32", tta=False)


def _judge(noisy: NDArray[Any], clean: NDArray[Any], axes: str, options: dict[str, Any]) -> Verdict:
    """Judge a frame; one without known pixels is to be checked."""
    try:
        return judge(noisy, clean, axes, **options)
    except InputError:
        few = "It has too few known pixels to be judged: most are NaN or infinite."
        return Verdict("check", few, None, (), advice="Look at the frame, and leave it out if it is empty.")


def _probed_pixels(image: io.Image, frames: int, tta: bool) -> int:
    """How many pixels of each frame are probed."""
    channels = ax.channels(image.axes, image.shape)
    share = PROBED_SHARE[tta] * math.prod(image.shape) / channels
    return int(min(PROBED_PIXELS, max(share, MIN_PROBED) / frames))


def _badness(verdict: Verdict) -> tuple[float, ...]:
    """Order verdicts: by the word, by how many checks are not passed, and by how little the image improved."""
    failed = sum(check.word != "trust" for check in verdict.checks)
    gain = next((check.value for check in verdict.checks if check.name == CLOSER), 0.0)
    return WORDS.index(verdict.word), failed, -gain


def _name_frame(verdict: Verdict, frames: Sequence[Frame], worst: Frame) -> Verdict:
    """Say in the reason which of several frames is the worst."""
    if len(frames) == 1:
        return verdict
    told = f"{verdict.reason} This is {worst}, the worst of the {len(frames)} that were judged."
    return replace(verdict, reason=told)


def _name_share(verdict: Verdict, shares: Sequence[float], channels: Sequence[io.Channel]) -> Verdict:
    """Say in the reason how much of the noisy input is in the result, where it is much."""
    much = {c: share for c, share in enumerate(shares) if share >= MIN_SHARE}
    if not much:
        return verdict
    several = len(channels) > 1
    listed = ", ".join(f"{share:.0%} in {channels[c].name}" if several else f"{share:.0%}" for c, share in much.items())
    reason = f"{verdict.reason} For safety, some of the noisy input is in the result: {listed}."
    advice = verdict.advice if TRAIN in verdict.advice else f"{verdict.advice} {TRAIN}".strip()
    return replace(verdict, reason=reason, advice=advice)
