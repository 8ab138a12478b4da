"""Where figures of cells are kept: one file each while `reproduce` works, one compact file for all when it is done."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from noise2same.errors import InputError
from noise2same.files import replacing

Result = dict[str, Any]
"""The figures of a cell, as they are kept."""
DIGITS = 6
"""Significant digits of a number in the compact file."""


class Store:
    """The figures of all cells of a preset: those in the folder FOLDER/cells, then those in the file FOLDER.json.

    A cell that is in both is read from the folder, which has the newer one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.file = folder.with_name(f"{folder.name}.json")
        self._packed = read_packed(self.file)

    def __contains__(self, name: str) -> bool:
        return (self.cells / f"{name}.json").exists() or name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({path.stem for path in self.cells.glob("*.json")} | set(self._packed)))

    def read(self, name: str) -> Result:
        """The figures of a cell."""
        path = self.cells / f"{name}.json"
        if not path.exists():
            return self._packed[name]
        try:
            found: Result = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read ({error}): delete it, and it is made again.") from None
        return found

    def examples(self, name: str) -> Path | None:
        """The picture of a cell's examples; None for a cell of the compact file, which has no pictures."""
        path = self.cells / f"{name}.png"
        return path if path.exists() else None

    def has_examples(self, names: Iterable[str]) -> bool:
        """Whether there are pictures of the examples of all these cells."""
        return all(self.examples(name) for name in names)


def read_packed(file: Path) -> dict[str, Result]:
    """Figures by cell of a compact file; none if there is no such file."""
    if not file.exists():
        return {}
    try:
        cells = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read ({error}): restore it, or delete it to begin anew.") from None
    return {cell["cell"]: cell for cell in cells}


def pack(folder: Path, file: Path | None = None, *, with_history: Collection[str] = ()) -> Path:
    """Write the cells of a folder to one compact file, one line a cell; cells that it had and the folder has not stay.

    Parameters
    ----------
    folder : Path
        Folder of a preset, such as docs/results/cpu. It is left as it is.
    file : Path, optional
        By default FOLDER.json.
    with_history : collection of str
        Names of the cells whose training history is kept, because a figure shows it.

    Returns
    -------
    Path
        The file.
    """
    source = Store(folder)
    file = file or source.file
    cells = read_packed(file)
    cells |= {name: compact(source.read(name), history=name in with_history) for name in source}
    lines = ",\n".join(json.dumps(cells[name], ensure_ascii=False) for name in sorted(cells))
    with replacing(file) as path:
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return file


def compact(result: Result, *, history: bool) -> Result:
    """Figures rounded, and without the points of the training history, or with those but without their loss terms."""
    summary = dict(result.get("summary", {}))
    points, terms = summary.pop("history", []), summary.get("terms", {})
    if history:
        summary["history"] = [{key: value for key, value in point.items() if key not in terms} for point in points]
    short: Result = _rounded({**result, "summary": summary} if summary else result)
    return short


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
