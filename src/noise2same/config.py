"""Config: what a user may ask for. Nothing here is derived from images; that is the plan's (`plan.py`)."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, model_validator

from noise2same.errors import InputError

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    "best": {"features": 32, "minutes": 60.0, "early_stopping": False},
    "paper": {
        "method": "noise2same",
        "block": "residual",
        "features": 96,
        "levels": 3,
        "patch": 64,
        "patch_3d": (16, 64, 64),
        "batch": 64,
        "learning_rate": 4e-4,
        "normalization": "image",
        "from_scratch": True,
        "early_stopping": False,
        "steps": 50_000,
    },
}
"""What each preset sets where the user does not. A method may have settings of its own for the paper's preset."""


class Config(BaseModel):
    """Settings of a model and its training. What is not given comes from the preset, or is decided by the plan.

    Examples
    --------
    >>> Config.of(minutes=2, method="noise2self", fill="donut").method_settings
    {'fill': 'donut'}
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    preset: Annotated[
        Literal["fast", "best", "paper"],
        Field(
            description="fast: minutes on a CPU. best: a wider network, for an hour. paper: the paper's own method, "
            "network and 50,000 steps, for a GPU."
        ),
    ] = "fast"
    method: Annotated[
        str | type[Any],
        Field(
            description="How to train. auto: the loss that suits the noise (see noise2same plan). noise2same: the "
            "paper's equation 6. noise2same methods lists all."
        ),
    ] = "auto"

    sigma: Annotated[
        float | None, Field(gt=0, description="Standard deviation of the noise in the images' units, if it is known.")
    ] = None
    gain: Annotated[
        float | None,
        Field(gt=0, description="Variance of photon noise is gain times the intensity; estimated if unknown."),
    ] = None
    noise_extent: Annotated[
        Literal["auto"] | tuple[Annotated[int, Field(ge=0)], ...],
        Field(
            description="Over how many pixels along [Z,] Y and X neighbors share noise, which are then masked "
            "together; auto: as measured in the images."
        ),
    ] = "auto"
    method_settings: Annotated[
        dict[str, Any], Field(description="Settings that only the chosen method has, such as lambda_inv.")
    ] = Field(default_factory=dict)

    time: Annotated[
        Annotated[int, Field(ge=0, le=64)] | Literal["auto"],
        Field(description="Frames of a film to either side that each is denoised with; auto: if they tell of it."),
    ] = "auto"
    channels: Annotated[
        Literal["auto", "joint", "separate"],
        Field(
            description="joint: one network for all channels. separate: one for each channel. auto: joint where the "
            "channels show the same structures, as those of photographs do."
        ),
    ] = "auto"
    block: Annotated[Literal["plain", "residual"], Field(description="Building block of the U-Net.")] = "plain"
    features: Annotated[
        int | None,
        Field(ge=1, le=512, description="Feature maps at the finest level; the plan chooses their number."),
    ] = None
    levels: Annotated[int, Field(ge=1, le=6, description="Resolutions of the U-Net.")] = 3

    patch: Annotated[int, Field(ge=8, le=1024, description="Side of a patch in 2D, in pixels.")] = 64
    patch_3d: Annotated[
        tuple[int, int, int], Field(description="Size of a patch in 3D: Z, Y and X, with Y equal to X.")
    ] = (8, 32, 32)
    batch: Annotated[
        int | None,
        Field(ge=1, description="Patches per step in 2D; in 3D, as many as have the same number of pixels."),
    ] = None
    learning_rate: Annotated[
        float | None,
        Field(gt=0, lt=1, description="Highest learning rate of the optimizer, Adam; the plan chooses one."),
    ] = None
    normalization: Annotated[
        Literal["dataset", "image"],
        Field(description="Statistics of all training images, kept with the model, or of each image by itself."),
    ] = "dataset"
    scale: Annotated[
        Literal["auto", "linear", "stabilized"],
        Field(
            description="Scale to train on. stabilized: one on which photon noise is equally strong everywhere, for a "
            "huge range of brightness, as of stars; auto: where the images have one."
        ),
    ] = "auto"
    steps: Annotated[int | None, Field(ge=1, description="Training budget in steps.")] = None
    minutes: Annotated[
        float | None,
        Field(
            ge=0,
            description="Training budget in minutes, if not in steps: by default 5, or half a minute for one picture "
            "with a pretrained network; 0: the pretrained network as it is.",
        ),
    ] = None
    from_scratch: Annotated[
        bool, Field(description="Start from random weights even where there is a pretrained network.")
    ] = False
    early_stopping: Annotated[
        bool, Field(description="End before the budget when more training would gain less than about 0.1 dB.")
    ] = True
    blend: Annotated[
        bool,
        Field(description="Blend the result with the input where the network takes away more than the noise."),
    ] = True
    seed: Annotated[int, Field(ge=0, description="Seed of all randomness.")] = 0

    @model_validator(mode="before")
    @classmethod
    def _fill_in_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = {key: value for key, value in given.items() if value is not None}
        preset = dict(PRESETS.get(given.get("preset", "fast"), {}))
        if "steps" in given or "minutes" in given:  # replaces the budget of the other kind
            preset |= {"steps": None, "minutes": None}
        return preset | given

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        if self.steps is not None and self.minutes is not None:
            raise ValueError("give a budget in steps or in minutes, not both")
        if self.patch_3d[1] != self.patch_3d[2] or min(self.patch_3d) < 1:
            raise ValueError("patch_3d is Z, Y and X, all positive, with Y equal to X")
        if self.scale == "stabilized" and self.normalization == "image":
            raise ValueError("scale=stabilized is for all images together: leave it out, or normalization=image")
        return self

    @field_serializer("method")
    def _by_name(self, method: str | type[Any]) -> str:
        return self.method_name

    @property
    def method_name(self) -> str:
        """Name of the method, also where it was given as a class."""
        return self.method if isinstance(self.method, str) else str(self.method.name)

    @property
    def level_given(self) -> bool:
        """Whether the user says how strong the noise is."""
        return self.sigma is not None or self.gain is not None

    @classmethod
    def of(cls, **options: Any) -> Config:
        """Config from a user's options, None for those not given; the first thing wrong with them as one sentence.

        Options that are not fields are settings of the method.
        """
        given = {name: value for name, value in options.items() if value is not None}
        own = {name: given.pop(name) for name in list(given) if name not in cls.model_fields}
        if own:
            given["method_settings"] = given.get("method_settings", {}) | own
        try:
            return cls(**given)
        except ValidationError as error:
            raise InputError(sentence_of(error, given)) from None

    @classmethod
    def from_header(cls, fields: dict[str, Any]) -> Config:
        """Config from the header of a model file; settings that this version does not have are left out."""
        return cls(**{name: fields[name] for name in cls.model_fields.keys() & fields})

    def patch_of(self, dims: int) -> tuple[int, ...]:
        """Size of a patch in `dims` dimensions."""
        return (self.patch, self.patch) if dims == 2 else self.patch_3d


def sentence_of(error: ValidationError, given: dict[str, Any]) -> str:
    """The first thing that pydantic finds wrong with the given settings, as one sentence for a user."""
    first, *others = error.errors()
    if not first["loc"]:
        return f"{first['msg'].removeprefix('Value error, ')}."
    name = str(first["loc"][0])
    # a value that fits none of several types has one error for each
    wanted = [first["msg"], *(one["msg"] for one in others if one["loc"][:1] == first["loc"][:1] != one["loc"])]
    what = " or ".join(wanted).replace("Input should be ", "").replace("Field required", "longer")
    near = get_close_matches(str(given[name]), re.findall("'(.+?)'", what), n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"{name}={given[name]}: it should be {what}.{meant}"


def batch_of(batch: int, config: Config, dims: int) -> int:
    """Patches per step in `dims` dimensions that have as many pixels as a batch in 2D."""
    return max(1, batch * config.patch**2 // math.prod(config.patch_of(dims)))
