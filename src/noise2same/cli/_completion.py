"""What the Tab key offers: choices by name, and files for everything else that has no choices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, get_args

import typer

VARIABLE = "_NOISE2SAME_COMPLETE"
"""Set by the shell when it asks for completions."""
METHODS = [
    "auto",
    "noise2same",
    "projected",
    "sure",
    "noise2void",
    "noise2void2",
    "noise2self",
    "laine",
    "noise2true",
    "noise2noise",
    "nlm",
    "bm3d",
]
"""Names of our methods, which the methods themselves could say only after seconds; a test compares them."""
FORMATS = ("bioimageio", "onnx", "openvino", "torchscript")
"""Of exports, likewise."""


class Item(NamedTuple):
    """A completion, as click has it."""

    value: str
    type: str = "plain"
    help: str | None = None


def _setting(name: str) -> Callable[[], Iterable[str]]:
    def choices() -> Iterable[str]:
        from noise2same.config import Config

        return get_args(Config.model_fields[name].annotation)

    return choices


def _methods() -> Iterable[str]:
    from importlib.metadata import entry_points

    return [*METHODS, *(point.name for point in entry_points(group="noise2same.methods"))]


CHOICES: dict[str, Callable[[], Iterable[str]]] = {
    "method": _methods,
    "preset": _setting("preset"),
    "channels": _setting("channels"),
    "to": lambda: FORMATS,
    "fail_on": lambda: ("check", "do-not-trust"),
    "dtype": lambda: ("same", "uint8", "uint16", "float32"),
}
"""By the name of the parameter."""


def completing(app: typer.Typer) -> Any:
    """The command line as it is, for a shell that asks what may come next."""
    group: Any = typer.main.get_command(app)
    for command in group.commands.values():
        for parameter in command.params:
            offer = CHOICES.get(parameter.name)
            parameter.shell_complete = _without_files(parameter.shell_complete) if offer is None else _from(offer)
    return group


def is_asked() -> bool:
    """Whether a shell asks for completions."""
    return VARIABLE in os.environ


def _from(offer: Callable[[], Iterable[str]]) -> Callable[[Any, str], list[Item]]:
    return lambda context, incomplete: [Item(choice) for choice in offer() if choice.startswith(incomplete)]


def _without_files(usual: Callable[[Any, str], list[Any]]) -> Callable[[Any, str], list[Any]]:
    """A shell that is offered nothing takes files; typer would offer what was typed so far as a file."""
    return lambda context, incomplete: [item for item in usual(context, incomplete) if item.type == "plain"]
