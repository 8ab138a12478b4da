"""Fills the table of settings into the guide, from the code itself, so that it cannot go stale."""

from __future__ import annotations

from typing import Any

from noise2same.config import PRESETS, Config

MARK = "<!-- settings -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark in a page by the table; called by MkDocs."""
    return markdown.replace(MARK, settings_table()) if MARK in markdown else markdown


def settings_table() -> str:
    """Every field of `Config`: name, default, what the paper preset has instead, and meaning."""
    lines = ["| Setting | Default | Preset `paper` | Meaning |", "|---|---|---|---|"]
    for name, field in Config.model_fields.items():
        paper = shown(PRESETS["paper"][name]) if name in PRESETS["paper"] else ""
        lines.append(f"| `{name}` | {shown(field.default)} | {paper} | {field.description} |")
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A value as code, or a dash for none."""
    return "–" if value is None else f"`{value}`"
