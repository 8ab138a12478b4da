"""Every knob once: its meaning, default and range."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from noise2same.errors import InputError

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    "best": {"features": 32, "minutes": 60.0},
    "paper": {
        "lambda_inv": 2.0,
        "invariance": "whole",
        "fill": "gaussian",
        "mask_density": 0.005,
        "separate_passes": True,
        "block": "residual",
        "features": 96,
        "levels": 3,
        "patch": 64,
        "patch_3d": (16, 64, 64),
        "batch": 64,
        "learning_rate": 4e-4,
        "schedule": "halving",
        "clip": 0.0,
        "ema": 0.0,
        "settle": 1.0,
        "normalization": "image",
        "from_scratch": True,
        "early_stop": False,
        "steps": 50_000,
        "minutes": None,
    },
}
"""What each preset changes. The defaults below are the "fast" preset, measured in `benchmarks/presets.md`."""

NoiseModelName = Literal["auto", "none", "gaussian", "poisson", "poisson-gaussian", "impulse"]


class Config(BaseModel):
    """Settings of a model and its training. A preset fills in whatever is not given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: Annotated[
        Literal["fast", "best", "paper"],
        Field(
            description="fast: minutes on a CPU. best: a wider network, for an hour. paper: the paper's own network "
            "and 50,000 steps, for a GPU."
        ),
    ] = "fast"
    method: Annotated[str, Field(description="How to learn; noise2same methods lists all.")] = "noise2same"

    sigma: Annotated[
        float | None, Field(gt=0, description="Standard deviation of the noise in image units, if known (Theorem 2).")
    ] = None
    lambda_inv: Annotated[
        Literal["auto"] | Annotated[float, Field(gt=0)],
        Field(description="Weight of the invariance term: 2 is Theorem 1; auto is 2σ, told or estimated, at most 2."),
    ] = "auto"
    invariance: Annotated[
        Literal["whole", "along"],
        Field(
            description="What the invariance term counts of the change that masking makes: all of it, as in the paper, "
            "or what goes along with the masked pixels' own deviation."
        ),
    ] = "along"
    noise_model: Annotated[
        NoiseModelName, Field(description="Kind of noise, for methods that can use it; auto: what the images show.")
    ] = "auto"
    gain: Annotated[
        float | None,
        Field(gt=0, description="Poisson noise's variance is gain times the intensity; estimated if unknown."),
    ] = None
    structure: Annotated[
        Literal["auto"] | tuple[Annotated[int, Field(ge=0)], ...],
        Field(
            description="Over how many pixels along [Z,] Y and X noise is correlated, which are then masked together; "
            "auto: as the images show."
        ),
    ] = "auto"
    alpha: Annotated[
        float | None, Field(gt=0, lt=1, description="Part of the pixels replaced by impulse noise; learned if unknown.")
    ] = None
    fill: Annotated[
        Literal["gaussian", "donut", "mean", "ups", "random"] | None,
        Field(
            description="What replaces the masked pixels, if not what is usual for the method: donut for noise2same."
        ),
    ] = None
    fill_sigma: Annotated[
        float, Field(gt=0, description="Standard deviation of fill=gaussian, where the images have 1.")
    ] = 0.2
    mask_density: Annotated[float, Field(gt=0, le=0.5, description="Fraction of the pixels of a patch in J.")] = 0.1
    separate_passes: Annotated[
        bool, Field(description="Two forward passes with batch statistics of their own, instead of one.")
    ] = False

    block: Annotated[Literal["plain", "residual"], Field(description="Building block of the U-Net.")] = "plain"
    features: Annotated[int, Field(ge=1, le=512, description="Feature maps at the finest level.")] = 16
    levels: Annotated[int, Field(ge=1, le=6, description="Resolutions of the U-Net.")] = 3

    patch: Annotated[int, Field(ge=8, le=1024, description="Side of a patch in 2D, in pixels.")] = 64
    patch_3d: Annotated[
        tuple[int, int, int], Field(description="Size of a patch in 3D: Z, Y and X, with Y equal to X.")
    ] = (8, 32, 32)
    batch: Annotated[
        int,
        Field(
            ge=1,
            description="Patches per step in 2D, and in 3D as many as have the same number of pixels; by default 4, "
            "which noise2same sees twice, or 8 for a method that sees them once.",
        ),
    ] = 4
    learning_rate: Annotated[float, Field(gt=0, lt=1, description="Adam's, at its highest.")] = 3e-3
    schedule: Annotated[
        Literal["cosine", "halving"],
        Field(description="Learning rate over the budget: warm-up and cosine to zero, or ten times halved."),
    ] = "cosine"
    clip: Annotated[
        float,
        Field(ge=0, description="Largest norm of a step's gradient; 0: any. Rare bright patches have a large one."),
    ] = 2.0
    ema: Annotated[
        float, Field(ge=0, lt=1, description="Decay per step of the averaged weights that predict; 0: the last ones.")
    ] = 0.999
    settle: Annotated[
        float,
        Field(ge=0, le=1, description="Share of the budget after which batch norm keeps its statistics; 1: never."),
    ] = 0.5
    normalization: Annotated[
        Literal["dataset", "image"],
        Field(description="Statistics of all training images, kept with the model, or of each image by itself."),
    ] = "dataset"
    steps: Annotated[int | None, Field(ge=1, description="Training budget in steps.")] = None
    minutes: Annotated[
        float | None,
        Field(
            ge=0,
            description="Training budget in minutes, if not in steps: by default 5, or half a minute for one picture "
            "that begins with a trained network; 0: that network as it is.",
        ),
    ] = None
    from_scratch: Annotated[
        bool, Field(description="Begin with random weights even where there is a network trained on other pictures.")
    ] = False
    early_stop: Annotated[
        bool, Field(description="End before the budget when more training would gain less than about 0.1 dB.")
    ] = True
    seed: Annotated[int, Field(ge=0, description="Seed of all randomness.")] = 0

    @model_validator(mode="before")
    @classmethod
    def _fill_in_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = {key: value for key, value in given.items() if value is not None}
        preset = dict(PRESETS.get(given.get("preset", "fast"), {}))
        if given.get("method", "noise2same") != "noise2same":  # whose settings a preset's are; others have one pass
            preset = {"batch": 8} | {key: value for key, value in preset.items() if key not in ("lambda_inv", "fill")}
        if "sigma" in given:  # Theorem 2 replaces the preset's weight
            preset["lambda_inv"] = "auto"
        if "steps" in given or "minutes" in given:  # replaces the budget of the other kind
            preset |= {"steps": None, "minutes": None}
        return preset | given

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        if self.sigma is not None and self.lambda_inv != "auto":
            raise ValueError("sigma sets lambda_inv to 2 sigma: give one of them, not both")
        if self.noise_model not in ("auto", "none", "impulse") and self.lambda_inv != "auto":
            raise ValueError("lambda_inv weighs a bound that a noise model does not need: give one of them, not both")
        if self.fill_sigma != type(self).model_fields["fill_sigma"].default and self.fill != "gaussian":
            raise ValueError("fill_sigma belongs to fill=gaussian: give both, or leave it out")
        if self.steps is not None and self.minutes is not None:
            raise ValueError("give a budget in steps or in minutes, not both")
        if self.patch_3d[1] != self.patch_3d[2] or min(self.patch_3d) < 1:
            raise ValueError("patch_3d is Z, Y and X, all positive, with Y equal to X")
        return self

    @classmethod
    def from_header(cls, fields: dict[str, Any]) -> Config:
        """Config from the header of a model file; settings that this version does not have are left out."""
        return cls(**{name: fields[name] for name in cls.model_fields.keys() & fields})

    @classmethod
    def of(cls, **options: Any) -> Config:
        """Config from a user's options, None for those not given; the first thing wrong with them as one sentence."""
        try:
            return cls(**options)
        except ValidationError as error:
            first, *others = error.errors()
            if not first["loc"]:
                raise InputError(f"{first['msg'].removeprefix('Value error, ')}.") from None
            name = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                names = ", ".join(cls.model_fields)
                raise InputError(f"{name}: there is no such setting; there are {names}.") from None
            # one problem for each type that would do
            wanted = [first["msg"], *(one["msg"] for one in others if one["loc"][:1] == first["loc"][:1] != one["loc"])]
            what = " or ".join(wanted).replace("Input should be ", "").replace("Field required", "longer")
            near = get_close_matches(str(options[name]), re.findall("'(.+?)'", what), n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise InputError(f"{name}={options[name]}: it should be {what}.{meant}") from None

    def with_budget(self, minutes: float) -> Config:
        """These settings, with a budget in minutes if they have none."""
        return self if self.steps or self.minutes is not None else self.model_copy(update={"minutes": minutes})

    def patch_of(self, dims: int) -> tuple[int, ...]:
        """Size of a patch in `dims` dimensions."""
        return (self.patch, self.patch) if dims == 2 else self.patch_3d

    def batch_of(self, dims: int) -> int:
        """Patches per step in `dims` dimensions."""
        return max(1, self.batch * self.patch**2 // math.prod(self.patch_of(dims)))
