"""Fills the table of settings into the guide, from the code itself, and turns formulas into MathML."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

from noise2same.config import PRESETS, Config

MARK = "<!-- settings -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark in a page by the table, and $...$ and $$...$$ by what browsers show by themselves.

    Called by MkDocs.
    """
    if MARK in markdown:
        markdown = markdown.replace(MARK, settings_table())
    markdown = re.sub(r"\$\$(.+?)\$\$", lambda found: displayed(found[1]), markdown, flags=re.DOTALL)
    return re.sub(r"(?<![`\w$])\$([^$`]+?)\$(?![\w$])", lambda found: inline(found[1]), markdown)


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


def displayed(formula: str) -> str:
    """A formula on a line of its own, which scrolls where the screen is narrower."""
    return f'<div style="overflow-x: auto; padding: 0.2em 0">{convert(formula, display="block")}</div>'


def inline(formula: str) -> str:
    """A formula within a sentence. A line that begins with <math> would be a paragraph of its own in Markdown."""
    return f"<span>{convert(formula)}</span>"
