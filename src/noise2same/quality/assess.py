"""One result and what to think of it: the noise that was there, the verdict, and the report of both."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from noise2same import __version__, io
from noise2same.data import axes as ax
from noise2same.noise.diagnose import Diagnosis, diagnose
from noise2same.quality.checks import Verdict, judge

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser

LARGEST = {"Z": 32, "Y": 2048, "X": 2048}
"""Most of an image that is looked at, along each axis: the middle of its first sample."""


@dataclass(frozen=True)
class Result:
    """A noisy image and what a denoiser made of it, or as much of both as is looked at."""

    noisy: NDArray[Any]
    clean: NDArray[Any]
    axes: str
    source: dict[str, str]
    """Name and shape of the whole image."""
    diagnosis: Diagnosis
    verdict: Verdict

    def figures(self) -> dict[str, Any]:
        """Verdict and diagnosis as JSON holds them."""
        return {"verdict": asdict(self.verdict), "noise": asdict(self.diagnosis)}


def look_at(
    noisy: io.Image, clean: io.Image | None, model: Denoiser | None = None, *, tta: bool | None = None
) -> Result:
    """Judge a denoised image without a clean one; with the model that made it, its error is estimated too.

    `tta` is how the model denoised it (`Denoiser.denoise`). Without `clean`, the model denoises what is looked at.
    """
    before, axes = part_of(noisy)
    if clean is None:
        assert model is not None, "something must say what the denoised image is"
        after = model.denoise(before, axes, tta=model.uses_tta(noisy) if tta is None else tta)
    else:
        after, _ = part_of(clean)
    diagnosis = diagnose([ax.to_network(before, axes)])

    response = None
    if model is not None and model.network is not None:
        averaged = model.uses_tta(noisy) if tta is None else tta
        response = partial(model.denoise, axes=f"C{ax.spatial(axes)}", dtype="float32", tta=averaged)
    verdict = judge(before, after, axes, diagnosis=diagnosis, response=response)
    source = {"image": noisy.name, "shape": " × ".join(map(str, noisy.shape)), "axes": noisy.axes}
    return Result(before, after, axes, source, diagnosis, verdict)


def write_report(path: str | os.PathLike[str], result: Result, model: Denoiser | None, truth: io.Image | None) -> Path:
    """Write the page (.html) or picture (.png) about a result."""
    from noise2same.quality import report

    path = Path(path)
    settings = result.source | {"noise2same": __version__, "command": shlex.join(sys.argv)}
    if model is not None:
        settings |= model.config.model_dump(mode="json")
    report.write_report(
        path,
        noisy=result.noisy,
        clean=result.clean,
        axes=result.axes,
        diagnosis=result.diagnosis,
        verdict=result.verdict,
        settings=settings,
        training={} if model is None else model.summary,
        truth=None if truth is None else part_of(truth)[0],
    )
    return path


def part_of(image: io.Image) -> tuple[NDArray[Any], str]:
    """The middle of the first sample, of `LARGEST` size, and its axes: [C][Z]YX."""
    sample = ax.samples(image.data, image.axes)[0]
    spatial = ax.spatial(image.axes)
    middle = []
    for axis, size in zip(spatial, sample.size, strict=True):
        length = min(size, LARGEST[axis])
        middle.append(slice((size - length) // 2, (size - length) // 2 + length))
    pixels = sample.read(*middle)[0]
    return (pixels[0], spatial) if len(pixels) == 1 else (pixels, f"C{spatial}")
