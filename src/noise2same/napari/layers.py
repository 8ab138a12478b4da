"""Layers of napari as images, and results as layers: axes, the part that is looked at, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Image as ImageLayer
from napari.utils.transforms import Affine
from numpy.typing import NDArray

from noise2same import io
from noise2same.data import axes as ax
from noise2same.io import units

if TYPE_CHECKING:
    from napari import Viewer

READINGS = {
    2: ("YX",),
    3: ("ZYX", "TYX", "SYX", "CYX", "YXC"),
    4: ("TZYX", "CZYX", "TCYX", "ZCYX", "TYXC"),
    5: ("TCZYX", "TZCYX"),
}
"""Axes to choose from, by the number of dimensions."""
MANY_CHANNELS = 4
"""More than these are planes or time points, in a layer that does not say what its axes are."""
SMALLEST = 16
"""Pixels a side below which a view is not one: the canvas has not been drawn, or shows other axes."""
MARK = "noise2same"
"""Key in the metadata of the layers that this plugin made."""

Part = tuple[slice, ...]
"""Start and stop along each axis of an image."""


def pixels_of(layer: ImageLayer) -> Any:
    """The pixels of a layer in full resolution, without alpha."""
    data = _finest(layer)
    return data[..., :3] if layer.rgb and data.shape[-1] > 3 else data


def is_lazy(layer: ImageLayer) -> bool:
    """Whether the pixels of a layer are read or computed when they are looked at (Dask, Zarr, a file)."""
    return not isinstance(pixels_of(layer), np.ndarray)


def guess_axes(layer: ImageLayer) -> str:
    """Axes of a layer by its labels, or else by its number of dimensions; a guess for those without labels."""
    return axes_of(pixels_of(layer).shape, layer.axis_labels, layer.rgb)


def axes_of(shape: Sequence[int], labels: Sequence[str], rgb: bool) -> str:
    """As `guess_axes`, of the properties that matter; "" if there are too many dimensions to guess.

    Examples
    --------
    >>> axes_of((10, 64, 64), ("time", "y", "x"), False), axes_of((3, 64, 64), ("-3", "-2", "-1"), False)
    ('TYX', 'CYX')
    """
    color = "C" if rgb else ""
    named = "".join(label[:1].upper() for label in labels)
    if len(set(named)) == len(labels) and {"Y", "X"} <= set(named) <= set(ax.LETTERS) - set(color):
        return named + color
    lead = list(shape[: len(labels) - 2])
    few = [not rgb and length <= MANY_CHANNELS for length in lead]
    if len(lead) == 3:
        first = "TCZ" if lead[1] <= lead[2] else "TZC"
    elif len(lead) == 2:
        first = "CZ" if few[0] else "TC" if few[1] else "TZ"
    else:
        first = "" if not lead else "C" if few[0] else "T" if rgb else "Z"
    return f"{first}YX{color}" if len(first) == len(lead) else ""


def image_of(layer: ImageLayer, axes: str) -> io.Image:
    """A layer as an image with these axes, whose pixels are not read here; InputError if they do not fit."""
    return described(pixels_of(layer), axes, layer.name, layer.scale, layer.units)


def described(data: Any, axes: str, name: str, scale: Sequence[float], named_units: Sequence[Any]) -> io.Image:
    """Pixels as an image, with the size that scale and units of their layer give them; colors have neither."""
    image = io.describe(io.Image(data, "", title=name), axes)
    letters = [letter for letter in image.axes if letter != "C" or len(scale) == len(image.axes)]
    found = zip(letters, scale, map(str, named_units), strict=False)
    sizes, unit = units.combine({letter: (float(size), text) for letter, size, text in found if letter != "C"})
    return io.describe(io.Image(data, "", sizes, unit, title=name), axes)


def view_of(viewer: Viewer, layer: ImageLayer, image: io.Image, longest: int) -> Part:
    """The part of an image that is looked at: one plane of one time point, and of that what the window shows.

    Parameters
    ----------
    viewer : Viewer
        Whose sliders and camera count.
    layer : ImageLayer
        What shows the image.
    image : Image
        Of `image_of`.
    longest : int
        Pixels a side at most; of more, the middle.
    """
    point = layer.world_to_data(viewer.dims.point)
    corners = np.asarray(layer.corner_pixels, float)
    if layer.multiscale:
        corners = corners * layer.downsample_factors[layer.data_level][: layer.ndim]
    part = []
    for at, (letter, size) in enumerate(zip(image.axes, image.shape, strict=True)):
        if letter in "YX":
            part.append(_seen(corners[0, at], corners[1, at], size, longest))
        elif letter == "C":
            part.append(slice(0, size))
        else:
            index = int(np.clip(round(point[at]), 0, size - 1))
            part.append(slice(index, index + 1))
    return tuple(part)


def _seen(first: float, last: float, size: int, longest: int) -> slice:
    start, stop = int(np.clip(first, 0, size)), int(np.clip(last + 1, 0, size))
    if stop - start < SMALLEST:
        start, stop = 0, size
    start += max(0, stop - start - longest) // 2
    return slice(start, min(stop, start + longest))


def like(layer: ImageLayer, data: Any, name: str, part: Part | None = None, **marks: Any) -> ImageLayer:
    """A new layer that looks as another one: its scale, place, units, colors, contrast and metadata.

    Parameters
    ----------
    layer : ImageLayer
        What the data were made of.
    data : array
        Of the shape of its pixels, or of a part of them.
    name : str
        Of the new layer.
    part : Part, optional
        Where in the layer the data are.
    **marks
        What its metadata say of it, under `MARK`.
    """
    _, kept, _ = layer.as_layer_data_tuple()
    for attribute in ("name", "multiscale", "visible", "locked_data_level"):
        kept.pop(attribute, None)
    if part is not None:
        kept["translate"] = place_of(layer, part)
    else:
        data = with_alpha(layer, data)
    kept["metadata"] = {**layer.metadata, MARK: marks}
    return ImageLayer(data, name=name, multiscale=False, **kept)


def with_alpha(layer: ImageLayer, data: Any) -> Any:
    """Colors with the alpha of a layer, if that has one."""
    whole = _finest(layer)
    return np.concatenate([data, whole[..., 3:]], axis=-1) if data.shape[-1] < whole.shape[-1] else data


def _finest(layer: ImageLayer) -> Any:
    return layer.data[0] if layer.multiscale else layer.data


def place_of(layer: ImageLayer, part: Part) -> NDArray[np.float64]:
    """What a layer with a part of another one's pixels is translated by."""
    own = Affine(scale=layer.scale, rotate=layer.rotate, shear=layer.shear, translate=layer.translate)
    return np.asarray(own([cut.start for cut in part[: layer.ndim]]))
