"""Models for other programs: each export takes raw pixels to clean ones in one call."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.export.model import Exportable, checked_size, smallest_tile
from noise2same.export.portable import Portable, check_network
from noise2same.model_file import About

__all__ = ["SUFFIXES", "Exported", "Portable", "check_network", "format_of", "write"]

SUFFIXES = {"bioimageio": ".zip", "onnx": ".onnx", "openvino": ".xml", "torchscript": ".pt"}
"""How the file of each format ends; its module here has the same name."""


LARGEST_TILE = 2**23
"""Pixels of a tile: with the networks of the fast preset, they take some 3 GB."""


class Exported(NamedTuple):
    """An export that was written."""

    path: Path
    to: str
    """Its format."""
    difference: float
    """Largest difference between its result and ours, as a share of the range of an image."""
    halo: tuple[int, ...]
    """Pixels along [Z,] Y, X to cut from each side of a tile."""
    multiple: tuple[int, ...]
    """What tiles should be multiples of along [Z,] Y, X."""
    left_out: tuple[str, ...]
    """What `denoise` does and this export does not, in sentences."""


def format_of(path: Path, to: str | None) -> str:
    """The format that is asked for, or that the suffix says; InputError if there is none, or the suffix is wrong."""
    if to is None:
        to = next((name for name, suffix in SUFFIXES.items() if path.suffix.lower() == suffix), None)
        if to is None:
            known = ", ".join(f"{suffix} ({name})" for name, suffix in SUFFIXES.items())
            raise InputError(f"{path}: the name says no format to export to; end it with one of {known}.")
    elif to not in SUFFIXES:
        raise InputError(f"{to}: it should be one of {', '.join(SUFFIXES)}.")
    if path.suffix.lower() != SUFFIXES[to]:
        raise InputError(f"{path}: the name of an export to {to} ends in {SUFFIXES[to]}.")
    return to


def write(
    path: Path,
    to: str,
    portable: Portable,
    about: About,
    facts: dict[str, Any],
    sample: NDArray[Any] | None,
    *,
    blends: bool,
) -> Exported:
    """Write an export, once it is seen to give our own results.

    Parameters
    ----------
    path : Path
        File to write.
    to : str
        One of `SUFFIXES`.
    portable : Portable
        The model.
    about : About
        What people say of it.
    facts : dict
        What the program knows of it.
    sample : ndarray, (1, C, [Z,] Y, X), optional
        A noisy image to check it with, and to come with it as an example.
    blends : bool
        Whether `denoise` blends results of this model with the input.
    """
    lacking = left_out(portable, blends and sample is None)
    said = {
        "description": f"Denoises {portable.dims}D images with {portable.channels} channel"
        f"{'s' * (portable.channels > 1)}: raw pixels in, clean pixels out.",
        "axes": "bc" + "zyx"[-portable.dims :],
        "multiple": list(portable.multiple),
        "halo": list(portable.halo),
        "left_out": list(lacking),
    }
    size = bioimageio_tile(portable) if to == "bioimageio" else checked_size(portable)
    model = Exportable.of(portable, about, facts | said, sample, size)
    difference = import_module(f"noise2same.export.{to}").write(model, path)
    return Exported(path, to, difference, portable.halo, portable.multiple, lacking)


def bioimageio_tile(portable: Portable) -> tuple[int, ...]:
    """Size of the image that comes with a package; InputError if that would be huge."""
    size = smallest_tile(portable)
    if math.prod(size) > LARGEST_TILE:
        shown = " × ".join(map(str, size))
        raise InputError(
            f"The smallest tile of this model has {shown} pixels, too many for bioimage.io: export it to onnx, or "
            "train one with fewer levels."
        )
    return size


def left_out(portable: Portable, no_blend: bool) -> tuple[str, ...]:
    """What `denoise` does and an export does not."""
    found = []
    if no_blend:
        found.append("The result is the network's alone, without the blend with the input: give a sample to have one.")
    elif portable.blend is not None:
        found.append("The blend with the input is the one for the sample; the noise of other images is not measured.")
    if not portable.tta:
        found.append("It makes one pass, where denoise takes eight for images of up to a million pixels (tta).")
    if portable.fixed is None:
        found.append("Statistics are those of what it is given at once: give whole images, not tiles.")
    return (*found, "NaN pixels are not filled, and results are 32-bit floats, neither rounded nor clipped.")
