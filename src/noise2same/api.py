"""The three functions that most users need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noise2same import io, pipeline
from noise2same.config import Config
from noise2same.denoiser import Denoiser
from noise2same.device import Device
from noise2same.errors import InputError
from noise2same.io import Input
from noise2same.plan import Plan, choose_time, read_and_plan

if TYPE_CHECKING:
    from noise2same.training.state import OnStep


def plan(
    images: Input | Sequence[Input],
    axes: str | None = None,
    *,
    target: Input | Sequence[Input] | None = None,
    **options: Any,
) -> Plan:
    """What `train` or `denoise` would do with these images, and why; nothing is trained.

    Parameters
    ----------
    images, axes, target
        As for `train`.
    **options
        As for `train`.

    Examples
    --------
    >>> import numpy as np
    >>> noisy = np.random.default_rng(0).normal(100, 20, (64, 64))
    >>> plan(noisy, steps=100).budget.value.steps
    100
    """
    config = Config.of(**options)
    opened, targets = Denoiser(config).open_to_train(images, axes, target)
    return read_and_plan(opened, targets, config, choose_time(opened, config))[0]


def train(
    images: Input | Sequence[Input],
    axes: str | None = None,
    *,
    target: Input | Sequence[Input] | None = None,
    plan: Plan | None = None,
    device: Device = None,
    progress: bool = True,
    on_step: OnStep | None = None,
    **options: Any,
) -> Denoiser:
    """Train a denoiser on noisy images: files, folders, glob patterns or arrays.

    Parameters
    ----------
    images : path, array or sequence of them
        The noisy images, of any sizes, with the same number of channels.
    axes : str, optional
        Letters of S, T, C, Z, Y, X; needed where the files do not say and there is more than one reading.
    target : path, array or sequence of them, optional
        For a supervised method, what to predict from each image, of its shape: files of the same names, or arrays in
        the same order.
    plan : Plan, optional
        Of an earlier run, to be repeated; it has all options.
    device : str or torch.device, optional
        Where to train, such as "cuda:1" or "cpu"; the fastest device there is by default.
    progress : bool
        Show a progress bar.
    on_step : callable, optional
        Given the `TrainingState` after each step, as for `Denoiser.fit`; `notebook.Preview` is one.
    **options
        Fields of `Config`, and settings of the method: method="noise2void", minutes=2, steps=2000, sigma=25, ...

    Returns
    -------
    Denoiser
        The trained model.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> model = train([rng.normal(100, 20, (48, 48)) for _ in range(2)], steps=2, progress=False)
    >>> model.summary["images"]
    2
    """
    if plan is not None and options:
        raise InputError(f"A plan has all settings: leave out {next(iter(options))}, or the plan.")
    config = Config.of(**options) if plan is None else plan.config
    return Denoiser(config).fit(
        images, axes, target=target, plan=plan, device=device, progress=progress, on_step=on_step
    )


def denoise(
    image: Input,
    axes: str | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    dtype: str = "same",
    strength: float = 1.0,
    workers: int | None = None,
    scheduler: str | None = None,
    device: Device = None,
    progress: bool = True,
    **options: Any,
) -> Any:
    """Train on one noisy image and return it denoised, with its own dtype and shape.

    A file with several images, such as the scenes of a CZI, is denoised whole: one network is trained on all of them.

    With minutes=0, nothing is trained: a pretrained network denoises a grey or colour picture in seconds.

    Ctrl-C and SIGTERM raise KeyboardInterrupt: a result that is half trained must not pass for a whole one. What was
    learned until then, `train` keeps.

    Parameters
    ----------
    image : path or array
        One noisy image. Of a file with several, 'scan.czi/2' is the third alone.
    axes : str, optional
        Its axes, where it does not say itself.
    output : path, optional
        File to write.
    dtype : str
        "same" as the input, or the name of another, such as "float32".
    strength : float
        From 0, the input, to 1, the denoised image.
    workers, scheduler
        Who shares the prediction of a large file, as for `Denoiser.denoise`.
    device, progress, **options
        As for `train`.

    Returns
    -------
    array or Path
        The denoised array, or the path of the file when `output` is given. Of a file with several images, it is a list
        of arrays; the output holds all of them or, if its format cannot, numbered files do, and it is their list.

    Examples
    --------
    >>> import numpy as np
    >>> noisy = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.uint8)
    >>> clean = denoise(noisy, minutes=0)
    >>> clean.dtype, bool(clean.std() < noisy.std())
    (dtype('uint8'), True)
    """
    ways: dict[str, Any] = {"dtype": dtype, "strength": strength, "workers": workers, "scheduler": scheduler}
    if output is not None and isinstance(io.as_path(output), io.Url):
        with io.uploading(output):
            place = io.stage(output, [image])
            denoise(image, axes, output=place, device=device, progress=progress, **ways, **options)
        return io.as_path(output)
    images = io.open_images(image, axes)
    names = io.names_in_one_file(images, "denoise them one by one, or train on them first")
    outputs, whole = ([None] * len(names), None) if output is None else io.series.places(names, Path(output))
    model = Denoiser(Config.of(**options))
    job = pipeline.check(images, outputs, wholes=[whole] * len(images), verdict=False, strict=True, **ways)
    results = pipeline.run(job, model, device=device, progress=progress)
    return whole or (results[0].denoised if len(results) == 1 else [result.denoised for result in results])
