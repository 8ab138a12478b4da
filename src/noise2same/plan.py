"""The plan of a run: everything that is derived from the images and the settings, each decision with its reason.

`make_plan(fingerprint, config)` is the only place that decides. Methods, training and prediction obey. Printing a plan
explains a run, storing it repeats the run, and editing it changes the run.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from noise2same import markup, methods
from noise2same.config import Config, batch_of
from noise2same.data import axes as ax
from noise2same.data.channels import shared_structure
from noise2same.data.film import is_film
from noise2same.data.normalize import Normalization
from noise2same.data.sampling import read_boxes
from noise2same.data.training_data import MAX_VALUES, TrainingData
from noise2same.errors import InputError
from noise2same.fingerprint import (
    Fingerprint,
    Frozen,
    Measured,
    as_given,
    frames_share_noise,
    noise_of_frames,
    read_and_measure,
    read_normalized_crops,
)
from noise2same.io import Image
from noise2same.methods import Algorithm, Architecture, DataProfile, Method
from noise2same.methods.noise2same import Noise2Same, theorem_2
from noise2same.methods.projected import Projected
from noise2same.methods.sure import Sure
from noise2same.networks import film, pretrained
from noise2same.noise.level import HUGE
from noise2same.noise.model import NoiseModel

T = TypeVar("T")
Channels = Literal["joint", "separate"]
"""One network for all channels, or one for each."""
Start = Literal["pretrained", "inflated", "model", "scratch"]
"""A network that was trained on pictures, the same inflated for volumes, a model of the user's, or random weights."""
TRAINED: tuple[Start, ...] = ("pretrained", "model")
"""Networks that need little training; the others have to learn from the start what a volume or an image is."""

TRAINING_FILES = 512
"""Files of a larger set that are opened and trained on, evenly spread over it.

Set by reasoning: five minutes on a CPU draw some 20,000 patches, 40 of each file, and 512 files of 8 MB are read from a
file server in a minute."""
MINUTES = 5.0
"""Budget of a training where the user gives none."""
MINUTES_PRETRAINED = 0.5
"""Budget of a pretrained network on one picture: most of the gain is there by then (benchmarks/set12.md)."""
EFFORTS = {"Instant": 0.0, "Quick": 0.5, "Better": 3.0, "Best": 15.0}
"""Budgets in minutes that Studio and napari offer by name; training may end before."""
FIRST_CHECK_STEP, FIRST_CHECK_STEP_PRETRAINED = 600, 200
"""Step of the first check of early stopping: from scratch, learning is fast and unsteady before. Chosen on six images.

A budget in minutes should buy as many."""
SLOWED = 0.5
"""Share of its fastest tenth's speed below which a run counts as slowed down by others. Set by reasoning, not measured:
checks and previews cost less."""
STEPS_ROUNDED = 50
"""Steps that are recommended are multiples of it."""
FEATURES, FEATURES_PICTURE = 16, 32
"""Feature maps at the finest level, and those for one picture with a pretrained network.

The wider network is 0.02 to 0.09 dB better without training, and as good or better after the same time; it predicts at
less than half the speed, which counts for many images (benchmarks/widths.md, set12.md)."""
LEARNING_RATE = 3e-3
"""Adam's at its highest (benchmarks/presets.md)."""
LARGEST_RATE = 1e-2
"""Of the learning rates of many processes together, whatever their number; not measured."""
FULL_RATE_PIXELS = 2**18
"""Pixels from which on a pretrained network is trained at the full rate; with fewer it soon overfits their noise.

Trials on twelve images, crops of 64² to 512² (note of session 14)."""
LEAST_RATE_SHARE = 0.1
"""Of the learning rate for few pixels."""
PATCHES = 8
"""That go through the network in one step, where the user gives no batch."""
JOINT_CORRELATION = {True: 0.7, False: 0.9}
"""Of each channel's fine structure with another's, from which on one network for all is better than one for each.

By whether there is a pretrained network for all channels together; there is one for each. Measured at equal compute
and chosen with benchmarks/channels_development.md; benchmarks/channels.md has other images.
"""
USELESS_TIME = 0.95
"""Share of the error of a frame, denoised by the best linear filter, that is left if it sees others too; from here on
it is denoised alone. Unrelated frames have 0.98 or more, a scene that moves by 2 pixels a frame 0.7."""
SHARED_NOISE = 0.5
"""Noise by what differs between frames, as a share of that by what differs within them, below which frames share it.
Set by reasoning: independent noise has 1, frames that are shown twice have half of it."""
SMALLEST_FRAME = 16
"""Pixels a side that a frame needs to be compared with others: one tile (`networks.motion`)."""
FILM_FRAMES = 8
"""Frames of a patch of a film."""
HELD_OUT = 1 / 8
"""Share of the pixels that are held out of the loss, to estimate the error on."""
TTA_PIXELS = 2**20
"""Of a frame up to which it is denoised in eight orientations: seconds, even on a CPU."""
BLOCK_MEMORY = {2: 2**29, 3: 2**30}
"""Bytes that a network may hold while it predicts a block, by the number of spatial dimensions.

The process stays below 1 GB in 2D and 2 GB in 3D with the default network (benchmarks/memory.md)."""
RETRIES = 3
"""Times that a training which diverges goes back to its last good state; issue 27."""
LOWER_RATE = 1 / 3
"""Of the learning rate, each time. A third was enough in the trials of `tests/training/test_loop.py`; not measured."""
EXPLODED = 100.0
"""Times the highest loss of a run's beginning that no loss of many steps in a row may exceed. Not measured: images are
normalized, so that a network that outputs nothing at all has a loss of about 1."""
RECIPES: dict[str, dict[str, Any]] = {
    "fast": {"schedule": "cosine", "clip": 2.0, "ema": 0.999, "freeze_bn_after": 0.5},
    "best": {"schedule": "cosine", "clip": 2.0, "ema": 0.999, "freeze_bn_after": 0.5},
    "paper": {"schedule": "halving", "clip": 0.0, "ema": 0.0, "freeze_bn_after": 1.0},
}
"""What a preset fixes of the training: no user turns these."""


OLDER = "the model is older than this choice"
"""Why a plan of an earlier version has a decision that it had not."""


@dataclass(frozen=True)
class Decision(Generic[T]):
    """A value and why it was chosen."""

    value: T
    reason: str


class Budget(Frozen):
    """How long to train at most: in steps or in minutes."""

    steps: int | None = None
    minutes: float | None = None

    def __str__(self) -> str:
        if self.steps is not None:
            return f"{self.steps} steps"
        return f"{self.minutes:g} minute{'s' * (self.minutes != 1)}"


@dataclass(frozen=True)
class Recipe:
    """How to train a network. The training loop obeys it and decides nothing by itself.

    Parameters
    ----------
    steps, minutes : int or float, optional
        The budget: exactly one of them is given.
    learning_rate : float
        Adam's, at its highest.
    schedule : str
        Learning rate over the budget: "cosine" (warm-up, then a cosine to zero) or "halving" (halved ten times).
    clip : float
        Largest norm of a step's gradient; 0 for any.
    ema : float
        Decay per step of the averaged weights that predict; 0 to predict with the last weights.
    freeze_bn_after : float
        Share of the budget after which batch norm keeps its statistics; 0 from the start, 1 never.
    early_stopping : bool
        Whether training may end before its budget, when more of it would gain nothing.
    pretrained : bool
        Whether the network has been trained before. Its first weights then are kept if training makes it worse.
    seed : int
        Of the patches and masks that are drawn.

    Examples
    --------
    >>> Recipe(steps=100, seed=3).schedule
    'cosine'
    """

    steps: int | None = None
    minutes: float | None = None
    learning_rate: float = 3e-3
    schedule: Literal["cosine", "halving"] = "cosine"
    clip: float = 2.0
    ema: float = 0.999
    freeze_bn_after: float = 0.5
    early_stopping: bool = True
    pretrained: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("a recipe has a budget in steps or in minutes")


class Plan(Frozen):
    """What a training run does, and why.

    Examples
    --------
    >>> plan = Plan.read("plan.json")  # doctest: +SKIP
    >>> print(plan.method.value, plan.method.reason)  # doctest: +SKIP
    """

    config: Config
    """What was asked for."""
    fingerprint: Fingerprint
    """What was measured."""
    method: Decision[str]
    noise: Decision[NoiseModel]
    """In the images' own units."""
    lambda_inv: Decision[tuple[float, ...]] | None
    """Weight of the paper's invariance term in each channel; None for other methods."""
    noise_extent: Decision[tuple[int, ...]]
    """Pixels along [Z,] Y, X that are masked together with each pixel; empty for none."""
    strength_per_image: Decision[bool]
    """Whether each image has a noise level of its own."""
    normalization: Decision[Literal["dataset", "image"]]
    scale: Decision[Literal["linear", "stabilized"]] = Decision("linear", OLDER)
    """Whether images are stabilized before they are normalized (`data.stabilize`)."""
    channels: Decision[Channels] = Decision("joint", OLDER)
    """Whether one network takes all channels, or each has its own."""
    features: Decision[int] = Decision(FEATURES, OLDER)
    """Feature maps at the finest level of the network."""
    time: Decision[int] = Decision(0, OLDER)
    """Frames of a film before and after each frame that it is denoised with; 0 for none."""
    start: Decision[Start]
    budget: Decision[Budget]
    learning_rate: Decision[float]
    batch: Decision[int]
    early_stopping: Decision[bool]
    held_out: Decision[float]
    """Share of the pixels that the loss does not see."""
    freeze_bn_after: Decision[float]
    """Share of the budget after which batch norm keeps its statistics."""
    blend: Decision[bool] = Decision(True, OLDER)
    """Whether results are blended with their inputs where the network takes away more than the noise."""
    tta_pixels: Decision[int]
    """Largest frame that is denoised in eight orientations."""
    block_memory: Decision[int]
    """Bytes that the network may hold while it predicts a block."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and reason of every decision, in words."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return [
            (LABELS.get(name, name.replace("_", " ")), in_words(one.value, name), one.reason)
            for name, one in found.items()
            if isinstance(one, Decision)
        ]

    def __str__(self) -> str:
        """Every decision with its reason, a line each."""
        rows = self.rows()
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        return "\n".join(f"{name:{widths[0]}}  {value:{widths[1]}}  {reason}" for name, value, reason in rows)

    def _repr_html_(self) -> str:
        lines = "".join(map(markup.paragraph, self.lines()))
        return lines + markup.folded("every decision", markup.table(self.rows(), ("decision", "value", "because")))

    def lines(self, device: str = "") -> list[str]:
        """The plan in three lines, four for a film, for the start of a training; `device` says where it runs."""
        found = self.fingerprint
        many = f"{found.images} image{'s' * (found.images > 1)}, {found.pixels / 1e6:.2f} MPix"
        early = "may end early" if self.early_stopping.value else "no early stopping"
        where = f", on {device}" if device else ""
        several = self.channels.value == "separate" and found.channels > 1
        each = f", one network for each of {found.channels} channels," if several else ""
        start = {
            "pretrained": "from the pretrained network",
            "inflated": "from the network for pictures",
            "model": "from this model",
            "scratch": "from scratch",
        }
        return [
            f"Noise of {many}: {in_words(self.noise.value)}, {self.relative_level()} of the contrast.",
            f"Method: {self.method.value}, because {self.method.reason}.",
            *self._film_line(),
            f"Training {start[self.start.value]}{each} for at most {self.budget.value}, {early}{where}.",
        ]

    def _film_line(self) -> list[str]:
        if self.time.reason in (NO_FILM, OLDER):
            return []
        frames = f"each frame with {self.time.value} before and after it" if self.time.value else "frame by frame"
        return [f"Film: {frames}, because {self.time.reason}."]

    @property
    def noise_is_given(self) -> bool:
        """Whether the user said what the noise is."""
        model = self.config.method_settings.get("noise_model", "auto")
        return self.config.level_given or model != "auto"

    def relative_level(self) -> str:
        """Standard deviation of the noise as a share of that of the images; the least and the largest channel's."""
        levels = [f"{sigma:.2f}" for sigma in self.normalized_noise().sigma]
        return " to ".join(dict.fromkeys((min(levels), max(levels))))

    def normalized_noise(self) -> NoiseModel:
        """The noise in normalized units."""
        return self.noise.value.normalized(self.training_scale)

    @property
    def training_scale(self) -> Normalization:
        """What a normalized unit is worth in training."""
        if self.scale.value == "linear":
            return self.fingerprint.scale
        if self.fingerprint.stabilized is None:
            raise InputError("The plan was made for a linear scale: make one with scale=stabilized.")
        return self.fingerprint.stabilized

    def recipe(self, processes: int = 1) -> Recipe:
        """How to train with a number of processes, each of which has a batch of the plan's size."""
        fixed = RECIPES[self.config.preset] | {"freeze_bn_after": self.freeze_bn_after.value}
        return Recipe(
            steps=self.budget.value.steps,
            minutes=self.budget.value.minutes,
            learning_rate=self._global_rate(processes),
            early_stopping=self.early_stopping.value,
            pretrained=self.start.value in TRAINED,
            seed=self.config.seed,
            **fixed,
        )

    def _global_rate(self, processes: int) -> float:
        """Learning rate for the global batch of all processes, unless it was asked for.

        The mean of n batches has 1/√n of their noise, and Adam's steps may be √n as long (Malladi et al., NeurIPS 2022:
        On the SDEs and scaling rules for adaptive gradient algorithms), up to `LARGEST_RATE`.
        """
        rate = self.learning_rate.value
        if self.config.learning_rate is not None:
            return rate
        return max(rate, min(rate * math.sqrt(processes), LARGEST_RATE))

    def starved(self, steps: int, seconds: float, fastest: float) -> str | None:
        """What to tell a user whose budget in minutes bought too few steps; None if it did not.

        Parameters
        ----------
        steps, seconds : int and float
            What was done until the budget was used up.
        fastest : float
            Steps a second in the fastest tenth of the run.
        """
        needed = FIRST_CHECK_STEP_PRETRAINED if self.start.value in TRAINED else FIRST_CHECK_STEP
        slowed = steps < SLOWED * fastest * seconds
        if self.budget.value.minutes is None or (steps >= needed and not slowed):
            return None
        why = "because the machine was busy" if slowed else f"and training needs {needed} at least"
        wanted = math.ceil(max(needed, fastest * seconds) / STEPS_ROUNDED) * STEPS_ROUNDED
        return (
            f"The budget of {self.budget.value} was enough for {steps} steps only, {why}: "
            f"give --steps {wanted} instead, for a result that can be repeated."
        )

    def check_fits(self, found: Fingerprint, trained: Channels | None = None) -> None:
        """Raise InputError if this is a plan for other images, or for another network than one that is trained."""
        if trained not in (None, self.channels.value):
            raise InputError(f"The plan has channels={self.channels.value}, but the model {trained}: make a new plan.")
        own = self.fingerprint
        if (own.dims, own.channels) != (found.dims, found.channels):
            raise InputError(
                f"The plan is for {own.dims}D images with {own.channels} channels, but these are {found.dims}D with "
                f"{found.channels}: make a plan for them."
            )

    def profile(self, data: TrainingData) -> DataProfile:
        """What the method is told of the images."""
        low, high = data.range()
        return DataProfile(
            data.dims,
            data.channels,
            noise=self.normalized_noise(),
            noise_extent=self.noise_extent.value,
            level_given=self.config.level_given,
            low=low,
            high=high,
            normalization=data.normalization,
            frames=self.time.value,
        )

    @property
    def patch(self) -> tuple[int, ...]:
        """Size of a patch, ([Z,] Y, X)."""
        whole = self.config.patch_of(self.fingerprint.dims)
        return (FILM_FRAMES, *whole[1:]) if self.time.value else whole

    def create_method(self, profile: DataProfile) -> Method:
        """The method, with its own settings."""
        cls = self.config.method if isinstance(self.config.method, type) else methods.find(self.method.value)
        settings = methods.settings_of(cls, self.config)
        if self.lambda_inv is not None:
            settings = settings.model_copy(update={"lambda_inv": self.lambda_inv.value})
        assert issubclass(cls, Method), "only methods that are trained have a plan"
        return cls(settings, profile, architecture_of(self.config, self.features.value))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, for `read` and `--plan`."""
        Path(path).write_text(self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan that `write` or `noise2same plan --json` wrote, as it is or edited."""
        try:
            return cls.model_validate_json(Path(path).expanduser().read_text())
        except FileNotFoundError:
            raise InputError(f"{path} does not exist: give the JSON file of a plan.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read ({error}): give the JSON file of a plan.") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(
                f"{path} is not a plan ({where}: {first['msg']}): make one with noise2same plan."
            ) from None


def architecture_of(config: Config, features: int) -> Architecture:
    """Size of the network that a config asks for; `features` is the plan's choice where it asks for none."""
    return Architecture(config.features or features, config.levels, config.block)


# Deciding

ASKED = "it was asked for, or is the preset's"
NO_FILM = "there is no film"


def _because(value: T, reason: str) -> Decision[T]:
    return Decision(value, reason)


def read_and_plan(
    images: list[Image],
    targets: list[Image] | None,
    config: Config,
    time: Decision[int],
    *,
    plan: Plan | None = None,
    trained: Channels | None = None,
    on_unreadable: Callable[[InputError], None] | None = None,
) -> tuple[Plan, Measured]:
    """Read training images, and make a plan for them unless one is given, which then has to fit them."""
    how = config.normalization if plan is None else plan.normalization.value
    ways: dict[str, Any] = {"time": time.value, "normalization": how, "on_unreadable": on_unreadable}
    found = read_and_measure(images, targets, config, **ways)
    plan = make_plan(found.fingerprint, config, trained=trained, time=time) if plan is None else plan
    plan.check_fits(found.fingerprint, trained)
    return plan, found


def make_plan(
    found: Fingerprint, config: Config, *, trained: Channels | None = None, time: Decision[int] | None = None
) -> Plan:
    """Decide everything that a training run needs.

    Parameters
    ----------
    found : Fingerprint
        What was measured of the images.
    config : Config
        What the user asks for. It is kept in every case.
    trained : {"joint", "separate"}, optional
        How an existing model that is trained further takes its channels; None for a new one.
    time : Decision, optional
        What `choose_time` says of films.
    """
    scale = _choose_scale(found, config)
    method, reason = _choose_method(found, config, scale.value)
    assert issubclass(method, Method), "only methods that are trained have a plan"
    settings = methods.settings_of(method, config)
    noise = _choose_noise(found, config, getattr(settings, "noise_model", "auto"))
    features = _choose_features(found, config, method)
    channels = _choose_channels(
        config, method, features.value, found.channels, found.shared_structure, time=found.time, trained=trained
    )
    start = _choose_start(found, config, method, noise.value, channels.value, features.value, trained is not None)
    stops = _choose_early_stopping(config, method, noise.value)
    return Plan(
        config=config,
        fingerprint=found,
        method=_because(method.name, reason),
        noise=noise,
        lambda_inv=_choose_weight(found, method, settings, noise.value),
        noise_extent=_choose_extent(found, config, method, noise.value),
        strength_per_image=_choose_strengths(found, config),
        normalization=_normalization(config),
        scale=scale,
        channels=channels,
        features=features,
        time=_because(0, NO_FILM) if time is None else time,
        start=start,
        budget=_choose_budget(found, config, start.value, channels.value),
        learning_rate=_choose_learning_rate(found, config, start.value),
        batch=_choose_batch(found, config, method),
        early_stopping=stops,
        held_out=_because(
            HELD_OUT if stops.value else 0.0,
            "the error is estimated on pixels that the loss does not see" if stops.value else "not needed",
        ),
        freeze_bn_after=_choose_freeze(config, start.value),
        blend=_choose_blend(config, method),
        tta_pixels=_because(TTA_PIXELS, "larger frames would take long for about 0.1 dB"),
        block_memory=_because(BLOCK_MEMORY[found.dims], "blocks as large as a laptop's memory allows have small halos"),
    )


def choose_time(images: Sequence[Image], config: Config) -> Decision[int]:
    """How many frames before and after it a frame of a film is denoised with."""
    if not all(map(is_film, images)):
        return _because(0, NO_FILM)
    if any({"S", "Z"} <= set(image.axes) for image in images):
        return _because(0, "there are several volumes in time")
    if any(image.shape[image.axes.index(axis)] < SMALLEST_FRAME for image in images for axis in "YX"):
        return _because(0, f"frames have fewer than {SMALLEST_FRAME} pixels a side")
    longest = max(image.shape[image.axes.index("T")] for image in images)
    frames = min(film.FRAMES, longest - 1)
    if config.time != "auto":
        return _because(min(config.time, frames), ASKED)
    able = methods.candidates(config)[0]
    if config.method != "auto" and not issubclass(able, Sure | Projected):
        return _because(0, f"{able.name} is used as it was published")
    crops = read_normalized_crops(images)
    apart, within = noise_of_frames(crops)
    if apart < SHARED_NOISE * within or frames_share_noise(images):
        return _because(0, "frames share their noise, as after interpolation: together they tell no more than alone")
    left = film.measure(crops, min(apart, within), frames).share
    if left > USELESS_TIME:
        return _because(0, f"other frames tell little of a frame: with them, {left:.0%} of its error is left")
    return _because(frames, f"with the frames around it, {left:.0%} of a frame's error is left")


def settings_untrained(images: Sequence[Image], config: Config, method: type[Algorithm]) -> Config:
    """The settings with which a pretrained network is taken as it is, for images like these."""
    time, count = choose_time(images, config).value, ax.channels(images[0].axes, images[0].shape)
    features = config.features or (FEATURES if time else FEATURES_PICTURE)
    known = count == 1 or time or config.channels != "auto"
    shared = () if known else shared_structure(read_boxes(images, MAX_VALUES))
    channels = _choose_channels(config, method, features, count, shared, time=time).value
    chosen = {"normalization": "image", "channels": channels, "features": features, "time": time}
    return config.model_copy(update=chosen)


def _choose_scale(found: Fingerprint, config: Config) -> Decision[Literal["linear", "stabilized"]]:
    if config.scale != "auto":
        return _because(config.scale, ASKED)
    if found.brightness_range <= HUGE:
        return _because("linear", f"the range of brightness is usual: {found.brightness_range:.1f} of at most {HUGE:g}")
    why = f"the range of brightness is huge ({found.brightness_range:.0f}, usual is up to {HUGE:g})"
    against = _why_not_stabilized(found, config)
    if against is not None:
        return _because("linear", f"{why}, but {against}")
    return _because("stabilized", f"{why}: dark and bright places count by their noise, and faint sources are kept")


def _why_not_stabilized(found: Fingerprint, config: Config) -> str | None:
    able = methods.candidates(config)
    if not any(issubclass(method, Sure | Projected) for method in (able[:1] if config.method != "auto" else able)):
        return f"{able[0].name} is trained as it was published"
    if config.method_settings.get("noise_model", "auto") != "auto":
        return "noise_model was set"
    if config.normalization == "image":
        return "each image is normalized by itself"
    if not found.noise.sure_holds:
        return "pixels share noise" if found.noise.correlated else f"the noise is {found.noise.kind}"
    return None


def _choose_method(found: Fingerprint, config: Config, scale: str) -> tuple[type[Algorithm], str]:
    able = methods.candidates(config)
    if config.method != "auto":
        return able[0], "it was asked for"
    asked = [*config.method_settings, *methods.shared_settings(config)]
    if Sure not in able:
        chosen = able[0]
        return chosen, f"{' and '.join(asked)} was set, which {chosen.name} uses and sure does not"
    if config.method_settings.get("noise_model", "auto") != "auto":
        return Sure, "noise_model was set"
    against = _why_not_sure(found, scale)
    if against is None:
        kind = found.noise.kind if scale == "linear" else "gaussian on this scale"
        return Sure, f"the noise is {kind} and equally strong in dark and bright places"
    if Projected in able:
        return Projected, against
    return Sure, f"{' and '.join(asked)} was set"


def _why_not_sure(found: Fingerprint, scale: str) -> str | None:
    """Why an unbiased estimate of the error would not hold for these images; None if it would."""
    noise = found.noise
    if not found.steady and scale == "linear":
        if noise.kind in ("poisson", "poisson-gaussian"):
            return "the noise grows with the brightness, by a law that depends on the detector"
        if noise.kind == "gaussian":
            return "the level of the noise is uncertain"
        return f"the noise is {noise.kind}"
    if noise.correlated:
        if any(noise.a):
            return "pixels share noise that grows with the brightness"
        return "pixels share noise that is stronger in some images" if found.noise_varies else None
    return "volumes were measured to be better without a noise model" if found.dims == 3 and not found.time else None


def _choose_noise(found: Fingerprint, config: Config, model: str) -> Decision[NoiseModel]:
    noise, count = found.noise, found.channels
    if config.level_given:
        return _because(_positive(as_given(noise, config), model), "the level was given")
    variances = [sigma**2 for sigma in noise.sigma]
    if model == "gaussian":
        flat = replace(noise, a=(0.0,) * count, b=tuple(variances), kind="gaussian")
        return _because(flat, "noise_model=gaussian, level as measured")
    if model == "poisson":
        slopes = tuple(v / mean if mean else -1.0 for v, mean in zip(variances, noise.mean, strict=True))
        photons = replace(noise, a=slopes, b=(0.0,) * count, kind="poisson")
        return _because(_positive(photons, model), "noise_model=poisson, level as measured")
    return _because(noise, f"measured, confidence {noise.confidence:.2f} of 1")


def _positive(noise: NoiseModel, model: str) -> NoiseModel:
    """The noise, if it has a variance at the mean of the images."""
    line = [a * mean + b for a, b, mean in zip(noise.a, noise.b, noise.mean, strict=True)]
    if min(*line, *noise.a) < 0:
        middle = min(noise.mean)
        raise InputError(f"The variance of {model} noise would be negative at the images' mean, which is {middle:.3g}.")
    return noise


def _choose_weight(
    found: Fingerprint, method: type[Algorithm], settings: Any, noise: NoiseModel
) -> Decision[tuple[float, ...]] | None:
    if not issubclass(method, Noise2Same):
        return None
    if settings.lambda_inv != "auto":
        return _because((settings.lambda_inv,), "it was asked for")
    weights = theorem_2(noise.normalized(found.scale), found.mean_strength)
    return _because(weights, "Theorem 2: twice the root of the mean variance of the noise, at most 2")


def _choose_extent(
    found: Fingerprint, config: Config, method: type[Algorithm], noise: NoiseModel
) -> Decision[tuple[int, ...]]:
    if config.noise_extent != "auto":
        if len(config.noise_extent) != found.dims:
            axes = "ZYX"[-found.dims :]
            raise InputError(f"noise_extent={config.noise_extent}: it should be {found.dims} numbers, for {axes}.")
        return _because(config.noise_extent, "it was asked for")
    if not noise.correlated:
        return _because((), "the noise is independent from pixel to pixel")
    if issubclass(method, Projected):
        return _because(noise.extent, "pixels share noise so far")
    return _because((), f"{method.name} masks single pixels unless noise_extent is set")


def _choose_strengths(found: Fingerprint, config: Config) -> Decision[bool]:
    if config.level_given:
        return _because(False, "the level was given for all images")
    if found.noise_varies:
        return _because(True, "the noise is much stronger in some images than in others")
    return _because(False, "all images have noise of about the same strength")


def _normalization(config: Config) -> Decision[Literal["dataset", "image"]]:
    if config.normalization == "image":
        return _because("image", ASKED)
    return _because("dataset", "images of one set keep their relative brightness")


def _choose_features(found: Fingerprint, config: Config, method: type[Algorithm]) -> Decision[int]:
    if config.features is not None:
        return _because(config.features, ASKED)
    if not issubclass(method, Sure | Projected) or config.from_scratch:
        return _because(FEATURES, "a narrow network learns faster from random weights")
    if found.time:
        return _because(FEATURES, "the pretrained network for films has so many")
    if found.dims == 3:
        return _because(FEATURES, "a narrow network learns a volume faster")
    if found.images > 1:
        return _because(FEATURES, "a narrow network denoises many images faster")
    return _because(FEATURES_PICTURE, "a wide network is slightly better, and one picture takes little time")


def _choose_channels(
    config: Config,
    method: type[Algorithm],
    features: int,
    count: int,
    shared: Sequence[float],
    *,
    time: int = 0,
    trained: Channels | None = None,
) -> Decision[Channels]:
    """Whether one network takes all channels; `shared` is how much structure each has in common with another."""
    if trained is not None:
        return _because(trained, "an existing model is trained further")
    if config.channels != "auto":
        return _because(config.channels, "it was asked for")
    if count == 1:
        return _because("joint", "there is one channel")
    if not issubclass(method, Sure | Projected):
        return _because("joint", f"{method.name} is trained as it was published")
    alone, together = (pretrained.exists(number, features, config.levels, config.block) for number in (1, count))
    if time:
        return _because("separate", "there is a pretrained network for films of one channel")
    if not alone or config.from_scratch:
        return _because("joint", "from scratch, one network for all learns more in the same time")
    if not together and config.minutes == 0:
        return _because("separate", f"there is a pretrained network for one channel, but none for {count}")
    least = min(shared)
    if least < JOINT_CORRELATION[together]:
        which = f"channel {shared.index(least) + 1}"
        return _because("separate", f"{which} has little structure in common with others (correlation {least:.2f})")
    return _because("joint", f"all channels show the same structures (correlation {least:.2f} or more)")


def _choose_start(
    found: Fingerprint,
    config: Config,
    method: type[Algorithm],
    noise: NoiseModel,
    channels: Channels,
    features: int,
    trained: bool,
) -> Decision[Start]:
    if trained:
        return _because("model", "an existing model is trained further")
    if config.from_scratch:
        return _because("scratch", ASKED)
    if not issubclass(method, Sure | Projected):
        return _because("scratch", f"{method.name} is trained as it was published")
    if issubclass(method, Projected) and noise.kind in ("impulse", "unknown"):
        return _because("scratch", f"the pretrained networks have not seen {noise.kind} noise")
    count = found.channels if channels == "joint" else 1
    if found.time:
        if count > 1 or not pretrained.exists_for_films(features, config.levels, config.block):
            return _because("scratch", "there is no pretrained network of this size for such films")
        return _because("pretrained", "it has seen noise of this kind in other films")
    if not pretrained.exists(count, features, config.levels, config.block):
        what = f"images with {count} channel{'s' * (count > 1)}"
        return _because("scratch", f"there is no pretrained network of this size for {what}")
    if found.dims == 3:
        return _because("inflated", "planes of volumes look like pictures, which this network has seen")
    return _because("pretrained", "it has seen noise of this kind on other pictures")


def _choose_budget(found: Fingerprint, config: Config, start: str, channels: Channels) -> Decision[Budget]:
    if config.steps is not None or config.minutes is not None:
        return _because(Budget(steps=config.steps, minutes=config.minutes), ASKED)
    if start in TRAINED and found.images == 1:
        networks = found.channels if channels == "separate" else 1
        each = " for one image" if networks == 1 else f", and there are {networks}, one for each channel"
        minutes = min(MINUTES, networks * MINUTES_PRETRAINED)
        return _because(Budget(minutes=minutes), f"a pretrained network needs little{each}")
    why = {"scratch": "a network starts from random weights", "inflated": "a network learns what a volume is"}
    return _because(Budget(minutes=MINUTES), why.get(start, "several images"))


def _choose_learning_rate(found: Fingerprint, config: Config, start: str) -> Decision[float]:
    if config.learning_rate is not None:
        return _because(config.learning_rate, ASKED)
    if start not in TRAINED:
        return _because(LEARNING_RATE, "the default for a network that has to learn much")
    share = min(1.0, max(LEAST_RATE_SHARE, found.pixels / FULL_RATE_PIXELS))
    if share == 1:
        return _because(LEARNING_RATE, "the images have pixels enough for the full rate")
    return _because(share * LEARNING_RATE, "few pixels: a trained network would soon overfit their noise")


def _choose_batch(found: Fingerprint, config: Config, method: type[Method]) -> Decision[int]:
    if config.batch is not None:
        return _because(batch_of(config.batch, config, found.dims), ASKED)
    size = batch_of(PATCHES // method.passes, config, found.dims)
    times = "twice" if method.passes == 2 else "once"
    return _because(size, f"{method.name} sends each patch through the network {times} a step")


def _choose_early_stopping(config: Config, method: type[Method], noise: NoiseModel) -> Decision[bool]:
    if not config.early_stopping:
        return _because(False, ASKED)
    if method.supervised:
        return _because(True, "the error is known on held-out pixels of the targets")
    if noise.correlated:
        return _because(False, "the error cannot be estimated where pixels share noise")
    if not noise.sure_holds:
        return _because(False, f"the error cannot be estimated for noise of the kind {noise.kind}")
    return _because(True, "the error can be estimated on held-out pixels")


def _choose_blend(config: Config, method: type[Method]) -> Decision[bool]:
    if not config.blend:
        return _because(False, ASKED)
    if not issubclass(method, Sure | Projected):
        return _because(False, f"{method.name} is used as it was published")
    return _because(True, "where more than noise is taken away, the input comes back")


def _choose_freeze(config: Config, start: str) -> Decision[float]:
    if start in TRAINED:
        return _because(0.0, "a trained network keeps its statistics")
    return _because(
        RECIPES[config.preset]["freeze_bn_after"],
        "statistics of batches drift from those that the network predicts with: images get darker",
    )


# Wording

LABELS = {
    "time": "frames to either side",
    "blend": "blended with the input",
    "features": "feature maps",
    "lambda_inv": "weight of invariance",
    "strength_per_image": "a level for each image",
    "held_out": "pixels held out",
    "freeze_bn_after": "batch norm frozen after",
    "tta_pixels": "augmented up to",
    "block_memory": "memory for a block",
}
"""Names of decisions for people, where they are not those of the fields."""


def in_words(value: Any, name: str = "") -> str:
    """A decision's value in a few words; `name` is that of its field, where that says the unit."""
    if name == "tta_pixels":
        return f"{value / 1e6:.3g} MPix"
    if name == "block_memory":
        return f"{value / 2**20:.0f} MB"
    if name in ("held_out", "freeze_bn_after"):
        return f"{value:.3g} of all" if name == "held_out" else f"{value:.0%} of the budget"
    if isinstance(value, NoiseModel):
        shared = f", shared over {' × '.join(str(n + 1) for n in value.extent)} pixels" if value.correlated else ""
        levels = " / ".join(np.format_float_positional(s, 3, fractional=False, trim="-") for s in value.sigma)
        return f"{value.kind}, σ = {levels}{shared}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " × ".join(in_words(item) for item in value) or "none"
    return str(value)


class _CallableModule(ModuleType):
    """`noise2same.plan` is this module and the public function `plan`, which a module of its name would hide."""

    def __call__(self, *arguments: Any, **options: Any) -> Plan:
        from noise2same.api import plan

        return plan(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
