"""The error of a network on held-out pixels: by SURE, or against the targets of a supervised method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from noise2same.data.patches import Batch, Patches
from noise2same.methods.base import channel_sums
from noise2same.noise.model import NoiseModel
from noise2same.noise.sure import covariance, midpoint_variance, perturb

N_BATCHES = 32
"""Batches of patches that an error is estimated on, always the same ones."""
RESOLUTION = 0.02
"""Share of the noise's variance below which an estimated error is not exact enough to be compared; not measured."""


class HeldOut(Protocol):
    """The error of a network on pixels that it is not trained on.

    Patches are drawn when the first error is asked for, on the device that the images are on by then.
    """

    @property
    def resolution(self) -> float:
        """Errors below it cannot be compared; in squared normalized units."""

    def error(self, network: nn.Module) -> float:
        """Mean squared error of a network against the clean images, in squared normalized units."""


def held_out_error(
    patches: Patches, noise: NoiseModel, seed: int, supervised: bool, *, noisy_target: bool = False
) -> HeldOut | None:
    """The way to measure the error on held-out pixels, or None where there is none.

    Parameters
    ----------
    patches : Patches
        The training images, with targets for a supervised method.
    noise : NoiseModel
        In normalized units.
    seed : int
        Of the patches to measure on.
    supervised : bool
        Whether the method learns from targets. Otherwise the error is estimated by SURE, if that holds for the noise.
    noisy_target : bool
        Whether the targets have noise too, as strong as that of the images.
    """
    if supervised:
        return HeldOutTarget(patches, seed, noise if noisy_target else None)
    return HeldOutSure(patches, noise, seed) if noise.sure_holds else None


class HeldOutSure:
    """The error by Stein's unbiased risk estimate (`noise.sure`).

    A loss on noisy images cannot show it, because most of it is the noise. Held-out pixels are needed because noise
    that a network has overfitted looks like signal. Patches and perturbation are drawn once, so that what differs
    between two estimates is the network alone, and a wrong noise level cancels in their difference to first order.

    Parameters
    ----------
    patches : Patches
        The training images. Without held-out pixels, all are used.
    noise : NoiseModel
        In normalized units; SURE must hold for it.
    seed : int
        Of the patches and the perturbation.
    """

    def __init__(self, patches: Patches, noise: NoiseModel, seed: int) -> None:
        self.patches, self.noise, self._seed = patches, noise, seed

    @property
    def resolution(self) -> float:
        return RESOLUTION * float(self._variance.mean())

    def error(self, network: nn.Module) -> float:
        residual, covariance = self._parts(network)
        return float((residual - self._variance + 2 * covariance).mean())

    @cached_property
    def _drawn(self) -> tuple[list[Batch], list[Tensor], list[Tensor], list[Tensor]]:
        """Batches, the noise's variance in them, the change of each pixel, and the perturbed patches."""
        generator = torch.Generator(self.patches.device).manual_seed(self._seed)
        batches = [self.patches.draw(generator, held=True) for _ in range(N_BATCHES)]
        variances = [self.noise.variance(batch.x, batch.strength) for batch in batches]
        perturbed = [
            perturb(variance, self.noise.correlation, batch.valid, generator)
            for batch, variance in zip(batches, variances, strict=True)
        ]
        changes = [change for change, _ in perturbed]
        return batches, variances, changes, [b.x + added for b, (_, added) in zip(batches, perturbed, strict=True)]

    @cached_property
    def _variance(self) -> Tensor:
        """Mean variance of the noise in each channel: (C,)."""
        batches, variances, _, _ = self._drawn
        return channel_means(variances, batches)

    def _parts(self, network: nn.Module) -> tuple[Tensor, Tensor]:
        """Mean square of f(x) − x, and covariance of f(x) and the noise, of each channel: (C,)."""
        squares, covariances = [], []
        for batch, at_x, change, perturbed in zip(*self._drawn, strict=True):
            f_x = predicted(network, batch, batch.x)
            squares.append((f_x - batch.x).square())
            variance = midpoint_variance(self.noise, batch.x, f_x, batch.strength)
            response = predicted(network, batch, perturbed) - f_x
            covariances.append(covariance(change, response) * variance / at_x)  # the change is that of the noise at x
        return channel_means(squares, self._drawn[0]), channel_means(covariances, self._drawn[0])


class HeldOutTarget:
    """The error against the targets of a supervised method, on pixels that it is not trained on.

    Parameters
    ----------
    patches : Patches
        The training images and their targets. Without held-out pixels, all are used.
    seed : int
        Of the patches.
    target_noise : NoiseModel, optional
        Noise of the targets, in normalized units, where they are not clean: its variance is no error of the network.
    """

    def __init__(self, patches: Patches, seed: int, target_noise: NoiseModel | None = None) -> None:
        self.patches, self._seed, self._noise = patches, seed, target_noise

    @property
    def resolution(self) -> float:
        return RESOLUTION * float(self._offset.mean()) if self._noise is not None else 1e-12

    def error(self, network: nn.Module) -> float:
        batches = self._batches
        squares = [(predicted(network, batch, batch.x) - target_of(batch)).square() for batch in batches]
        return float((channel_means(squares, batches) - self._offset).mean())

    @cached_property
    def _batches(self) -> list[Batch]:
        generator = torch.Generator(self.patches.device).manual_seed(self._seed)
        return [self.patches.draw(generator, held=True) for _ in range(N_BATCHES)]

    @cached_property
    def _offset(self) -> Tensor:
        """Mean variance of the targets' noise in each channel: (C,)."""
        targets = [target_of(batch) for batch in self._batches]
        if self._noise is None:
            return torch.zeros(targets[0].shape[1], device=targets[0].device)
        variances = [self._noise.variance(y, b.strength) for y, b in zip(targets, self._batches, strict=True)]
        return channel_means(variances, self._batches)


def target_of(batch: Batch) -> Tensor:
    """The target of a batch that has one."""
    assert batch.target is not None, "a supervised method is given targets"
    return batch.target


def channel_means(values: Sequence[Tensor], batches: Sequence[Batch]) -> Tensor:
    """Mean of each channel over the valid pixels of all batches: (C,)."""
    counted = [torch.ones_like(batch.x) if batch.valid is None else batch.valid for batch in batches]
    sums = channel_sums(torch.cat([value * where for value, where in zip(values, counted, strict=True)]))
    return sums / channel_sums(torch.cat(counted)).clamp(min=1)


@torch.no_grad()
def predicted(network: nn.Module, batch: Batch, x: Tensor) -> Tensor:
    """What a network predicts for a batch, or for `x` in its place, whether it is being trained or not."""
    was_training = network.training
    network.eval()
    try:
        output: Tensor = batch.bind(network)(x)
    finally:
        network.train(was_training)
    return output
