"""What a training run shows and writes down: its progress and its loss curves."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from noise2same.errors import InputError


class ProgressBar(lightning.Callback):
    """A live bar with the loss terms and the time left; ten plain lines where there is no terminal."""

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        if not trainer.is_global_zero:
            return
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("Training"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[terms]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=1.0, terms="")
        self.bar.start()
        self.printed = 0

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *_: Any) -> None:
        if trainer.is_global_zero and trainer.global_step % 5 == 0:
            self.show(trainer, module)

    def on_train_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if trainer.is_global_zero:
            self.show(trainer, module)
            self.bar.stop()

    def on_exception(self, trainer: lightning.Trainer, module: Any, exception: Any) -> None:
        if trainer.is_global_zero and hasattr(self, "bar"):
            self.bar.stop()

    def show(self, trainer: lightning.Trainer, module: Any) -> None:
        terms = "  ".join(f"{name} {value:.4f}" for name, value in module.read_terms().items())
        self.bar.update(self.task, completed=min(module.progress, 1.0), terms=f"step {trainer.global_step}  {terms}")
        tenths = min(10, int(10 * module.progress))
        if tenths > self.printed and not self.console.is_terminal:
            self.printed = tenths
            line = f"Training {10 * tenths:3d} %  step {trainer.global_step}  {terms}"
            self.console.print(line, highlight=False, soft_wrap=True)


def loggers(folder: Path, resume: bool) -> list[Logger]:
    """CSV always, TensorBoard where it is installed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} for the log cannot be made: {error.strerror}; choose another.") from None
    csv, file = CSVLogger(folder, name="", version=""), folder / "metrics.csv"
    if resume and getattr(rank_zero_only, "rank", 0) == 0 and file.is_file():
        before = file.read_bytes()
        _ = csv.experiment  # made on first use, it deletes what an earlier run has written
        file.write_bytes(before)
    found: list[Logger] = [csv]
    if find_spec("tensorboard"):
        found.append(TensorBoardLogger(folder, name="", version=""))
    return found
