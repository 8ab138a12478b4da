"""Measuring on a machine that is never quite at rest: repeats interleaved, medians, spread, and what it could do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import torch

NOISY = 0.3
"""A spread above this says more about the machine than about what ran on it."""
CEILING = "the ceiling"
OURS = "noise2same"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@torch.inference_mode()
def ceiling() -> float:
    """GFLOP/s in single precision that PyTorch gets out of the machine: the better of a matrix product and a layer."""
    side, channels, edge = 2048, 64, 512
    a, b = torch.randn(2, side, side)
    image = torch.randn(1, channels, edge, edge).contiguous(memory_format=torch.channels_last)
    layer = torch.nn.Conv2d(channels, channels, 3, padding=1).to(memory_format=torch.channels_last)
    product = 2 * side**3 / min(seconds(lambda: a @ b) for _ in range(4))
    convolution = 2 * 9 * channels**2 * edge**2 / min(seconds(lambda: layer(image)) for _ in range(4))
    return max(product, convolution) / 1e9


def interleaved(works: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each work, each run once in every repeat, and the ceiling (GFLOP/s) of that moment.

    A busy moment of the machine then hits all that is compared.
    """
    times: dict[str, list[float]] = {name: [] for name in (CEILING, *works)}
    for _ in range(repeats):
        times[CEILING].append(ceiling())
        for name, work in works.items():
            times[name].append(work())
    return times


def spread(values: list[float]) -> float | None:
    """(max − min) / median; None of a single value."""
    return round((max(values) - min(values)) / median(values), 2) if len(values) > 1 else None


def row(
    case: str, who: str, value: float, unit: str, ratios: Mapping[str, float], times: list[float], **more: Any
) -> dict[str, Any]:
    """A line of the table, and in its nested part, which only the JSON shows, the same as numbers."""
    return {
        "what": f"{case}: {who}",
        "figure": f"{value:.3g} {unit}",
        "compared": ", ".join(f"{ratio:.2f} × {other}" for other, ratio in ratios.items()) or None,
        "spread": spread(times),
        "raw": {"case": case, "who": who, "value": value, "unit": unit, "ratios": ratios, "times": times} | more,
    }


def throughputs(
    case: str, pixels: int, times: dict[str, list[float]], tiles: Mapping[str, tuple[float, int]] | None = None
) -> list[dict[str, Any]]:
    """A row in MPix/s for each that was timed: ours over the others, and shares of the ceiling where `tiles` are told.

    `tiles` are the operations and the pixels of all tiles that were run. Their share is what the table has; of that of
    the image's own pixels, without overlaps, only the JSON tells.
    """
    rates = {who: pixels / 1e6 / median(spent) for who, spent in times.items() if who != CEILING}
    rows = []
    for who, rate in rates.items():
        others = [other for other in rates if who.startswith(OURS) and not other.startswith(OURS)]
        ratios = {other: rate / rates[other] for other in others}
        more: dict[str, float] = {}
        if tiles and who in tiles:
            flops, run = tiles[who]
            ratios[CEILING] = flops / median(times[who]) / 1e9 / median(times[CEILING])
            more = {"flops": flops, "pixels run": run, "share of useful pixels": ratios[CEILING] * pixels / run}
        rows.append(row(case, who, rate, "MPix/s", ratios, times[who], ceiling=times[CEILING], **more))
    return rows


def verdict(rows: list[dict[str, Any]]) -> str:
    """Which rows say nothing, in a sentence."""
    noisy = [row["what"] for row in rows if row["spread"] is not None and row["spread"] > NOISY]
    if not noisy:
        return f"No spread is above {NOISY}, the limit beyond which a row would not count."
    return f"With a spread above {NOISY} the machine was too noisy to conclude: {'; '.join(noisy)}."
