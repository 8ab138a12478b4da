"""When training ends before its budget, and which weights it ends with."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

from torch import Tensor, nn

from noise2same.plan import FIRST_CHECK_STEP, FIRST_CHECK_STEP_PRETRAINED
from noise2same.training.held_out import HeldOut

CHECKS_PER_DOUBLING = 4
"""Checks while the number of steps doubles."""
MIN_GAIN_DB = 0.05
"""dB that a doubling of the steps must gain to be worth it; three times as many steps then gain about 0.1 dB."""
COOLDOWN_SHARE = 0.5
"""Length of the cool-down, as a share of the budget that was used before it."""


class EarlyStopping:
    """Ends training when a doubling of its steps gained less than `MIN_GAIN_DB`, and remembers the best weights.

    Twice in a row, and by the best of each doubling, because single moments are bad while the learning rate is high.
    The end is a cool-down: the rest of the schedule is run through faster, so that the learning rate falls to zero.

    Parameters
    ----------
    held_out : HeldOut, optional
        What measures the error. Without one, training never ends early, and its last weights are kept.
    pretrained : bool
        Whether the network was trained before, which is checked sooner.
    enabled : bool
        Whether training may end early; if not, no checks are due. The weights from before the training are kept all
        the same, if they are better (`note`).

    Attributes
    ----------
    errors : list of float
        The error at each check.
    done_at : float or None
        Share of the budget at which the cool-down began; None before.
    """

    def __init__(self, held_out: HeldOut | None, *, pretrained: bool = False, enabled: bool = True) -> None:
        self.held_out, self.enabled = held_out, enabled and held_out is not None
        self.first = FIRST_CHECK_STEP_PRETRAINED if pretrained else FIRST_CHECK_STEP
        self.errors: list[float] = []
        self.done_at: float | None = None
        self.least_error, self.best_weights, self.best_is_start = math.inf, dict[str, Tensor](), False

    def due(self, step: int) -> bool:
        """Whether it is time for the next check."""
        if not self.enabled or self.done_at is not None:
            return False
        return step >= self.first * 2 ** (len(self.errors) / CHECKS_PER_DOUBLING)

    def check(self, network: nn.Module, share: float) -> float:
        """Measure the error of a network when a share of the budget is used; begin the cool-down if it is done."""
        error = self.note(network)
        self.errors.append(error)
        enough = len(self.errors) > CHECKS_PER_DOUBLING + 1
        if enough and all(self._gain(errors) < MIN_GAIN_DB for errors in (self.errors, self.errors[:-1])):
            self.done_at = share
        return error

    def note(self, network: nn.Module, *, start: bool = False) -> float:
        """Error of a network, whose weights are remembered if they are the best so far.

        `start` says that it has not been trained in this run yet.
        """
        assert self.held_out is not None, "without a measure of the error, nothing is due"
        error = self.held_out.error(network)
        if error < self.least_error:
            self.least_error, self.best_weights = error, deepcopy(network.state_dict())
            self.best_is_start = start
        return error

    def progress(self, share: float) -> float:
        """How far the run is, from 0 to 1, when a share of its budget is used.

        The two are the same until the cool-down begins.
        """
        if self.done_at is None:
            return share
        speed = max(1.0, (1 - self.done_at) / (COOLDOWN_SHARE * self.done_at))
        return self.done_at + (share - self.done_at) * speed

    def end_share(self) -> float:
        """Share of the budget that is used at the end of the run, as far as is known."""
        return 1.0 if self.done_at is None else min(1.0, (1 + COOLDOWN_SHARE) * self.done_at)

    def keep_best(self, network: nn.Module) -> bool:
        """Give a network back the best weights it had, if its error was `MIN_GAIN_DB` smaller then.

        Not for less: of weights that are as good, those are better for which the learning rate has fallen to zero.

        Returns
        -------
        bool
            Whether the network now has the weights from before the training.
        """
        if self.held_out is None or not self.best_weights:
            return False
        if self._decibels(self.held_out.error(network), self.least_error) <= MIN_GAIN_DB:
            return False
        network.load_state_dict(self.best_weights)
        return self.best_is_start

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, for `load`."""
        return {
            "errors": self.errors,
            "done_at": self.done_at,
            "least_error": self.least_error,
            "best_weights": self.best_weights,
            "best_is_start": self.best_is_start,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a `state`; KeyError, TypeError or ValueError if it is none. Other entries are ignored."""
        self.errors = [float(error) for error in state["errors"]]
        self.done_at = None if state["done_at"] is None else float(state["done_at"])
        self.least_error, self.best_is_start = float(state["least_error"]), bool(state["best_is_start"])
        self.best_weights = dict[str, Tensor](state["best_weights"])

    def _gain(self, errors: list[float]) -> float:
        """DB by which the least error of the last doubling of steps is below the least error before it."""
        return self._decibels(min(errors[:-CHECKS_PER_DOUBLING]), min(errors[-CHECKS_PER_DOUBLING:]))

    def _decibels(self, larger: float, smaller: float) -> float:
        """DB by which the second error is below the first."""
        assert self.held_out is not None
        least = self.held_out.resolution
        return 10 * math.log10(max(larger, least) / max(smaller, least))
