"""Prediction block by block: `predict_block` is a function of one block, `predict` a loop over all of them.

While a block is predicted, another thread reads the next one and a third writes the last region that is complete.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noise2same.data import axes as ax
from noise2same.data.film import Frames
from noise2same.data.normalize import Normalization, fill_invalid, to_dtype
from noise2same.data.padding import reflect_to
from noise2same.device import is_out_of_memory
from noise2same.errors import Cancelled
from noise2same.networks.film import Film
from noise2same.plan import BLOCK_MEMORY
from noise2same.prediction import flux
from noise2same.prediction.blend import Blend
from noise2same.prediction.blocks import UNKNOWN_VALUES, Grid, Part, Region, chunks_of, halved, places_of, sample_axes

REGION_MEMORY = 2**25
"""Bytes of a part, which is gathered before it is written, or else of one chunk. Two parts are held at a time."""
FEWEST_PARTS = 64
"""An image has so many parts, if it has so many blocks: for workers to share, and to be kept when a job is stopped."""
MEASURED_PIXELS = 2**22
"""Pixels that are read at once to measure the statistics of an image."""

OnBlock = Callable[[int, int], bool | None]


class Predicted(NamedTuple):
    """What is to be said of a denoised image, or of a part of it."""

    invalid: int
    """Number of NaN and infinite pixels, which were passed through."""
    input_share: NDArray[np.float64]
    """Share of the input in the result of each channel, from 0 to 1, that the blend put there: (C,)."""


def predict(
    network: nn.Module,
    data: Any,
    axes: str,
    out: Any,
    *,
    normalization: Normalization | None,
    tta: bool = False,
    blend: Blend | None = None,
    strength: float = 1.0,
    block: Sequence[int] | None = None,
    memory: int | None = None,
    device: torch.device | None = None,
    on_block: OnBlock | None = None,
) -> Predicted:
    """Denoise `data` into `out`, both of the same shape and indexed piece by piece, so either may lie on disk.

    The result does not depend on the size of the blocks, but for rounding. Where `out` has chunks or shards, each is
    written once.

    Parameters
    ----------
    network : Module
        Maps normalized (B, C, [Z,] Y, X) to the same shape. It may state `multiple`, the stride along each spatial
        axis, `reach`, the pixels along each axis that an output depends on, and `values_per_pixel`, which it holds.
    data, out : array-like
        Anything that can be sliced: NumPy arrays, memory maps, zarr arrays. Values are converted to the dtype of `out`,
        integers rounded and clipped; NaN and infinite pixels pass through.
    axes : str
        Axes of both.
    normalization : Normalization, optional
        None normalizes each image by its own statistics.
    tta : bool
        Test-time augmentation: average over the eight rotations and flips in the YX plane; eight times the work.
    blend : Blend, optional
        Weight of the network's output at each pixel, where it takes away more than noise; the rest is the input.
    strength : float
        From 0, the input, to 1, the denoised image.
    block : sequence of int, optional
        Largest block, ([Z,] Y, X); by default as large as `memory` allows. Blocks are halved when memory runs out.
    memory : int, optional
        Bytes that the network may hold for the window of a block; by default the plan's `BLOCK_MEMORY`.
    device : torch.device, optional
        Where the network computes; by default where its parameters are.
    on_block : callable, optional
        Called as `on_block(done, total)` after each block. If it returns True, `Cancelled` is raised.

    Returns
    -------
    Predicted
        Of the whole image.
    """
    options: dict[str, Any] = {"tta": tta, "blend": blend, "strength": strength, "block": block, "memory": memory}
    work = Prediction(network, data, axes, out, normalization=normalization, device=device, **options)
    return work.run(work.parts(), on_block=on_block)


OnPart = Callable[[Part, Predicted], None]


class Prediction:
    """An image to be denoised, cut into parts that are written at once and these into blocks; arguments of `predict`.

    The cuts follow from the image, the network and the memory alone, so that any process makes the same of a part.
    """

    def __init__(
        self,
        network: nn.Module,
        data: Any,
        axes: str,
        out: Any,
        *,
        normalization: Normalization | None,
        tta: bool = False,
        blend: Blend | None = None,
        strength: float = 1.0,
        block: Sequence[int] | None = None,
        memory: int | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.network, self.data, self.axes, self.out = network, data, axes, out
        self.normalization = normalization
        self.finish = Finish(tta, blend, strength, np.dtype(out.dtype), device)
        size = tuple(out.shape[axes.index(letter)] for letter in ax.spatial(axes))
        self.grid = _grid(network, size, normalization, blend)
        self.unit = chunks_of(out, axes) or self.grid.multiple
        self.channels = ax.channels(axes, tuple(out.shape))
        most = (memory or BLOCK_MEMORY[len(size)]) // (4 * getattr(network, "values_per_pixel", UNKNOWN_VALUES))
        self.most, self.longest = most, block
        self.regions = [tuple((cut.start, cut.stop) for cut in region) for region in self._regions(most)]
        self._cuts: dict[Any, list[Region]] = {}

    def _regions(self, most: int) -> list[Region]:
        """Regions that are gathered and written at once: one block, or more where memory and fair shares permit it."""
        images = math.prod(self.out.shape[self.axes.index(letter)] for letter in sample_axes(self.axes))
        together = Part(next(places_of(self.out, self.axes)), ()).pixels
        room = REGION_MEMORY // (self.channels * np.dtype(self.out.dtype).itemsize * together)
        share = math.prod(self.grid.size) * images // FEWEST_PARTS
        return self.grid.gather(min(room, max(share, most)), self.unit)

    def parts(self) -> Iterator[Part]:
        """All parts, in order."""
        for place in places_of(self.out, self.axes):
            for region in self.regions:
                yield Part(place, region)

    def blocks(self, part: Part) -> list[Region]:
        """The blocks of the region of a part. Regions that are alike to the network are cut once."""
        grid, starts = self.grid, [start for start, _ in part.region]
        around = zip(part.region, grid.size, grid.reach, grid.multiple, strict=True)
        alike = tuple(
            (stop - start, start % step, min(start, reach + step), min(size - stop, reach + step))
            for (start, stop), size, reach, step in around
        )
        if alike not in self._cuts:
            cut = grid.split(part.where, self.most, longest=self.longest)
            self._cuts[alike] = [_shifted(block, [-start for start in starts]) for block in cut]
        return [_shifted(block, starts) for block in self._cuts[alike]]

    def blocks_of(self, part: Part) -> int:
        """Number of blocks of a part."""
        return len(part.samples) * len(self.blocks(part))

    @cached_property
    def total(self) -> int:
        """Number of all blocks."""
        return len(ax.samples(self.out, self.axes)) * sum(len(self.blocks(Part((), region))) for region in self.regions)

    def measure(self, place: tuple[int, ...]) -> Normalization:
        """The statistics that one image is normalized with, which is read for it if they are not known."""
        if self.normalization is not None:
            return self.normalization
        return measure(self._sample(place), self.grid, self.unit)

    def run(
        self,
        parts: Iterable[Part],
        *,
        done: int = 0,
        known: Mapping[tuple[int, ...], Normalization] | None = None,
        on_block: OnBlock | None = None,
        on_part: OnPart | None = None,
    ) -> Predicted:
        """Denoise some parts and write them; returns what is to be said of these together.

        Parameters
        ----------
        parts : iterable of Part
            Which of `parts()`.
        done : int
            Number of blocks that were done before.
        known : mapping, optional
            Statistics of images by their place, so that they are not measured again.
        on_block : callable, optional
            As for `predict`.
        on_part : callable, optional
            Called, in another thread, after a part is written.
        """
        result, todo, halvings = Summary(self.channels), deque[Task](), 0
        coming, later = self._tasks(parts), self.total - done
        own = dict(known or {})
        with reading_ahead(self.grid) as read, writing_behind(self._write, on_part) as write:
            while True:
                while len(todo) < 2 and (tasks := next(coming, None)):
                    later -= len(tasks)
                    todo.extend(tasks)
                    for _ in range(halvings):
                        todo = self._halved(todo)
                if not todo:
                    break
                task = todo[0]
                if task.place not in own:
                    own = {task.place: self.measure(task.place)}
                try:
                    window = read(task, todo[1] if len(todo) > 1 else None)
                    pixels, found = predict_window(self.network, window, own[task.place], self.finish)
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error) or len(halved(task.block, self.grid.multiple)) == 1:
                        raise
                    if halvings == 0:
                        warnings.warn("Memory ran out: going on in smaller blocks, which takes longer.", stacklevel=1)
                    todo, halvings = self._halved(todo), halvings + 1
                    done *= 2  # as if those before had been halves too, so that the share that is done stays true
                    continue
                todo.popleft()
                write(task, pixels, found)
                done += 1
                result.add(found, math.prod(pixels.shape[2:]))
                report(on_block, done, done + len(todo) + later * 2**halvings)
        return result.predicted()

    def _tasks(self, parts: Iterable[Part]) -> Iterator[list[Task]]:
        """The blocks of each part."""
        for part in parts:
            blocks = self.blocks(part)
            yield [Task(part, place, self._sample(place), block) for place in part.samples for block in blocks]

    def _halved(self, tasks: Iterable[Task]) -> deque[Task]:
        return deque(one.of(half) for one in tasks for half in halved(one.block, self.grid.multiple))

    def _sample(self, place: tuple[int, ...]) -> ax.Sample:
        return ax.Sample(self.data, self.axes, dict(zip(sample_axes(self.axes), place, strict=True)))

    def _write(self, part: Part, pixels: NDArray[Any]) -> None:
        places = dict(zip(sample_axes(self.axes), (slice(*ends) for ends in part.place), strict=True))
        if isinstance(self.data, Frames):
            self._put_back(pixels, part, places)
        ax.Sample(self.out, self.axes, places).write(pixels, *part.where)

    def _put_back(self, pixels: NDArray[Any], part: Part, places: Mapping[str, slice]) -> None:
        """Put the lost frames of a film into the pixels of a part, as they are."""
        time, *plane = part.where
        source = ax.Sample(self.data.film, self.axes, places)
        for frame in self.data.lost:
            if time.start <= frame < time.stop:
                own = source.read(slice(frame, frame + 1), *plane)
                here = slice(frame - time.start, frame - time.start + 1)
                _pass_through(pixels[:, :, here], own, np.zeros(own.shape, bool))


class Summary:
    """What is to be said of several parts together."""

    def __init__(self, channels: int) -> None:
        self.invalid, self.pixels = 0, 0
        self.kept = np.zeros(channels)

    def add(self, found: Predicted, pixels: int) -> None:
        """Add what was found in so many pixels of each channel."""
        self.invalid += found.invalid
        self.kept += found.input_share * pixels
        self.pixels += pixels

    def predicted(self) -> Predicted:
        """Of all of them."""
        return Predicted(self.invalid, self.kept / max(self.pixels, 1))


def _grid(network: nn.Module, size: tuple[int, ...], normalization: Normalization | None, blend: Blend | None) -> Grid:
    """The grid of a network whose output is needed around a block, for what is done with it afterwards."""
    dims = len(size)
    margins = [(0,) * dims if blend is None else blend.reach(dims)]
    if normalization is not None and normalization.stabilizer is not None:
        margins.append(flux.margin(dims))
    return Grid.of(network, size, tuple(map(sum, zip(*margins, strict=True))))


def _is_for_films(network: nn.Module) -> bool:
    """Whether a network, or each of several, is told which frames of a film it is to predict."""
    return any(isinstance(module, Film) for module in network.modules())


def predict_block(
    network: nn.Module,
    source: ax.Sample,
    region: Region,
    *,
    normalization: Normalization,
    tta: bool = False,
    blend: Blend | None = None,
    strength: float = 1.0,
    dtype: Any = None,
    device: torch.device | None = None,
) -> tuple[NDArray[Any], Predicted]:
    """Denoise one region of an image.

    It reads the region and the halo that the network needs, and nothing else. Its arguments can be pickled, if the
    array of `source` can, so that any process can call it.

    Parameters
    ----------
    network, tta, blend, strength, device
        As for `predict`.
    source : Sample
        The image.
    region : tuple of slice
        Start and stop along each spatial axis, [Z,] Y, X.
    normalization : Normalization
        Statistics to normalize with.
    dtype : dtype, optional
        Type of the result, by default that of the image.

    Returns
    -------
    array
        The denoised region, (1, C, [Z,] Y, X).
    Predicted
        Of the region.
    """
    grid = _grid(network, source.size, normalization, blend)
    finish = Finish(tta, blend, strength, np.dtype(source.array.dtype if dtype is None else dtype), device)
    return predict_window(network, read_window(source, grid, region), normalization, finish)


def predict_whole(
    denoise: Callable[[NDArray[Any]], NDArray[Any]],
    data: Any,
    axes: str,
    out: Any,
    *,
    strength: float = 1.0,
    on_block: OnBlock | None = None,
) -> Predicted:
    """As `predict`, but with a function of one whole image (C, [Z,] Y, X) in its own units."""
    sources, targets, invalid = ax.samples(data, axes), ax.samples(out, axes), 0
    for done, (source, target) in enumerate(zip(sources, targets, strict=True), start=1):
        raw = source.read()
        filled, finite = fill_invalid(raw)
        clean = np.stack([denoise(image) for image in filled])
        if strength < 1:
            clean = filled + strength * (clean - filled)
        result = Normalization((0.0,), (1.0,)).undo(clean, target.array.dtype)
        invalid += _pass_through(result, raw, finite)
        target.write(result)
        report(on_block, done, len(sources))
    return Predicted(invalid, np.zeros(ax.channels(axes, tuple(out.shape))))


def report(on_block: OnBlock | None, done: int, total: int) -> None:
    """Report to a listener how far the work is; raise `Cancelled` if it asks to stop."""
    if on_block is not None and on_block(done, total):
        raise Cancelled(f"Denoising was cancelled after {done} of {total} blocks.")


@dataclass(frozen=True, eq=False)
class Task:
    """One block of one image, and the part that it belongs to, which is written when all its blocks are done."""

    part: Part
    place: tuple[int, ...]
    """Of the image along S and T."""
    source: ax.Sample
    block: Region

    def of(self, block: Region) -> Task:
        """The same for another block of the part."""
        return Task(self.part, self.place, self.source, block)


def measure(source: ax.Sample, grid: Grid, unit: Sequence[int]) -> Normalization:
    """Statistics of an image, which is read in boxes of bounded size, each chunk once."""
    bare = Grid(grid.size, (0,) * len(grid.size), (1,) * len(grid.size))
    return Normalization.measure(source.read(*box) for box in bare.split(bare.whole, MEASURED_PIXELS, unit=unit))


@dataclass(frozen=True)
class Window:
    """The pixels that a region is predicted from.

    Parameters
    ----------
    raw : array
        The window within the image, (1, C, [Z,] Y, X).
    filled : array
        The same with NaN and infinite pixels filled, or `raw` itself where there are none.
    size : tuple of int
        Of the window with what is to be padded, ([Z,] Y, X).
    inside : Region
        Where the region is in the window.
    levels : array, optional
        What was subtracted from the frames of the region of a film (`Frames`), (1, C, T, 1, 1).
    """

    raw: NDArray[Any]
    filled: NDArray[Any]
    size: tuple[int, ...]
    inside: Region
    levels: NDArray[Any] | None = None

    def only(self, frames: slice) -> Window:
        """The same with some frames of a film alone, among which those of the region are."""
        raw = self.raw[:, :, frames]
        filled = raw if self.filled is self.raw else self.filled[:, :, frames]
        first, *plane = self.inside
        inside = (slice(first.start - frames.start, first.stop - frames.start), *plane)
        return Window(raw, filled, (frames.stop - frames.start, *self.size[1:]), inside, self.levels)


def read_window(source: ax.Sample, grid: Grid, region: Region) -> Window:
    """Read the window of a region, and fill NaN and infinite pixels with the value of the nearest valid pixel.

    The nearest one may lie beyond the window. If it matters for the region, it does so by less than twice the reach.
    """
    padded = grid.window(region)
    window = _within(padded, grid.size)
    raw = filled = source.read(*window)
    if np.issubdtype(raw.dtype, np.floating) and not np.isfinite(raw).all():
        around = zip(window, grid.reach, strict=True)
        wide = _within(tuple(slice(max(0, w.start - 2 * r), w.stop + 2 * r) for w, r in around), grid.size)
        filled = fill_invalid(source.read(*wide))[0][:, :, *_relative(window, wide)]
    size = tuple(part.stop - part.start for part in padded)
    levels = None
    if isinstance(source.array, Frames) and source.array.levels is not None:
        levels = ax.Sample(source.array.levels, source.axes, source.index).read(region[0])
    return Window(raw, filled, size, _relative(region, padded), levels)


def _within(region: Region, size: Sequence[int]) -> Region:
    return tuple(slice(part.start, min(part.stop, length)) for part, length in zip(region, size, strict=True))


def _shifted(region: Region, by: Sequence[int]) -> Region:
    return tuple(slice(part.start + shift, part.stop + shift) for part, shift in zip(region, by, strict=True))


def _relative(region: Region, window: Region) -> Region:
    """A region, counted from the start of the window around it."""
    return tuple(slice(r.start - w.start, r.stop - w.start) for r, w in zip(region, window, strict=True))


@dataclass(frozen=True)
class Finish:
    """How a result is made of what a network predicts; the fields are arguments of `predict`."""

    tta: bool
    blend: Blend | None
    strength: float
    dtype: np.dtype[Any]
    device: torch.device | None


def predict_window(
    network: nn.Module, window: Window, normalization: Normalization, finish: Finish
) -> tuple[NDArray[Any], Predicted]:
    """As `predict_block`, of pixels that are read already."""
    device = finish.device
    if device is None:
        device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    x = _moved(reflect_to(torch.from_numpy(normalization.apply(window.filled)), window.size), device)
    frames = _frames(network, window, finish)
    y = forward(network, x, finish.tta, frames)
    if frames is not None:
        x, window = x[:, :, frames], window.only(frames)
    inside = window.inside
    weight = torch.ones_like(x) if finish.blend is None else finish.blend.weight(x, y, normalization)
    result = _in_own_units(torch.lerp(x, y, weight), window, normalization, finish)
    share = 1 - weight[:, :, *inside].mean((0, *range(2, weight.ndim))).cpu().numpy().astype(np.float64)
    if window.filled is window.raw:
        return result, Predicted(0, share)
    own = window.raw[:, :, *inside]
    return result, Predicted(_pass_through(result, own, np.isfinite(own)), share)


def _frames(network: nn.Module, window: Window, finish: Finish) -> slice | None:
    """The frames of a film that are needed for the region of a window; None if it is no film."""
    if not _is_for_films(network):
        return None
    margin = 0 if finish.blend is None else finish.blend.reach(3)[0]
    inside, length = window.inside[0], window.raw.shape[2]
    return slice(max(0, inside.start - margin), min(length, inside.stop + margin))


def _in_own_units(y: Tensor, window: Window, normalization: Normalization, finish: Finish) -> NDArray[Any]:
    """The region of a window, of which a network made `y`, at the strength that is asked for."""
    inside = window.inside
    if normalization.stabilizer is None and finish.strength == 1 and window.levels is None:
        return normalization.undo(y[:, :, *inside].cpu().numpy(), finish.dtype)
    seen = y[:, :, *(slice(length) for length in window.raw.shape[2:])].cpu().numpy()  # without what was padded
    clean = normalization.undo(seen, np.dtype(np.float64))
    if normalization.stabilizer is not None:
        signal = seen * np.reshape(normalization.std, (-1, *(1,) * len(inside)))
        clean = flux.keep_flux(window.filled, clean, signal)
    own = window.filled[:, :, *inside].astype(np.float64)
    mixed = own + finish.strength * (clean[:, :, *inside] - own)
    return to_dtype(mixed if window.levels is None else mixed + window.levels, finish.dtype)


def _pass_through(result: NDArray[Any], raw: NDArray[Any], finite: NDArray[np.bool_] | None) -> int:
    """Put the NaN and infinite pixels of `raw` back into `result`; their number."""
    if finite is None:
        return 0
    if result.dtype.kind in "ui":  # which hold neither NaN nor infinity: 0, and the ends of the range
        limits = np.iinfo(result.dtype)
        raw = np.nan_to_num(raw.astype(np.float64), nan=0, posinf=limits.max, neginf=limits.min)
    np.copyto(result, raw, where=~finite, casting="unsafe")
    return int((~finite).sum())


def _moved(x: Tensor, device: torch.device) -> Tensor:
    """`x` on `device`; an NVIDIA GPU takes it from pinned memory while it still computes."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


@torch.inference_mode()
def forward(network: Callable[..., Tensor], x: Tensor, tta: bool, frames: slice | None = None) -> Tensor:
    """One pass of (B, C, [Z,] Y, X), or the mean over the eight rotations and flips of its YX plane.

    Of a film, only some `frames` are predicted and returned, if they are given.
    """

    def once(x: Tensor) -> Tensor:
        return network(x) if frames is None else network(x, frames)[:, :, frames]

    return over_turns(once, x) if tta else once(x)


def over_turns(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Mean of a network's outputs over the eight rotations and flips of the YX plane."""

    def turned(turns: int, flip: bool) -> Tensor:
        seen = torch.rot90(x, turns, (-2, -1))
        clean = network(seen.flip(-1)).flip(-1) if flip else network(seen)
        return torch.rot90(clean, -turns, (-2, -1))

    return reduce(torch.add, (turned(*way) for way in product(range(4), (False, True)))) / 8


@contextmanager
def reading_ahead(grid: Grid) -> Iterator[Callable[[Task, Task | None], Window]]:
    """A function that returns the window of a task, and begins to read that of the next one."""
    with ThreadPoolExecutor(1) as reader:
        ahead: dict[Task, Future[Window]] = {}

        def read(task: Task, following: Task | None) -> Window:
            now = ahead.pop(task, None)
            window = read_window(task.source, grid, task.block) if now is None else now.result()
            ahead.clear()  # of what was halved meanwhile
            if following is not None:
                ahead[following] = reader.submit(read_window, following.source, grid, following.block)
            return window

        yield read


@contextmanager
def writing_behind(
    put: Callable[[Part, NDArray[Any]], None], on_part: OnPart | None
) -> Iterator[Callable[[Task, NDArray[Any], Predicted], None]]:
    """A function that gathers blocks and writes each part once it is complete, in a thread and a queue of one.

    An error in writing is raised by the next call, or at the end.
    """
    with ThreadPoolExecutor(1) as writer:
        last: list[Future[None]] = []
        gathered: NDArray[Any] | None = None
        summary = Summary(0)

        def put_and_tell(part: Part, pixels: NDArray[Any], found: Predicted) -> None:
            put(part, pixels)
            if on_part is not None:
                on_part(part, found)

        def write(task: Task, pixels: NDArray[Any], found: Predicted) -> None:
            nonlocal gathered, summary
            part = task.part
            if gathered is None:
                size = [stop - start for start, stop in part.region]
                summary = Summary(pixels.shape[1])
                gathered = np.empty((len(part.samples), pixels.shape[1], *size), pixels.dtype)
            number = part.samples.index(task.place)
            gathered[number : number + 1, :, *_relative(task.block, part.where)] = pixels
            summary.add(found, math.prod(pixels.shape[2:]))
            if summary.pixels == part.pixels:
                if last:
                    last.pop().result()
                last.append(writer.submit(put_and_tell, part, gathered, summary.predicted()))
                gathered = None

        yield write
        if last:
            last.pop().result()
