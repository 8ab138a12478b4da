"""Fills tables of settings into pages, from the code itself, and turns formulas and notebooks into HTML."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic.fields import FieldInfo
from skimage import data

from noise2same import plan
from noise2same.config import PRESETS, Config
from noise2same.methods import METHODS, SHARED_SETTINGS


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace marks in a page by tables, and $...$ and $$...$$ by what browsers show by themselves.

    Called by MkDocs.
    """
    for mark, table in TABLES.items():
        if mark in markdown:
            markdown = markdown.replace(mark, table())
    markdown = re.sub(r"\$\$(.+?)\$\$", lambda found: displayed(found[1]), markdown, flags=re.DOTALL)
    return re.sub(r"(?<![`\w$])\$([^$`]+?)\$(?![\w$])", lambda found: inline(found[1]), markdown)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a page for each notebook, with what it showed when it was run; called by MkDocs."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            assert file.abs_src_path is not None
            cells = json.loads(Path(file.abs_src_path).read_text())["cells"]
            link = f"[Download this page as a notebook]({Path(file.src_uri).name}).\n"
            page = "\n\n".join([*map(cell_as_markdown, cells), link])
            files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=page))
    return files


def cell_as_markdown(cell: dict[str, Any]) -> str:
    """A cell of a notebook, and below it what it showed."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(output_as_markdown, cell["outputs"])])


def output_as_markdown(output: dict[str, Any]) -> str:
    """What a cell showed, in the richest form that it has."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<p><img alt="What the code above shows" src="data:image/png;base64,{data["image/png"].strip()}"></p>'
    if "text/html" in data:
        return f"<div>{''.join(data['text/html'])}</div>"
    return f"```text\n{''.join(data.get('text/plain', output.get('text', '')))}\n```"


def plan_table() -> str:
    """What `noise2same plan` prints for a picture of a cell with photon noise."""
    noisy = np.random.default_rng(0).poisson(data.cell() / 4).astype(np.uint16)
    lines = ["| decision | value | because |", "|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in plan(noisy).rows()])


def settings_table() -> str:
    """Every field of `Config`: name, default, what presets have instead, and meaning."""
    lines = ["| Setting | Default | In presets | Meaning |", "|---|---|---|---|"]
    for name, field in Config.model_fields.items():
        presets = {preset: values[name] for preset, values in PRESETS.items() if name in values}
        lines.append(f"| `{name}` | {default(field)} | {listed(presets)} | {field.description} |")
    return "\n".join(lines)


def method_settings_table() -> str:
    """Every setting that only some methods have, and which of the shared ones each method uses."""
    lines = ["| Method | Setting | Default | In presets | Meaning |", "|---|---|---|---|---|"]
    for name, method in METHODS.items():
        shared = ", ".join(f"`{setting}`" for setting in SHARED_SETTINGS if setting in method.uses)
        fields = method.Settings.model_fields
        if shared:
            lines.append(f"| `{name}` | {shared} | | | As in the table above. |")
        elif not fields:
            lines.append(f"| `{name}` | none | | | |")
        for setting, field in fields.items():
            paper = {"paper": method.paper_settings[setting]} if setting in method.paper_settings else {}
            lines.append(f"| `{name}` | `{setting}` | {default(field)} | {listed(paper)} | {field.description} |")
    return "\n".join(lines)


def listed(presets: dict[str, Any]) -> str:
    """Value of a setting in each preset that has one."""
    return ", ".join(f"{preset}: {shown(value)}" for preset, value in presets.items())


def default(field: FieldInfo) -> str:
    """Default of a field."""
    return shown(field.get_default(call_default_factory=True))


def shown(value: Any) -> str:
    """A value as code, or a dash for none."""
    return "–" if value is None else f"`{value}`"


def displayed(formula: str) -> str:
    """A formula on a line of its own, which scrolls where the screen is narrower."""
    return f'<div style="overflow-x: auto; padding: 0.2em 0">{convert(formula, display="block")}</div>'


def inline(formula: str) -> str:
    """A formula within a sentence. A line that begins with <math> would be a paragraph of its own in Markdown."""
    return f"<span>{convert(formula)}</span>"


TABLES = {
    "<!-- plan -->": plan_table,
    "<!-- settings -->": settings_table,
    "<!-- method settings -->": method_settings_table,
}
"""What replaces each mark."""
