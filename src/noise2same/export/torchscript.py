"""TorchScript: one file that libtorch runs, from C++, Java or Python, without this package."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

from noise2same.export.model import Array, Exportable
from noise2same.files import replacing


def write(model: Exportable, path: Path) -> float:
    """Write a model; returns its largest difference from our results (`Exportable.check`)."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch recommends a format that only Python reads
        traced = torch.jit.trace(model.portable, model.example(), check_trace=False)
        difference = model.check(lambda image: run(traced, image), "torchscript")
        with replacing(path) as partial:
            torch.jit.save(traced, str(partial), _extra_files={"noise2same.json": model.card()})
    return difference


def run(traced: Any, image: Array) -> Array:
    """Result of a traced module."""
    result: Array = traced(torch.from_numpy(image)).numpy()
    return result
