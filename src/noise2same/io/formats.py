"""The registry of formats: which file suffix is read and written by which module of this folder.

A format is a module with `read(path) -> Image` (axes '' where the file does not tell), `check(path, like, dtype)`,
which raises InputError for what the format cannot hold (`like` is None before the pixels are known), and the context
manager `create(path, like, dtype)`. Modules are imported on first use: their libraries are slow to load.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from noise2same.errors import InputError
from noise2same.io import foreign

FORMATS = {
    ".tif": "tiff",
    ".tiff": "tiff",
    ".png": "png",
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".npy": "npy",
    ".zarr": "ome_zarr",
}
READ_ONLY = (".jpg", ".jpeg")


def has_zarr_files(path: Path) -> bool:
    """Whether a folder has what makes it a Zarr array or group."""
    return any(os.path.isfile(path / name) for name in ("zarr.json", ".zarray", ".zgroup"))


def is_zarr(path: Path) -> bool:
    """Whether a path is a Zarr array or group, which are folders but count as one image."""
    return path.suffix.lower() == ".zarr" or has_zarr_files(path)


def supported(path: Path) -> bool:
    """Whether there is a reader for this name."""
    return path.suffix.lower() in FORMATS or is_zarr(path)


def module_of(path: Path, *, reading: bool = False) -> Any:
    """The module that reads and writes a path, by its suffix. The error for a file to read says how to export it."""
    if not supported(path):
        kind = foreign.suffix(path)
        step = (foreign.advice(kind) if reading else "") or f"use one of {', '.join(FORMATS)}"
        raise InputError(f"{path}: the format '{kind}' is not supported; {step}.")
    return import_module(f"noise2same.io.{FORMATS['.zarr' if is_zarr(path) else path.suffix.lower()]}")
