"""What training is to do, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Recipe:
    """How to train a network. The training loop obeys it and decides nothing by itself.

    Parameters
    ----------
    steps, minutes : int or float, optional
        The budget: exactly one of them is given.
    learning_rate : float
        Adam's, at its highest.
    schedule : str
        Learning rate over the budget: "cosine" (warm-up, then a cosine to zero) or "halving" (halved ten times).
    clip : float
        Largest norm of a step's gradient; 0 for any.
    ema : float
        Decay per step of the averaged weights that predict; 0 to predict with the last weights.
    freeze_bn_after : float
        Share of the budget after which batch norm keeps its statistics; 0 from the start, 1 never.
    early_stopping : bool
        Whether training may end before its budget, when more of it would gain nothing.
    pretrained : bool
        Whether the network has been trained before. Its first weights then are kept if training makes it worse.
    seed : int
        Of the patches and masks that are drawn.

    Examples
    --------
    >>> Recipe(steps=100, seed=3).schedule
    'cosine'
    """

    steps: int | None = None
    minutes: float | None = None
    learning_rate: float = 3e-3
    schedule: Literal["cosine", "halving"] = "cosine"
    clip: float = 2.0
    ema: float = 0.999
    freeze_bn_after: float = 0.5
    early_stopping: bool = True
    pretrained: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("a recipe has a budget in steps or in minutes")
