"""Noise2Same: the paper's method."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from noise2same.config import Config
from noise2same.data.patches import Batch
from noise2same.errors import InputError
from noise2same.methods.base import METHOD_SETTINGS, Facts, Method, channel_sums, mean_square
from noise2same.methods.masking import fill_of, stratified, surroundings, widened
from noise2same.noise.diagnose import MODELS
from noise2same.noise.sure import block_sums, covariance, mean_positive_covariance, midpoint_variance, perturb

MOST = 0.97
"""Share of the noise in how far pixels are from what their neighbours tell, at most: those never tell all."""
USUAL = 0.25
"""Share of all blocks' ratio of deviations to noise in that of one, which is of few pixels."""


class Noise2Same(Method):
    r"""Noise2Same (Xie et al. 2020, eq. 6): a self-supervised upper bound of the supervised loss.

    .. math:: \|f(x)-x\|^2/m + \lambda_{inv}\,\big(\|f(x)_J-f(x_{J^c})_J\|^2/|J|\big)^{1/2}

    The first term reconstructs the noisy image x; the second keeps f from copying it, by making f(x) on the masked
    pixels J depend little on x there. Gradients flow through both passes.

    :math:`\lambda_{inv}` is 2 by Theorem 1 for images of unit variance, and :math:`2\sigma` by Theorem 2 for noise of
    standard deviation :math:`\sigma`. "auto" is Theorem 2 with the noise level told or estimated, but at most 2. Each
    channel has its own :math:`\sigma`, and the bound is the mean of theirs. Photon noise is stronger where the image is
    brighter, and there :math:`\sigma` is larger: the proof holds for each block. So it is for images that have stronger
    noise than the others.

    The second term bounds twice the covariance of output and noise in equation 1. Where the noise is known, or the
    images show it clearly, that covariance is computed instead from the same two passes (`risk.py`): the loss then is
    the error itself but for a constant.

    Where only the level of the noise is known, the second term is not that of equation 6 by default
    (``invariance="whole"``), but the covariance of what follows the new in a pixel, :math:`s = x_J - f(x_{J^c})_J`
    (`along`): most of what masking changes in an output has nothing to do with the pixel's noise, and need not be paid
    for. Noise that neighbouring pixels share is masked, or changed, together.

    Parameters
    ----------
    config : Config
        Uses `noise_model`, `gain`, `lambda_inv`, `invariance`, `fill`, `mask_density`, `separate_passes`, `structure`.
    facts : Facts
        Uses what they say of the noise.
    """

    when = "the default: no clean images, no pairs, no noise model"
    settings = frozenset(METHOD_SETTINGS) - {"alpha"}
    noise_models = ("auto", "none", *MODELS)

    def __init__(self, config: Config, facts: Facts) -> None:
        super().__init__(config, facts)
        check_told(config)
        model = config.noise_model
        own = self.settings - {"sigma", "gain"}
        plain = all(getattr(config, name) == Config.model_fields[name].default for name in own)
        self.knows = model in MODELS or (model == "auto" and plain and facts.usable)
        """Whether the covariance is computed from level and kind of the noise, and not bounded."""
        self.full_precision = self.knows
        auto = config.lambda_inv == "auto"
        alike = facts.kind not in ("impulse", "unknown")  # to what the starter has seen
        self.adapts = self.knows or (auto and config.invariance == "along" and alike)
        weights = [min(max(2 * sigma, 1e-3), 2.0) for sigma in facts.sigma] if auto else [float(config.lambda_inv)]
        self.lambda_inv = tuple(weights)
        """Of each channel, or one for all."""
        self.bound = replace(facts, sigma=tuple(w / 2 for w in weights), slope=facts.slope if auto else (0.0,))
        self.extent = tuple(map(len, facts.correlation)) if config.structure == "auto" else config.structure
        if self.extent and len(self.extent) != facts.dims:
            raise InputError(f"structure={self.extent}: it should be {facts.dims} numbers, for {'ZYX'[-facts.dims :]}.")
        self.fill = fill_of(config.fill or "donut", config.fill_sigma)
        self.density = config.mask_density

    def __str__(self) -> str:
        told, shared = self.config.noise_model, ""
        if any(self.extent):
            shared = f", shared over {' × '.join(str(reach + 1) for reach in self.extent)} pixels"
        if self.knows:
            kind, how = (self.facts.kind, "as the images show") if told == "auto" else (told, "as told")
            return f"; {kind} noise{shared}, {how}"
        unfit = told == "auto" and not self.facts.usable and self.facts.kind != "gaussian"
        why = f" for noise that looks {self.facts.kind}" if unfit else ""
        return f"; no noise model{why}{shared}"

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Terms of a batch of shape (B, C, [Z,] Y, X): "reconstruction", and "covariance" or "invariance".

        Along the pixels' own deviation there is "masked" too, Noise2Self's loss (eq. 3).
        """
        if self.knows:
            return self._of_responses(network, batch, generator)
        return (self._bounded if self.config.invariance == "whole" else self._along)(network, batch, generator)

    def _bounded(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Equation 6: with one λ_inv for all channels as it stands, with one for each as the mean of their bounds."""
        x = batch.x
        j, _, masked = self._masked(x, generator)
        if batch.valid is not None:
            j &= batch.valid
        f_x, f_masked = self._passes(network, torch.cat([x, masked])).chunk(2)
        variance = self._variance(f_x, batch.strength)
        sums = channel_sums if len(self.lambda_inv) > 1 else torch.sum
        squares, variances, count = (sums(v * j) for v in ((f_x - f_masked).square(), variance, torch.ones_like(x)))
        bound = (root(squares * variances / count.clamp(min=1).square()) * count).sum() / count.sum().clamp(min=1)
        return {"reconstruction": mean_square(f_x - x, batch.valid), "invariance": 2 * bound}

    def _along(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """What follows the masked pixels, by how much of their deviation is noise.

        Both passes are masked, each with a J of its own: on the J of one, the other is f(x), so that two passes serve
        twice as many pixels. The masked pixels are predicted too, which shows the network what others tell of them;
        without it, strong noise is learned slowly.
        """
        size, x = len(batch.x), torch.cat([batch.x] * 2)
        valid, strength = (None if part is None else torch.cat([part] * 2) for part in (batch.valid, batch.strength))
        j, hidden, masked = self._masked(x, generator)
        blind = self._passes(network, masked)
        seen, known = blind.roll(size, 0), ~hidden
        j = j & ~(widened(hidden, self.extent) if any(self.extent) else hidden).roll(size, 0)
        if valid is not None:
            j, known = j & valid, known & valid
        variance = self._variance((blind + seen) / 2, strength)
        return {
            "reconstruction": mean_square(blind - x, known),
            "invariance": 2 * along(x - blind, seen - blind, variance, j),
            "masked": mean_square(blind - x, j),
        }

    def _masked(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """J, what is masked for it (more, if pixels share noise), and x without that."""
        if not any(self.extent):
            j = stratified(x.shape, self.density, generator)
            return j, j, self.fill(x, j, generator)
        j = stratified(x.shape, min(self.density, 0.2 / math.prod(2 * e + 1 for e in self.extent)), generator)
        hidden = widened(j, self.extent)
        return j, hidden, surroundings(x, hidden, self.extent)

    def _passes(self, network: nn.Module, both: Tensor) -> Tensor:
        """Outputs for two batches in one tensor."""
        if self.config.separate_passes:
            return torch.cat([network(one) for one in both.chunk(2)])
        output: Tensor = network(both)
        return output

    def _variance(self, output: Tensor, strength: Tensor | None) -> Tensor:
        """Variance of the noise around an output, or what a given λ_inv says of it."""
        return self.bound.variance(output.detach(), strength if self.config.lambda_inv == "auto" else None)

    def _of_responses(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """The covariance of output and noise of a known kind and level, by Stein's identity (`noise.sure`)."""
        x, f_x = batch.x, network(batch.x)
        variance = midpoint_variance(self.facts.noise, x, f_x.detach(), batch.strength)
        correlation = self.facts.correlation if any(self.extent) else ()
        change, perturbation = perturb(variance, correlation, batch.valid, generator)
        term = mean_positive_covariance(covariance(change, network(x + perturbation) - f_x), batch.valid)
        return {"reconstruction": mean_square(f_x - x, batch.valid), "covariance": 2 * term}


def check_told(config: Config) -> None:
    """Raise InputError if what the user says of the noise does not fit together."""
    model, gain, sigma = config.noise_model, config.gain, config.sigma
    if gain is not None and model not in ("poisson", "poisson-gaussian"):
        raise InputError(f"gain belongs to noise_model=poisson or poisson-gaussian, not to {model}.")
    if model == "poisson" and sigma is not None:
        raise InputError("Poisson noise has no sigma but a gain: use noise_model=poisson-gaussian, or leave it out.")
    if model == "poisson-gaussian" and (gain is None) != (sigma is None):
        raise InputError("noise_model=poisson-gaussian takes both gain and sigma, or neither.")
    if model in MODELS and config.structure != "auto" and any(config.structure):
        raise InputError("A noise model takes the correlation that the images show: leave out structure, or the model.")


def along(deviation: Tensor, response: Tensor, variance: Tensor, j: Tensor) -> Tensor:
    r"""Covariance of output and noise, if the output follows what is new in a pixel linearly.

    .. math:: \langle d, s\rangle\,\sigma^2 / E s^2

    in each block, where equation 6 has :math:`\sigma\,\|d\|` over all of the batch. :math:`E s^2` is taken where the
    other half of the batch is masked, and for a part (`USUAL`) over all blocks of the channel: of the same pixels, a
    block would be forgiving just where one of them stands out, and a network would learn to keep what stands out. Noise
    is taken to be at most `MOST` of all deviations of a channel together.

    Parameters
    ----------
    deviation, response : Tensor, (2 B, C, [Z,] Y, X)
        Of pixels from what is predicted without them, s, and what they change in the output, d. The second half of the
        batch has the same patches as the first, masked elsewhere.
    variance : Tensor, as `deviation`
        Of the noise.
    j : Tensor of bool, as `deviation`
        Where they are known.
    """
    squares, products, variances = (
        block_sums(values * j) for values in (deviation.square(), deviation * response, variance)
    )
    with torch.no_grad():

        def sums(values: Tensor) -> Tensor:
            return channel_sums(values).reshape(-1, *[1] * (values.ndim - 2))

        usual = sums(squares) / sums(variances).clamp(min=1e-12)
        elsewhere = torch.lerp(squares.roll(len(squares) // 2, 0), usual * variances, USUAL)
        noise = torch.minimum(sums(variances), MOST * sums(squares))
        weights = variances / elsewhere.clamp(min=1e-12)
        weights *= noise / sums(weights * squares).clamp(min=1e-12)  # the mean of a ratio is not that of its parts
    return (weights * products).sum() / j.sum().clamp(min=1)


def root(value: Tensor) -> Tensor:
    """Square root whose gradient stays finite at zero."""
    return (value + 1e-12).sqrt()
