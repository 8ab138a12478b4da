"""Image files: `read` and `create`, `find` which are meant and `check_output` before work starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.files import file_of, identity, replacing
from noise2same.io import axes as ax
from noise2same.io import formats, series, units
from noise2same.io.formats import Format, supported
from noise2same.io.image import Decoded, Image, Pieces, Sliceable, dtype_of, unreadable
from noise2same.io.names import Channel, channels, frame_name
from noise2same.io.paths import (
    check_apart,
    check_format,
    check_output,
    check_place,
    find,
    output_name,
    pair,
    some,
    stem,
)
from noise2same.io.rearranged import Rearranged
from noise2same.io.remote import Url, as_path, stage, uploading

__all__ = [
    "Channel",
    "Decoded",
    "Format",
    "Image",
    "Input",
    "Pieces",
    "Sliceable",
    "Url",
    "as_path",
    "channels",
    "check_apart",
    "check_format",
    "check_output",
    "check_place",
    "create",
    "describe",
    "dtype_of",
    "find",
    "find_images",
    "frame_name",
    "is_store",
    "list_images",
    "names_in_one_file",
    "open_all",
    "open_images",
    "open_pairs",
    "output_name",
    "pair",
    "read",
    "read_result",
    "series",
    "stage",
    "state_of",
    "stem",
    "supported",
    "uploading",
    "wrap",
    "write_grid",
]

Input = str | os.PathLike[str] | NDArray[Any] | Image
"""What stands for one or more images: a file, a folder, a glob pattern, an array."""


def read(path: str | os.PathLike[str], axes: str | None = None, *, fallback: str | None = None) -> Image:
    """Open an image. Its pixels are read when they are first indexed: at once or, if there are many, piece by piece.

    Parameters
    ----------
    path : str or path
        A file, or a Zarr folder. Of a file with several images it is the first; 'scan.czi/2' is the third.
    axes : str, optional
        Its axes, such as 'ZYX', in place of what its metadata says.
    fallback : str, optional
        Axes to assume if the metadata says nothing and they fit the number of dimensions. Without them, only plain
        cases are guessed and others asked for.
    """
    path = as_path(path)
    if not (isinstance(path, Url) or os.path.exists(file_of(path))):
        raise InputError(f"{path} does not exist; check its name and folder.")
    if path.is_dir() and not (formats.is_zarr(path) or formats.is_dicom_folder(path)):
        raise InputError(f"{path} is a folder, not an image; name a file inside it.")
    try:
        stamp = "" if path.is_dir() else identity(path)
        image = series.read(path)
        image = replace(image, stamp=stamp, path=path, others=image.others if file_of(path) == path else 0)
    except InputError:
        raise
    except Exception as error:  # readers raise anything on damaged files
        raise unreadable(path, error) from error
    return _described(image, axes, fallback, str(path))


def read_result(path: str | os.PathLike[str], like: Image) -> Image | None:
    """What `create` wrote from an image like this, with its axes, in whatever order the format holds them.

    None if the file has something else made of it: a developed photograph of a camera's mosaic, or one turned upright.
    """
    path = as_path(path)
    number = None if like.path is None else series.number_of(like.path)
    if number is not None and series.count(path) > number:  # a FITS file with all that was in the input
        path = path / str(number)
    found = read(path, fallback=like.axes)
    if found.shape == like.shape:
        return replace(found, axes=like.axes)
    if set(found.axes) <= set(like.axes):
        found = replace(found, data=Rearranged(found.data, found.axes, like.axes), axes=like.axes)
    other = found.shape != like.shape and ("camera" in like.details or like.details.get("exif"))
    return None if other else found


def wrap(array: Any, axes: str | None = None, *, fallback: str | None = None) -> Image:
    """An array in memory as an `Image`; `axes` and `fallback` are those of `read`."""
    return describe(Image(np.asarray(array), ""), axes, fallback=fallback)


def describe(image: Image, axes: str | None = None, *, fallback: str | None = None) -> Image:
    """An image of any source, whose pixels are not read here, with its axes settled; as `read` does for a file."""
    return _described(image, axes, fallback, image.title or "the array")


def _described(image: Image, axes: str | None, fallback: str | None, name: str) -> Image:
    """The image with its axes settled, if it is one that can be worked on."""
    if image.dtype.kind not in "uif":
        raise InputError(f"{name} has pixels of type {image.dtype}; convert it to integers or floating point first.")
    if len(image.shape) < 2:
        raise InputError(f"{name} has shape {image.shape}; an image has at least two dimensions.")
    if 0 in image.shape:
        raise InputError(f"{name} is empty: its shape is {image.shape}.")
    axes = axes or image.axes
    if not axes and fallback and len(fallback) == len(image.shape):
        axes = fallback
    axes = ax.check(axes or ax.guess(image.shape, name=name), image.shape, name=name)
    sizes = units.checked(image.pixel_size, axes, name=name)
    unit = str(image.unit) if set(sizes) & set("ZYX") else ""
    details = image.details | {"stored_axes": image.details.get("stored_axes", image.axes)}
    return replace(image, axes=axes, pixel_size=sizes, unit=unit, details=details)


def open_images(
    images: Input | Sequence[Input], axes: str | None = None, *, fallback: str | None = None
) -> list[Image]:
    """Files, folders, patterns, arrays or a mix of them, opened; `axes` and `fallback` are those of `read`.

    A file with several images stands for all of them.
    """
    sources = list_images(images, axes, fallback=fallback)
    return [image for one in sources for image in open_all(one, axes, fallback=fallback)]


def open_all(source: Path | Image, axes: str | None = None, *, fallback: str | None = None) -> list[Image]:
    """All images of a file, opened as by `read`; an opened image is itself."""
    if isinstance(source, Image):
        return [source]
    return [read(name, axes, fallback=fallback) for name in series.names(source)]


def find_images(inputs: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """As `find`, with the name of each image for a file that holds several, which takes a look into the files."""
    return [name for file in find(inputs) for name in series.names(file)]


def names_in_one_file(images: Sequence[Image], step: str) -> list[Path]:
    """The names of opened images, which must be one, or of one file; if not, InputError says what to do."""
    paths = [image.path or Path() for image in images]
    files = {path.parent if series.number_of(path) is not None else None for path in paths}
    if len(images) > 1 and (None in files or len(files) > 1):
        raise InputError(f"There are {len(images)} images: {step}.")
    return paths


def list_images(
    images: Input | Sequence[Input], axes: str | None = None, *, fallback: str | None = None
) -> list[Path | Image]:
    """As `open_images`, but files are found and not opened.

    An array is anything that NumPy can make one of, such as a tensor of PyTorch on the CPU.
    """
    found: list[Path | Image] = []
    for image in images if isinstance(images, list | tuple) else [images]:
        if not (isinstance(image, str | os.PathLike | Image) or hasattr(image, "__array__")):
            kind = type(image).__name__
            raise InputError(f"An image is a file, a folder, an array or a list of these, but one is of type {kind}.")
        if isinstance(image, Image):
            found.append(image)
        elif isinstance(image, str | os.PathLike):
            found.extend(find([image]))
        else:
            found.append(wrap(image, axes, fallback=fallback))
    if not found:
        raise InputError("No image to work on was given.")
    return found


def open_pairs(images: Sequence[Image], partners: Input | Sequence[Input], axes: str | None = None) -> list[Image]:
    """The partner of each image, opened: files matched by name, arrays in order. They must have the same shape.

    One that is missing, left over or of another shape is an InputError that lists the names.
    """
    opened = open_images(partners, axes, fallback=images[0].axes)
    if all(image.path for image in (*images, *opened)):
        by_path = {image.path: image for image in opened if image.path}
        chosen = pair([image.path for image in images if image.path], list(by_path), "target")
        left = [str(path) for path in by_path if path not in chosen]
        if left:
            raise InputError(f"There is no image of the same name for the target {some(left)}: rename or remove it.")
        opened = [by_path[path] for path in chosen]
    elif len(images) != len(opened):
        raise InputError(f"There are {len(images)} images but {len(opened)} targets: each image needs one.")
    different = [
        f"{partner.name} {partner.shape} ({partner.axes}) for {image.name} {image.shape} ({image.axes})"
        for image, partner in zip(images, opened, strict=True)
        if (partner.shape, partner.axes) != (image.shape, image.axes)
    ]
    if different:
        raise InputError(f"A target has the shape of its image, but these have not: {some(different)}.")
    return opened


@contextmanager
def create(path: str | os.PathLike[str], like: Image, dtype: Any = None) -> Iterator[Any]:
    """Write an image of the shape, axes and pixel size of `like` by filling, piece by piece, the array this yields.

    The format is that of the suffix of `path`. The file gets its name when the block is left; an exception in the
    block leaves nothing behind, and what had the name before untouched.

    Parameters
    ----------
    path : str or path
        What to write.
    like : Image
        Usually the input that is processed.
    dtype : dtype, optional
        Type of the pixels, by default that of `like`.
    """
    path = Path(path).expanduser()
    kind = np.dtype(like.dtype if dtype is None else dtype).newbyteorder("=")
    file_format = formats.writer_of(path, like)
    file_format.check(path, like, kind)
    check_place(path)
    with replacing(path) as temporary, file_format.create(temporary, like, kind) as out:
        yield out


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether what is written to a name is a Zarr store, of which several processes can write the chunks."""
    return formats.suffix_of(Path(path)).lower() == ".zarr" or formats.is_zarr(Path(path))


def state_of(image: Image) -> list[Any]:
    """What tells an image of a file from another, and from what the file was before: name, kind, size and time."""
    if isinstance(image.path, Url):
        return [str(image.path), image.axes, list(image.shape), str(image.dtype)]
    if image.path is None:
        return ["an array", image.axes, list(image.shape), str(image.dtype)]
    path = image.path.resolve()
    file = file_of(path)
    if not (file.is_file() or formats.is_zarr(path)):
        return [str(path), image.axes, list(image.shape), str(image.dtype), identity(path)]
    names = [file] if file.is_file() else [path / name for name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")]
    states = [(at.stat().st_size, at.stat().st_mtime_ns) for at in names if at.is_file()]
    return [str(path), image.axes, list(image.shape), str(image.dtype), states]


def write_grid(out: Sliceable) -> tuple[int, ...] | None:
    """Shape of the parts of what `create` yields that are written at once: shards or else chunks; None if any can be.

    To fill such a part in several steps is to read, decode, encode and write it that often.
    """
    return getattr(out, "shards", None) or getattr(out, "chunks", None)
