"""Stars and bright spots: does denoising keep what is measured where the range of brightness is huge?

Star fields have known fluxes from 100 to 10⁶ electrons. Each star is measured as astronomers do: the sum over a round
aperture, minus the mean of a ring around it. Of the ring, the darker half of the clean field counts, as if neighbors
were masked by a catalog: so the measure is linear, and has no bias in the noisy image. The same measure of the clean
field is the truth. Fluorescence has bright beads on dim structure, the mean of 400 real frames.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import imageio.v3 as imageio
import numpy as np
import record
from numpy.typing import NDArray

from noise2same import train
from noise2same.noise.synthetic import gaussian, poisson_gaussian

Array = NDArray[np.float64]
DEVELOPMENT = {"stars": (1, 2), "narrow stars": (7,), "stars, steady noise": (7,), "beads": (0,)}
"""Seeds of the scenes that settings were chosen on."""
REPORTED = {
    "stars": (11, 12, 13, 14, 15),
    "narrow stars": (21, 22),
    "stars, steady noise": (31, 32),
    "beads": (20, 40, 60),
}
"""Seeds of the scenes that are reported."""
SIDE, STARS, STEEPNESS = 512, 320, 0.45
"""Of a field: pixels a side, stars, and the power by which bright ones are rarer."""
NARROW = 2.2
"""Width of narrow stars, whose light is too sharp for a gain to be found."""
APERTURE, RING = 1.5, (2.5, 4.0)
"""Radius of the aperture, and of the ring, in widths."""
BINS = (2, 5, 10, 30, 100, np.inf)
"""Signal-to-noise of a flux in its aperture."""


@dataclass(frozen=True)
class Field:
    """A scene with sources at known places."""

    clean: Array
    noisy: NDArray[Any]
    variance: Array
    """Of the noise."""
    places: Array
    """Rows and columns, (sources, 2)."""
    width: float
    """Full width at half maximum of the point-spread function, in pixels."""

    def fluxes(self, image: NDArray[Any]) -> Array:
        """Flux of each source."""
        return np.array([self._flux(image, *place) for place in self.places])

    def errors(self) -> Array:
        """Standard deviation of each flux in the noisy image."""
        near = (self._distance(y, x) <= APERTURE * self.width for y, x in self.places)
        return np.array([self.variance[some].sum() ** 0.5 for some in near])

    def sky(self) -> NDArray[np.bool_]:
        """Pixels without a source."""
        mask: NDArray[np.bool_] = self.clean - self.clean.min() < 0.04 * self.variance**0.5
        return mask

    def _distance(self, y: float, x: float) -> Array:
        rows, columns = np.ogrid[: self.clean.shape[0], : self.clean.shape[1]]
        distance: Array = np.hypot(rows - y, columns - x)
        return distance

    def _flux(self, image: NDArray[Any], y: float, x: float) -> float:
        distance = self._distance(y, x)
        inner, outer = RING[0] * self.width, RING[1] * self.width
        inside = distance <= APERTURE * self.width
        ring = (distance > inner) & (distance <= outer)
        ring &= self.clean <= np.median(self.clean[ring])
        return float(image[inside].astype(np.float64).sum() - inside.sum() * image[ring].mean(dtype=np.float64))


def star_field(seed: int, width: float | None = None, *, steady: bool = False) -> Field:
    """A field of stars: odd seeds Gaussian and float, even seeds Moffat, in 16 bits with a gain and an offset.

    Its stars have a random width, or the one given. Steady noise is Gaussian and as strong on stars as in the sky.
    """
    rng = np.random.default_rng(seed)
    width = rng.uniform(3.5, 4.7) if width is None else width
    places: list[Array] = []
    while len(places) < STARS:
        place = rng.uniform(20, SIDE - 20, 2)
        if all(np.hypot(*(place - other)) > 2 * APERTURE * width for other in places):
            places.append(place)
    low, high = 100.0**-STEEPNESS, 1e6**-STEEPNESS
    fluxes = (low - rng.uniform(size=STARS) * (low - high)) ** (-1 / STEEPNESS)
    profile = moffat if seed % 2 == 0 else round_gaussian
    electrons = np.full((SIDE, SIDE), rng.uniform(120.0, 150.0))
    for place, flux in zip(places, fluxes, strict=True):
        electrons += flux * profile(place, width)
    variance = np.full_like(electrons, 13.0**2) if steady else electrons + 5.0**2
    noisy = gaussian(electrons, 13.0, rng) if steady else poisson_gaussian(electrons, 1.0, 5.0, rng)
    if seed % 2:
        return Field(electrons, noisy, variance, np.array(places), width)
    digital = np.clip(np.rint(0.5 * noisy + 500), 0, 65535).astype(np.uint16)
    return Field(0.5 * electrons + 500, digital, variance / 4, np.array(places), width)


def round_gaussian(place: Array, width: float) -> Array:
    """A Gaussian of sum 1."""
    y, x = (np.exp(-4 * np.log(2) * (np.arange(SIDE) - at) ** 2 / width**2) for at in place)
    kernel: Array = np.outer(y, x) * 4 * np.log(2) / (np.pi * width**2)
    return kernel


def moffat(place: Array, width: float, beta: float = 3.0) -> Array:
    """A Moffat profile of sum 1, with the wings that the atmosphere makes."""
    core = width / 2 / (2 ** (1 / beta) - 1) ** 0.5
    rows, columns = np.ogrid[:SIDE, :SIDE]
    radius = ((rows - place[0]) ** 2 + (columns - place[1]) ** 2) / core**2
    kernel: Array = (beta - 1) / (np.pi * core**2) * (1 + radius) ** -beta
    return kernel


def beads(number: int) -> Field:
    """Dim fluorescence, the mean of 400 frames with 40 photons at its brightest, and 60 beads up to 500 times that."""
    path = sorted((record.DATA / "w2s24" / "avg400").iterdir())[number]
    truth = imageio.imread(path).astype(np.float64)[:SIDE, :SIDE]
    low, high = np.quantile(truth, (0.01, 0.995))
    rng = np.random.default_rng(100 + number)
    photons = 4 + 40 * np.clip((truth - low) / (high - low), 0, None)
    places = rng.uniform(20, SIDE - 20, (60, 2))
    for place in places:
        photons += 10 ** rng.uniform(2.5, 5.5) * round_gaussian(place, 4.0)
    return Field(photons, poisson_gaussian(photons, 1.0, 2.0, rng), photons + 2.0**2, places, 4.0)


SCENES: dict[str, Callable[[int], Field]] = {
    "stars": star_field,
    "narrow stars": partial(star_field, width=NARROW),
    "stars, steady noise": partial(star_field, steady=True),
    "beads": beads,
}


def robust_std(values: Array) -> float:
    """Median absolute deviation in units of a standard deviation."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def measured(scene: str, seed: int, steps: int) -> tuple[Field, dict[str, NDArray[Any]]]:
    """A scene, and what became of it: noisy, denoised on a linear scale, and by default."""
    import torch

    torch.set_num_threads(1)
    field = SCENES[scene](seed)
    images = {"noisy": field.noisy}
    for name, scale in (("linear", "linear"), ("default", "auto")):
        model = train(field.noisy, steps=steps, scale=scale, progress=False)
        images[name] = model.denoise(field.noisy, dtype="float32")
        assert model.plan is not None
        print(scene, seed, name, model.plan.scale.value, model.plan.noise.value.a, model.plan.noise.value.b, flush=True)
    return field, images


def rows_of(scene: str, scenes: list[tuple[Field, dict[str, NDArray[Any]]]]) -> list[dict[str, Any]]:
    """Rows of the table: fluxes by brightness, then errors of pixels."""
    rows = []
    for low, high in pairwise(BINS):
        cells: dict[str, Any] = {}
        for name in scenes[0][1]:
            errors = np.concatenate([flux_errors(field, images[name], low, high) for field, images in scenes])
            if errors.size >= 10:
                cells[name] = f"{100 * np.median(errors):+.1f} / {100 * robust_std(errors):.2f}"
        if cells:
            upto = f"{low} to {high:g} σ" if np.isfinite(high) else f"from {low} σ"
            rows.append(
                {"scene": scene, "measure": f"flux of {errors.size} sources, {upto}: bias / scatter, %"} | cells
            )
    figures = {"error without sources, σ": sky_error, "error near sources, σ": source_error, "mean, σ": mean_error}
    for what, figure in figures.items():
        cells = {
            name: f"{np.mean([figure(field, images[name]) for field, images in scenes]):.3f}" for name in scenes[0][1]
        }
        rows.append({"scene": scene, "measure": what} | cells)
    return rows


def flux_errors(field: Field, image: NDArray[Any], low: float, high: float) -> Array:
    """Relative errors of the fluxes of sources with a signal-to-noise from `low` to `high`."""
    truth = field.fluxes(field.clean)
    ratio = truth / field.errors()
    some = (ratio >= low) & (ratio < high)
    errors: Array = field.fluxes(image)[some] / truth[some] - 1
    return errors


def sky_error(field: Field, image: NDArray[Any]) -> float:
    """Root mean square error of pixels without a source, in standard deviations of their noise."""
    return float(((image - field.clean) ** 2 / field.variance)[field.sky()].mean() ** 0.5)


def source_error(field: Field, image: NDArray[Any]) -> float:
    """The same of the other pixels."""
    return float(((image - field.clean) ** 2 / field.variance)[~field.sky()].mean() ** 0.5)


def mean_error(field: Field, image: NDArray[Any]) -> float:
    """Change of the image's mean, in standard deviations of the noise of a pixel without a source."""
    return float(abs(image.mean(dtype=np.float64) - field.noisy.mean(dtype=np.float64)) / field.variance.min() ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="Of training.")
    parser.add_argument("--development", action="store_true", help="The scenes that settings were chosen on.")
    options = parser.parse_args()
    seeds = DEVELOPMENT if options.development else REPORTED
    rows = []
    for scene, some in seeds.items():
        rows += rows_of(scene, [measured(scene, seed, options.steps) for seed in some])
    text = (
        "# Stars and bright beads\n\n"
        f"{', '.join(f'{len(some)} × {scene}' for scene, some in seeds.items())}, after {options.steps} steps each: "
        "noisy, denoised on a linear scale, and by default.\n"
        f"Stars are 3.5 to 4.7 pixels wide, narrow ones {NARROW}; steady noise does not grow with the brightness.\n"
        "Sources are sorted by flux over its noise in the aperture, in the noisy image.\n"
        "Bias is the median of the relative errors of their fluxes, scatter their robust standard deviation.\n"
        "Errors of pixels are in standard deviations of their noise."
    )
    record.write("stars_development" if options.development else "stars", rows, text)


if __name__ == "__main__":
    main()
