"""The projected invariance term: only the part of a change that follows the masked pixels' deviation is penalized."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from noise2same import ranks
from noise2same.data.patches import Batch
from noise2same.methods.base import Architecture, DataProfile, Method, Settings, channel_sums, mean_square
from noise2same.methods.masking import FillOption, draw_mask, fill_of, widened
from noise2same.noise.sure import block_sums

MAX_NOISE_SHARE = 0.97
"""Largest share of noise in the deviation of pixels from their prediction, which never has all of the signal."""
POOLED_SHARE = 0.25
"""Weight of the whole channel's ratio of deviation to noise in that of one block, which has few pixels."""


class ProjectedSettings(Settings):
    """Settings of `projected`."""

    fill: FillOption = "donut"
    mask_density: Annotated[
        float, Field(gt=0, le=0.5, description="Fraction of the pixels of a patch that are masked.")
    ] = 0.1


class Projected(Method):
    r"""Noise2Same with a projected invariance term.

    .. math:: \|f(x)-x\|^2/m
        + \frac{2}{|J|}\,\Big\langle f(x)_J - f(x_{J^c})_J,\; s\,\sigma^2 / E s^2\Big\rangle
        + \|f(x_{J^c})_J - x_J\|^2/|J|, \qquad s = x_J - f(x_{J^c})_J

    Equation 6 of the paper penalizes the whole difference :math:`d = f(x)_J - f(x_{J^c})_J`. Most of it has nothing to
    do with the noise of the masked pixels. Here only the component of d along s counts, the deviation of the masked
    pixels from their prediction: it estimates twice the covariance of output and noise, if the output follows s
    linearly. The last term is Noise2Self's loss (eq. 3): the network learns to predict a pixel from its neighbors.

    It needs the level of the noise, but not its kind. It is an estimate, no upper bound.
    """

    name = "projected"
    when = "the noise is not Gaussian, or its level is uncertain; auto takes it then"
    uses = frozenset({"sigma", "gain", "noise_extent"})
    passes = 2
    Settings = ProjectedSettings

    def __init__(self, settings: Any, profile: DataProfile, architecture: Architecture | None = None) -> None:
        super().__init__(settings, profile, architecture)
        self.fill = fill_of(settings.fill)

    def __call__(self, network: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Terms "reconstruction", "invariance" and "masked" of a batch of shape (B, C, [Z,] Y, X).

        Both passes are masked, each with a J of its own. On the J of one, the other is f(x): so two passes serve twice
        as many pixels.
        """
        size, x, extent = len(batch.x), torch.cat([batch.x] * 2), self.profile.noise_extent
        valid, strength = (None if part is None else torch.cat([part] * 2) for part in (batch.valid, batch.strength))
        j, hidden, masked = draw_mask(x, self.settings.mask_density, extent, self.fill, generator)
        blind = network(masked)
        seen, known = blind.roll(size, 0), ~hidden
        j = j & ~(widened(hidden, extent) if any(extent) else hidden).roll(size, 0)
        if valid is not None:
            j, known = j & valid, known & valid
        variance = self.profile.noise.variance((blind + seen).detach() / 2, strength)
        return {
            "reconstruction": mean_square(blind - x, known),
            "invariance": 2 * projected_covariance(x - blind, seen - blind, variance, j),
            "masked": mean_square(blind - x, j),
        }


def projected_covariance(deviation: Tensor, response: Tensor, variance: Tensor, j: Tensor) -> Tensor:
    r"""Covariance of output and noise, if the output follows the deviation of a pixel linearly.

    .. math:: \langle d, s\rangle\,\sigma^2 / E s^2

    in each block of pixels. :math:`E s^2` is taken where the other half of the batch is masked, and for a part
    (`POOLED_SHARE`) over the whole channel. Taken on the same pixels, it would be lenient just where one of them stands
    out, and a network would learn to keep what stands out.

    Parameters
    ----------
    deviation, response : Tensor, (2 B, C, [Z,] Y, X)
        Deviation of pixels from what is predicted without them, s, and what they change in the output, d. The second
        half of the batch has the same patches as the first, masked elsewhere.
    variance : Tensor, as `deviation`
        Variance of the noise.
    j : Tensor of bool, as `deviation`
        Where they are known.

    Returns
    -------
    Tensor, ()
        Mean over the pixels in J, of all processes, as every sum over a channel is.
    """
    squares, products, variances = (
        block_sums(values * j) for values in (deviation.square(), deviation * response, variance)
    )
    with torch.no_grad():

        def sums(values: Tensor) -> Tensor:
            return ranks.total(channel_sums(values)).reshape(-1, *[1] * (values.ndim - 2))

        pooled = sums(squares) / sums(variances).clamp(min=1e-12)
        elsewhere = torch.lerp(squares.roll(len(squares) // 2, 0), pooled * variances, POOLED_SHARE)
        noise = torch.minimum(sums(variances), MAX_NOISE_SHARE * sums(squares))
        weights = variances / elsewhere.clamp(min=1e-12)
        weights *= noise / sums(weights * squares).clamp(min=1e-12)  # the mean of a ratio is not that of its parts
    return ranks.ratio((weights * products).sum(), j.sum())
