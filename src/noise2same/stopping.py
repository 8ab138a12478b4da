"""When training is done: an estimate of the error against the unknown clean images, and what the last steps bought."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from noise2same.methods.method import Facts, mean_square
from noise2same.patches import Patches
from noise2same.risk import between, covariance, shared, small_change

BATCHES = 32
"""How many batches of patches the error is estimated on, always the same ones."""
FIRST, FIRST_WARM = 600, 200
"""Step of the first estimate, from scratch, where learning is fast and unsteady before, and of a trained network."""
PER_DOUBLING = 4
"""Estimates while the number of steps doubles."""
GAIN = 0.05
"""dB that count: for the last doubling to have been worth it, so that a run three times as long buys about 0.1."""
LOSS = 0.1
"""dB by which the last doubling must have made it worse, to end a run that is to take its time; a guess."""


class StopRule:
    """Ends training when a doubling of its steps bought less than `gain` dB of the error against the clean images.

    Twice in a row, and by the best of each doubling: while the learning rate is high, single moments are bad.

    The loss on noisy images cannot tell, as most of it is the noise; the estimate of `risk.py` can, on pixels that are
    not trained on: noise that is learned by heart looks like signal. Patches and change are drawn once: so what differs
    between two estimates is the network alone, and a wrong noise level cancels in their difference to first order.

    Parameters
    ----------
    patches : Patches
        The training images, some of whose pixels are kept out of training.
    facts : Facts
        Uses what they say of the noise.
    seed : int
        Of the patches to judge by.
    warm : bool
        Whether the network was trained before.
    gain : float
        Negative, training ends only when a doubling made it worse by as much.
    """

    def __init__(self, patches: Patches, facts: Facts, seed: int, *, warm: bool = False, gain: float = GAIN) -> None:
        self.facts, self.first, self.gain = facts, FIRST_WARM if warm else FIRST, gain
        generator = torch.Generator(patches.device).manual_seed(seed)
        self.batches = [patches.draw(generator, held=True) for _ in range(BATCHES)]
        self.variances = [facts.variance(batch.x, batch.strength) for batch in self.batches]
        self.changes = [
            small_change(variance, batch.valid, generator)
            for batch, variance in zip(self.batches, self.variances, strict=True)
        ]
        self.inputs = [
            batch.x + shared(change, variance, facts.correlation)
            for batch, change, variance in zip(self.batches, self.changes, self.variances, strict=True)
        ]
        means = [
            mean_square(variance.sqrt(), batch.valid)
            for batch, variance in zip(self.batches, self.variances, strict=True)
        ]
        self.variance = torch.stack(means).mean()
        self.errors: list[float] = []
        self.least, self.best = math.inf, dict[str, Tensor]()

    def due(self, step: int) -> bool:
        """Whether it is time for the next estimate."""
        return step >= self.first * 2 ** (len(self.errors) / PER_DOUBLING)

    def state(self) -> dict[str, Any]:
        """What a run that is stopped must remember, for `load`."""
        return {name: getattr(self, name) for name in ("errors", "least", "best")}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a `state`."""
        vars(self).update(state)

    def note(self, network: nn.Module) -> float:
        """Estimated error of a network, whose weights are remembered if they are the best so far."""
        error = self.error(network)
        if error < self.least:
            self.least, self.best = error, deepcopy(network.state_dict())
        return error

    def is_done(self, network: nn.Module) -> bool:
        """Estimate the error of a network once more; whether the last doubling of steps was not worth it."""
        self.errors.append(self.note(network))
        if len(self.errors) <= PER_DOUBLING + 1:
            return False
        return self._gained(self.errors) < self.gain and self._gained(self.errors[:-1]) < self.gain

    def _gained(self, errors: list[float]) -> float:
        """By how many dB the lowest error of the last doubling of steps is below the lowest before it."""
        return self._below(min(errors[-PER_DOUBLING:]), min(errors[:-PER_DOUBLING]))

    def _below(self, one: float, other: float) -> float:
        """By how many dB an error is below another."""
        least = 0.02 * float(self.variance)  # below which the estimate is not exact enough to divide by
        return 10 * math.log10(max(other, least) / max(one, least))

    def keep_best(self, network: nn.Module) -> None:
        """Give a network back the best weights it had, if its error is estimated to have been `GAIN` dB smaller then.

        Not for less: of weights that are as good, those are better that the learning rate has fallen to zero for.
        """
        network.to(self.variance.device)  # from which Lightning takes it at the end
        if self.best and self._below(self.least, self.error(network)) > GAIN:
            network.load_state_dict(self.best)

    @torch.no_grad()
    def error(self, network: nn.Module) -> float:
        """Mean squared error against the clean images, estimated; in normalised units."""
        was_training = network.training
        network.eval()
        squares, responses = [], []
        for batch, changed, noisy in zip(self.batches, self.inputs, self.variances, strict=True):
            f_x = network(batch.x)
            squares.append(mean_square(f_x - batch.x, batch.valid))
            variance = self.facts.variance(between(batch.x, f_x, self.facts.slope, batch.valid), batch.strength)
            responses.append((network(changed) - f_x) * variance / noisy)  # the change is as large as the noise at x
        network.train(was_training)
        dependence = covariance(torch.stack(self.changes), torch.stack(responses), self.variance)
        return float(torch.stack(squares).mean() - self.variance + 2 * dependence)
