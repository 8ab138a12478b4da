"""Evenly spread parts of images that are too large to be looked at whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, groupby
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.data import axes as ax
from noise2same.data.normalize import check_range
from noise2same.errors import InputError
from noise2same.io import Image, Input, list_images, open_all

BOX = {2: (256, 4096), 3: (32, 256, 256)}
"""Largest box that is read at once, in pixels along [Z,] Y, X."""


def spread_over(count: int, most: int, seed: int = 0) -> list[int]:
    """Choose at most so many of `count` things in a row: one, by chance, of each of equal parts of the row.

    Examples
    --------
    >>> spread_over(3, 10)
    [0, 1, 2]
    >>> [number // 100 for number in spread_over(1000, 10)]
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    if count <= most:
        return list(range(count))
    ends = np.linspace(0, count, most + 1).round().astype(np.int64)
    return np.random.default_rng(seed).integers(ends[:-1], ends[1:]).tolist()


def open_spread(
    images: Input | Sequence[Input],
    axes: str | None = None,
    *,
    most: int,
    seed: int = 0,
    fallback: str | None = None,
    on_unreadable: Callable[[InputError], None] | None = None,
) -> list[Image]:
    """Open images or, of more than `most` files, an evenly spread choice; the others are not even opened.

    Parameters
    ----------
    images, axes, fallback
        As for `io.open_images`. Arrays and images that are open are all taken.
    most, seed : int
        As for `spread_over`.
    on_unreadable : callable, optional
        Given the error of each file that cannot be opened, which is then left out. Without it, or if all are like that,
        the error is raised.
    """
    sources = list_images(images, axes, fallback=fallback)
    files = [number for number, source in enumerate(sources) if isinstance(source, Path)]
    left_out = set(files) - {files[number] for number in spread_over(len(files), most, seed)}
    opened: list[Image] = []
    failed: InputError | None = None
    for source in (source for number, source in enumerate(sources) if number not in left_out):
        try:
            opened += open_all(source, axes, fallback=fallback)
        except InputError as error:
            if on_unreadable is None:
                raise
            on_unreadable(error)
            failed = error
    if failed is not None and not opened:
        raise failed
    return opened


def evenly_spread(
    shapes: Sequence[Sequence[int]], share: float, largest: Mapping[int, Sequence[int]]
) -> list[tuple[int, tuple[slice, ...]]]:
    """Cut images into boxes of nearly the same size, and choose some that are evenly spread over all of them.

    Parameters
    ----------
    shapes : sequence of tuple of int
        Shape of each image.
    share : float
        About which share of the pixels is wanted; all are from 1 on.
    largest : mapping
        Largest box for each number of dimensions, in pixels along each axis.

    Returns
    -------
    list of (int, tuple of slice)
        Number of the image and the box in it; at least one box if there is an image.

    Examples
    --------
    >>> evenly_spread([(100,), (40,)], 0.5, {1: (50,)})
    [(0, (slice(0, 50, None),))]
    >>> [box for _, (box,) in evenly_spread([(100,)], 1, {1: (40,)})]
    [slice(0, 33, None), slice(33, 66, None), slice(66, 100, None)]
    """
    grids = [tuple(-(-n // side) for n, side in zip(shape, largest[len(shape)], strict=True)) for shape in shapes]
    ends = list(accumulate(map(prod, grids)))  # boxes of each image are numbered on from those of the last
    if not ends:
        return []
    count = max(1, int(min(share, 1.0) * ends[-1]))
    chosen = np.linspace(0, ends[-1] - 1, count).round().astype(np.int64)
    boxes = []
    for number, image in zip(chosen, np.searchsorted(ends, chosen, side="right"), strict=True):
        grid, first = grids[image], ends[image] - prod(grids[image])
        places = zip(shapes[image], grid, np.unravel_index(int(number) - first, grid), strict=True)
        boxes.append((int(image), tuple(slice(n * int(i) // k, n * (int(i) + 1) // k) for n, k, i in places)))
    return boxes


def read_boxes(
    images: Sequence[Image],
    limit: int,
    *,
    box: Sequence[int] | None = None,
    on_unreadable: Callable[[InputError], None] | None = None,
) -> list[NDArray[Any]]:
    """Read images or, of more than `limit` values in all, evenly spread boxes with about as many.

    Of several images that are too large together, each is forgotten (see `Image.forget`) when its boxes are read.

    Parameters
    ----------
    images : sequence of Image
        What to read.
    limit : int
        About how many values to read at most.
    box : sequence of int, optional
        Largest box, in pixels along [Z,] Y, X; by default that of `BOX`.
    on_unreadable : callable, optional
        Given the error of each image whose pixels cannot be read, which is then left out. Without it, or if all are
        like that, the error is raised.

    Returns
    -------
    list of ndarray, each (1, C, [Z,] Y, X)
        In the images' own units and type. Without a limit, one for each independent image (see `axes.samples`).
    """
    share = limit / sum(prod(image.shape) for image in images)
    every = [ax.samples(image.data, image.axes) for image in images]
    shapes = [(len(samples), *samples[0].size) for samples in every]
    largest = {len(one) + 1: (1, *one) for one in (BOX.values() if box is None else [box])}
    parts: list[tuple[int, list[tuple[int, tuple[slice, ...]]]]]
    if share >= 1:
        parts = [(number, [(sample, ()) for sample in range(len(samples))]) for number, samples in enumerate(every)]
    else:
        spread = groupby(evenly_spread(shapes, share, largest), key=itemgetter(0))
        parts = [(number, [(cuts[0].start, cuts[1:]) for _, cuts in chosen]) for number, chosen in spread]
    boxes: list[NDArray[Any]] = []
    failed: InputError | None = None
    for number, chosen in parts:
        try:
            pixels = [every[number][sample].read(*region) for sample, region in chosen]
            for part in pixels:
                check_range(part)
        except MemoryError as error:  # a part cannot be smaller than a chunk of its file
            name = images[number].name
            raise InputError(
                f"{name}: memory ran out while it was read; convert it to .zarr with small chunks."
            ) from error
        except InputError as error:
            if on_unreadable is None:
                raise
            on_unreadable(error)
            failed = error
            continue
        if share < 1:  # a view of a box would keep the whole image in memory
            pixels = [part if part.base is None else part.copy() for part in pixels]
            if len(images) > 1:
                images[number].forget()
        boxes += pixels
    if failed is not None and not boxes:
        raise failed
    return boxes
