"""The comparison panels: what every method makes of the same noisy images, whole and zoomed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray

from noise2same.reproduce import drawing
from noise2same.reproduce.plan import PROTOCOLS
from noise2same.reproduce.tables import SCORES, Result

COLUMNS = 6


def visual(
    dataset: str, results: dict[str, Result], pictures: dict[str, Path], truth: NDArray[np.uint8], path: Path
) -> str:
    """Draw one data set's examples by every method; returns the caption.

    Parameters
    ----------
    pictures : dict
        By method: its examples side by side.
    truth : array, (Y, X[, C])
        The clean examples side by side.
    """
    panels: dict[str, Any] = {
        f"{method}\n{' / '.join(f'{score:.2f}' for score in results[method]['examples'])} dB": imageio.imread(picture)
        for method, picture in pictures.items()
    }
    panels["clean"] = truth
    zoomed = min(truth.shape[:2]) >= 128  # characters are small enough as they are
    lines = -(-len(panels) // COLUMNS)
    ratio = truth.shape[0] / truth.shape[1]
    width = 7.2 * 1.5
    with drawing.figure(path, width, lines * (width / COLUMNS * ratio + 0.45)) as figure:
        cells = figure.subplots(lines, COLUMNS, squeeze=False).flatten()
        for cell in cells:
            cell.set_axis_off()
        for cell, (title, image) in zip(cells, panels.items(), strict=False):
            cell.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            cell.set_title(title, fontsize=8)
            if zoomed:
                inset = cell.inset_axes((0.55, 0.0, 0.45, 0.45 / ratio))
                inset.imshow(image[box(truth)], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
                inset.set(xticks=[], yticks=[])
                for spine in inset.spines.values():
                    spine.set(visible=True, color=drawing.PAPERS)
    score = SCORES[PROTOCOLS[dataset].score]
    return f"{PROTOCOLS[dataset].title}: test images by every method, fitted to the clean ones, with their {score}."


def box(truth: NDArray[np.uint8]) -> tuple[slice, slice]:
    """Where the first example varies most, a quarter of its height."""
    from noise2same.report.views import busiest

    side = truth.shape[0] // 4
    plane = truth[:, : truth.shape[0]].astype(float)
    return busiest(plane.mean(-1) if plane.ndim == 3 else plane, side)
