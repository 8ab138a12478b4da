"""Training on Lightning: the optimiser, the budget, when to stop, checkpoints and what happens at Ctrl-C."""

from __future__ import annotations

import itertools
import logging
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from noise2same.config import Config
from noise2same.data.patches import Patches
from noise2same.device import is_out_of_memory, lay_out, precision
from noise2same.errors import InputError
from noise2same.files import replacing
from noise2same.methods import Method
from noise2same.model_file import all_finite
from noise2same.networks.unet import Norm, UNet
from noise2same.training.early_stopping import GAIN, LOSS, StopRule
from noise2same.training.progress import ProgressBar, loggers

CHECKPOINT_SECONDS = 60.0
"""How much training a killed process can lose at most."""
MANY = 2**18
"""Pixels of all images, from which on a network that has been trained before has the full learning rate.

With fewer it has that much less of it, but at least a tenth: it would soon know their noise by heart.
"""
LAST = 0.5
"""Of the time until training was found to be done, what is given to the fall of the learning rate."""
POINTS = 50
"""How often a run is looked at for its history."""
STEPS_BETWEEN_CHECKS = 50
"""How often a run is at least looked at for NaN and infinite numbers, and its good weights are copied."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Summary:
    """What a training run did."""

    steps: int
    seconds: float
    interrupted: bool
    stopped_early: bool
    """Whether it ended before the budget, because more training would have bought nothing."""
    unchanged: bool
    """Whether the weights are those of before, because training made them worse."""
    blend: tuple[float, ...] | None
    """Weight of each channel's output against its input (`StopRule.blend`); None where it cannot be estimated."""
    diverged: bool
    """Whether it ended because a loss or weight was NaN or infinite. The rest is of the last moment that was good."""
    terms: dict[str, float]
    """Loss terms at the end, averaged over the last steps."""
    history: list[dict[str, float]]
    """The same, and steps, seconds and the estimated error where it was estimated, at `POINTS` moments of the run."""


@dataclass(frozen=True)
class Learned:
    """What a run has learned at some moment."""

    step: int
    seconds: float
    terms: dict[str, float]
    weights: dict[str, Tensor]
    """Those that predict."""

    def is_finite(self) -> bool:
        """Whether no loss until then, and no weight, is NaN or infinite.

        Terms are averages over the last steps. One that was NaN or infinite stays NaN.
        """
        return all(map(math.isfinite, self.terms.values())) and all_finite(self.weights.values())


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
    watch: Callable[[nn.Module], dict[str, float]] = lambda network: {},
) -> Summary:
    """Train `network` in place until it is done, the budget of `config` is used up or the user presses Ctrl-C.

    It ends with the best weights it had, as far as that can be estimated. A network that has been trained before
    (`method.warm`) is changed less by few pixels, and not at all if that makes it worse.

    When the loss or a weight is NaN or infinite, training ends. The network then has the last weights that were good,
    and the checkpoint is one from before.

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
    watch : callable
        Given the network as it would predict, at `POINTS` moments of the run; what it returns joins the history.
    """
    if method.warm:
        share = min(1.0, max(0.1, len(patches.pixels) / MANY))
        config = config.model_copy(update={"learning_rate": share * config.learning_rate, "settle": 0.0})
    module = Training(lay_out(network, device), method, patches, config, checkpoint, watch)
    with quiet_lightning(), stop_on_signal(module), fast_matmul():
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
        except InputError:
            raise
        except Exception as error:
            if resume and module.started == 0:  # it failed before the first step
                raise InputError(f"{checkpoint} does not fit this training; start again without resume.") from error
            if is_out_of_memory(error):
                raise InputError(f"Memory ran out in training: use a smaller batch than {config.batch}.") from error
            raise
    learned = module.good if module.diverged else module.learned()
    network.load_state_dict(learned.weights)
    blend, unchanged = None, False
    if module.rule is not None:
        unchanged = module.rule.keep_best(network)
        blend = None if method.supervised else module.rule.blend(network)
    return Summary(
        learned.step,
        learned.seconds,
        module.interrupted,
        module.done_at is not None,
        unchanged,
        blend,
        module.diverged,
        learned.terms,
        module.history,
    )


class Training(lightning.LightningModule):
    """One training run: draws its own batches on the device, so the data loader only counts."""

    def __init__(
        self,
        network: nn.Module,
        method: Method,
        patches: Patches,
        config: Config,
        checkpoint: Path | None,
        watch: Callable[[nn.Module], dict[str, float]],
    ) -> None:
        super().__init__()
        self.watch = watch
        self.network, self.method, self.patches, self.config = network, method, patches, config
        self.average = AveragedModel(network, multi_avg_fn=self._mix, use_buffers=True) if config.ema else None
        if self.average is not None:
            self.average.requires_grad_(False)
        self.generator = torch.Generator()
        self.generator_state: Tensor | None = None
        self.checkpoint, self.saved = checkpoint, time.monotonic()
        self.elapsed, self.started = 0.0, 0.0
        self.interrupted, self.diverged = False, False
        self.good = Learned(0, 0.0, {}, {})
        self.progress = 0.0
        self.rule: StopRule | None = None
        self.rule_state: dict[str, Any] = {}
        self.done_at: float | None = None  # share of the budget
        self.terms: dict[str, Tensor] = {}
        self.history: list[dict[str, float]] = []

    def train_dataloader(self) -> Any:
        return itertools.repeat(0)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            self.network.parameters(), lr=self.config.learning_rate, fused=self.device.type != "mps"
        )

    def on_train_start(self) -> None:
        if not self._is_good():
            raise InputError(
                f"{self.checkpoint or 'The network'} holds NaN or infinite numbers: start again without resume."
            )
        self.patches.to(self.device)
        self.generator = torch.Generator(self.device)
        if self.generator_state is not None and self.trainer.world_size == 1:
            self.generator.set_state(self.generator_state)
        else:  # workers draw different patches, also after a resume
            self.generator.manual_seed(self.config.seed + 1000 * self.global_rank + 1_000_003 * self.global_step)
        if self.trainer.is_global_zero:
            gain = -LOSS if self.config.early_stop == "worse" else GAIN
            self.rule = StopRule(self.patches, self.method.facts, self.config.seed, warm=self.method.warm, gain=gain)
            self.rule.load(self.rule_state)
            if self.method.warm and not self.rule_state:
                self.rule.note(self.predicting(), begins=True)
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

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.config.clip:  # not by Lightning, which refuses a fused optimiser on a GPU
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.average is not None:
            self.average.update_parameters(self.network)
        self.elapsed = time.monotonic() - self.started
        share, stop = self._share_done(), self.interrupted  # a signal that comes later is for the next step
        judge = self._is_judged()
        remember = judge or share >= len(self.history) / POINTS
        save = time.monotonic() - self.saved >= CHECKPOINT_SECONDS
        often = self.global_step % STEPS_BETWEEN_CHECKS == 0
        diverged = (remember or save or stop or often or self._progress(share) >= 1) and not self._is_good()
        if self.device.type == "cpu":  # others would be waited for at each step
            diverged = diverged or not all(map(math.isfinite, self.read_terms().values()))
        if remember and not diverged:
            self._remember(share, judge)
        now = self._progress(share)
        if self.trainer.world_size > 1:  # all workers must agree, or learning rates drift apart and saving deadlocks
            now, stop, save, diverged = self.trainer.strategy.broadcast((now, stop, save, diverged))
        self.progress, self.diverged = now, diverged
        if now >= 1 or stop or diverged:
            self.interrupted = stop and now < 1
            self.trainer.should_stop = True
        if self.checkpoint is not None and (save or (stop and now < 1)) and not diverged:
            self._save(self.checkpoint)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["noise2same"] = {
            "elapsed": self.elapsed,
            "progress": self.progress,
            "rule": {} if self.rule is None else self.rule.state(),
            "done_at": self.done_at,
            "generator": self.generator.get_state(),
            "terms": self.terms,
            "history": self.history,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["noise2same"]
        self.elapsed, self.progress = state["elapsed"], state["progress"]
        self.generator_state, self.terms = state["generator"], state["terms"]
        self.rule_state, self.done_at, self.history = state["rule"], state["done_at"], state["history"]

    def _save(self, path: Path) -> None:
        """Write the state of the run to `path`, whole or not at all; only the first worker writes."""
        with replacing(path) if self.trainer.is_global_zero else nullcontext(path) as partial:
            self.trainer.save_checkpoint(partial)
        self.saved = time.monotonic()

    def _is_judged(self) -> bool:
        """Whether the stop rule is to be asked after this step."""
        if not self.config.early_stop or self.rule is None or self.done_at is not None:
            return False
        return self.rule.due(self.global_step)

    def _remember(self, share: float, judge: bool) -> None:
        """Add a point to the history, with the estimate of the stop rule if that is due."""
        more = {}
        if judge and self.rule is not None:
            self.done_at = share if self.rule.is_done(self.predicting()) else None
            more["error"] = self.rule.errors[-1]
        if self.trainer.is_global_zero:
            more |= self.watch(self.predicting())
        self.history.append({"step": self.global_step, "seconds": self.elapsed} | self.read_terms() | more)

    def _is_good(self) -> bool:
        """Whether all is finite, which is then remembered as the last good state."""
        learned = self.learned()
        if not learned.is_finite():
            return False
        self.good = replace(learned, weights=deepcopy(learned.weights))
        return True

    def learned(self) -> Learned:
        """What the run has learned; the weights go on changing."""
        return Learned(self.global_step, self.elapsed, self.read_terms(), self.predicting().state_dict())

    def predicting(self) -> nn.Module:
        """The network whose weights predict. An average that is finite was made of weights that were."""
        return self.network if self.average is None else self.average.module

    def read_terms(self) -> dict[str, float]:
        """Loss terms averaged over the last steps."""
        return {name: float(value) for name, value in self.terms.items()}

    def _share_done(self) -> float:
        if self.config.steps is not None:
            return self.global_step / self.config.steps
        assert self.config.minutes is not None, "a budget is in steps or in minutes"
        return self.elapsed / (60 * self.config.minutes)

    def _progress(self, share: float) -> float:
        """How far the run is, from 0 to 1, when a share of its budget is used.

        The two are the same until the stop rule is content. Then the rest of the schedule is run through in `LAST` of
        the time that was used before: the learning rate must fall to zero once, or the weights stay noisy.
        """
        if self.done_at is None:
            return share
        rest = 1 - self.done_at
        return self.done_at + (share - self.done_at) * max(1.0, rest / (LAST * self.done_at))

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
def fast_matmul() -> Iterator[None]:
    """Let a GPU multiply in TF32, for the time of a training: the setting is that of the whole process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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
