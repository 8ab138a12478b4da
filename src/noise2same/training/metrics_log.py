"""Loss curves as files: CSV, and for TensorBoard where that is installed."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from noise2same.errors import InputError

LOG_EVERY = 10
"""Steps from one row to the next."""


class MetricsLog:
    """Writes the loss terms of every tenth step to a folder: `metrics.csv`, and TensorBoard's events.

    Parameters
    ----------
    folder : Path
        Made if it is not there; InputError if nothing can be written there.
    last_step : int
        Step that the run goes on from: rows of later steps, which a killed run has left, are taken out. With 0, the
        file begins anew.
    """

    def __init__(self, folder: Path, last_step: int = 0) -> None:
        self._path, self._columns, self._failed = folder / "metrics.csv", list[str](), False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            rows = _read_rows(self._path, last_step) if last_step else []
            self._path.write_text("")
            self._append(rows)
            self._events = _event_writer(folder, last_step)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"The log in {folder} cannot be made: {reason}; choose another folder.") from None

    def write(self, step: int, terms: Mapping[str, Tensor]) -> None:
        """Add the terms of a step, if it is one of those to be logged. A full disk ends the log, not the training."""
        if step % LOG_EVERY or self._failed:
            return
        values = {name: float(value) for name, value in terms.items()}
        try:
            self._append([{"step": step, **values}])
            if self._events is not None:
                for name, value in values.items():
                    self._events.add_scalar(name, value, step)
        except OSError as error:
            self._failed = True
            warnings.warn(f"{self._path} cannot be written: {error.strerror}; training goes on.", stacklevel=2)

    def close(self) -> None:
        """Finish the files."""
        if self._events is not None:
            self._events.close()

    def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows to the CSV file, the first ones under a header."""
        with self._path.open("a", newline="") as file:
            new = not self._columns
            if rows and new:
                self._columns = list(rows[0])
            writer = csv.DictWriter(file, self._columns, extrasaction="ignore")
            if rows and new:
                writer.writeheader()
            writer.writerows(rows)


def _read_rows(path: Path, last_step: int) -> list[dict[str, str]]:
    """Rows of a CSV file until a step; none if it is not ours."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [
            row for row in csv.DictReader(file) if (row.get("step") or "").isdigit() and int(row["step"]) <= last_step
        ]


def _event_writer(folder: Path, last_step: int) -> Any:
    """TensorBoard's writer, or None where it is not installed."""
    if not find_spec("tensorboard"):
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=last_step + 1 if last_step else None)
