"""Options that commands share, most of them fields of `Config`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from noise2same.config import Config
from noise2same.errors import InputError


def setting(name: str, *flags: str) -> Any:
    """Option of the command line for a field of `Config`, with its description and default."""
    field = Config.model_fields[name]
    shown = False if field.default is None else str(field.default)
    return typer.Option(*flags, help=field.description, show_default=shown, rich_help_panel="Training")


Inputs = Annotated[list[str], typer.Argument(metavar="IN", help="Noisy images: files, folders or glob patterns.")]
Axes = Annotated[
    str | None,
    typer.Option(help="Letters of S, T, C, Z, Y, X, one per dimension, where a file does not say; ZYX is a volume."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON, and nothing else, to stdout.")]
Report = Annotated[
    Path | None,
    typer.Option(help="Page about the result to write, .html or .png; for several images, a folder of pages."),
]
Method = Annotated[str | None, setting("method", "--method")]
NoiseModel = Annotated[str | None, setting("noise_model", "--noise-model")]
Preset = Annotated[str | None, setting("preset", "--preset")]
Minutes = Annotated[float | None, setting("minutes", "--minutes")]
Steps = Annotated[int | None, setting("steps", "--steps")]
Seed = Annotated[int | None, setting("seed", "--seed")]
Sigma = Annotated[float | None, setting("sigma", "--sigma")]
LambdaInv = Annotated[str | None, setting("lambda_inv", "--lambda-inv")]
Structure = Annotated[str | None, setting("structure", "--structure")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting, such as features=48; a wrong name lists them all.",
        rich_help_panel="Training",
    ),
]
FromScratch = Annotated[bool, setting("from_scratch", "--from-scratch")]
Log = Annotated[
    Path | None, typer.Option(help="Folder for loss curves: CSV, and TensorBoard's.", rich_help_panel="Training")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where a run was stopped.", rich_help_panel="Training")]


def configure(settings: Sequence[str] | None, **options: Any) -> Config:
    """Config from the options of a command and its --set NAME=VALUE."""
    for item in settings or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--set {item}: write it as NAME=VALUE.")
        if name.replace("-", "_") not in Config.model_fields:
            raise InputError(f"--set {name}: there is no such setting; there are {', '.join(Config.model_fields)}.")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.replace("-", "_")] = value
    if isinstance(options.get("structure"), str) and options["structure"] != "auto":
        options["structure"] = options["structure"].split(",")  # such as 0,2
    return Config.of(**options)
