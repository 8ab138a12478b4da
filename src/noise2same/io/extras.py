"""Libraries of formats that not everyone needs, imported on first use."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from noise2same.errors import InputError


def load(module: str, extra: str, path: Path) -> Any:
    """A module of an optional library; InputError names the extra that brings it, and the file that needs it."""
    try:
        return import_module(module)
    except ImportError as error:
        library = module.split(".")[0]
        raise InputError(
            f"{path} needs {library}, which cannot be imported: pip install 'noise2same[{extra}]'."
        ) from error
