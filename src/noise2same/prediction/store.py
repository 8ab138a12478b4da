"""An image denoised into a Zarr store: part by part, by this process or by workers, and then its resolution levels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from noise2same.data.normalize import Normalization
from noise2same.io import ome_zarr, pyramid
from noise2same.prediction.blocks import Part
from noise2same.prediction.job import Unfinished
from noise2same.prediction.predict import OnBlock, Predicted, Prediction, Summary, report
from noise2same.prediction.workers import run_on

if TYPE_CHECKING:
    from distributed import Client

Place = tuple[int, ...]
"""Of an image along S and T."""


@dataclass(frozen=True)
class Remote:
    """What workers are sent with each item: how to open input, model and output, which they do once.

    Parameters
    ----------
    key : str
        Of this run.
    open : callable
        Makes the `Prediction` in any process. It can be pickled, and is small.
    """

    key: str
    open: Callable[[], Prediction]

    def measure(self, place: Place) -> Normalization:
        """The statistics of an image."""
        with _one_at_a_time:
            return self._opened().measure(place)

    def denoise(self, item: tuple[Part, dict[Place, Normalization]]) -> Predicted:
        """Denoise a part and write it."""
        part, known = item
        with _one_at_a_time:
            return self._opened().run([part], known=known)

    def _opened(self) -> Prediction:
        if self.key not in _open:
            _open.clear()
            _open[self.key] = self.open()
        return _open[self.key]


_open: dict[str, Prediction] = {}
"""Of the run that this worker is part of."""
_one_at_a_time = Lock()
"""A worker may have several threads. A network uses as many as it may, and two parts at once would take more memory."""


@dataclass(frozen=True)
class Level:
    """Makes one resolution level of the one before it, in any process."""

    store: Path
    number: int

    def __call__(self, box: pyramid.Box) -> None:
        levels = ome_zarr.open_store(self.store)
        pyramid.fill(levels[self.number - 1], levels[self.number], box)


def fill_store(
    job: Unfinished,
    work: Prediction,
    levels: list[Any],
    *,
    client: Client | None = None,
    remote: Remote | None = None,
    on_block: OnBlock | None = None,
) -> Predicted:
    """Denoise all parts of an image that are not done yet, and make its levels.

    Parameters
    ----------
    job : Unfinished
        Where it is noted what is done.
    work : Prediction
        Into the first of the levels.
    levels : list of zarr.Array
        Of the store.
    client, remote : optional
        The cluster to do it, and what its workers need; without them, this process does it.
    on_block : callable, optional
        As for `predict`.
    """
    summary, blocks = Summary(work.channels), 0
    for part in work.parts():
        if part in job.done:
            invalid, share = job.done[part]
            summary.add(Predicted(invalid, np.array(share)), part.pixels)
            blocks += work.blocks_of(part)

    def noted(items: list[tuple[Part, Predicted]]) -> None:
        for part, found in items:
            summary.add(found, part.pixels)
        job.record([(part, [found.invalid, found.input_share.tolist()]) for part, found in items])

    if blocks:
        report(on_block, blocks, work.total)
    if client is None or remote is None:
        work.run(_missing(job, work), done=blocks, on_block=on_block, on_part=lambda *item: noted([item]))
    else:
        _on_workers(client, remote, job, work, noted, blocks, on_block)
    for number in range(1, len(levels)):
        _make_level(job, levels, number, client)
    return summary.predicted()


def _make_level(job: Unfinished, levels: list[Any], number: int, client: Client | None) -> None:
    """Make what is not done yet of a level."""
    boxes = (box for box in pyramid.boxes(levels[number - 1], levels[number]) if (number, box) not in job.done)
    fill = Level(job.store, number)

    def noted(items: list[tuple[pyramid.Box, None]]) -> None:
        job.record([((number, box), None) for box, _ in items])

    if client is not None:
        run_on(client, fill, boxes, noted)
        return
    for box in boxes:
        fill(box)
        noted([(box, None)])


def _missing(job: Unfinished, work: Prediction) -> Iterator[Part]:
    return (part for part in work.parts() if part not in job.done)


def _on_workers(
    client: Client,
    remote: Remote,
    job: Unfinished,
    work: Prediction,
    noted: Callable[[list[tuple[Part, Predicted]]], None],
    blocks: int,
    on_block: OnBlock | None,
) -> None:
    """Have the parts that are not done denoised by workers, after the statistics that they need are measured."""
    known: dict[Place, Normalization] = {}
    if work.normalization is None:
        places = dict.fromkeys(place for part in _missing(job, work) for place in part.samples)
        run_on(client, remote.measure, places, known.update)

    def denoised(items: list[tuple[tuple[Part, Any], Predicted]]) -> None:
        nonlocal blocks
        noted([(part, found) for (part, _), found in items])
        blocks += sum(work.blocks_of(part) for (part, _), _ in items)
        report(on_block, blocks, work.total)

    parts = ((part, {at: known[at] for at in part.samples if at in known}) for part in _missing(job, work))
    run_on(client, remote.denoise, parts, denoised)
