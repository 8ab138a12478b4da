"""The registry of formats: which file suffix is read and written by what.

Each format of ours is a module of this folder, imported on first use: their libraries are slow to load. Other packages
add theirs by an entry point of the group 'noise2same.formats', whose name is a suffix and whose value is a `Format`::

    [project.entry-points."noise2same.formats"]
    ".sif" = "camera_formats:SIF"
    ".sif.gz" = "camera_formats:SIF"
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from noise2same.errors import InputError
from noise2same.io import any_bioio, dicom, foreign
from noise2same.io.image import Image
from noise2same.io.remote import Url

BUILT_IN = {
    ".tif": "tiff",
    ".tiff": "tiff",
    ".png": "png",
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".npy": "npy",
    ".zarr": "ome_zarr",
    ".czi": "czi",
    ".nd2": "nd2",
    ".lif": "lif",
    **dict.fromkeys((".gif", ".webp"), "animation"),
    **dict.fromkeys((".avi", ".mp4", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv"), "video"),
    **dict.fromkeys((".dng", ".nef", ".cr2", ".cr3", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw"), "camera"),
    **dict.fromkeys((".dcm", ".dicom", ".ima"), "dicom"),
    **dict.fromkeys((".fits", ".fit", ".fts", ".fits.gz", ".fit.gz", ".fits.fz"), "fits"),
    **dict.fromkeys((".mrc", ".mrcs", ".map", ".rec", ".st", ".mrc.gz", ".map.gz"), "mrc"),
    **dict.fromkeys((".nii", ".nii.gz"), "nifti"),
}


class Format(Protocol):
    """How files of one format are read and written: an object, or a module with these names."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Ends of the names of its files, in small letters: ('.tif', '.tiff') or ('.fits', '.fits.gz')."""

    @property
    def default_output(self) -> str:
        """Suffix of a result that is made from such a file, where the format is only read; '' where it is written."""

    def read(self, path: Path, /) -> Image:
        """Open a file: look at its metadata, and leave the pixels for when they are indexed.

        The axes are '' if the file does not say what they are. Whatever is raised on a damaged file becomes a sentence.
        Of a file with several images it is the first, and `others` counts the further ones.
        """

    def check(self, path: Path, like: Image | None, dtype: np.dtype[Any], /) -> None:
        """Raise InputError if `path` cannot hold an image like this; None stands for one not known yet."""

    def create(self, path: Path, like: Image, dtype: np.dtype[Any], /) -> AbstractContextManager[Any]:
        """Context manager that yields an array to fill, and leaves the whole file at its end.

        The array has the shape of `like` and can be assigned to in parts. The file has its axes, pixel size and unit.
        """


@runtime_checkable
class Several(Protocol):
    """What a `Format` has besides if its files can hold several images: scenes, positions, series."""

    def count(self, path: Path, /) -> int:
        """How many images a file holds, found without a look at the pixels. Previews and labels are none."""

    def read(self, path: Path, number: int = 0, /) -> Image:
        """As `Format.read`, for one of the images, counted from 0."""


@runtime_checkable
class Joining(Protocol):
    """What a `Format` has besides if it writes files with several images; others are written to numbered files."""

    def join(self, path: Path, parts: Sequence[Path], likes: Sequence[Image], /) -> None:
        """Write one file of several that `create` made, each with one of `likes`; parts may be taken away."""


if TYPE_CHECKING:
    from noise2same.io import animation, camera, czi, fits, jpeg, lif, mrc, nd2, nifti, npy, ome_zarr, png, tiff, video

    # mypy holds our modules to the protocols
    _SEVERAL: list[Several] = [any_bioio, czi, fits, lif, nd2, ome_zarr, tiff]
    _JOINING: list[Joining] = [fits, ome_zarr, tiff]
    _CHECKED: list[Format] = [animation, camera, czi, dicom, fits, jpeg, lif, mrc, nd2, nifti, npy, ome_zarr, png, tiff]
    _CHECKED += [any_bioio, video]


@cache
def _added() -> dict[str, EntryPoint]:
    """Entry points of other packages by suffix. Those for a suffix of ours are not asked."""
    points = {point.name.lower(): point for point in entry_points(group="noise2same.formats")}
    return {suffix: point for suffix, point in points.items() if suffix not in BUILT_IN}


def suffixes() -> tuple[str, ...]:
    """All suffixes that can be read."""
    return (*BUILT_IN, *_added())


def suffix_of(path: Path) -> str:
    """The end of a name by which its format is known, as it is spelled there: the longest that fits, or ''."""
    name = path.name.lower()
    fitting = [suffix for suffix in suffixes() if name.endswith(suffix) and name != suffix]
    if not fitting and foreign.suffix(path) not in ("", *foreign.SIDECARS):
        fitting = [suffix for suffix in any_bioio.known() if name.endswith(suffix)]
    return path.name[-len(max(fitting, key=len)) :] if fitting else ""


def has_zarr_files(path: Path) -> bool:
    """Whether a folder has what makes it a Zarr array or group."""
    return any(os.path.isfile(path / name) for name in ("zarr.json", ".zarray", ".zgroup"))


def is_zarr(path: Path) -> bool:
    """Whether a path is a Zarr array or group, which are folders but count as one image."""
    if isinstance(path, Url):  # what is there is seen when it is opened
        return suffix_of(path).lower() in ("", ".zarr")
    return path.suffix.lower() == ".zarr" or has_zarr_files(path)


def is_dicom_folder(path: Path) -> bool:
    """Whether a path is a folder whose only images are DICOM, which may be slices of one volume."""
    if not os.path.isdir(path) or is_zarr(path):
        return False
    others = any(supported(item) and item.suffix.lower() not in dicom.suffixes for item in path.iterdir())
    return not others and bool(dicom.files_of(path))


def supported(path: Path) -> bool:
    """Whether there is a reader for this name."""
    return bool(suffix_of(path)) or is_zarr(path)


def format_of(path: Path, *, reading: bool = False) -> Format:
    """What reads and writes a path, by its suffix. The error for a file to read says how to export it."""
    suffix = suffix_of(path).lower() or (".zarr" if is_zarr(path) else ".dcm" if is_dicom_folder(path) else "")
    if not suffix:
        kind = foreign.suffix(path)
        advice = foreign.advice(kind) if reading else ""
        advice += f", or install noise2same[bioio] and a reader of bioio for '{kind}'" * ("Bio-Formats" in advice)
        step = advice or f"use one of {', '.join(suffixes())}"
        raise InputError(f"{path}: the format '{kind}' is not supported; {step}.")
    if suffix in BUILT_IN:
        return cast(Format, import_module(f"noise2same.io.{BUILT_IN[suffix]}"))
    return _load(suffix, _added()[suffix]) if suffix in _added() else any_bioio


def writer_of(path: Path, like: Image | None) -> Format:
    """What writes an image to a path: the mosaic of a camera is developed where a picture is asked for."""
    found = format_of(path)
    if like is None or "camera" not in like.details:
        return found
    from noise2same.io import camera

    return camera.Developing(found) if path.suffix.lower() in camera.PICTURES else found


def _load(suffix: str, point: EntryPoint) -> Format:
    package = point.dist.name if point.dist else point.module
    try:
        found: Format = point.load()
        known = suffix in found.suffixes
    except Exception as error:  # anything from a package of others
        raise InputError(f"The package {package}, which reads '{suffix}', cannot be used: {error}.") from error
    if not known:
        raise InputError(f"The package {package} says it reads '{suffix}', but its format has only {found.suffixes}.")
    return found
