"""Options that commands share. Those of a training are declared once, for `denoise`, `train` and `plan`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from noise2same.cli._settings import ConfigFile
from noise2same.config import Config
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.plan import Plan

TRAINING, ABOUT = "Training", "What the model says of itself"
"""Panels of the help."""


def setting(name: str) -> Any:
    """Option of the command line for a field of `Config`, with its description and default."""
    field = Config.model_fields[name]
    shown = False if field.default in (None, False) else str(field.default)
    flag = f"--{name.replace('_', '-')}"
    return typer.Option(flag, help=field.description, show_default=shown, rich_help_panel=TRAINING)


Inputs = Annotated[list[str], typer.Argument(metavar="IN", help="Noisy images: files, folders or glob patterns.")]
Axes = Annotated[
    str | None,
    typer.Option(help="Letters of S, T, C, Z, Y, X, one per dimension, where a file does not say; ZYX is a volume."),
]
Series = Annotated[
    str | None,
    typer.Option(metavar="NUMBERS", help="Which images of a file with several, counted from 0, such as 0,2."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON, and nothing else, to stdout.")]
Report = Annotated[
    Path | None,
    typer.Option(help="Report on the result to write, .html or .png; for several images, a folder of reports."),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        help="What to predict, for supervised methods: a folder or 'pattern' of files with the same names as IN.",
        rich_help_panel=TRAINING,
    ),
]


def is_given(value: Any) -> bool:
    """Whether this is the value of an option that was given; 0 is one."""
    return value is not None and value is not False and value != []


@dataclass(frozen=True)
class TrainingOptions:
    """What to train: fields of `Config`, and settings of the method."""

    method: Annotated[str | None, setting("method")] = None
    preset: Annotated[str | None, setting("preset")] = None
    minutes: Annotated[float | None, setting("minutes")] = None
    steps: Annotated[int | None, setting("steps")] = None
    seed: Annotated[int | None, setting("seed")] = None
    sigma: Annotated[float | None, setting("sigma")] = None
    noise_extent: Annotated[str | None, setting("noise_extent")] = None
    channels: Annotated[str | None, setting("channels")] = None
    time: Annotated[str | None, setting("time")] = None
    from_scratch: Annotated[bool, setting("from_scratch")] = False
    lambda_inv: Annotated[
        str | None,
        typer.Option(
            help="For noise2same: weight of the invariance term. 2 is Theorem 1; auto is Theorem 2.",
            rich_help_panel=TRAINING,
        ),
    ] = None
    noise_model: Annotated[
        str | None,
        typer.Option(
            help="For sure and laine: kind of the noise, such as gaussian, poisson or auto.", rich_help_panel=TRAINING
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, such as features=48 or mask_density=0.2; a wrong name lists them all.",
            rich_help_panel=TRAINING,
        ),
    ] = None

    def flags(self) -> list[str]:
        """The options that were given, such as --from-scratch."""
        names = [field.name for field in fields(self) if is_given(getattr(self, field.name))]
        return ["--set" if name == "settings" else f"--{name.replace('_', '-')}" for name in names]

    def given(self) -> dict[str, Any]:
        """The settings that were given by name, for `Config.of`."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "settings"}
        given = {name: value for name, value in values.items() if is_given(value)}
        given |= dict(_parse(item) for item in self.settings or [])
        extent = given.get("noise_extent", "auto")
        if isinstance(extent, str) and extent != "auto":
            given["noise_extent"] = extent.split(",")  # such as 0,2
        return given

    def read_plan(self, path: Path | None) -> Plan | None:
        """The plan that is given with --plan; it has all settings, so that none may be given beside it."""
        if path is None:
            return None
        if self.flags():
            raise InputError(f"{self.flags()[0]}: the plan has all settings, so leave this out, or --plan.")
        from noise2same.plan import Plan

        return Plan.read(path)

    def config(self, plan: Plan | None) -> Config:
        """What is asked for: by a plan, or else by the options that were given."""
        return Config.of(**self.given()) if plan is None else plan.config


def _parse(item: str) -> tuple[str, Any]:
    """Name and value of --set NAME=VALUE; a value that is not JSON is a text."""
    name, equals, value = item.partition("=")
    if not equals:
        raise InputError(f"--set {item}: write it as NAME=VALUE.")
    try:
        return name.replace("-", "_"), json.loads(value)
    except json.JSONDecodeError:
        return name.replace("-", "_"), value


@dataclass(frozen=True)
class RunOptions:
    """How to run a training."""

    plan: Annotated[
        Path | None,
        typer.Option(help="Plan to repeat, as written by noise2same plan --json.", rich_help_panel=TRAINING),
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run was stopped.")] = False
    log: Annotated[
        Path | None, typer.Option(help="Folder for loss curves: CSV, and TensorBoard's.", rich_help_panel=TRAINING)
    ] = None
    device: Annotated[
        str | None, typer.Option(help="Where to compute, such as cpu or cuda:1.", show_default="the fastest there is")
    ] = None

    def flags(self) -> list[str]:
        """The options that were given and are for training only."""
        return [f"--{name}" for name in ("plan", "log") if is_given(getattr(self, name))]


@dataclass(frozen=True)
class AboutOptions:
    """What people say of a model (`model_file.About`)."""

    license: Annotated[
        str | None,
        typer.Option(help="License of the model, by its SPDX name such as MIT.", rich_help_panel=ABOUT),
    ] = None
    training_data: Annotated[
        str | None,
        typer.Option(help="What it was trained on: an address (https://...), or a sentence.", rich_help_panel=ABOUT),
    ] = None
    author: Annotated[
        list[str] | None, typer.Option(help="Who trained it; may be given several times.", rich_help_panel=ABOUT)
    ] = None

    def given(self) -> dict[str, Any]:
        """Fields of `About`, for `Denoiser.export`."""
        return {"license": self.license, "training_data": self.training_data, "authors": tuple(self.author or ())}


@dataclass(frozen=True)
class ClusterOptions:
    """Who computes: this process, several on this machine, or a Dask cluster."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes on this machine that share the work, with one thread each.", show_default=False
        ),
    ] = None
    scheduler: Annotated[
        str | None, typer.Option(help="Dask scheduler whose workers do the work, such as tcp://10.0.0.1:8786.")
    ] = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.scheduler is not None:
            raise InputError("--workers starts processes here, --scheduler has them already: leave out one of them.")


@dataclass(frozen=True)
class BatchOptions:
    """What to do with many images, and what to say."""

    strict: Annotated[
        bool, typer.Option("--strict", help="End with the first image that fails; otherwise the others are done.")
    ] = False
    fail_on: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Exit with code 1 if a verdict is this or worse: check or 'do not trust'."),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Give the reasons of each verdict.")] = False

    def __post_init__(self) -> None:
        if self.fail_on is not None and self.word not in ("check", "do not trust"):
            raise InputError(f"--fail-on {self.fail_on}: it should be check or 'do not trust'.")
        if self.quiet and self.verbose:
            raise InputError("--quiet and --verbose contradict each other: leave out one of them.")

    @property
    def word(self) -> str | None:
        """The verdict from which on the exit code is 1; a script may write it with hyphens."""
        return None if self.fail_on is None else self.fail_on.replace("-", " ").lower()


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each option of the dataclasses among its parameters, which it gets filled in, and --config."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters[name] = parameter.replace(annotation=hints[name])
            continue
        types = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            kind, annotation = parameter.kind, types[field.name]
            option = inspect.Parameter(field.name, kind, default=field.default, annotation=annotation)
            parameters[field.name] = option
    file = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigFile)
    parameters["config"] = file

    def call(config: Path | None = None, **values: Any) -> None:
        filled = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **filled)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return call
