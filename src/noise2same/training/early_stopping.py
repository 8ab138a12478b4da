"""When training is done: an estimate of the error against the unknown clean images, and what the last steps bought."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from noise2same.data.patches import Patches
from noise2same.methods.base import Facts, channel_sums
from noise2same.noise.sure import covariance, midpoint_variance, perturb

BATCHES = 32
"""How many batches of patches the error is estimated on, always the same ones."""
FIRST, FIRST_WARM = 600, 200
"""Step of the first estimate, from scratch, where learning is fast and unsteady before, and of a trained network."""
PER_DOUBLING = 4
"""Estimates while the number of steps doubles."""
GAIN = 0.05
"""dB that count: for the last doubling to have been worth it, so that a run three times as long buys about 0.1."""
UNDERESTIMATED = 0.2
"""Share by which the noise's variance may be larger than estimated, before an output counts as having lost signal.

Set by reasoning, not measured: 95 of 100 estimates of the level at σ = 5 are within 10 % (`benchmarks/level.md`), which
is 20 % of the variance. A blend with a weight that is up to twice the best one is still no worse than the input.
"""
LOOKED_AT = 2**21
"""Pixels of the images that are denoised to see how much is taken away: seconds on a CPU."""
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
        self.patches, self.facts, self.first, self.gain = patches, facts, FIRST_WARM if warm else FIRST, gain
        self.trusted = not facts.correlation and facts.kind not in ("impulse", "unknown") and patches.strengths is None
        generator = torch.Generator(patches.device).manual_seed(seed)
        self.batches = [patches.draw(generator, held=True) for _ in range(BATCHES)]
        self.variances = [facts.variance(batch.x, batch.strength) for batch in self.batches]
        drawn = [
            perturb(variance, facts.correlation, batch.valid, generator)
            for batch, variance in zip(self.batches, self.variances, strict=True)
        ]
        self.changes = [change for change, _ in drawn]
        self.inputs = [batch.x + added for batch, (_, added) in zip(self.batches, drawn, strict=True)]
        self.variance = self._mean(self.variances)
        self.errors: list[float] = []
        self.least, self.best, self.unchanged = math.inf, dict[str, Tensor](), False

    def due(self, step: int) -> bool:
        """Whether it is time for the next estimate."""
        return step >= self.first * 2 ** (len(self.errors) / PER_DOUBLING)

    def state(self) -> dict[str, Any]:
        """What a run that is stopped must remember, for `load`."""
        return {name: getattr(self, name) for name in ("errors", "least", "best", "unchanged")}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a `state`."""
        vars(self).update(state)

    def note(self, network: nn.Module, *, begins: bool = False) -> float:
        """Estimated error of a network, whose weights are remembered if they are the best so far.

        `begins` says that it has not been trained in this run yet.
        """
        error = self.error(network)
        if error < self.least:
            self.least, self.best = error, deepcopy(network.state_dict())
            self.unchanged = begins
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
        least = 0.02 * float(self.variance.mean())  # below which the estimate is not exact enough to divide by
        return 10 * math.log10(max(other, least) / max(one, least))

    def keep_best(self, network: nn.Module) -> bool:
        """Give a network back the best weights it had, if its error is estimated to have been `GAIN` dB smaller then.

        Not for less: of weights that are as good, those are better that the learning rate has fallen to zero for.
        Returns whether they are the weights from before the training.
        """
        network.to(self.variance.device)  # from which Lightning takes it at the end
        if not self.best or self._below(self.least, self.error(network)) <= GAIN:
            return False
        network.load_state_dict(self.best)
        return self.unchanged

    def error(self, network: nn.Module) -> float:
        """Mean squared error against the clean images, estimated; in normalised units."""
        residual, covariance = self._parts(network)
        return float((residual - self.variance + 2 * covariance).mean())

    def blend(self, network: nn.Module) -> tuple[float, ...] | None:
        r"""Weight of each channel's output in the blend :math:`x + w\,(f(x) - x)` that has the least estimated risk.

        .. math:: E\|x + w(f-x) - y\|^2 = \sigma^2 - 2w\,(\sigma^2 - Cov(f, x)) + w^2\,E\|f-x\|^2

        is least at :math:`w = (\sigma^2 - Cov(f, x)) / E\|f-x\|^2`: 1 for the best of all outputs, and less for one
        that took away more than the noise. It errs towards the output: the variance may be `UNDERESTIMATED`. The
        covariance is that of the held-out pixels. What was taken away is looked at in all of the images, because a few
        bright places may have most of it. None where estimates of the risk do not hold: for noise of another kind, or
        that pixels share, or that is stronger in some images, which would need a weight each.
        """
        if not self.trusted:
            return None
        _, covariance = self._parts(network)
        squares, variances = torch.zeros_like(self.variance), torch.zeros_like(self.variance)
        for x, valid in self.patches.tiles(LOOKED_AT):
            squares += channel_sums((predicted(network, x) - x).square() * valid)
            variances += channel_sums(self.facts.variance(x) * valid)
        share = covariance / self.variance.clamp(min=1e-12)
        removable = variances * (1 + UNDERESTIMATED - share)
        return tuple((removable / squares.clamp(min=1e-12)).clamp(0, 1).tolist())

    def _parts(self, network: nn.Module) -> tuple[Tensor, Tensor]:
        """Mean square of f(x) − x, and covariance of f(x) and the noise, of each channel: (C,)."""
        squares, covariances = [], []
        for batch, changed, change, at_x in zip(self.batches, self.inputs, self.changes, self.variances, strict=True):
            f_x = predicted(network, batch.x)
            squares.append((f_x - batch.x).square())
            variance = midpoint_variance(self.facts.noise, batch.x, f_x, batch.strength)
            response = predicted(network, changed) - f_x
            covariances.append(covariance(change, response) * variance / at_x)  # the change is that of the noise at x
        return self._mean(squares), self._mean(covariances)

    def _mean(self, values: list[Tensor]) -> Tensor:
        """Of each channel over the pixels that count: (C,)."""
        counted = [torch.ones_like(batch.x) if batch.valid is None else batch.valid for batch in self.batches]
        sums = channel_sums(torch.cat([value * where for value, where in zip(values, counted, strict=True)]))
        return sums / channel_sums(torch.cat(counted)).clamp(min=1)


@torch.no_grad()
def predicted(network: nn.Module, x: Tensor) -> Tensor:
    """What a network predicts, whether it is being trained or not."""
    was_training = network.training
    network.eval()
    try:
        output: Tensor = network(x)
    finally:
        network.train(was_training)
    return output
