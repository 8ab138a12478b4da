"""One image through a denoiser: what is asked for, where the result goes, who computes it, and what was found."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from noise2same import __version__, io, methods
from noise2same.data import axes as ax
from noise2same.data import film
from noise2same.data.normalize import Normalization
from noise2same.data.sampling import read_boxes
from noise2same.device import Device, pick
from noise2same.errors import InputError
from noise2same.io import Input
from noise2same.methods import Classical
from noise2same.noise.diagnose import Diagnosis
from noise2same.prediction.blend import Blend
from noise2same.prediction.cluster import connect
from noise2same.prediction.predict import OnBlock, Predicted, Prediction, predict_block, predict_whole

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser

DIAGNOSED_VALUES = 2**20
"""Of an image that are read to diagnose its noise before it is denoised."""
SOME = 5
"""Lost frames that a warning names."""


@dataclass(frozen=True)
class Tuned:
    """A denoiser with what was found for one image, to denoise any part of it in the same way."""

    denoiser: Denoiser
    device: torch.device
    diagnosis: Diagnosis | None = None
    """Of the image's noise, if it was diagnosed."""
    blend: Blend | None = None
    """Of output and input; None for the output alone."""

    @property
    def network(self) -> nn.Module | None:
        """The denoiser's."""
        return self.denoiser.network

    def denoise(self, image: Input, axes: str | None = None, *, dtype: str = "same", tta: bool | None = None) -> Any:
        """As `Denoiser.denoise`."""
        return self.denoiser.denoise_in_detail(image, axes, dtype=dtype, tta=tta, tuned=self).result

    def denoise_part(self, image: io.Image, part: Sequence[slice]) -> NDArray[Any]:
        """The pixels of a part as they are in the whole result without tta, of which nothing else is computed.

        Parameters
        ----------
        image : Image
            The whole image, of which only the part and its halo are read.
        part : sequence of slice
            Start and stop along each of its axes: one index along S and T, all of C.
        """
        seen, shape = self.denoiser.seen_as(image), tuple(cut.stop - cut.start for cut in part)
        whole = [slice(0, 1)] * (len(seen.axes) - len(part)) + list(part)
        cuts = dict(zip(seen.axes, whole, strict=True))
        sample = ax.Sample(seen.data, seen.axes, {axis: cuts[axis].start for axis in ax.SAMPLES if axis in cuts})
        known = self.denoiser.known_normalization()
        pixels, _ = predict_block(
            self.denoiser.ready(self.device),
            sample,
            tuple(cuts[axis] for axis in ax.spatial(seen.axes)),
            normalization=known or Normalization.measure(read_boxes([seen], DIAGNOSED_VALUES)),
            blend=self.blend,
            device=self.device,
        )
        return ax.from_network(pixels, seen.axes, tuple(cut.stop - cut.start for cut in whole)).reshape(shape)


@dataclass(frozen=True)
class Request:
    """How an image is to be denoised. `Denoiser.denoise` says what those fields mean that are its arguments."""

    output: str | os.PathLike[str] | None = None
    dtype: str = "same"
    tta: bool | None = None
    strength: float = 1.0
    device: Device = None
    on_block: OnBlock | None = None
    workers: int | None = None
    scheduler: str | None = None
    resume: bool = False
    diagnosis: Diagnosis | None = None
    """Of the noise of this image, if it is known already."""
    tuned: Tuned | None = None
    """What was found for the image that this one is a part of."""

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength={self.strength:g}: it should be from 0, the input, to 1, the denoised image.")

    @property
    def shared(self) -> bool:
        """Whether workers share the work."""
        return self.workers is not None or self.scheduler is not None

    def tune(self, denoiser: Denoiser, image: io.Image) -> Tuned:
        """What the image is denoised with, as far as it is not known."""
        return self.tuned or denoiser.tuned_to(image, self.device, self.diagnosis)


@dataclass(frozen=True)
class Denoised:
    """A denoised image, and what was found on the way."""

    result: Any
    """The array, or the path of the file that holds it."""
    input_share: tuple[float, ...]
    """Share of the input in the result of each channel, from 0 to 1, because more than noise was taken away."""
    tuned: Tuned
    """What it was made with."""


def denoise_image(denoiser: Denoiser, image: io.Image, request: Request) -> Denoised:
    """Denoise one image as requested, by a denoiser that is trained or needs no training."""
    output, network = request.output, denoiser.network
    if network is None and request.tta:
        raise InputError(f"{denoiser.method.name} is not a network, which tta is for: leave that out.")
    if network is not None and request.tuned is None:
        denoiser.check_fits(image)
    dtype = image.dtype if request.dtype == "same" else io.dtype_of(request.dtype)
    image = replace(image, note=denoiser.note(request.strength))
    if output is not None and image.path is not None:
        io.check_output(output, [image.path])
    if request.shared:
        _check_shared(denoiser, image, output)
    tta = denoiser.uses_tta(image) if request.tta is None else request.tta
    options: dict[str, Any] = {"tta": tta, "strength": request.strength}
    out: Any = None
    if output is not None and io.is_store(output) and network is not None:
        done, tuned = _fill_store(denoiser, image, Path(output).expanduser(), dtype, request, options)
    else:
        sink: AbstractContextManager[Any]
        sink = nullcontext(np.empty(image.shape, dtype)) if output is None else io.create(output, image, dtype)
        with sink as out:
            tuned = request.tune(denoiser, image)
            done = _predict(tuned, image, out, options, request.on_block)
            image.check_unchanged()
    for told in _untouched(denoiser, image, done.invalid):
        warnings.warn(told, stacklevel=4)
    return Denoised(out if output is None else Path(output), tuple(done.input_share.tolist()), tuned)


def _predict(tuned: Tuned, image: io.Image, out: Any, options: dict[str, Any], on_block: OnBlock | None) -> Predicted:
    """Denoise `image` into `out`."""
    denoiser = tuned.denoiser
    if denoiser.network is None:
        method, config = denoiser.method, denoiser.config
        assert issubclass(method, Classical), "a method that is trained has a network"
        denoise, strength = method(methods.settings_of(method, config), config.sigma).denoise, options["strength"]
        return predict_whole(denoise, image.data, image.axes, out, strength=strength, on_block=on_block)
    work = denoiser.prediction(image, out, tuned.device, tuned.blend, **options)
    return work.run(work.parts(), on_block=on_block)


def _untouched(denoiser: Denoiser, image: io.Image, invalid: int) -> list[str]:
    """What to say of frames, pixels and images of the file that were not denoised."""
    told = []
    if denoiser.frames and (lost := film.lost_frames(image)):
        which = ", ".join(map(str, lost[:SOME])) + ", ..." * (len(lost) > SOME)
        many = f"{len(lost)} frame{'s' * (len(lost) > 1)} without a picture ({which})"
        told.append(f"{image.name}: {many} passed through as {'they are' if len(lost) > 1 else 'it is'}.")
        invalid -= len(lost) * math.prod(image.shape) // image.shape[image.axes.index("T")]
    if invalid:
        told.append(f"{image.name}: {invalid} NaN or infinite pixels were passed through.")
    if image.others:
        named = image.path is not None and io.series.count(image.path) > 1
        following = f"; the next is {image.name}/1" * named
        told.append(f"{image.name} holds {image.others + 1} images, of which the first was denoised{following}.")
    return told


# Into a store, which workers can share


def _check_shared(denoiser: Denoiser, image: io.Image, output: str | os.PathLike[str] | None) -> None:
    """Raise InputError if several workers cannot share this."""
    if denoiser.network is None:
        name = denoiser.method.name
        raise InputError(f"{name} takes a whole image at once, which workers cannot share: leave them out.")
    if image.path is None:
        raise InputError("Workers open the image themselves: give the name of a file, not an array.")
    if output is None or not io.is_store(output):
        raise InputError("Workers write one image together as Zarr only: give an output that ends in .zarr.")


def _fill_store(
    denoiser: Denoiser,
    image: io.Image,
    output: Path,
    dtype: np.dtype[Any],
    request: Request,
    options: dict[str, Any],
) -> tuple[Predicted, Tuned]:
    """Denoise `image` into a Zarr store, which can be resumed, and may be done by workers."""
    from noise2same.io import ome_zarr
    from noise2same.io.chunks import Chunked
    from noise2same.prediction.job import unfinished
    from noise2same.prediction.store import Remote, fill_store

    io.check_place(output)
    identity = {
        "input": io.state_of(image),
        "model": denoiser.digest(),
        "output": [output.name, str(np.dtype(dtype))],
        "setting": options | {"blend": request.tuned is None or request.tuned.blend is not None},
        "version of noise2same": __version__,
    }
    with ExitStack() as stack:
        job = stack.enter_context(unfinished(output, identity, resume=request.resume))
        begun = job.identity() is not None
        levels = ome_zarr.open_store(job.store) if begun else ome_zarr.new_store(job.store, image, dtype)
        if isinstance(image.data, Chunked):
            known = np.load(job.chunks) if job.chunks.exists() else None
            there = image.data.watch(known)
            if known is None and there is not None:
                np.save(job.chunks, there)
        client = remote = None
        if request.shared:
            denoiser.save(job.model)
            client = stack.enter_context(connect(request.workers, request.scheduler))
        tuned = request.tune(denoiser, image)
        job.begin(identity)
        if client is not None and image.path is not None:
            own = denoiser.config.method if isinstance(denoiser.config.method, type) else None
            load = partial(type(denoiser).load, job.model, method=own)
            where = None if request.device is None else str(request.device)
            opening = partial(open_prediction, load, image.path, image.axes, job.store, job.chunks, where, tuned.blend)
            remote = Remote(uuid4().hex, partial(opening, **options))
        work = denoiser.prediction(image, levels[0], tuned.device, tuned.blend, **options)
        done = fill_store(job, work, levels, client=client, remote=remote, on_block=request.on_block)
    return done, tuned


def open_prediction(
    load: Callable[[], Denoiser],
    image: Path,
    axes: str,
    store: Path,
    chunks: Path,
    device: str | None,
    blend: Blend | None,
    **options: Any,
) -> Prediction:
    """The work of denoising an image into a store, in a worker that has the same files."""
    from noise2same.io import ome_zarr
    from noise2same.io.chunks import Chunked

    opened = io.read(image, axes)
    if isinstance(opened.data, Chunked) and chunks.exists():
        opened.data.watch(np.load(chunks))
    return load().prediction(opened, ome_zarr.open_store(store)[0], pick(device), blend, **options)
