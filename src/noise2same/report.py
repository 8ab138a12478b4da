"""The picture of a result: before, after, and the truth where there is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noise2same import axes as ax


def before_after(panels: dict[str, NDArray], axes: str, path: Path, *, zoom: int = 128) -> None:
    """Draw images side by side, the whole above and a zoomed square below, all with the same grey values.

    Parameters
    ----------
    panels : dict
        Title -> image; all of one shape. The last one sets the range of grey values that is shown.
    axes : str
        Their axes. Of several samples the first is shown, of a volume its middle slice.
    path : Path
        PNG file to write.
    zoom : int
        Side in pixels, at most half of the image's, of the square in the lower row, where the last image varies most.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {title: plane_of(image, axes) for title, image in panels.items()}
    *_, last = shown.values()
    low, high = np.percentile(last, (0.5, 99.5))
    scale = max(float(high - low), 1e-12)
    rows, columns = busiest(last.mean(-1), min(zoom, max(1, min(last.shape[:2]) // 2)))
    ratio = last.shape[0] / last.shape[1]
    figure = Figure(figsize=(4 * len(shown), 4 * (ratio + 1) + 0.4), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(shown), squeeze=False, height_ratios=(ratio, 1))
    for (title, plane), whole, detail in zip(shown.items(), *grid, strict=True):
        picture = np.clip((plane - low) / scale, 0, 1)
        picture = picture[..., :3] if picture.shape[-1] >= 3 else picture[..., 0]
        whole.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="antialiased")
        whole.set_title(title)
        detail.imshow(picture[rows, columns], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        height, width = rows.stop - rows.start, columns.stop - columns.start
        whole.plot(
            columns.start + np.array([0, width, width, 0, 0]),
            rows.start + np.array([0, 0, height, height, 0]),
            color="tab:orange",
            linewidth=1,
        )
        for panel in (whole, detail):
            panel.set_axis_off()
    figure.savefig(path)


def plane_of(image: NDArray, axes: str) -> NDArray[np.float64]:
    """First sample, middle slice -> (Y, X, C)."""
    sample = ax.to_network(np.asarray(image, dtype=np.float64), axes)[0]
    if sample.ndim == 4:
        sample = sample[:, sample.shape[1] // 2]
    return np.moveaxis(sample, 0, -1)


def busiest(plane: NDArray[np.float64], side: int) -> tuple[slice, slice]:
    """The square of a plane (Y, X) with the largest variance, on a coarse grid."""
    height, width = (min(side, length) for length in plane.shape)
    corners = [
        (y, x)
        for y in range(0, plane.shape[0] - height + 1, max(1, height // 2))
        for x in range(0, plane.shape[1] - width + 1, max(1, width // 2))
    ]
    y, x = max(corners, key=lambda corner: plane[corner[0] :, corner[1] :][:height, :width].var())
    return slice(y, y + height), slice(x, x + width)
