"""Numbers that change from step to step: the learning rate and the memory of the averaged weights."""

from __future__ import annotations

import math
from typing import Literal

WARM_UP_STEPS = 20
"""Steps until the learning rate has its full height."""


def learning_rate_factor(schedule: Literal["cosine", "halving"], step: int, progress: float) -> float:
    """Share of the highest learning rate to use in a step.

    Parameters
    ----------
    schedule : str
        "cosine" warms up and falls to zero; "halving" halves it ten times.
    step : int
        Steps done before this one.
    progress : float
        How far the run is, from 0 to 1.

    Examples
    --------
    >>> [round(learning_rate_factor("cosine", 1000, progress), 3) for progress in (0, 0.5, 1)]
    [1.0, 0.5, 0.0]
    >>> learning_rate_factor("halving", 0, 0.35)
    0.125
    """
    if schedule == "halving":
        return 0.5 ** int(10 * progress)
    warm_up = min(1.0, (step + 1) / WARM_UP_STEPS)
    return warm_up * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def ema_decay(longest: float, step: int) -> float:
    """Decay of the averaged weights after a number of steps: short at first, lest a short run is ruled by its start.

    Examples
    --------
    >>> ema_decay(0.999, 0), ema_decay(0.999, 100_000)
    (0.1, 0.999)
    """
    return min(longest, (1 + step) / (10 + step))
