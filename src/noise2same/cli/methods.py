"""`noise2same methods`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noise2same.cli._options import Json
from noise2same.cli._terminal import print_json, stdout

if TYPE_CHECKING:
    from noise2same.methods import Algorithm


def methods(as_json: Json = False) -> None:
    """List the methods: what each learns from, its settings, and when to use it."""
    from rich.table import Column, Table
    from rich.text import Text

    from noise2same.methods import AUTO, every

    *first, last = (method.name for method in AUTO)
    auto = {
        "needs": "noisy images",
        "settings": {},
        "when": f"to begin with: it takes {', '.join(first)} or {last}, as suits the noise, and says why",
    }
    rows = {"auto": auto} | {name: _describe(method) for name, method in every().items()}
    if as_json:
        print_json(rows)
        return
    table = Table("method", "learns from", Column("settings", overflow="fold"), Column("when", overflow="fold"))
    for name, row in rows.items():
        settings = ", ".join(f"{key}={value}" if value is not None else key for key, value in row["settings"].items())
        table.add_row(*map(Text, (name, row["needs"], settings, row["when"])))
    stdout().print(table)


def _describe(method: type[Algorithm]) -> dict[str, Any]:
    """A method for the list: its own settings with their defaults, after those of all methods that it uses."""
    own = {name: field.default for name, field in method.Settings.model_fields.items()}
    return {"needs": method.needs, "settings": dict.fromkeys(sorted(method.uses)) | own, "when": method.when}
