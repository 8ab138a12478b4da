"""The strength of the noise, learned along with the network (Noise2Info, UNSURE), against ours from the images alone.

One bare loop for both: BSD's Train400 with Gaussian noise, the fast preset's network, patches and learning rate.
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from typing import Any

import numpy as np
import record
import torch
from torch import Tensor

from noise2same.data.patches import Patches
from noise2same.methods.masking import donut, stratified
from noise2same.networks.unet import UNet
from noise2same.noise.level import noise_sigma
from noise2same.noise.synthetic import gaussian

SIGMAS = (5, 10, 25, 50)
RATE, BATCH, PATCH = 3e-3, 16, 64
EVERY, DRAWS = 50, 10
"""Noise2Info: steps between two estimates, and draws of each (the paper's 1000 and 10; our runs are shorter)."""
ASCENT, MOMENTUM, PROBE = 0.05, 0.9, 0.01
"""UNSURE: step and momentum of the ascent on σ², and size of the probe, in normalised units."""


class Noise2Info:
    """Wang et al. 2023: λ = 2σ in Noise2Same's loss, with σ lowered to a bound that the training itself yields."""

    def __init__(self) -> None:
        self.sigma = 1.0

    def loss(self, network: UNet, x: Tensor, step: int, generator: torch.Generator) -> Tensor:
        j = stratified(x.shape, 0.02, generator)
        f_x, f_masked = network(torch.cat([x, donut(x, j, generator)])).chunk(2)
        rec, inv = (f_x - x).square().mean(), (f_x - f_masked)[j].square().mean()
        if step % EVERY == EVERY - 1:
            self.update(float(rec.detach()), float(inv.detach()), (f_x - x).detach().flatten(1))
        return rec + 2 * self.sigma * (inv + 1e-12).sqrt()

    def update(self, rec: float, inv: float, residuals: Tensor) -> None:
        """σ ≤ √inv + √(inv + rec − E), with E a lower bound of the supervised error (`Noise2Info`, section 3)."""
        pool, ordered = residuals.flatten(), residuals.sort(1).values
        draws = [pool[torch.randint(len(pool), residuals.shape)].sort(1).values for _ in range(DRAWS)]
        error = float(torch.stack([(ordered - drawn).square().mean() for drawn in draws]).mean())
        bound = math.sqrt(inv) + math.sqrt(max(inv + rec - error, 0.0))
        if 0 < bound < self.sigma:
            self.sigma = bound


class Unsure:
    """Tachella et al. 2024: the network minimises, and σ² maximises, the residual plus 2σ² times the divergence."""

    def __init__(self) -> None:
        self.variance, self.speed = 0.05, 0.0

    @property
    def sigma(self) -> float:
        return math.sqrt(self.variance)

    def loss(self, network: UNet, x: Tensor, step: int, generator: torch.Generator) -> Tensor:
        probe = torch.randn(x.shape, generator=generator)
        f_x, f_probed = network(torch.cat([x, x + PROBE * probe])).chunk(2)
        divergence = (probe * (f_probed - f_x)).mean() / PROBE
        loss = (f_x - x).square().mean() + 2 * self.variance * divergence
        self.speed = MOMENTUM * self.speed + (1 - MOMENTUM) * 2 * float(divergence.detach())
        self.variance = max(1e-4, self.variance + ASCENT * self.speed)
        return loss


def learn(images: list[Any], rule: Noise2Info | Unsure, steps: int) -> float:
    """σ in the units of the images, after so many steps."""
    mean, std = float(np.mean(np.stack(images))), float(np.std(np.stack(images)))
    patches = Patches(
        [torch.from_numpy((image - mean) / std)[None, None] for image in images], patch=(PATCH, PATCH), batch=BATCH
    )
    torch.manual_seed(0)
    network = UNet(2, 1, features=16, levels=3, block="plain")
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        optimizer.zero_grad()
        rule.loss(network, patches.draw(generator).x, step, generator).backward()
        optimizer.step()
        schedule.step()
    return rule.sigma * std


def measure(task: tuple[float, str], steps: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    sigma, name = task
    rng = np.random.default_rng(0)
    images = [gaussian(image, sigma, rng) for image in record.grey_images("bsd/Train400")]
    started = time.monotonic()
    if name == "from the images (ours)":
        found = float(np.median([noise_sigma(image[None, None]) for image in images]))
    else:
        found = learn(images, Noise2Info() if name == "Noise2Info" else Unsure(), steps)
    seconds = time.monotonic() - started
    return {
        "σ": sigma,
        "estimator": name,
        "found": round(found, 2),
        "error": f"{found / sigma - 1:+.1%}",
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    tasks = [(sigma, name) for sigma in SIGMAS for name in ("from the images (ours)", "Noise2Info", "UNSURE")]
    rows = record.side_by_side(partial(measure, steps=steps), tasks)
    text = (
        "# The strength of the noise, learned\n\nStandard deviation of Gaussian noise that is found in Train400: from "
        f"the images alone (the median), or along with a network in {steps} steps, on one thread."
    )
    record.write("learned_level", rows, text)


if __name__ == "__main__":
    main()
