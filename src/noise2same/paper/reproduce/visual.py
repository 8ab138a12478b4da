"""The comparison panels: what every method makes of the same noisy images, whole and zoomed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray

from noise2same.paper.reproduce import drawing
from noise2same.paper.reproduce.protocols import PROTOCOLS
from noise2same.paper.reproduce.store import Result, Store
from noise2same.paper.reproduce.tables import SCORES, by_dataset, row_name
from noise2same.quality.report.views import busiest

COLUMNS, WIDTH = 6, 10.8
"""Of a figure: images a row at most, and inches."""
LARGE = 128
"""Side from which on an image has a zoomed inset."""


def visual(results: dict[tuple[str, str], Result], store: Store) -> str:
    """Panels of every data set, each as a picture with its caption.

    A picture is drawn where the examples of all cells of a data set are there. Otherwise an older one stays.
    """
    parts = []
    for dataset, found in by_dataset(results).items():
        path, protocol = store.folder / f"visual-{dataset}.png", PROTOCOLS[dataset]
        if "noisy" in found and store.has_examples(result["cell"] for result in found.values()):
            draw(found, store, path)
        if path.exists():
            what = f"{protocol.title}: test images by every method, with the mean of their {SCORES[protocol.score]}."
            parts.append(f"![{what}]({path.name})\n\n*{what}*")
    return "\n\n".join(parts)


def draw(found: dict[str, Result], store: Store, path: Path) -> None:
    """The examples of one data set by every method, and the clean ones."""
    pictures: dict[str, Any] = {name: imageio.imread(store.cells / f"{one['cell']}.png") for name, one in found.items()}
    pictures["noisy"], truth = np.split(pictures["noisy"], 2)
    titles = {name: f"{row_name(name, one)}\n{np.mean(one['examples']):.2f} dB" for name, one in found.items()}
    titled = {titles[name]: picture for name, picture in pictures.items()} | {"clean\n": truth}
    count, ratio = len(found[next(iter(found))]["examples"]), truth.shape[0] / truth.shape[1]
    lines = math.ceil(len(titled) / COLUMNS)
    columns = math.ceil(len(titled) / lines)  # no picture is left alone in the last line
    with drawing.figure(path, WIDTH, lines * (WIDTH / columns * ratio + 0.5)) as figure:
        cells_of_figure = figure.subplots(lines, columns, squeeze=False).flatten()
        for cell in cells_of_figure:
            cell.set_axis_off()
        for cell, (title, picture) in zip(cells_of_figure, titled.items(), strict=False):
            cell.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="antialiased")
            cell.set_title(title, fontsize=8)
            if truth.shape[0] >= LARGE:
                zoom(cell, picture, truth[:, : truth.shape[1] // count])


def zoom(cell: Any, picture: NDArray[np.uint8], truth: NDArray[np.uint8]) -> None:
    """An inset in the corner: where the first of the clean images varies most."""
    plane = truth.mean(-1) if truth.ndim == 3 else truth.astype(float)
    box = busiest(plane, min(plane.shape) // 4)
    width = 0.45 * plane.shape[1] / picture.shape[1]
    inset = cell.inset_axes((width / 0.45 - width, 0.0, width, 0.45))
    inset.imshow(picture[box], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    inset.set(xticks=[], yticks=[])
    for spine in inset.spines.values():
        spine.set(visible=True, color=drawing.PAPERS)
