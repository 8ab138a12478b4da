"""The model file: one `.safetensors` with the weights, and everything else as JSON in its header. No code is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from noise2same import __version__
from noise2same.data import axes as ax
from noise2same.data.stabilize import Stabilizer
from noise2same.errors import InputError
from noise2same.files import replacing

FORMAT = 2
"""Version of the format. A file with another one is refused."""
OURS = "noise2same model: give a file that 'noise2same train' or Denoiser.save wrote"


class Statistics(BaseModel):
    """Of the training images, one value for each channel."""

    model_config = ConfigDict(allow_inf_nan=False)

    mean: tuple[float, ...]
    std: tuple[Annotated[float, Field(gt=0)], ...]
    stabilizer: Stabilizer | None = None


class About(BaseModel):
    """What people say of a model, who may use it and who is to be asked; nothing of it decides a result."""

    model_config = ConfigDict(frozen=True)

    license: Annotated[
        str | None, Field(description="License of the model by its SPDX name, such as CC-BY-4.0 or BSD-3-Clause.")
    ] = None
    training_data: Annotated[
        str | None, Field(description="What it was trained on: an address (https://...), or a sentence.")
    ] = None
    authors: Annotated[tuple[str, ...], Field(description="Who trained it.")] = ()

    def with_given(self, **given: Any) -> About:
        """The same with what is given, None or nothing for what is not."""
        return About(**(self.model_dump() | {name: value for name, value in given.items() if value}))


class Header(BaseModel):
    """What the header of a model must hold; ValidationError, which is a ValueError, if it does not."""

    config: dict[str, Any]
    plan: dict[str, Any] | None
    axes: str
    channels: PositiveInt
    normalization: Statistics
    summary: dict[str, Any]
    about: About = About()

    @model_validator(mode="after")
    def _consistent(self) -> Header:
        ax.check(self.axes, (1,) * len(self.axes))
        if not self.channels == len(self.normalization.mean) == len(self.normalization.std):
            raise ValueError("there are not as many means and standard deviations as channels")
        scale = self.normalization.stabilizer
        if scale is not None and not self.channels == len(scale.a) == len(scale.b):
            raise ValueError("the stabilized scale does not have a gain for each channel")
        return self


def write_model(path: Path, header: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write a model whole or not at all; `header` is anything JSON can hold. Weights must be finite."""
    if not all_finite(weights.values()):
        raise InputError(f"{path} is not written, because some weights are NaN or infinite: train the model again.")
    fields = {"format": FORMAT, "version": __version__, **header}
    tensors = {name: value.contiguous() for name, value in weights.items()}
    with replacing(path) as partial:
        partial.write_bytes(save(tensors, {"noise2same": json.dumps(fields)}))


def read_model(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and weights of a model; what is wrong with the file as one sentence."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: give the .safetensors file of a trained model.")
    try:
        with safe_open(path, "pt") as file:
            header = (file.metadata() or {})["noise2same"]
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        fields = json.loads(header)
        made_as = int(fields["format"])
        finite = all_finite(weights.values())
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        what = "is truncated: copy it again" if _is_cut(path, str(error)) else f"is not a {OURS}"
        raise InputError(f"{path} {what}.") from None
    made = fields.get("version", "another version")
    if made_as > FORMAT:
        raise InputError(f"{path} was made by noise2same {made}, newer than this {__version__}: upgrade noise2same.")
    if made_as < FORMAT:
        raise InputError(
            f"{path} was made by noise2same {made}, whose models {__version__} cannot open: train it again."
        )
    if not finite:
        raise InputError(f"{path} holds weights that are NaN or infinite: copy it again, or train it again.")
    return fields, weights


def all_finite(weights: Iterable[Tensor]) -> bool:
    """Whether no weight is NaN or infinite. A GPU is waited for once."""
    found = [values.isfinite().all() for values in weights]
    return not found or bool(torch.stack(found).all())


def _is_cut(path: Path, reason: str) -> bool:
    """Whether a file that cannot be read begins as a safetensors file does and ends too soon."""
    with path.open("rb") as file:
        start = file.read(9)
    header = int.from_bytes(start[:8], "little")
    return start[8:] == b"{" and (header + 8 > path.stat().st_size or "incomplete" in reason.lower())
