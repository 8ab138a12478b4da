"""Files that napari opens and writes through our formats, with axes, pixel size and unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari

from noise2same import io
from noise2same.data import axes as ax
from noise2same.napari.apply import SUFFIX, ApplyPanel
from noise2same.napari.layers import axes_of, described
from noise2same.napari.results import pixels_of_file

LayerData = tuple[Any, dict[str, Any], str]
NO_LAYER = [(None,)]
"""What a reader returns for a file that makes no layer."""


def get_reader(path: str | list[str]) -> Callable[[Any], list[Any]] | None:
    """What opens a file: an image as a layer, a model in the widget *Apply model*; None for other files."""
    first = Path(path[0] if isinstance(path, list) else path)
    if first.suffix.lower() == SUFFIX:
        return open_model
    return read if io.supported(first) else None


def read(path: str | list[str]) -> list[LayerData]:
    """Each image of a file as a layer with the axes, pixel size and unit that it states."""
    return [_layer(image) for image in io.open_images(path if isinstance(path, list) else [path])]


def _layer(image: io.Image) -> LayerData:
    rgb = image.axes.endswith("YXC") and image.shape[-1] in (3, 4)
    letters = image.axes[:-1] if rgb else image.axes
    attributes: dict[str, Any] = {
        "name": "" if image.path is None else io.stem(image.path),
        "rgb": rgb,
        "axis_labels": tuple(letters.lower()),
        "scale": [image.pixel_size.get(letter, 1.0) for letter in letters],
        "units": [_unit(letter, image) for letter in letters],
    }
    return pixels_of_file(image), attributes, "image"


def _unit(letter: str, image: io.Image) -> str:
    if letter not in image.pixel_size:
        return "pixel"
    return "second" if letter == "T" else image.unit or "pixel"


def open_model(path: str | list[str]) -> list[Any]:
    """Open a model in the widget *Apply model*, which is shown if it is not there yet."""
    viewer = napari.current_viewer()
    if viewer is not None:
        _, panel = viewer.window.add_plugin_dock_widget("noise2same", "Apply model")
        assert isinstance(panel, ApplyPanel)
        panel.open_model(path[0] if isinstance(path, list) else path)
    return NO_LAYER


def write(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:
    """Write an image layer in the format of the suffix, with its axes, pixel size and unit."""
    pixels = data[0] if attributes.get("multiscale") else data
    labels, scale = attributes["axis_labels"], attributes["scale"]
    axes = axes_of(pixels.shape, labels, attributes["rgb"])
    image = described(pixels, axes, attributes["name"], scale, attributes["units"])
    with io.create(path, image) as out:
        for source, target in zip(ax.samples(pixels, image.axes), ax.samples(out, image.axes), strict=True):
            target.write(source.read())
    return [path]
