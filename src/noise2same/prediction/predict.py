"""Prediction in overlapping tiles that are blended smoothly, one row of tiles at a time.

While a row is predicted, another thread reads the next one and a third writes the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from itertools import groupby, product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noise2same.data import axes as ax
from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.device import is_out_of_memory

TILE = {2: (1056, 1056), 3: (64, 256, 256)}
"""Largest tile, ([Z,] Y, X): as large as a laptop's memory allows, for the sake of little overlap."""
OVERLAP = {2: (48, 48), 3: (16, 32, 32)}
"""Of neighbouring tiles: about the reach of the default network, so that no seam is left to see."""
BATCH_PIXELS = {"cpu": 2**18, "mps": 2**20, "cuda": 2**22}
"""Pixels that go through the network at once."""


def predict(
    network: nn.Module,
    data: Any,
    axes: str,
    out: Any,
    *,
    normalization: Normalization | None,
    augment: bool = False,
    blend: Sequence[float] = (1.0,),
    tile: Sequence[int] | None = None,
    advance: Callable[[float], None] = lambda share: None,
) -> int:
    """Denoise `data` into `out`, both of the same shape and indexed piece by piece, so either may lie on disk.

    Parameters
    ----------
    network : Module
        Maps normalised (B, C, [Z,] Y, X) to the same shape. A `multiple` attribute names the sizes it strides by, to
        which tiles are aligned so that they see the same grid as the whole image would.
    data, out : array-like
        Anything that can be sliced: NumPy arrays, memory maps, zarr arrays. Values are converted to the dtype of `out`,
        integers rounded and clipped; NaN and infinite pixels pass through.
    axes : str
        Axes of both.
    normalization : Normalization, optional
        None normalises each image by its own statistics.
    augment : bool
        Average over the eight rotations and flips in the YX plane; eight times the work.
    blend : sequence of float
        Weight of the network's output in each channel, or one for all; the rest is the noisy image.
    tile : sequence of int, optional
        Largest tile, ([Z,] Y, X); halved, as often as it takes, when memory runs out.
    advance : callable
        Told, again and again, which share of the work has been done since the last time.

    Returns
    -------
    int
        Number of NaN and infinite pixels that were passed through.
    """
    passed = 0
    sources, targets = ax.samples(data, axes), ax.samples(out, axes)
    tile = tuple(tile or TILE[len(sources[0].size)])
    for source, target in zip(sources, targets, strict=True):
        reported = 0.0

        def report(share: float) -> None:
            nonlocal reported
            if share > reported:  # work repeated after running out of memory is not told twice
                advance((share - reported) / len(sources))
                reported = share

        own = normalization or Normalization.measure(
            source.read(slice(start, start + 256)) for start in range(0, source.size[0], 256)
        )
        while True:
            try:
                passed += _predict_sample(network, source, target, own, tile, augment, blend, report)
                break
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or max(tile) <= 32:
                    raise
                tile = tuple(max(16, edge // 2) for edge in tile)
    return passed


def predict_whole(
    denoise: Callable[[NDArray[Any]], NDArray[Any]],
    data: Any,
    axes: str,
    out: Any,
    *,
    advance: Callable[[float], None] = lambda share: None,
) -> int:
    """As `predict`, but with a function of one whole image (C, [Z,] Y, X) in its own units."""
    sources, targets, passed = ax.samples(data, axes), ax.samples(out, axes), 0
    for source, target in zip(sources, targets, strict=True):
        raw = source.read()
        filled, finite = fill_invalid(raw)
        clean = np.stack([denoise(image) for image in filled])
        result = Normalization((0.0,), (1.0,)).undo(clean, target.array.dtype)
        passed += _pass_through(result, raw, finite)
        target.write(result)
        advance(1 / len(sources))
    return passed


def _pass_through(result: NDArray[Any], raw: NDArray[Any], finite: NDArray[np.bool_] | None) -> int:
    """Put the NaN and infinite pixels of `raw` back into `result`; their number."""
    if finite is None:
        return 0
    if result.dtype.kind in "ui":  # which hold neither NaN nor infinity: 0, and the ends of the range
        limits = np.iinfo(result.dtype)
        raw = np.nan_to_num(raw.astype(np.float64), nan=0, posinf=limits.max, neginf=limits.min)
    np.copyto(result, raw, where=~finite, casting="unsafe")
    return int((~finite).sum())


def _predict_sample(
    network: nn.Module,
    source: ax.Sample,
    target: ax.Sample,
    normalization: Normalization,
    tile: Sequence[int],
    augment: bool,
    blend: Sequence[float],
    report: Callable[[float], None],
) -> int:
    """Denoise one image, row of tiles by row of tiles along its first spatial axis; count what is passed through."""
    size, dims = source.size, len(source.size)
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    multiple = getattr(network, "multiple", (1,) * dims)
    first, *others = (Tiles(*along) for along in zip(size, tile, OVERLAP[dims], multiple, strict=True))
    places = list(product(*(range(len(plan.starts)) for plan in others)))
    pixels = first.length * math.prod(plan.length for plan in others)
    together = max(1, BATCH_PIXELS.get(device.type, BATCH_PIXELS["cpu"]) // pixels)

    def extent(place: Sequence[int]) -> list[int]:  # without what would overhang the image: networks pad as they need
        return [len(plan.weights[k]) for plan, k in zip(others, place, strict=True)]

    same_size = [list(group) for _, group in groupby(sorted(places, key=extent), extent)]
    batches = [group[i : i + together] for group in same_size for i in range(0, len(group), together)]
    rows = [(start, min(start + first.length, size[0])) for start in first.starts]
    weight = torch.tensor(blend, device=device).reshape(-1, *[1] * dims)
    unfinished, passed = None, 0  # `unfinished`: the part of the last row of tiles that this one still adds to
    with written_behind(target) as write:
        for row, raw in enumerate(read_ahead(source, rows)):
            start, end = rows[row][0], rows[row + 1][0] if row + 1 < len(rows) else size[0]
            filled, finite = fill_invalid(raw)
            blended = np.zeros(raw.shape, np.float32)
            if unfinished is not None:
                blended[:, :, : unfinished.shape[2]] += unfinished
            predicted = 0
            for batch in batches:
                boxes = [tuple(plan.box(k) for plan, k in zip(others, place, strict=True)) for place in batch]
                noisy = [torch.from_numpy(normalization.apply(filled[:, :, :, *box])) for box in boxes]
                x = moved(torch.cat(noisy), device)
                clean = torch.lerp(x, forward(network, x, augment), weight).cpu().numpy()
                for one, place, box in zip(clean, batch, boxes, strict=True):
                    weights = [first.weights[row], *(plan.weights[k] for plan, k in zip(others, place, strict=True))]
                    blended[:, :, :, *box] += reduce(np.multiply.outer, weights) * one
                predicted += len(batch)
                report((row + predicted / len(places)) / len(first.starts))
            done = end - start
            result = normalization.undo(blended[:, :, :done], target.array.dtype)
            passed += _pass_through(result, raw[:, :, :done], None if finite is None else finite[:, :, :done])
            write(start, end, result)
            unfinished = blended[:, :, done:].copy()
    return passed


def moved(x: Tensor, device: torch.device) -> Tensor:
    """`x` on `device`; an NVIDIA GPU takes it from pinned memory while it still computes."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def read_ahead(source: ax.Sample, rows: Sequence[tuple[int, int]]) -> Iterator[NDArray[Any]]:
    """Each of the rows of an image, the next one being read while the caller works on the last."""
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(source.read, slice(*rows[0]))
        for row in [*rows[1:], None]:
            raw = following.result()
            if row is not None:
                following = reader.submit(source.read, slice(*row))
            yield raw


@contextmanager
def written_behind(target: ax.Sample) -> Iterator[Callable[[int, int, NDArray[Any]], None]]:
    """A `write` that returns before the rows are written, unless those before them still are not; its errors follow."""
    with ThreadPoolExecutor(1) as writer:
        last: list[Future[None]] = []

        def write(start: int, end: int, rows: NDArray[Any]) -> None:
            if last:
                last.pop().result()
            last.append(writer.submit(target.write, rows, slice(start, end)))

        yield write
        if last:
            last.pop().result()


class Tiles:
    """How one axis is cut: starts of the tiles, their common length, and weights that add up to one at each pixel.

    Tiles are as few as the largest allowed length permits and then as short as they can be. The weight of a tile falls
    smoothly to zero towards a neighbour, and the outer quarter of an overlap, where a tile misses most of the
    surroundings of its pixels, does not count at all.
    """

    def __init__(self, size: int, longest: int, overlap: int, multiple: int) -> None:
        longest = max(multiple, longest // multiple * multiple)
        overlap = min(overlap, longest // 2)
        count = 1 if size <= longest else -(-(size - overlap) // (longest - overlap))
        self.size = size
        self.length = _up(-(-(size + (count - 1) * overlap) // count), multiple)
        step = (size - self.length) / max(1, count - 1)
        self.starts = [_up(int(i * step), multiple) for i in range(count)]
        windows = np.zeros((count, size))
        for window, start in zip(windows, self.starts, strict=True):
            at = np.arange(start, min(start + self.length, size))
            rise = at - start + 0.5 if start > 0 else np.full(len(at), np.inf)
            fall = start + self.length - at - 0.5 if start + self.length < size else np.full(len(at), np.inf)
            distance = np.clip((np.minimum(rise, fall) - overlap / 4) / max(1, overlap / 2), 1e-3, 1)
            window[at] = np.sin(np.pi / 2 * distance) ** 2
        windows /= windows.sum(0)
        self.weights = [w[self.box(k)].astype(np.float32) for k, w in enumerate(windows)]

    def box(self, k: int) -> slice:
        """Pixels of the image under tile k."""
        return slice(self.starts[k], min(self.starts[k] + self.length, self.size))


@torch.inference_mode()
def forward(network: nn.Module, x: Tensor, augment: bool) -> Tensor:
    """One pass of (B, C, [Z,] Y, X), or the mean over the eight rotations and flips of its YX plane."""
    if not augment:
        return network(x)
    total = torch.zeros_like(x)
    for turns, flip in product(range(4), (False, True)):
        turned = torch.rot90(x, turns, (-2, -1))
        clean = network(turned.flip(-1)).flip(-1) if flip else network(turned)
        total += torch.rot90(clean, -turns, (-2, -1))
    return total / 8


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
