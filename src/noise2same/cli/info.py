"""`noise2same info`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noise2same.cli._options import Json
from noise2same.cli._terminal import print_json, print_plan, stdout


def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, or what was exported from one.")],
    as_json: Json = False,
) -> None:
    """Show what a model was trained on, how, and why so."""
    from noise2same.denoiser import Denoiser
    from noise2same.export import SUFFIXES

    model = model.expanduser()
    if model.suffix.lower() in SUFFIXES.values():
        _show_export(model, as_json)
        return
    denoiser = Denoiser.load(model)
    assert denoiser.network is not None
    facts: dict[str, Any] = {
        "axes": denoiser.axes,
        "channels": denoiser.channels,
        "parameters": sum(parameter.numel() for parameter in denoiser.network.parameters()),
        "mean": list(denoiser.normalization.mean),
        "std": list(denoiser.normalization.std),
        "about": denoiser.about.model_dump(mode="json"),
        "training": denoiser.summary,
        "config": denoiser.config.model_dump(mode="json"),
    }
    plan = denoiser.plan
    if as_json:
        print_json(facts | {"plan": None if plan is None else plan.model_dump(mode="json")})
        return
    facts["about"] = _said(facts["about"])
    facts["training"] = {name: value for name, value in denoiser.summary.items() if name != "history"}  # 50 points
    _print(facts, str(model))
    if plan is not None:
        print_plan(plan, title="Plan")


def _show_export(path: Path, as_json: bool) -> None:
    """Show what an export says of itself."""
    from noise2same.export.card import read_card
    from noise2same.model_file import About

    card = read_card(path)
    about = About(**{name: card.pop(name) for name in About.model_fields if name in card}).model_dump(mode="json")
    if as_json:
        print_json(card | {"about": about})
    else:
        _print(card | {"about": _said(about)}, str(path))


def _said(about: dict[str, Any]) -> dict[str, Any]:
    return {name: value or "not stated" for name, value in about.items()}


def _print(facts: dict[str, Any], title: str) -> None:
    """Write a table to stdout."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, title=Text(title))
    for name, value in _flat(facts).items():
        table.add_row(name, Text(f"{value:.6g}" if isinstance(value, float) else str(value)))
    stdout().print(table)


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one, with keys such as 'training terms invariance'."""
    rows: dict[str, Any] = {}
    for name, value in tree.items():
        rows |= _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else {prefix + name: value}
    return rows
