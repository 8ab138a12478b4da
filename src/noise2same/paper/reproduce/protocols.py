"""The cells of each table and figure of the paper, in the paper's own settings or in minutes on a CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from noise2same.paper.datasets import Dataset
from noise2same.paper.reproduce.cells import Cell
from noise2same.paper.reproduce.published import TABLE3
from noise2same.paper.reproduce.theorems import both_theorems

Preset = Literal["cpu", "paper"]
Settings = Callable[[Dataset], dict[str, Any]]
"""Settings that depend on the images."""


@dataclass(frozen=True)
class RunSpec:
    """How a table or figure is to be made."""

    preset: Preset = "cpu"
    """cpu: minutes for each cell. paper: the paper's own network and steps, for a GPU."""
    dataset: str | None = None
    """Data set of Table 3 and the comparison panels; None for all of `DEFAULT_DATASETS`."""
    steps: int | None = None
    """Training steps of each cell instead of the preset's, to try it out."""


@dataclass(frozen=True)
class Protocol:
    """How a data set is trained and tested on."""

    title: str
    score: str
    """What the paper reports: "psnr", "psnr_minmax" or "psnr_affine"."""
    steps: int
    """Of preset cpu."""
    paper: dict[str, Any]
    """Settings of the paper's Noise2Same where they differ from preset paper, as in its public notebooks."""
    fill_sigma: float = 0.5
    """Of the Gaussian that replaces masked pixels in Noise2Self: in Tables 1 to 3, the row that the paper reports."""
    most: int = 1000
    corner: tuple[int, ...] = ()
    examples: tuple[int, ...] = (0,)
    dims: int = 2
    channels: int = 1


PROTOCOLS = {
    "bsd68": Protocol(
        "BSD68", "psnr", 2000, {"steps": 80_000, "lambda_inv": 0.95, "fill": "donut"}, fill_sigma=1.0, examples=(2,)
    ),
    "hanzi": Protocol("HanZi", "psnr_minmax", 3000, {}, most=500, examples=(0, 1, 2, 3)),
    "imagenet": Protocol("ImageNet", "psnr_minmax", 1600, {}, examples=(1, 3), channels=3),
    "planaria": Protocol("Planaria", "psnr_affine", 1000, {}, dims=3),
    "planaria-like": Protocol("Planaria-like", "psnr_affine", 1000, {}, corner=(64, 256, 256), dims=3),
    "w2s": Protocol("w2s", "psnr_affine", 1000, {}),
    "fmd": Protocol("FMD", "psnr_affine", 1000, {}),
}
"""By data set."""
DEFAULT_DATASETS = ("bsd68", "hanzi", "imagenet", "planaria-like", "w2s", "fmd")
"""Run if no data set is named; Planaria's own volumes are not among them, as they are a download of gigabytes."""
REAL_ROWS = ("noisy", "NLM", "BM3D", "Noise2True", "Noise2Void", "Noise2Self, donut", "Noise2Same")
"""Rows of data sets that the paper does not have."""
OUR_ROWS = ("projected", "auto")
"""Rows that the paper does not have: our projected loss, and the default, in which the plan chooses the loss."""
PAPER_STEPS = 50_000
"""Of the paper's training runs, but for BSD68."""
LAINE = 0.25
"""Share of the steps that Laine's network is given on a CPU: each costs five times as much as another method's."""
SIGMAS_NOISE = (0.3, 0.5, 0.7, 0.9)
SIGMAS_LOSS = tuple(round(0.1 * n, 1) for n in range(1, 11))
CHARACTERS, SIGMA_STEPS, BOUND_STEPS = 1300, 300, 800
"""Of the study of σ: characters, which are a tenth of all, and steps on a CPU; steps on a CPU of that of the bound."""


def methods_of(dataset: str) -> list[str]:
    """Rows of Table 3 for a data set: those for which the paper has a number, then ours."""
    if dataset in ("w2s", "fmd"):
        return [*REAL_ROWS, *OUR_ROWS]
    name = dataset.removesuffix("-like")
    rows = [method for method, scores in TABLE3.items() if name in scores or f"{name} C1" in scores]
    return [*rows, *OUR_ROWS]


def settings_of(method: str, dataset: str) -> dict[str, Any]:
    """Options of `Config.of` that make a row of Table 3 what it is."""
    rows: dict[str, dict[str, Any]] = {
        "noisy": {},
        "NLM": {"method": "nlm"},
        "BM3D": {"method": "bm3d"},
        "Noise2True": {"method": "noise2true"},
        "Noise2Noise": {"method": "noise2noise"},
        "Laine + noise model": {"method": "laine", "noise_model": "gaussian", "sigma": 25.0},
        "Laine": {"method": "laine", "noise_model": "none"},
        "Noise2Void": {"method": "noise2void"},
        "Noise2Self, noise": _gaussian(PROTOCOLS[dataset].fill_sigma),
        "Noise2Self, donut": {"method": "noise2self", "fill": "donut"},
        "Noise2Same": {"method": "noise2same"},
        "projected": {"method": "projected"},
        "auto": {"method": "auto"},
    }
    return rows[method]


def base_settings(method: str, dataset: str, preset: Preset, cpu_steps: int | None = None) -> dict[str, Any]:
    """Options of `Config.of` that a preset of the reproduction gives to a method of the package."""
    protocol = PROTOCOLS[dataset]
    if method in ("nlm", "bm3d"):
        return {}
    if preset == "cpu":
        steps = cpu_steps or protocol.steps
        steps = round(LAINE * steps) if method == "laine" else steps
        return {"steps": steps, "from_scratch": True, "early_stopping": False}
    base = {"preset": "paper", "steps": protocol.paper.get("steps", PAPER_STEPS)}
    return base | (protocol.paper if method == "noise2same" else {})


def cell(
    dataset: str,
    method: str,
    spec: RunSpec,
    *,
    name: str = "",
    own: dict[str, Any] | Settings | None = None,
    options: dict[str, Any] | None = None,
    cpu_steps: int | None = None,
    **more: Any,
) -> Cell:
    """A cell in the settings of a preset; `own` are the settings of a cell that is no row of Table 3."""
    protocol = PROTOCOLS[dataset]

    def settings(data: Dataset) -> dict[str, Any]:
        given = own(data) if callable(own) else own or settings_of(method, dataset)
        base = base_settings(given.get("method", ""), dataset, spec.preset, cpu_steps)
        return base | given | ({"steps": spec.steps} if spec.steps and base else {})

    usual = Cell(
        name or slug(f"{dataset} {method}"),
        dataset,
        method,
        settings,
        protocol.score,
        options or {},
        protocol.most,
        protocol.corner,
        protocol.examples,
    )
    return replace(usual, **more)


def slug(text: str) -> str:
    """A name for files."""
    return re.sub("[^a-z0-9.]+", "-", text.lower()).strip("-")


def _gaussian(sigma: float) -> dict[str, Any]:
    """Noise2Self with masked pixels replaced by a Gaussian."""
    return {"method": "noise2self", "fill": "gaussian", "fill_sigma": sigma}


def table1(spec: RunSpec) -> dict[str, Cell]:
    """By replacement strategy; three of them are rows of Table 3 too."""
    cells = {
        f"Gaussian, σ = {sigma}": cell("bsd68", f"Noise2Self, Gaussian {sigma}", spec, own=_gaussian(sigma))
        for sigma in (0.2, 0.5, 0.8)
    }
    return cells | {
        "Gaussian, σ = 1.0": cell("bsd68", "Noise2Self, noise", spec),
        "UPS, 5×5": cell("bsd68", "Noise2Void", spec),
        "shifted receptive field": cell("bsd68", "Laine", spec),
    }


def table2(spec: RunSpec) -> dict[str, Cell]:
    """By data set, with the same replacement strategy: a Gaussian of σ = 0.5."""
    cells = {name: cell(name, "Noise2Self, noise", spec) for name in ("hanzi", "imagenet")}
    return {"bsd68": table1(spec)["Gaussian, σ = 0.5"], **cells}


def table3(spec: RunSpec) -> dict[tuple[str, str], Cell]:
    """By data set and method."""
    datasets = DEFAULT_DATASETS if spec.dataset is None else (spec.dataset,)
    return {(name, method): cell(name, method, spec) for name in datasets for method in methods_of(name)}


def efficiency(spec: RunSpec) -> dict[str, Cell]:
    """By method: those of the paper's figure, on its data set, and ours."""
    methods = ("Noise2Self, noise", "Laine", "Noise2Same", "projected")
    return {method: cell("imagenet", method, spec) for method in methods}


def sigma(spec: RunSpec) -> dict[tuple[float, float], Cell]:
    """By σ of the noise and of the loss: λ = 2 σ_loss in the units of the images."""

    def told(loss: float) -> Settings:
        return lambda data: {
            "method": "noise2same",
            "lambda_inv": 2 * loss / float(np.std(np.stack(data.train.noisy[:1000]))),
        }

    return {
        (noise, loss): cell(
            "hanzi",
            f"Noise2Same, σ of the loss {loss}",
            spec,
            name=f"sigma-{noise}-loss-{loss}",
            own=told(loss),
            options={"sigma": noise, "missing": False, "characters": CHARACTERS},
            cpu_steps=SIGMA_STEPS,
            score="psnr",
            examples=(0, 1),
            most=200,
        )
        for noise in SIGMAS_NOISE
        for loss in SIGMAS_LOSS
    }


def bound(spec: RunSpec) -> dict[str, Cell]:
    """A training run on BSD68 whose loss is Theorem 2's bound, with both theorems' sides measured on the way."""
    run = cell(
        "bsd68",
        "Noise2Same, bound",
        spec,
        name="bound",
        own={"method": "noise2same", "lambda_inv": "auto", "sigma": 25.0},
        cpu_steps=BOUND_STEPS,
        watch=partial(both_theorems, sigma=25.0),
        most=8,
    )
    return {"": run}
