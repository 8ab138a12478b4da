"""Formats of microscopes' own programs, which are read and not written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from noise2same.errors import InputError
from noise2same.io.image import Image

DEFAULT_OUTPUT = ".ome.tif"
"""What holds all that such files say of their images."""


def refusing(name: str) -> Callable[[Path, Image | None, np.dtype[Any]], NoReturn]:
    """`check` and `create` of a format of this name."""

    def refuse(path: Path, like: Image | None, dtype: np.dtype[Any]) -> NoReturn:
        raise InputError(f"{path}: {name} is read, not written; write {DEFAULT_OUTPUT} or .ome.zarr instead.")

    return refuse
