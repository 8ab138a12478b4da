"""The same pixels with their axes in another order: formats that have one of their own keep it."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from noise2same.io.image import Sliceable
from noise2same.io.raw import Boxes


class Rearranged(Boxes):
    """Pixels with axes `source` as pixels with axes `target`, which may have further ones of length one."""

    def __init__(self, pixels: Sliceable, source: str, target: str) -> None:
        self._pixels, self._source, self._target = pixels, source, target
        self.shape = tuple(pixels.shape[source.index(letter)] if letter in source else 1 for letter in target)
        self.dtype = pixels.dtype

    def _box(self, box: Any) -> NDArray[Any]:
        found = dict(zip(self._target, box, strict=True))
        pixels = self._pixels[tuple(found[letter] for letter in self._source)]
        kept = [letter for letter in self._target if letter in self._source]
        moved = pixels.transpose([self._source.index(letter) for letter in kept])
        return moved.reshape([part.stop - part.start for part in box])
