"""What a training run reports to its listeners after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class TrainingState:
    """A training run after one of its steps."""

    step: int
    """Steps done, from 1 on."""
    share: float
    """How far the run is, from 0 to 1."""
    seconds: float
    """Time spent training, with that of the runs it resumed."""
    seconds_left: float | None
    """Time until the end of the budget, or of the cool-down once early stopping has begun it; None if unknown."""
    preview: Callable[..., Any] = field(repr=False)
    """Returns a copy of the network as it would predict now; in `Denoiser.fit`, `preview(image)` denoises an image."""
    averages: Mapping[str, Tensor] = field(repr=False)
    """Loss terms averaged over the last steps, still on the device."""

    @cached_property
    def terms(self) -> dict[str, float]:
        """Loss terms averaged over the last steps. A GPU is waited for when they are read, and not before."""
        return {name: float(value) for name, value in self.averages.items()}


OnStep = Callable[[TrainingState], Any]
"""Called after every step. True or "stop" ends training after this step and keeps what was learned."""


def wants_stop(answer: Any) -> bool:
    """Whether a listener's answer asks for the end of the run."""
    return answer is True or (isinstance(answer, str) and answer == "stop")


def to_all(*listeners: OnStep | None) -> OnStep:
    """One listener that calls all of them, each one time, and asks to stop if any does."""
    present = [listener for listener in listeners if listener is not None]

    def call(state: TrainingState) -> bool:
        return any([wants_stop(listener(state)) for listener in present])

    return call
