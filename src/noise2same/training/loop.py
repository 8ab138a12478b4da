"""The training loop: steps until the budget is used up, more would gain nothing, or someone asks it to stop."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from noise2same.data.patches import Patches
from noise2same.device import is_out_of_memory
from noise2same.errors import InputError
from noise2same.methods import Method
from noise2same.model_file import all_finite
from noise2same.networks.unet import Norm
from noise2same.plan import EXPLODED, LOWER_RATE, RETRIES, Recipe
from noise2same.training.checkpoint import read_checkpoint, write_checkpoint
from noise2same.training.early_stopping import EarlyStopping
from noise2same.training.held_out import HeldOut
from noise2same.training.interrupt import Interrupt
from noise2same.training.metrics_log import MetricsLog
from noise2same.training.placement import lost_process, place, tf32_allowed
from noise2same.training.schedule import ema_decay, learning_rate_factor
from noise2same.training.state import OnStep, TrainingState, wants_stop

CHECKPOINT_SECONDS = 60.0
"""How much training a killed process can lose at most."""
HISTORY_POINTS = 50
"""Moments of a run that its history holds."""
STEPS_BETWEEN_CHECKS = 50
"""Steps after which the weights are checked for NaN and infinite numbers at the latest, and copied if good."""
TERM_MEMORY = 0.05
"""Weight of the last step in the averages of the loss terms."""

OnPoint = Callable[[nn.Module], dict[str, float]]


@dataclass(frozen=True)
class Outcome:
    """What a training run did."""

    steps: int
    seconds: float
    interrupted: bool
    """Whether Ctrl-C or SIGTERM ended it."""
    stopped: bool
    """Whether a listener (`on_step`) ended it."""
    stopped_early: bool
    """Whether it ended before the budget, because more training would have gained nothing."""
    unchanged: bool
    """Whether the weights are those of before, because training made them worse."""
    diverged: bool
    """Whether it ended because it diverged again and again. The rest is of the last moment that was good."""
    retries: int
    """How often it diverged and went on from its last good state, with a lower learning rate."""
    terms: dict[str, float]
    """Loss terms at the end, averaged over the last steps."""
    history: list[dict[str, float]]
    """The same, and steps, seconds and the held-out error where it was measured, at `HISTORY_POINTS` moments."""


def fit(
    network: nn.Module,
    method: Method,
    patches: Patches,
    recipe: Recipe,
    *,
    held_out: HeldOut | None,
    device: torch.device,
    checkpoint: Path | None = None,
    resume: bool = False,
    log: Path | None = None,
    on_step: OnStep | None = None,
    on_point: OnPoint | None = None,
) -> Outcome:
    """Train a network in place.

    It ends with the best weights it had, as far as `held_out` can measure. When the loss or a weight is NaN or
    infinite, or the loss explodes, training goes back to its last good state and on with a lower learning rate,
    `plan.RETRIES` times. Then it ends with the last weights that were good. When memory runs out, a batch is computed
    in parts, whose gradients are added up.

    Under torchrun (`training.launch`) all processes train one network, each on patches of its own, as if these were one
    batch (`ranks`). The first one decides, calls `on_step` and `on_point`, and writes files. All return the same
    outcome and have the same weights.

    Parameters
    ----------
    network : Module
        Left on `device` with the weights that predict: the running average if `recipe.ema` is set.
    method : Method
        Gives the loss terms.
    patches : Patches
        The training images; moved to `device`.
    recipe : Recipe
        Budget, learning rate and the like.
    held_out : HeldOut, optional
        Measures the error, for early stopping and the best weights. None: there is no such thing.
    device : torch.device
        Where to train.
    checkpoint : Path, optional
        Where the state of the run is kept, rewritten every minute and when it is stopped. It is left there when the run
        is complete, for the caller to remove once the model is safe. If it cannot be written, training goes on.
    resume : bool
        Go on from `checkpoint`, to the same result as a run that was never stopped.
    log : Path, optional
        Folder for the loss terms of every tenth step, as CSV and, where TensorBoard is installed, for TensorBoard.
    on_step : callable, optional
        Given a `TrainingState` after every step. True or "stop" ends the run and keeps what was learned.
    on_point : callable, optional
        Given the network as it would predict, at `HISTORY_POINTS` moments; the figures it returns join the history.
    """
    run = None
    with Interrupt() as interrupt, tf32_allowed():
        try:
            run = _Run(network, method, patches, recipe, held_out, device, interrupt)
            if resume and checkpoint is not None:
                run.resume(checkpoint)
            run.start(f"{checkpoint}" if resume else "The network")
            run.train(checkpoint, log, on_step, on_point)
            return run.workers.agree_on(network, run.finish() if run.workers.first else None)
        except Exception as error:
            if is_out_of_memory(error):
                size, count = " × ".join(map(str, patches.patch)), patches.batch // (1 if run is None else run.parts)
                raise InputError(
                    f"Memory ran out in training with {count} patch(es) of {size} pixels at once: "
                    "use a smaller batch, patch or number of features."
                ) from error
            if lost_process(error):
                where = "" if checkpoint is None else "; with --resume, it goes on from its last checkpoint, if any"
                raise InputError(f"Another process of this training has ended, and so it ends{where}.") from error
            raise


class _Moment(NamedTuple):
    """What is seen of a run after a step: by the first process, but for an interruption, which any process may see."""

    progress: float = 0.0
    interrupted: bool = False
    stopped: bool = False
    save: bool = False
    diverged: bool = False
    good: bool = False
    """Whether to go back to this state if the run diverges. A resumed run has the same such states."""


class _Run:
    """One training run and its state, which a checkpoint keeps."""

    def __init__(
        self,
        network: nn.Module,
        method: Method,
        patches: Patches,
        recipe: Recipe,
        held_out: HeldOut | None,
        device: torch.device,
        interrupt: Interrupt,
    ) -> None:
        self.network, self.patches, self.recipe, self.interrupt = network, patches, recipe, interrupt
        self.loss, self.workers = place(network, method, device)
        self.device = self.workers.device
        self.patches.to(self.device)
        self.average = AveragedModel(network, multi_avg_fn=self._mix, use_buffers=True) if recipe.ema else None
        if self.average is not None:
            self.average.requires_grad_(False)
        self.optimizer = torch.optim.Adam(
            network.parameters(), lr=recipe.learning_rate, fused=self.device.type != "mps"
        )
        self.early_stopping = EarlyStopping(held_out, pretrained=recipe.pretrained, enabled=recipe.early_stopping)
        self.generator = torch.Generator(self.device)
        self.step, self.progress, self.elapsed, self.started, self.saved = 0, 0.0, 0.0, 0.0, 0.0
        self.interrupted, self.stopped, self.diverged, self.resumed = False, False, False, False
        self.checkpoint_failed = False
        self.retries, self.parts = 0, 1
        self.highest = torch.tensor(-math.inf, device=self.device)
        self.least = torch.tensor(math.inf, device=self.device)
        self.terms: dict[str, Tensor] = {}
        self.history: list[dict[str, float]] = []
        self.good: dict[str, Any] = {}

    def resume(self, checkpoint: Path) -> None:
        """Go on from the state in a file."""
        try:
            state = read_checkpoint(checkpoint, self.device)
            self._load(state)
            self._check_optimizer()
            self.good = state["good"] or {}
            if len(state["generators"]) == self.workers.count:
                self.generator.set_state(state["generators"][self.workers.rank].cpu())
            else:  # another number of processes than before
                self._seed()
        except Exception as error:  # whatever a file can hold
            raise InputError(f"{checkpoint} does not fit this training; start again without resume.") from error
        self.resumed = True

    def _check_optimizer(self) -> None:
        """Raise ValueError if the optimizer does not have what it keeps of each weight."""
        for weights, kept in self.optimizer.state.items():
            if (
                any(kept[name].shape != weights.shape for name in ("exp_avg", "exp_avg_sq"))
                or kept["step"].numel() != 1
            ):
                raise ValueError("the state of the optimizer does not fit the weights")

    def start(self, source: str) -> None:
        """Get ready for the first step; `source` is where the weights are from."""
        self.network.train()
        if not self._is_finite():
            raise InputError(f"{source} holds NaN or infinite numbers: start again without resume.")
        if not self.resumed:
            self._seed()
        judged = self.early_stopping.held_out is not None and self.workers.first
        if self.recipe.pretrained and judged and not self.resumed:
            self.early_stopping.note(self._predicting(), start=True)
        self.good = self.good or deepcopy(self._state_to_keep())
        self.saved = time.monotonic()
        self.started = self.saved - self.elapsed

    def train(
        self, checkpoint: Path | None, log: Path | None, on_step: OnStep | None, on_point: OnPoint | None
    ) -> None:
        """Step until the end."""
        metrics = MetricsLog(log, self.step) if log is not None and self.workers.first else None
        try:
            ended = self.progress >= 1
            while not ended:
                terms, step = self._train_step(), self.step
                if metrics is not None:
                    metrics.write(step, terms)
                ended = self._after_step(checkpoint, on_step, on_point)
                if metrics is not None and log is not None and self.step < step:  # without what is done anew
                    metrics.close()
                    metrics = MetricsLog(log, self.step)
        finally:
            if metrics is not None:
                metrics.close()

    def finish(self) -> Outcome:
        """Give the network the weights that predict best, and return what was done."""
        self.network.load_state_dict(self._predicting().state_dict())
        self.network.eval()
        unchanged = self.early_stopping.keep_best(self.network)
        return Outcome(
            self.step,
            self.elapsed,
            self.interrupted,
            self.stopped,
            self.early_stopping.done_at is not None,
            unchanged,
            self.diverged,
            self.retries,
            self._read_terms(),
            self.history,
        )

    def _train_step(self) -> dict[str, Tensor]:
        """One step of the optimizer; the loss terms."""
        factor = learning_rate_factor(self.recipe.schedule, self.step, self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = self._highest_rate() * factor
        for module in self.network.modules():  # batch statistics drift from those it predicts with: images get darker
            if isinstance(module, Norm):
                module.train(self.progress < self.recipe.freeze_bn_after)
        terms = self._gradients()
        while terms is None:
            terms = self._gradients()
        for name, value in terms.items():
            self.terms[name] = value if name not in self.terms else torch.lerp(self.terms[name], value, TERM_MEMORY)
        loss = torch.stack(list(terms.values())).sum()
        if self.step < STEPS_BETWEEN_CHECKS:
            self.highest = torch.maximum(self.highest, loss)
        else:
            self.least = torch.minimum(self.least, loss)
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.step += 1
        if self.average is not None:
            self.average.update_parameters(self.network)
        return terms

    def _gradients(self) -> dict[str, Tensor] | None:
        """Compute the gradients of the next batch, and return its loss terms; None if memory ran out.

        The next time the batch is computed in twice as many parts.
        """
        size, parts = self.patches.batch, self.parts
        counts = [size * (part + 1) // parts - size * part // parts for part in range(parts)]
        self.optimizer.zero_grad()
        means: dict[str, Tensor] = {}
        try:
            for count in counts:
                terms: dict[str, Tensor] = self.loss(self.patches.draw(self.generator, count), self.generator)
                (torch.stack(list(terms.values())).sum() * (count / size)).backward()
                for name, value in terms.items():
                    share = value.detach() * (count / size)
                    means[name] = means[name] + share if name in means else share
            return means
        except Exception as error:
            # other processes would wait for this one's gradients in vain
            if 2 * parts > size or self.workers.count > 1 or not is_out_of_memory(error):
                raise
        self.parts = 2 * parts  # here, where the error no longer holds what filled the memory
        warnings.warn(
            f"Memory ran out with {counts[-1]} patches at once: training goes on with {size // self.parts} at once, "
            f"{size} a step as before.",
            stacklevel=2,
        )
        return None

    def _after_step(self, checkpoint: Path | None, on_step: OnStep | None, on_point: OnPoint | None) -> bool:
        """Look at the run, call its listeners, and write its checkpoint; whether it has ended."""
        self.elapsed = time.monotonic() - self.started
        other = _Moment(interrupted=self.interrupt.requested)
        moment = self._look(on_step, on_point) if self.workers.first else other
        progress, *flags = self.workers.agree(moment)  # or saving and rates drift apart
        interrupted, stopped, save, diverged, good = map(bool, flags)
        self.progress = progress
        if diverged:
            self._go_back()
        elif good:
            self.good = deepcopy(self._state_to_keep())
        ended = self.progress >= 1 or self.diverged
        self.interrupted = interrupted and not ended
        self.stopped = stopped and not ended and not interrupted
        if checkpoint is not None and (save or self.interrupted or self.stopped) and not self.diverged:
            self._save(checkpoint)
        return ended or interrupted or stopped

    def _look(self, on_step: OnStep | None, on_point: OnPoint | None) -> _Moment:
        """Look at the run after a step, and call its listeners."""
        share, interrupted = self._budget_used(), self.interrupt.requested  # a later signal is for the next step
        now = self.early_stopping.progress(share)
        save = time.monotonic() - self.saved >= CHECKPOINT_SECONDS
        point = self.early_stopping.due(self.step) or share >= len(self.history) / HISTORY_POINTS
        often = self.step % STEPS_BETWEEN_CHECKS == 0
        good = point or often
        if self._has_exploded() or not self._is_sound(thorough=good or save or interrupted or now >= 1):
            return _Moment(now, interrupted, diverged=True)
        if point:
            self._remember(share, on_point)
        now = self.early_stopping.progress(share)
        stopped = on_step is not None and wants_stop(on_step(self._state(share, now)))
        diverged = stopped and not self._is_finite()
        return _Moment(now, interrupted, stopped, save, diverged, good and not diverged)

    def _has_exploded(self) -> bool:
        """Whether no loss of the last `STEPS_BETWEEN_CHECKS` steps was anywhere near those of the run's beginning."""
        if self.step <= STEPS_BETWEEN_CHECKS or self.step % STEPS_BETWEEN_CHECKS:
            return False
        least, self.least = float(self.least), torch.full_like(self.least, math.inf)
        return least > EXPLODED * max(1.0, float(self.highest))

    def _is_sound(self, *, thorough: bool) -> bool:
        """Whether nothing is seen to be NaN or infinite. On a CPU the loss is looked at after each step."""
        if thorough and not self._is_finite():
            return False
        if self.device.type != "cpu":  # others would be waited for at each step
            return True
        return all(map(math.isfinite, self._read_terms().values()))

    def _is_finite(self) -> bool:
        """Whether no loss until now, and no weight, is NaN or infinite.

        Terms are averages over the last steps. One that was NaN or infinite stays NaN.
        """
        terms = all(map(math.isfinite, self._read_terms().values()))
        return terms and all_finite(self._predicting().state_dict().values())

    def _go_back(self) -> None:
        """Go back to the last good state with a lower learning rate, or give up there. Time goes on."""
        step, elapsed, retries, parts = self.step, self.elapsed, self.retries, self.parts
        self._load(deepcopy(self.good))
        self.elapsed, self.retries, self.parts = elapsed, retries, parts
        if retries == RETRIES:
            self.diverged = True
            return
        self.retries += 1
        self._seed()  # other patches: it may be one of them
        if self.workers.first:
            warnings.warn(
                f"Training diverged at step {step}: back to step {self.step}, and on with a learning rate of at most "
                f"{self._highest_rate():.2g} (time {self.retries} of {RETRIES}).",
                stacklevel=2,
            )

    def _highest_rate(self) -> float:
        """Highest learning rate of the schedule."""
        return self.recipe.learning_rate * LOWER_RATE**self.retries

    def _seed(self) -> None:
        """Seed what this process draws from now on; processes draw different patches."""
        steps, tries = 1_000_003 * self.step, 7919 * self.retries
        self.generator.manual_seed(self.recipe.seed + 1000 * self.workers.rank + steps + tries)

    def _remember(self, share: float, on_point: OnPoint | None) -> None:
        """Add a point to the history, with the held-out error if a check is due."""
        figures: dict[str, float] = {"step": self.step, "seconds": self.elapsed, **self._read_terms()}
        if self.early_stopping.due(self.step):
            figures["error"] = self.early_stopping.check(self._predicting(), share)
        if on_point is not None:
            figures |= on_point(self._preview())
        self.history.append(figures)

    def _state(self, share: float, progress: float) -> TrainingState:
        """What a listener is given."""
        left = self.elapsed * max(0.0, self.early_stopping.end_share() / share - 1) if share > 0 else None
        return TrainingState(self.step, min(1.0, progress), self.elapsed, left, self._preview, dict(self.terms))

    def _predicting(self) -> nn.Module:
        """The network whose weights predict. An average that is finite was made of weights that were."""
        return self.network if self.average is None else self.average.module

    def _preview(self) -> nn.Module:
        """A copy of the network as it would predict now."""
        return deepcopy(self._predicting()).eval()

    def _read_terms(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.terms.items()}

    def _budget_used(self) -> float:
        """Share of the budget that is used."""
        if self.recipe.steps is not None:
            return self.step / self.recipe.steps
        assert self.recipe.minutes is not None
        return self.elapsed / (60 * self.recipe.minutes)

    def _mix(self, averages: Any, currents: Any, count: Any) -> None:
        """Add the weights of a step to the running average."""
        get_ema_multi_avg_fn(ema_decay(self.recipe.ema, self.step))(averages, currents, count)

    def _save(self, path: Path) -> None:
        """Write a checkpoint; only the first process does. One that cannot be written does not end the training."""
        self.saved = time.monotonic()
        state = self._state_to_keep() | {"generators": self.workers.gather(self.generator.get_state())}
        if not self.workers.first:
            return
        try:
            write_checkpoint(path, state | {"good": None if self.good["step"] == self.step else self.good})
            self.checkpoint_failed = False
        except InputError as error:
            if not self.checkpoint_failed:
                warnings.warn(f"{str(error).removesuffix('.')}. Training goes on without a checkpoint.", stacklevel=2)
            self.checkpoint_failed = True

    def _state_to_keep(self) -> dict[str, Any]:
        """What a run can go on from, but for the random numbers that it would draw."""
        return {
            "step": self.step,
            "progress": self.progress,
            "elapsed": self.elapsed,
            "network": self.network.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "early_stopping": self.early_stopping.state(),
            "terms": self.terms,
            "history": self.history,
            "retries": self.retries,
            "parts": self.parts,
            "highest_loss": self.highest,
            "least_loss": self.least,
        }

    def _load(self, state: dict[str, Any]) -> None:
        """Go on from a state that was kept."""
        self.network.load_state_dict(state["network"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.early_stopping.load(state["early_stopping"])
        self.step, self.progress, self.elapsed = int(state["step"]), float(state["progress"]), float(state["elapsed"])
        self.terms = {str(name): torch.as_tensor(value) for name, value in state["terms"].items()}
        self.history = [dict(point) for point in state["history"]]
        self.retries, self.parts = int(state["retries"]), int(state["parts"])
        self.highest, self.least = torch.as_tensor(state["highest_loss"]), torch.as_tensor(state["least_loss"])
