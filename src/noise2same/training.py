"""Training on Lightning: the optimiser, the budget, checkpoints, progress and what happens at Ctrl-C."""

from __future__ import annotations

import itertools
import logging
import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from noise2same import io
from noise2same.config import Config
from noise2same.device import is_out_of_memory, precision
from noise2same.errors import InputError
from noise2same.methods import Method
from noise2same.networks.unet import Norm, UNet
from noise2same.patches import Patches

CHECKPOINT_SECONDS = 60.0
"""How much training a killed process can lose at most."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Summary:
    """What a training run did."""

    steps: int
    seconds: float
    interrupted: bool
    terms: dict[str, float]
    """Loss terms at the end, averaged over the last steps."""


def fit(
    network: nn.Module,
    method: Method,
    patches: Patches,
    config: Config,
    *,
    device: torch.device,
    devices: int = 1,
    nodes: int = 1,
    checkpoint: Path | None = None,
    resume: bool = False,
    log: Path | None = None,
    progress: bool = True,
) -> Summary:
    """Train `network` in place until the budget of `config` is used up or the user presses Ctrl-C.

    Parameters
    ----------
    network : Module
        Left with the weights that predict: the running average if `config.ema` is set.
    checkpoint : Path, optional
        Where the state of the run is kept, rewritten every minute and on Ctrl-C or SIGTERM. It is left there when the
        run is complete, for the caller to remove once the model is safe.
    resume : bool
        Go on from `checkpoint`, to the same result as a run that was never stopped.
    log : Path, optional
        Folder for the loss terms of every tenth step, as CSV and, where TensorBoard is installed, for TensorBoard.
    """
    module = Training(network, method, patches, config, checkpoint)
    torch.set_float32_matmul_precision("high")
    with quiet_lightning(), stop_on_signal(module):
        trainer = lightning.Trainer(
            accelerator={"cuda": "gpu"}.get(device.type, device.type),
            devices=devices,
            num_nodes=nodes,
            precision=precision(device) if isinstance(network, UNet) else "32-true",  # what Laine's inverses need
            strategy="ddp" if devices * nodes > 1 else "auto",
            max_steps=config.steps or -1,
            max_epochs=1,
            callbacks=[ProgressBar()] if progress else [],
            logger=loggers(log, resume) if log is not None else False,
            log_every_n_steps=10,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        try:
            trainer.fit(module, ckpt_path=str(checkpoint) if resume else None, weights_only=True)
        except Exception as error:
            if resume and module.started == 0:  # it failed before the first step
                raise InputError(f"{checkpoint} does not fit this training; start again without resume.") from error
            if is_out_of_memory(error):
                raise InputError(f"Memory ran out in training: use a smaller batch than {config.batch}.") from error
            raise
    if module.average is not None:
        network.load_state_dict(module.average.module.state_dict())
    return Summary(trainer.global_step, module.elapsed, module.interrupted, module.read_terms())


class Training(lightning.LightningModule):
    """One training run: draws its own batches on the device, so the data loader only counts."""

    def __init__(
        self, network: nn.Module, method: Method, patches: Patches, config: Config, checkpoint: Path | None
    ) -> None:
        super().__init__()
        self.network, self.method, self.patches, self.config = network, method, patches, config
        self.average = AveragedModel(network, multi_avg_fn=self._mix, use_buffers=True) if config.ema else None
        if self.average is not None:
            self.average.requires_grad_(False)
        self.generator = torch.Generator()
        self.generator_state: Tensor | None = None
        self.checkpoint, self.saved = checkpoint, time.monotonic()
        self.elapsed, self.started = 0.0, 0.0
        self.interrupted = False
        self.progress = 0.0
        self.terms: dict[str, Tensor] = {}

    def train_dataloader(self) -> Any:
        return itertools.repeat(0)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            self.network.parameters(), lr=self.config.learning_rate, fused=self.device.type != "mps"
        )

    def on_train_start(self) -> None:
        self.patches.to(self.device)
        self.generator = torch.Generator(self.device)
        if self.generator_state is not None and self.trainer.world_size == 1:
            self.generator.set_state(self.generator_state)
        else:  # workers draw different patches, also after a resume
            self.generator.manual_seed(self.config.seed + 1000 * self.global_rank + 1_000_003 * self.global_step)
        self.started = time.monotonic() - self.elapsed
        self.handle_signals()  # again: Lightning has put its own handler of SIGTERM before ours

    def handle_signals(self) -> None:
        """Let Ctrl-C and SIGTERM end the run after the current step, where signals can be handled at all."""

        def stop(number: int, frame: Any) -> None:
            self.interrupted = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, stop)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.config.learning_rate * self._schedule()
        for module in self.network.modules():  # batch statistics drift from those it predicts with: images get darker
            if isinstance(module, Norm):
                module.train(self.progress < self.config.settle)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        terms = self.method(self.network, self.patches.draw(self.generator), self.generator)
        for name, value in terms.items():
            value = value.detach()
            self.terms[name] = value if name not in self.terms else torch.lerp(self.terms[name], value, 0.05)
        if self.logger is not None:
            self.log_dict(terms)
        return torch.stack(list(terms.values())).sum()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.average is not None:
            self.average.update_parameters(self.network)
        self.elapsed = time.monotonic() - self.started
        done, stop, save = self._share_done(), self.interrupted, time.monotonic() - self.saved >= CHECKPOINT_SECONDS
        if self.trainer.world_size > 1:  # all workers must agree, or learning rates drift apart and saving deadlocks
            done, stop, save = self.trainer.strategy.broadcast((done, stop, save))
        self.progress, self.interrupted = done, stop
        if self.progress >= 1 or stop:
            self.interrupted = self.progress < 1
            self.trainer.should_stop = True
        if self.global_step % 50 == 0 and not all(map(math.isfinite, self.read_terms().values())):
            raise InputError("Training diverged (its loss is not finite): try a lower learning rate.")
        if self.checkpoint is not None and (self.interrupted or save):
            self._save(self.checkpoint)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["noise2same"] = {
            "elapsed": self.elapsed,
            "progress": self.progress,
            "generator": self.generator.get_state(),
            "terms": self.terms,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["noise2same"]
        self.elapsed, self.progress = state["elapsed"], state["progress"]
        self.generator_state, self.terms = state["generator"], state["terms"]

    def _save(self, path: Path) -> None:
        """Write the state of the run to `path`, whole or not at all; only the first worker writes."""
        with io.replacing(path) if self.trainer.is_global_zero else nullcontext(path) as partial:
            self.trainer.save_checkpoint(partial)
        self.saved = time.monotonic()

    def read_terms(self) -> dict[str, float]:
        """Loss terms averaged over the last steps."""
        return {name: float(value) for name, value in self.terms.items()}

    def _share_done(self) -> float:
        if self.config.steps is not None:
            return self.global_step / self.config.steps
        assert self.config.minutes is not None, "a budget is in steps or in minutes"
        return self.elapsed / (60 * self.config.minutes)

    def _schedule(self) -> float:
        """Share of the learning rate to use at this progress through the budget."""
        if self.config.schedule == "halving":
            return 0.5 ** int(10 * self.progress)
        warm_up = min(1.0, (self.global_step + 1) / 20)
        return warm_up * 0.5 * (1 + math.cos(math.pi * min(self.progress, 1.0)))

    def _mix(self, averages: Any, currents: Any, count: Any) -> None:
        """Exponential moving average whose memory is short at first, so that a short run is not ruled by its start."""
        decay = min(self.config.ema, (1 + self.global_step) / (10 + self.global_step))
        get_ema_multi_avg_fn(decay)(averages, currents, count)


class ProgressBar(lightning.Callback):
    """A live bar with the loss terms and the time left; ten plain lines where there is no terminal."""

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
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

    def on_train_batch_end(self, trainer: lightning.Trainer, module: lightning.LightningModule, *_: Any) -> None:
        if trainer.is_global_zero and trainer.global_step % 5 == 0:
            self.show(trainer, module)

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if trainer.is_global_zero:
            self.show(trainer, module)
            self.bar.stop()

    def on_exception(self, trainer: lightning.Trainer, module: lightning.LightningModule, exception: Any) -> None:
        if trainer.is_global_zero and hasattr(self, "bar"):
            self.bar.stop()

    def show(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        assert isinstance(module, Training)
        terms = "  ".join(f"{name} {value:.4f}" for name, value in module.read_terms().items())
        self.bar.update(self.task, completed=min(module.progress, 1.0), terms=f"step {trainer.global_step}  {terms}")
        tenths = min(10, int(10 * module.progress))
        if tenths > self.printed and not self.console.is_terminal:
            self.printed = tenths
            self.console.print(f"Training {10 * tenths:3d} %  step {trainer.global_step}  {terms}", highlight=False)


def loggers(folder: Path, resume: bool) -> list[Logger]:
    """CSV always, TensorBoard where it is installed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} for the log cannot be made: {error.strerror}; choose another.") from None
    csv, file = CSVLogger(folder, name="", version=""), folder / "metrics.csv"
    if resume and getattr(rank_zero_only, "rank", 0) == 0 and file.is_file():
        before = file.read_bytes()
        assert csv.experiment  # it deletes what an earlier run has written
        file.write_bytes(before)
    found: list[Logger] = [csv]
    if find_spec("tensorboard"):
        found.append(TensorBoardLogger(folder, name="", version=""))
    return found


@contextmanager
def stop_on_signal(module: Training) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends training after the current step; a second Ctrl-C is an ordinary interrupt."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    module.handle_signals()
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Keep Lightning's advice about data loaders and accelerators off the terminal; errors still come through."""
    logs = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    except MisconfigurationException as error:  # such as more devices than there are
        raise InputError(" ".join(str(error).split())) from error
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
