"""The figures over something: training efficiency, the effect of σ in the loss, and the theorems' bounds."""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as imageio
import numpy as np

from noise2same.paper.reproduce import drawing
from noise2same.paper.reproduce.protocols import SIGMAS_LOSS, SIGMAS_NOISE
from noise2same.paper.reproduce.store import Result, Store
from noise2same.paper.reproduce.tables import main_score, markdown, number

SHOWN = (0.2, 0.3, 0.4, 0.5, 0.6)
"""σ of the loss whose results are shown as images, and of the noise: as in the paper."""
SHOWN_NOISE = (0.3, 0.5)


def efficiency(results: dict[str, Result], store: Store) -> str:
    """Score of a few validation images over what has been paid for it: patches seen, and minutes."""
    rows = []
    with drawing.figure(store.folder / "efficiency.png", 7.2, 3.2) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        for colour, (method, result) in zip(drawing.COLOURS, results.items(), strict=False):
            history, batch = result["summary"]["history"], result["batch"]
            scores = [point["score"] for point in history]
            costs = [point["step"] * batch / 1000 for point in history], [point["seconds"] / 60 for point in history]
            for panel, cost in zip(panels, costs, strict=True):
                panel.plot(cost, scores, color=colour, label=method)
            reached = np.argmax(np.array(scores) >= scores[-1] - 0.5)
            final = [number(scores[-1]), f"{costs[0][-1]:.1f}", number(costs[1][-1], 1)]
            rows.append([method, *final, f"{costs[0][reached]:.1f}", number(costs[1][reached], 1)])
        panels[0].set(xlabel="thousand patches seen (steps × batch)", ylabel="min-max PSNR (dB)")
        panels[1].set(xlabel="minutes")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    header = ["method", "at the end (dB)", "thousand patches", "minutes", "patches to 0.5 dB below", "minutes to it"]
    return f"{markdown(header, rows)}\n\n![PSNR over patches and minutes](efficiency.png)"


def sigma(results: dict[tuple[float, float], Result], store: Store) -> str:
    """PSNR over σ of the loss, a line for each σ of the noise; below, results for two of them."""
    scores = {
        noise: {loss: main_score(results[noise, loss]) for loss in SIGMAS_LOSS if (noise, loss) in results}
        for noise in SIGMAS_NOISE
    }
    scores = {noise: found for noise, found in scores.items() if found}
    path = store.folder / "sigma.png"
    shown = [results[noise, loss]["cell"] for noise in SHOWN_NOISE for loss in SHOWN if (noise, loss) in results]
    if store.has_examples(shown) or not path.exists():  # otherwise the picture that there is shows more
        _draw_sigma(scores, results, store, path)
    rows = [
        [
            number(noise, 1),
            *(number(found.get(loss)) for loss in SIGMAS_LOSS),
            number(max(found, key=found.__getitem__), 1),
        ]
        for noise, found in scores.items()
    ]
    table = markdown(["σ of the noise", *(f"{loss}" for loss in SIGMAS_LOSS), "best"], rows)
    return f"{table}\n\n![PSNR over σ of the loss, and results](sigma.png)"


def _draw_sigma(
    scores: dict[float, dict[float, float]], results: dict[tuple[float, float], Result], store: Store, path: Path
) -> None:
    with drawing.figure(path, 7.2, 5.6) as figure:
        above, below = figure.subfigures(2, 1, height_ratios=(3, 2.4), squeeze=False).flat
        panel = above.subplots()
        for colour, (noise, found) in zip(drawing.COLOURS, scores.items(), strict=False):
            best = max(found, key=found.__getitem__)
            panel.plot(list(found), list(found.values()), "o-", color=colour, label=f"σ of the noise {noise}")
            panel.plot(best, found[best], "*", color=colour, markersize=14)
            panel.axvline(noise, color=colour, linestyle=":", linewidth=1)
        panel.set(xlabel="σ of the loss (★ best, dotted: σ of the noise)", ylabel="PSNR (dB)")
        panel.legend(ncols=2)
        grid = below.subplots(len(SHOWN_NOISE), len(SHOWN), squeeze=False)
        for line, noise in zip(grid, SHOWN_NOISE, strict=True):
            for cell, loss in zip(line, SHOWN, strict=True):
                cell.set_axis_off()
                result = results.get((noise, loss))
                picture = result and store.examples(result["cell"])
                if result and picture:
                    cell.imshow(imageio.imread(picture), cmap="gray", vmin=0, vmax=255)
                    cell.set_title(f"noise {noise}, loss {loss}: {main_score(result):.2f} dB", fontsize=7)


def bound(results: dict[str, Result], store: Store) -> str:
    """Both sides of the theorems over the steps of a training run, and the true error."""
    if not results:
        return ""
    history = [point for point in results[""]["summary"]["history"] if point["step"] > 5]
    steps = [point["step"] for point in history]
    lines = {
        "Theorem 1, right side": ("theorem 1", drawing.PAPERS),
        "Theorem 2, right side": ("theorem 2", drawing.OURS),
        "left side: error + noise": ("left", "0.4"),
        "true error": ("error", "#009e73"),
    }
    with drawing.figure(store.folder / "bound.png", 7.2, 3.2) as figure:
        left, right = figure.subplots(1, 2)
        for label, (name, colour) in lines.items():
            left.plot(steps, [point[name] for point in history], color=colour, label=label)
        for name, colour in (("theorem 1", drawing.PAPERS), ("theorem 2", drawing.OURS)):
            gap = [point[name] - point["left"] for point in history]
            right.plot(steps, gap, color=colour)
        left.set(xlabel="steps", ylabel="per pixel, in variances of x", ylim=(0, None), xscale="log")
        right.set(xlabel="steps", ylabel="right side − left side", ylim=(0, None), xscale="log")
        figure.legend(loc="outside upper center", ncols=4)
    chosen = [history[i] for i in np.unique(np.geomspace(1, len(history), 8).astype(int)) - 1]
    header = ["step", "true error", "left side", "Theorem 2", "its gap", "Theorem 1", "its gap"]
    rows = []
    for point in chosen:
        gaps = [
            number(part, 4)
            for name in ("theorem 2", "theorem 1")
            for part in (point[name], point[name] - point["left"])
        ]
        rows.append([str(point["step"]), number(point["error"], 4), number(point["left"], 4), *gaps])
    return f"{markdown(header, rows)}\n\n![Both sides of the theorems over the steps](bound.png)"
