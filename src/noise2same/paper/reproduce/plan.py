"""Which cells each table and figure of the paper is made of, with the paper's own settings or within CPU minutes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from noise2same.config import PRESETS
from noise2same.methods import METHOD_SETTINGS
from noise2same.paper.datasets import Dataset
from noise2same.paper.reproduce.cells import Cell
from noise2same.paper.reproduce.published import TABLE3
from noise2same.paper.reproduce.theorems import both_theorems

Preset = Literal["cpu", "paper"]
Settings = Callable[[Dataset], dict[str, Any]]
"""Settings that depend on the images."""


@dataclass(frozen=True)
class Order:
    """In which settings a table or figure is asked for."""

    preset: Preset = "cpu"
    """Minutes for each cell, or the paper's own network and steps, for a GPU."""
    dataset: str | None = None
    """The only one of Table 3 and the panels; None for all."""
    steps: int | None = None
    """So many for each cell, to try it out."""


@dataclass(frozen=True)
class Protocol:
    """How a data set is trained and tested on."""

    title: str
    score: str
    """What the paper reports: "psnr", "psnr_minmax" or "psnr_affine"."""
    steps: int
    """Of preset cpu."""
    paper: dict[str, Any]
    """Settings of the paper's Noise2Same where they differ from the preset's, as in its public notebooks."""
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
USUAL = ("bsd68", "hanzi", "imagenet", "planaria-like", "w2s", "fmd")
"""Those that `reproduce` takes if none is named; Planaria's own volumes are a download of gigabytes."""
REAL = ("noisy", "NLM", "BM3D", "Noise2True", "Noise2Void", "Noise2Self, donut", "Noise2Same", "Noise2Same, eq. 6")
"""Methods on data that the paper does not have."""
BEYOND = "Noise2Same, noise model"
"""The row that the paper does not have: the default settings, with a noise model where the images show one."""
LAINE = 0.25
"""Share of the steps that Laine's network is given on a CPU: each costs five times as much as another method's."""
SIGMAS_NOISE = (0.3, 0.5, 0.7, 0.9)
SIGMAS_LOSS = tuple(round(0.1 * n, 1) for n in range(1, 11))
CHARACTERS, SIGMA_STEPS, BOUND_STEPS = 1300, 300, 800
"""Of the study of σ: characters, which are a tenth of all, and steps on a CPU; steps on a CPU of that of the bound."""


def methods_of(dataset: str) -> list[str]:
    """Rows of Table 3 for a data set: where the paper has a number, and what goes beyond it."""
    if dataset in ("w2s", "fmd"):
        return [*REAL, BEYOND]
    name = dataset.removesuffix("-like")
    rows = [method for method, scores in TABLE3.items() if name in scores or f"{name} C1" in scores]
    return [*rows, BEYOND]


def settings_of(method: str, dataset: str) -> dict[str, Any]:
    """What is specific to a row of Table 3."""
    protocol = PROTOCOLS[dataset]
    fixed: dict[str, dict[str, Any]] = {
        "noisy": {},
        "NLM": {"method": "nlm"},
        "BM3D": {"method": "bm3d"},
        "Noise2True": {"method": "noise2true"},
        "Noise2Noise": {"method": "noise2noise"},
        "Laine + noise model": {"method": "laine", "noise_model": "gaussian", "sigma": 25.0},
        "Laine": {"method": "laine", "noise_model": "none"},
        "Noise2Void": {"method": "noise2void"},
        "Noise2Self, noise": _gaussian(protocol.fill_sigma),
        "Noise2Self, donut": {"method": "noise2self", "fill": "donut"},
        "Noise2Same": {"noise_model": "none"},
        "Noise2Same, eq. 6": {"noise_model": "none", "invariance": "whole"},
        BEYOND: {},
    }
    return fixed[method]


def cell(
    dataset: str,
    method: str,
    order: Order,
    *,
    name: str = "",
    own: dict[str, Any] | Settings | None = None,
    options: dict[str, Any] | None = None,
    cpu_steps: int | None = None,
    **more: Any,
) -> Cell:
    """A cell in the settings of a preset; `own` are those of what is no row of Table 3."""
    protocol = PROTOCOLS[dataset]

    def settings(data: Dataset) -> dict[str, Any]:
        base: dict[str, Any]
        given = own(data) if callable(own) else own or settings_of(method, dataset)
        if given.get("method") in ("nlm", "bm3d"):
            return given
        if order.preset == "cpu":
            share = LAINE if given.get("method") == "laine" else 1.0
            base = {"steps": round(share * (cpu_steps or protocol.steps)), "from_scratch": True, "early_stop": False}
        elif method in ("Noise2Same", BEYOND):  # the paper's network and schedule, and our loss
            base = {key: value for key, value in PRESETS["paper"].items() if key not in METHOD_SETTINGS}
        else:
            same = given.get("method", "noise2same") == "noise2same"
            base = {"preset": "paper"} | (protocol.paper if same else {})
        if order.preset == "paper":
            base["steps"] = protocol.paper.get("steps", 50_000)
        return base | given | ({"steps": order.steps} if order.steps else {})

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


def table1(order: Order) -> dict[str, Cell]:
    """By replacement strategy; three of them are rows of Table 3 too."""
    cells = {
        f"Gaussian, σ = {sigma}": cell("bsd68", f"Noise2Self, Gaussian {sigma}", order, own=_gaussian(sigma))
        for sigma in (0.2, 0.5, 0.8)
    }
    return cells | {
        "Gaussian, σ = 1.0": cell("bsd68", "Noise2Self, noise", order),
        "UPS, 5×5": cell("bsd68", "Noise2Void", order),
        "shifted receptive field": cell("bsd68", "Laine", order),
    }


def table2(order: Order) -> dict[str, Cell]:
    """By data set, with the same replacement strategy: a Gaussian of σ = 0.5."""
    cells = {name: cell(name, "Noise2Self, noise", order) for name in ("hanzi", "imagenet")}
    return {"bsd68": table1(order)["Gaussian, σ = 0.5"], **cells}


def table3(order: Order) -> dict[tuple[str, str], Cell]:
    """By data set and method."""
    datasets = USUAL if order.dataset is None else (order.dataset,)
    return {(name, method): cell(name, method, order) for name in datasets for method in methods_of(name)}


def efficiency(order: Order) -> dict[str, Cell]:
    """By method: those of the paper's figure, on its data set, and ours beyond it."""
    methods = ("Noise2Self, noise", "Laine", "Noise2Same", "Noise2Same, eq. 6")
    return {method: cell("imagenet", method, order) for method in methods}


def sigma(order: Order) -> dict[tuple[float, float], Cell]:
    """By σ of the noise and of the loss: λ = 2 σ_loss in the units of the images."""

    def told(loss: float) -> Settings:
        return lambda data: {
            "noise_model": "none",
            "invariance": "whole",
            "lambda_inv": 2 * loss / float(np.std(np.stack(data.train.noisy[:1000]))),
        }

    return {
        (noise, loss): cell(
            "hanzi",
            f"Noise2Same, σ of the loss {loss}",
            order,
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


def bound(order: Order) -> dict[str, Cell]:
    """A training run on BSD68 whose loss is Theorem 2's bound, with both theorems' sides measured on the way."""
    run = cell(
        "bsd68",
        "Noise2Same, bound",
        order,
        name="bound",
        own={"noise_model": "none", "lambda_inv": "auto", "sigma": 25.0, "invariance": "whole"},
        cpu_steps=BOUND_STEPS,
        watch=partial(both_theorems, sigma=25.0),
        most=8,
    )
    return {"": run}
