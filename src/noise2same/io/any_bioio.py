"""The last door: files that a reader of bioio knows and none of our formats, if bioio and that reader are installed."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.files import identity
from noise2same.io import ome_new, units
from noise2same.io.extras import load
from noise2same.io.foreign import SIDECARS
from noise2same.io.image import Image, lazily
from noise2same.io.raw import Boxes
from noise2same.io.readonly import DEFAULT_OUTPUT, refusing

suffixes: tuple[str, ...]
default_output = DEFAULT_OUTPUT
check = create = refusing("a format of bioio")

_ONE_SCENE = Lock()
"""An opened file of bioio has a scene that it is at."""


@cache
def known() -> tuple[str, ...]:
    """Suffixes of the readers that are installed; bioio itself is not imported if there are none."""
    if not entry_points(group="bioio.readers"):
        return ()
    plugins = load("bioio.plugins", "bioio", Path("bioio")).get_plugins(use_cache=True)
    return tuple(suffix for suffix in plugins if suffix not in SIDECARS)


def __getattr__(name: str) -> tuple[str, ...]:
    if name == "suffixes":
        return known()
    raise AttributeError(name)


class _Scene(Boxes):
    """A scene: `order` are the axes that bioio gives, of which those of length one are left out."""

    def __init__(self, path: Path, scene: int, order: str, axes: str, shape: tuple[int, ...], dtype: Any) -> None:
        self._path, self._scene, self._order, self._axes = path, scene, order, axes
        self.shape, self.dtype = shape, np.dtype(dtype)

    def _box(self, box: Any) -> NDArray[Any]:
        cuts = dict(zip(self._axes, box, strict=True))
        with _ONE_SCENE:
            file = _open(self._path)
            file.set_scene(self._scene)
            pixels = file.get_image_dask_data(self._order)
            piece = pixels[tuple(cuts.get(letter, 0) for letter in self._order)].compute()
        return np.asarray(piece)


def _open(path: Path) -> Any:
    return _opened(path, identity(path))


@lru_cache(maxsize=1)
def _opened(path: Path, _: str) -> Any:
    """The file that was opened last, as it may take seconds; opened again if it has changed."""
    return load("bioio", "bioio", path).BioImage(path)


def count(path: Path) -> int:
    with _ONE_SCENE:
        return len(_open(path).scenes)


def read(path: Path, number: int = 0) -> Image:
    with _ONE_SCENE:
        file = _open(path)
        file.set_scene(number)
        order, sizes, dtype = file.dims.order, dict(zip(file.dims.order, file.shape, strict=True)), file.dtype
        names, steps = file.channel_names or [], file.physical_pixel_sizes
        scenes, scene = len(file.scenes), str(file.current_scene)
    kept = "".join(letter for letter in order if sizes[letter] > 1 or letter in "YX")
    shape = tuple(sizes[letter] for letter in kept)
    axes = "" if {"S", "C"} <= set(kept) else kept.replace("S", "C")  # bioio's S are the colors of a pixel
    axes = axes if set(axes) <= set("TCZYX") else ""
    found = {letter: (getattr(steps, letter) or 0.0, "µm") for letter in "ZYX" if letter in axes}
    known_sizes, unit = units.combine(found)
    details: dict[str, Any] = {"flavour": "ome"}
    if axes:
        dyes = [ome_new.Dye(str(name)) for name in names]
        described = ome_new.Described(scene, axes, shape, np.dtype(dtype), known_sizes, dyes)
        details["ome_xml"] = ome_new.document([described], ome_new.Lens(), "", "")
    pixels = _Scene(path, number, order, kept, shape, dtype)
    return Image(lazily(pixels, path), axes, known_sizes, unit, path, details, scenes - 1)
