"""How a denoiser keeps to the paper's theory: D(f), the bounds of Theorems 1 and 2, and the terms of eq. 1.

A denoiser f is any function of a float32 tensor (B, C, [Z,] Y, X) to one of the same shape, such as a network in
evaluation mode. Expectations are Monte-Carlo means per pixel, repeatable by seed. (Xie et al.: Noise2Same, 2020.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from noise2same import io
from noise2same.data import axes as ax
from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.denoiser import Denoiser
from noise2same.device import lay_out, pick
from noise2same.errors import InputError
from noise2same.methods import masking

Function = Callable[[Tensor], Tensor]
Noise = Callable[[Tensor, torch.Generator], Tensor]
"""(y, generator) -> x: the noisy image of a clean one, drawn anew at each call, with E[x|y] = y."""
DENSITY, MASKED_PIXELS = 1e-4, 256
"""Of D(f): expected fraction of pixels in J, and expected number of pixels that it is averaged over by default."""
CROP_SIZE, MAX_CROPS = {2: (512, 512), 3: (32, 128, 128)}, 64
"""D(f) of a larger image is measured on crops ([Z,] Y, X): their size, and at most so many."""
VALUES_AT_ONCE = 2**18
"""Values that go through f at once, to bound the memory: a U-Net holds some hundred times as much."""


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo mean, its standard error, and over how many values: draws of noise, or masked pixels for D(f)."""

    value: float
    error: float
    count: int


@dataclass(frozen=True)
class Bound:
    """Both sides of Theorem 1 or 2 per pixel, and the 95 % confidence interval of right − left."""

    left: Estimate
    right: Estimate
    interval: tuple[float, float]

    @property
    def holds(self) -> bool:
        """False if all of the interval lies below 0, which chance alone brings about in 2.5 % of equal sides."""
        return self.interval[1] >= 0


@torch.inference_mode()
def invariance(
    f: Function, x: Tensor, *, density: float = DENSITY, sigma: float = 0.5, draws: int | None = None, seed: int = 0
) -> Estimate:
    r"""How far f is from J-invariant (eq. 5): 0 if no output pixel depends on the input pixel in its place.

    .. math:: D(f) = E_J E_x \|f(x_{J^c})_J - f(x)_J\|^2 / |J|

    The standard error is over J and the values put there, for these x. It takes the pixels of J as independent: they
    are far apart, and that they are spread evenly only makes the true error smaller.

    Parameters
    ----------
    x : Tensor, (B, C, [Z,] Y, X)
        Noisy images in normalised units.
    density, sigma : float
        Fraction of pixels in the stratified J, and standard deviation of the Gaussian put there; both are the paper's.
    draws : int, optional
        Sets J for each image; by default as many as mask `MASKED_PIXELS` pixels. Pixels of all draws count alike.
    """
    generator = torch.Generator(x.device).manual_seed(seed)
    draws = draws or math.ceil(MASKED_PIXELS / (density * x.numel()))
    plain, at_once = _apply(f, x), max(1, _together(x) // len(x))
    squares = []
    for start in range(0, draws, at_once):
        noisy, expected = (torch.cat([image] * min(at_once, draws - start)) for image in (x, plain))
        mask = masking.stratified(noisy.shape, density, generator)
        values = sigma * torch.randn(noisy.shape, generator=generator, device=x.device)
        some = mask.flatten(1).any(1)  # most copies of a small image have no masked pixel and need no pass
        if some.any():
            masked = _apply(f, torch.where(mask, values, noisy)[some])
            squares.append((masked - expected[some])[mask[some]].square().cpu().double())
    if not squares:
        raise InputError(f"No pixel was masked in {draws} draws: raise the density or the draws.")
    return _estimate(torch.cat(squares))


def invariance_of(
    model: Denoiser, images: io.Input | Sequence[io.Input], axes: str | None = None, *, seed: int = 0
) -> list[Estimate]:
    """D(f) of a trained denoiser on each noisy image, normalised as for prediction.

    An image larger than `CROP_SIZE`, or of several samples or time points, is represented by crops at random places: as
    many as mask `MASKED_PIXELS` pixels, and at most `MAX_CROPS`. NaN and infinite pixels are filled from their
    neighbors, as for prediction.

    Parameters
    ----------
    model : Denoiser
    images : files, folders, patterns or arrays
    axes : str, optional
        Of the images, such as "YX"; by default what files say, or the model's.
    seed : int
        Of the crops, the masks and the values put there.

    Returns
    -------
    list of Estimate
        One for each image.
    """
    if model.network is None:
        raise InputError("D(f) is measured on a trained network, and this denoiser has none.")
    f, estimates = as_function(model.network), []
    for image in io.open_images(images, axes, fallback=model.axes):
        model.check_fits(image)
        crops = _normalized_crops(model, image, torch.Generator().manual_seed(seed))
        estimates.append(invariance(f, crops.to(pick()), seed=seed))
    return estimates


def as_function(network: nn.Module) -> Function:
    """A copy of a network in evaluation mode on the fastest device, which later training does not change."""
    return lay_out(copy.deepcopy(network).eval(), pick())


def _normalized_crops(model: Denoiser, image: io.Image, generator: torch.Generator) -> Tensor:
    """Random crops of an image in the model's units, (B, C, [Z,] Y, X); the whole of a small single one."""
    samples = ax.samples(image.data, image.axes)
    size = samples[0].size
    crop = tuple(map(min, size, CROP_SIZE[len(size)]))
    count = min(MAX_CROPS, math.ceil(MASKED_PIXELS / (DENSITY * model.channels * math.prod(crop))))
    places = [len(samples), *(whole - part + 1 for whole, part in zip(size, crop, strict=True))]
    statistics: dict[int, Normalization] = {}
    crops = []
    for _ in range(count if max(places) > 1 else 1):
        n, *corner = (int(torch.randint(place, (), generator=generator)) for place in places)
        if n not in statistics:
            own = model.config.normalization == "image"
            rows = (slice(start, start + 256) for start in range(0, size[0], 256))
            statistics[n] = Normalization.measure(map(samples[n].read, rows)) if own else model.normalization
        box = (slice(start, start + length) for start, length in zip(corner, crop, strict=True))
        pixels, _valid = fill_invalid(samples[n].read(*box))
        crops.append(torch.from_numpy(statistics[n].apply(pixels)))
    return torch.cat(crops)


@torch.inference_mode()
def bound(
    f: Function,
    clean: Tensor,
    noise: Noise,
    *,
    sigma: float | None = None,
    draws: int = 64,
    subsets: int = 8,
    density: float = 0.01,
    seed: int = 0,
) -> Bound:
    r"""Both sides of Theorem 1 (λ = 2) or, where sigma is given, of Theorem 2 (λ = 2σ), divided by the m pixels.

    .. math:: E\|f(x)-y\|^2/m + E\|x-y\|^2/m \le E\|f(x)-x\|^2/m
        + \lambda\, E_J \big[E_x \|f(x)_J-f(x_{J^c})_J\|^2 / |J|\big]^{1/2}

    They hold for any f if the noise is zero-mean and independent between pixels, and may fail if it is correlated.
    The expectation in the root is the mean over all noise draws, each with other values on J. The root of a mean is
    biased low by order 1/draws, which the jackknife removes; order 1/draws² remains. The interval joins the variances
    over noise draws (jackknife) and over J. Roots are weighted by |J|, so that all pixels count alike. J is filled
    with the paper's Gaussian around the mean of x; a mean of neighbors outside J would be as independent of x on J.

    `clean` is one image y, (1, C, [Z,] Y, X), or a crop: all draws of x are held in memory. For Theorem 1, x and y are
    normalised here by one mean and standard deviation of all draws per channel; for Theorem 2, f has their units.
    """
    generator = torch.Generator(clean.device).manual_seed(seed)
    x, y = torch.cat([noise(clean, generator) for _ in range(draws)]), clean
    std, mean = torch.std_mean(x, dim=[0, *range(2, x.ndim)], keepdim=True)
    if sigma is None:
        x, y, mean, std = (x - mean) / std, (y - mean) / std, torch.zeros_like(mean), torch.ones_like(std)
    plain = _apply(f, x)
    masks = [masking.stratified(clean.shape, density, generator) for _ in range(subsets)]
    size = torch.tensor([mask.sum().item() for mask in masks], dtype=torch.double)
    if min(draws, subsets) < 2 or not size.any():
        raise InputError("The bound takes at least 2 draws, 2 subsets and 1 masked pixel: raise them or the density.")
    filled = (torch.where(mask, mean + std * masking.gaussian(x, mask, generator), x) for mask in masks)
    changes = ((_apply(f, part) - plain) * mask for part, mask in zip(filled, masks, strict=True))
    squares = torch.stack([_per_draw(change.square()) for change in changes], 1) * clean.numel() / size.clamp(min=1)
    # the mean over all draws in the first row, over all but one in each of the others
    means = functional.normalize(torch.cat([torch.ones(1, draws), 1 - torch.eye(draws)]).double(), p=1)
    roots, weights = 2 * (1 if sigma is None else sigma) * (means @ squares).sqrt(), size / size.sum()
    spread = (weights * (roots[0] - roots[0] @ weights)).norm().item() * math.sqrt(subsets / (subsets - 1))
    left = _per_draw((plain - y).square()) + _per_draw((x - y).square())
    right = means @ _per_draw((plain - x).square()) + roots @ weights
    gap = _jackknife(right - means @ left, spread)
    interval = gap.value - 1.96 * gap.error, gap.value + 1.96 * gap.error
    return Bound(_estimate(left), _jackknife(right, spread), interval)


@torch.inference_mode()
def decomposition(f: Function, clean: Tensor, noise: Noise, *, draws: int = 64, seed: int = 0) -> dict[str, Estimate]:
    r"""What the self-supervised loss of f consists of (eq. 1), each term divided by the m pixels.

    .. math:: E\|f(x)-x\|^2/m = E\|f(x)-y\|^2/m + E\|x-y\|^2/m - 2\,E\langle f(x)-y, x-y\rangle/m

    They are named 'reconstruction', 'error', 'noise' and 'covariance' (without the −2): that of f(x) with the noise, 0
    for a J-invariant f (eq. 2). Parameters as for Theorem 2 in `bound`: f takes images in the units of `clean`.
    """
    generator = torch.Generator(clean.device).manual_seed(seed)
    x = torch.cat([noise(clean, generator) for _ in range(draws)])
    e, n = _apply(f, x) - clean, x - clean
    terms = {"reconstruction": (e - n).square(), "error": e.square(), "noise": n.square(), "covariance": e * n}
    return {name: _estimate(_per_draw(term)) for name, term in terms.items()}


def _together(x: Tensor) -> int:
    """How many of the images go through f at once."""
    return max(1, VALUES_AT_ONCE // x[0].numel())


def _apply(f: Function, x: Tensor) -> Tensor:
    return torch.cat([f(part) for part in x.split(_together(x))])


def _per_draw(values: Tensor) -> Tensor:
    """(draws, C, [Z,] Y, X) -> mean of each draw."""
    return values.flatten(1).mean(1).cpu().double()


def _estimate(values: Tensor) -> Estimate:
    return Estimate(values.mean().item(), values.std().item() / math.sqrt(len(values)), len(values))


def _jackknife(values: Tensor, spread: float) -> Estimate:
    """Estimate from a statistic of all draws, then of all but each one; `spread` is an error that has another cause."""
    parts, n = values[1:], len(values) - 1
    error = math.sqrt((n - 1) / n) * (parts - parts.mean()).norm().item()
    return Estimate((n * values[0] - (n - 1) * parts.mean()).item(), math.hypot(error, spread), n)
