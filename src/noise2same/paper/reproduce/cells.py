"""A cell of a table: one method, trained and tested on one data set. Once done, it is kept and never trained again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray

from noise2same.config import Config
from noise2same.denoiser import Denoiser
from noise2same.files import replacing
from noise2same.paper.analysis import invariance_of
from noise2same.paper.datasets import DATASETS, Dataset, Split
from noise2same.paper.provenance import provenance
from noise2same.paper.reproduce.store import Result
from noise2same.quality.metrics import affine_fit, evaluate

WATCHED = 2**17
"""Pixels of the validation images by which a training run is followed."""
STRICT = 2
"""Test images on which D(f) is measured."""
Image = NDArray[Any]
Watch = Callable[[Denoiser, Dataset], dict[str, float]]


@dataclass(frozen=True)
class Cell:
    """What is trained on what, and how it is scored."""

    name: str
    """Of its files."""
    dataset: str
    method: str
    """As the tables call it; "noisy" for the noisy images themselves."""
    settings: Callable[[Dataset], dict[str, Any]]
    """Of the training, by the data set."""
    score: str
    """The figure that the paper reports: a name in what `metrics.evaluate` returns."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of the data set."""
    most: int = 1000
    """Test images that are scored, of each condition."""
    corner: tuple[int, ...] = ()
    """Size to which they are cut, along their axes; empty for whole images."""
    examples: tuple[int, ...] = (0,)
    """Test images that are shown."""
    watch: Watch | None = None
    """What is measured fifty times in the run, if not the score of a few validation images."""

    @property
    def trained(self) -> bool:
        """Whether a network is trained; the noisy images and the classical methods have none."""
        return self.method not in ("noisy", "NLM", "BM3D")


def run(
    cell: Cell,
    folder: Path,
    data: Path | None,
    *,
    progress: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Train and score a cell, and write its figures and examples; a training run that was stopped goes on.

    The figures are in FOLDER/NAME.json. The examples are side by side in FOLDER/NAME.png; the noisy images' cell has
    the clean ones in another row below.

    Raises KeyboardInterrupt when the user stops it; the state of the training is kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dataset = load(cell.dataset, data, **cell.options)
    checkpoint = folder / f"{cell.name}.ckpt"
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        say(line)

    settings = {} if cell.method == "noisy" else cell.settings(dataset)
    model = Denoiser(Config.of(**settings)) if settings else None
    if model is not None and cell.trained:
        model.fit(
            list(dataset.train.noisy),
            dataset.axes,
            target=_target(cell.method, dataset),
            checkpoint=checkpoint,
            resume=True,
            progress=progress,
            say=hear,
            on_point=partial(_watched, cell=cell, dataset=dataset),
        )
        if model.summary["interrupted"]:
            raise KeyboardInterrupt
    figures, examples = _tested(cell, dataset, model)
    figures |= {"settings": settings, "said": said, "provenance": provenance()}
    with replacing(folder / f"{cell.name}.png") as path:
        imageio.imwrite(path, examples, extension=".png")
    with replacing(folder / f"{cell.name}.json") as path:
        path.write_text(json.dumps(figures, indent=1) + "\n")
    checkpoint.unlink(missing_ok=True)  # only now: the figures are safe
    return figures


def load(name: str, data: Path | None, **options: Any) -> Dataset:
    """A data set; the last one stays in memory."""
    return _load(name, data, tuple(sorted(options.items())))


@lru_cache(maxsize=1)
def _load(name: str, data: Path | None, options: tuple[tuple[str, Any], ...]) -> Dataset:
    return DATASETS[name](data, **dict(options))


def _target(method: str, dataset: Dataset) -> list[Image] | None:
    """What a supervised method learns to predict."""
    if method == "Noise2True":
        return list(dataset.train.clean)
    if method == "Noise2Noise":
        assert dataset.noise is not None, f"{dataset.name} has one noisy image of each"
        return [dataset.noise(image) for image in dataset.train.clean]
    return None


def _watched(model: Denoiser, *, cell: Cell, dataset: Dataset) -> dict[str, float]:
    """What is measured in the middle of training: the score of a few validation images, or what the cell asks for."""
    if cell.watch is not None:
        return cell.watch(model, dataset)
    few = dataset.validation[: max(1, WATCHED // dataset.validation.noisy[0].size)]
    scores = [score(model, dataset, x, y)[1][cell.score] for x, y in zip(few.noisy, few.clean, strict=True)]
    return {"score": float(np.mean(scores))}


def score(model: Denoiser | None, dataset: Dataset, noisy: Image, clean: Image) -> tuple[Image, dict[str, float]]:
    """An image denoised in one orientation, as in the paper, and how good that is."""
    output = noisy
    if model is not None:
        output = model.denoise(noisy, dataset.axes, dtype="float32", tta=False if model.network else None)
    return output, evaluate(prediction=output, truth=clean, data_range=dataset.data_range, axes=dataset.axes)


def _tested(cell: Cell, dataset: Dataset, model: Denoiser | None) -> tuple[Result, NDArray[np.uint8]]:
    """Figures of a cell whose model is trained, and its examples: of several conditions, those of the middle one."""
    scores, examples, shown, truths = {}, [], [], []
    middle = list(dataset.test)[len(dataset.test) // 2]
    for condition, split in dataset.test.items():
        part = _cut(split[: cell.most], cell.corner)
        found = []
        for number, (x, y) in enumerate(zip(part.noisy, part.clean, strict=True)):
            output, one = score(model, dataset, x, y)
            found.append(one)
            if condition == middle and number in cell.examples:
                examples.append(picture(y, output, dataset))
                truths.append(picture(y, y, dataset))
                shown.append(one[cell.score])
        scores[condition] = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        scores[condition]["n"] = len(found)
    figures: Result = {
        "cell": cell.name,
        "dataset": cell.dataset,
        "options": cell.options,
        "method": cell.method,
        "score": cell.score,
        "scores": scores,
        "examples": shown,
    }
    if model is not None and cell.trained:
        few = _cut(dataset.test[middle][:STRICT], cell.corner)
        strictness = invariance_of(model, list(few.noisy), dataset.axes)
        figures |= {
            "invariance": float(np.mean([one.value for one in strictness])),
            **as_trained(model),
        }
    rows = [examples] if model is not None else [examples, truths]
    return figures, np.concatenate([np.concatenate(row, axis=1) for row in rows])


def as_trained(model: Denoiser) -> Result:
    """The loss and the batch that the plan chose for a trained model, and how training went."""
    assert model.plan is not None
    return {
        "loss": model.plan.method.value,
        "batch": model.plan.batch.value,
        "summary": model.summary,
    }


def _cut(split: Split, corner: tuple[int, ...]) -> Split:
    """The images cut to a size."""
    box = tuple(slice(length) for length in corner)
    return Split([image[box] for image in split.noisy], [image[box] for image in split.clean])


def picture(clean: Image, output: Image, dataset: Dataset) -> NDArray[np.uint8]:
    """A result to look at, fitted to the clean image: (Y, X[, C]); of a volume, the maximum along Z."""
    image = affine_fit(clean.astype(np.float64), output.astype(np.float64))
    if "Z" in dataset.axes:
        image = image.max(0)
    scaled: NDArray[np.uint8] = np.clip(255 * image / dataset.data_range, 0, 255).round().astype(np.uint8)
    return scaled
