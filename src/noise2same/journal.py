"""The journal of a folder of results: which image, model and settings each was made from, a line of JSON each.

It lies beside the results. A job that is started again reads there what is done, whoever did it and however it ended.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from noise2same.files import append_line, identity

NAME = ".noise2same.jsonl"
"""Of the file."""


class Journal:
    """What is done in a folder by one job.

    Parameters
    ----------
    folder : Path
        Where the results are.
    job : str
        Stands for the model and the settings. What another job did does not count.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self.path, self.job = folder / NAME, job
        entries = (entry for entry in _read(self.path) if entry["job"] == job)
        self._done = {(entry["output"], entry["source"]): entry for entry in entries}

    @property
    def known(self) -> bool:
        """Whether this job has done anything here."""
        return bool(self._done)

    def find(self, source: Path, output: Path) -> dict[str, Any] | None:
        """The entry of a result that is there, complete and made of `source` as it is now; None if there is none."""
        entry = self._done.get((output.name, source_of(source)))
        try:
            same = entry is not None and entry["made"] == identity(output)
        except OSError:
            return None
        return entry if same else None

    def add(self, source: str, output: Path, **more: Any) -> None:
        """Note a result that is complete, of what `source_of` said before it was made; OSError if it cannot be."""
        when = datetime.now().astimezone().isoformat(timespec="seconds")
        entry = {"output": output.name, "source": source, "made": identity(output), "job": self.job, "time": when}
        append_line(self.path, json.dumps(entry | more))


def source_of(path: Path) -> str:
    """Name and state of a file or store; '' if it is not there."""
    try:
        return f"{path.resolve()} {identity(path)}"
    except OSError:
        return ""


def _read(path: Path) -> list[dict[str, Any]]:
    """All entries of a file; a line that a killed process left half-written is none."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entry = json.loads(line)
            if all(isinstance(entry[key], str) for key in ("job", "output", "source", "made")):
                entries.append(entry)
        except (ValueError, KeyError, TypeError):
            continue
    return entries
