"""Noise2Same: the paper's method."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from noise2same.config import Config
from noise2same.errors import InputError
from noise2same.masking import fill_of, stratified, surroundings, widened
from noise2same.methods.method import METHOD_SETTINGS, Facts, Method, mean_square
from noise2same.noise.diagnose import MODELS
from noise2same.noise.simulate import draw
from noise2same.patches import Batch
from noise2same.risk import block_sums, covariance, covariance_of_draws, shared, small_change


class Noise2Same(Method):
    r"""Noise2Same (Xie et al. 2020, eq. 6): a self-supervised upper bound of the supervised loss.

    .. math:: \|f(x)-x\|^2/m + \lambda_{inv}\,\big(\|f(x)_J-f(x_{J^c})_J\|^2/|J|\big)^{1/2}

    The first term reconstructs the noisy image x; the second keeps f from copying it, by making f(x) on the masked
    pixels J depend little on x there. Gradients flow through both passes.

    Where the root is taken matters. One root over all of the batch (the appendix's inequality 16) gives every pixel the
    same shrinkage towards x, though flat areas want none and texture wants much. Inequality 15 has a root for each
    pixel, which one sample cannot estimate. Roots over small blocks lie between the two, so that the loss is still a
    bound, and a tighter one, which measures better (`benchmarks/presets.md`).

    :math:`\lambda_{inv}` is 2 by Theorem 1 for images of unit variance, and :math:`2\sigma` by Theorem 2 for noise of
    standard deviation :math:`\sigma`. "auto" is Theorem 2 with the noise level told or estimated, but at most 2. Photon
    noise is stronger where the image is brighter, and there :math:`\sigma` is larger: the proof holds for each block.
    So it is for images that have stronger noise than the others.

    The second term bounds twice the covariance of output and noise in equation 1. Where the noise is known, or the
    images show it clearly, that covariance is computed instead from the same two passes (`risk.py`): the loss then is
    the error itself but for a constant. Noise that neighbouring pixels share is masked, or
    changed, together.

    Parameters
    ----------
    config : Config
        Uses `noise_model`, `gain`, `lambda_inv`, `root`, `fill`, `mask_density`, `separate_passes` and `structure`.
    facts : Facts
        Uses what they say of the noise.
    """

    when = "the default: no clean images, no pairs, no noise model"
    settings = frozenset(METHOD_SETTINGS) - {"alpha"}
    noise_models = ("auto", "none", *MODELS, "simulated")

    def __init__(self, config: Config, facts: Facts) -> None:
        super().__init__(config, facts)
        check_told(config)
        model = config.noise_model
        own = self.settings - {"sigma", "gain"}
        plain = all(getattr(config, name) == Config.model_fields[name].default for name in own)
        # the bound was better in trials with volumes, and by far with photon noise that pixels share
        helps = facts.usable and (not facts.slope if any(facts.correlation) else facts.dims == 2)
        self.knows = model in MODELS or (model == "auto" and plain and helps)
        """Whether the covariance is computed from level and kind of the noise, and not bounded."""
        self.adapts = self.knows
        auto = config.lambda_inv == "auto"
        self.lambda_inv = min(max(2 * facts.sigma, 1e-3), 2.0) if auto else float(config.lambda_inv)
        self.bound = replace(facts, sigma=self.lambda_inv / 2, slope=facts.slope if auto else 0.0)
        self.extent = tuple(map(len, facts.correlation)) if config.structure == "auto" else config.structure
        if self.extent and len(self.extent) != facts.dims:
            raise InputError(f"structure={self.extent}: it should be {facts.dims} numbers, for {'ZYX'[-facts.dims :]}.")
        self.fill = fill_of(config.fill or "donut", config.fill_sigma)
        self.density = config.mask_density

    def __str__(self) -> str:
        told, shared = self.config.noise_model, ""
        if any(self.extent):
            shared = f", shared over {' × '.join(str(reach + 1) for reach in self.extent)} pixels"
        if self.facts.simulator is not None:
            return "; noise as the noise model simulates it"
        if self.knows:
            kind, how = (self.facts.kind, "as the images show") if told == "auto" else (told, "as told")
            return f"; {kind} noise{shared}, {how}"
        why = f" for noise that looks {self.facts.kind}" if told == "auto" and not self.facts.usable else ""
        return f"; no noise model{why}{shared}"

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Terms of a batch of shape (B, C, [Z,] Y, X): "reconstruction", and "invariance" (the root times λ_inv).

        With a noise model, "covariance" takes the place of "invariance".
        """
        name, second = "covariance", self._of_responses if self.knows else self._of_draws
        if not self.knows and self.facts.simulator is None:
            name, second = "invariance", self._bounded
        f_x, term = second(network, batch, generator)
        return {"reconstruction": mean_square(f_x - batch.x, batch.valid), name: 2 * term}

    def _bounded(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Output for x, and the bound of its covariance with the noise, which needs no noise model (eq. 6)."""
        x = batch.x
        if any(self.extent):  # fewer pixels, each masked with those that share its noise
            j = stratified(x.shape, min(self.density, 0.2 / math.prod(2 * e + 1 for e in self.extent)), generator)
            masked = surroundings(x, widened(j, self.extent), self.extent)
        else:
            j = stratified(x.shape, self.density, generator)
            masked = self.fill(x, j, generator)
        if batch.valid is not None:
            j &= batch.valid
        if self.config.separate_passes:
            f_x, f_masked = network(x), network(masked)
        else:
            f_x, f_masked = network(torch.cat([x, masked])).chunk(2)
        variance = self.bound.variance(f_x.detach(), batch.strength if self.config.lambda_inv == "auto" else None)
        return f_x, covariance_bound(f_x - f_masked, variance, j, local=self.config.root == "local")

    def _of_responses(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Output for x, and its covariance with noise of a known level by Stein's identity (`risk.py`).

        The variance of photon noise is taken half-way between the noisy and the denoised image. What pays where the
        variance is overestimated, to move against the noise, does not pay: the best output never does.
        """
        x, f_x = batch.x, network(batch.x)
        variance = self.facts.variance((x + f_x.detach()) / 2, batch.strength)
        change = small_change(variance, batch.valid, generator)
        correlation = self.facts.correlation if any(self.extent) else ()
        response = network(x + shared(change, variance, correlation)) - f_x
        return f_x, covariance(change, response, variance.mean(), positive=True)

    def _of_draws(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Output for x, and its covariance with noise drawn anew around it (`risk.py`).

        Twice: the noise that is there already is in the output too, so that a new draw around it differs from the old
        one by less than two draws do.
        """
        assert self.facts.simulator is not None
        x, scale = batch.x, self.facts.normalization
        f_x = network(x)
        known = f_x.detach().clamp(self.facts.low, self.facts.high)  # photons are never fewer than none
        clean = scale.undo(known.cpu().numpy(), np.dtype(np.float32))
        j = stratified(x.shape, self.density, generator)
        if batch.valid is not None:
            j &= batch.valid
        noisy = [torch.from_numpy(scale.apply(draw(self.facts.simulator, clean))).to(x.device) for _ in range(2)]
        one, other = (torch.where(j, values, x) for values in noisy)
        f_one, f_other = network(torch.cat([one, other])).chunk(2)
        return f_x, covariance_of_draws(one, f_one, other, f_other, j)


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


def covariance_bound(change: Tensor, variance: Tensor, where: Tensor, *, local: bool) -> Tensor:
    """Bound, per pixel, of the covariance of noise of a variance with an output that changes: Cauchy and Schwarz'.

    Over the pixels `where` is true, of all of the batch or of the block, channel and patch around each. A block has a
    dozen of J: the mean of the root of n squares is by 1/(4n) too small, which smaller blocks would feel.
    """
    squares, variances, count = change.square() * where, variance * where, where.to(change.dtype)
    if not local:
        return root(squares.sum() * variances.sum()) / count.sum().clamp(min=1)
    return root(block_sums(squares) * block_sums(variances)).sum() / count.sum().clamp(min=1)


def root(value: Tensor) -> Tensor:
    """Square root whose gradient stays finite at zero."""
    return (value + 1e-12).sqrt()
