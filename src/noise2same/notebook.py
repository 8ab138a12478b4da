"""What a Jupyter notebook shows while a network learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noise2same import io
from noise2same.quality.report.views import plane_of
from noise2same.training.pace import Occasionally

if TYPE_CHECKING:
    from noise2same.training.state import TrainingState

SIDE = 256
"""Longest side in pixels of what is shown: the middle of the image."""
DEPTH = 16
"""Planes of a volume that are denoised with the one that is shown."""


class Preview:
    """Listens to a training (`on_step`) and shows the middle of an image, noisy and as it is denoised so far.

    Parameters
    ----------
    image : path or array
        What to show, usually the image that is learned from.
    axes : str, optional
        Its axes, where it does not say itself.
    every : float
        Seconds from one picture to the next, at least.

    Examples
    --------
    >>> import noise2same as n2s
    >>> model = n2s.train(noisy, on_step=Preview(noisy))  # doctest: +SKIP
    """

    def __init__(self, image: io.Input, axes: str | None = None, *, every: float = 3.0) -> None:
        (opened,) = io.open_images(image, axes)
        self._axes = opened.axes
        self._noisy = np.asarray(opened.data[tuple(map(_middle, opened.axes, opened.shape))])
        self._occasionally = Occasionally(every)
        self._on_page: Any = None

    def __call__(self, state: TrainingState) -> None:
        """Show a picture, if it is time for one."""
        if state.share < 1:
            self._occasionally(lambda: self._show(state))
        else:
            self._show(state)

    def _show(self, state: TrainingState) -> None:
        from IPython.display import DisplayHandle, Image

        clean = state.preview(self._noisy, self._axes)
        pair = [plane_of(image, self._axes) for image in (self._noisy, clean)]
        page = Image(data=_png(np.concatenate(pair, axis=1)))
        if self._on_page is None:
            self._on_page = DisplayHandle()
            self._on_page.display(page)
        else:
            self._on_page.update(page)


def _middle(axis: str, size: int) -> slice:
    most = {"Y": SIDE, "X": SIDE, "Z": DEPTH, "C": size}.get(axis, 1)
    start = max(0, size - most) // 2
    return slice(start, start + most)


def _png(picture: NDArray[Any]) -> bytes:
    """(Y, X, C) as a gray or color picture; of other numbers of channels, the first."""
    import imageio.v3 as imageio

    low, high = np.nanpercentile(picture, (0.5, 99.5))
    shown = np.clip((picture - low) / max(float(high - low), 1e-12) * 255, 0, 255)
    shown = np.nan_to_num(shown).astype(np.uint8)
    return bytes(imageio.imwrite("<bytes>", shown if shown.shape[-1] == 3 else shown[..., 0], extension=".png"))
