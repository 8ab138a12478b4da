"""The file that keeps the state of an unfinished run."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from noise2same import io


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write the state of a run, whole or not at all; InputError if it cannot be written."""
    buffer = BytesIO()  # torch itself reports a full disk as an error of its own kind
    torch.save(state, buffer)
    with io.replacing(path) as partial:
        partial.write_bytes(buffer.getbuffer())


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """Read the state of a run without executing code from the file, its tensors to `device`."""
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return state
