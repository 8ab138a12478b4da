"""`--config`: options from a TOML file, by the names that they have on the command line."""

from __future__ import annotations

import json
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from noise2same.errors import InputError


def _load(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options in a file the defaults of a command; what the command line says wins."""
    if path is not None:
        given = _read(path.expanduser())
        context.default_map = {**(context.default_map or {}), **_by_parameter(path, given, context.command.params)}
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_load,
        is_eager=True,
        metavar="TOML",
        help="File of options, such as minutes = 10, by their names here; the command line wins.",
    ),
]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(f"--config {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"--config {path} is not TOML, with lines such as minutes = 10: {error}.") from None


def _by_parameter(path: Path, given: dict[str, Any], parameters: list[Any]) -> dict[str, Any]:
    """Values by the names of the parameters that take them; InputError for a name that no option has."""
    known = {}
    for parameter in parameters:
        flags = [flag[2:] for flag in parameter.opts if flag.startswith("--")]
        known[flags[0] if flags else parameter.name] = parameter
    for left_out in ("config", "help"):
        known.pop(left_out, None)
    found = {}
    for name, value in given.items():
        option = name.replace("_", "-")
        if option not in known:
            near = get_close_matches(option, known, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise InputError(
                f"--config {path}: there is no option {name}.{meant} There are {', '.join(sorted(known))}."
            )
        found[known[option].name] = _as_given(value, several=known[option].multiple or known[option].nargs == -1)
    return found


def _as_given(value: Any, *, several: bool) -> Any:
    """A value as the command line would give it: a table of --set is NAME=VALUE, and one value of several a list."""
    if isinstance(value, dict):
        return [f"{name}={json.dumps(inner)}" for name, inner in value.items()]
    return [value] if several and not isinstance(value, list) else value
