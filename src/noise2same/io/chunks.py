"""A Zarr array on disk, of which a chunk that vanishes while it is being read is an error, not a field of zeros."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io.image import Pieces
from noise2same.io.remote import Url

MOST_WATCHED = 2**30
"""Chunks, or shards, of an array that can be watched: a bit for each is held, 128 MB."""

Bits = NDArray[np.uint8]


class Chunked(Pieces):
    """A Zarr array, read piece by piece. A chunk that was never written reads as the fill value, as Zarr has it.

    After `watch`, each read makes sure that the chunks are still there which were there then.
    """

    def __init__(self, array: zarr.Array[Any], path: Path) -> None:
        super().__init__(array, path)
        self._array = array
        self._unit = array.shards or array.chunks
        self._counts = tuple(-(-n // step) for n, step in zip(self.shape, self._unit, strict=True))
        self._there: Bits | None = None

    def watch(self, there: Bits | None = None) -> Bits | None:
        """Note which chunks there are, or take the note of another process; None if too many, or elsewhere."""
        if isinstance(self._path, Url):
            return None
        if there is None and math.prod(self._counts) <= MOST_WATCHED:
            there = self._found()
        self._there = there
        return there

    def __getitem__(self, key: Any) -> NDArray[Any]:
        piece = super().__getitem__(key)
        if self._there is not None and isinstance(key, tuple) and all(isinstance(cut, slice) for cut in key):
            self._check(key)
        return piece

    def _check(self, key: tuple[slice, ...]) -> None:
        """Raise InputError if a chunk of a piece was there once and is not any more."""
        assert self._there is not None
        cuts = [cut.indices(n) for cut, n in zip(key, self.shape, strict=False)]
        touched = [
            range(start // step, -(-stop // step)) for (start, stop, _), step in zip(cuts, self._unit, strict=False)
        ]
        touched += [range(count) for count in self._counts[len(touched) :]]
        for place in product(*touched):
            number = int(np.ravel_multi_index(place, self._counts))
            if self._there[number // 8] >> (number % 8) & 1 and not os.path.exists(self._file(place)):
                raise InputError(
                    f"{self._path} changed while it was read: its chunk {self._file(place).relative_to(self._path)} "
                    "is gone; restore it and start again."
                )

    @property
    def _folder(self) -> Path:
        where: Any = self._array.store_path
        return Path(where.store.root) / where.path

    def _file(self, place: tuple[int, ...]) -> Path:
        metadata: Any = self._array.metadata
        return self._folder / metadata.encode_chunk_key(place)

    def _found(self) -> Bits:
        there = np.zeros(-(-math.prod(self._counts) // 8), np.uint8)
        for place in _numbers(self._folder, len(self._counts)):
            if len(place) == len(self._counts) and all(i < n for i, n in zip(place, self._counts, strict=True)):
                number = int(np.ravel_multi_index(place, self._counts))
                there[number // 8] |= np.uint8(1 << number % 8)
        return there


def _numbers(folder: Path, most: int, before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The place of each file whose path has numbers alone: c/0/1, c.0.1, 0/1 or 0.1, as versions of Zarr have them."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.split(".")
            name = name[1:] if name[0] == "c" and not before else name
            if not all(part.isdecimal() for part in name):
                continue
            place = (*before, *map(int, name))
            if entry.is_dir():
                if len(place) < most:
                    yield from _numbers(Path(entry.path), most, place)
            else:
                yield place
