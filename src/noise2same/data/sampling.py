"""Evenly spread parts of images that are too large to be looked at whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.data import axes as ax
from noise2same.io.image import Image

BOX = {2: (256, 4096), 3: (32, 256, 256)}
"""Largest box that is read at once, in pixels along [Z,] Y, X."""


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


def read_boxes(images: Sequence[Image], limit: int) -> list[NDArray[Any]]:
    """Read images or, of more than `limit` values in all, evenly spread boxes with about as many.

    Of several images that are too large together, each is forgotten (see `Image.forget`) when its boxes are read.

    Returns
    -------
    list of ndarray, each (1, C, [Z,] Y, X)
        In the images' own units and type. Without a limit, one for each independent image (see `axes.samples`).
    """
    share = limit / sum(prod(image.shape) for image in images)
    every = [ax.samples(image.data, image.axes) for image in images]
    if share >= 1:
        return [sample.read() for samples in every for sample in samples]
    shapes = [(len(samples), *samples[0].size) for samples in every]
    largest = {len(box) + 1: (1, *box) for box in BOX.values()}
    boxes = []
    for number, chosen in groupby(evenly_spread(shapes, share, largest), key=itemgetter(0)):
        # copied, as a view would keep the whole image in memory
        boxes += [every[number][sample.start].read(*region).copy() for _, (sample, *region) in chosen]
        if len(images) > 1:
            images[number].forget()
    return boxes
