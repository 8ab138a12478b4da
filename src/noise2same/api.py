"""The two functions that most users need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from noise2same import io
from noise2same.config import Config
from noise2same.denoiser import Denoiser
from noise2same.errors import InputError
from noise2same.io import Input


def train(
    images: Input | Sequence[Input],
    axes: str | None = None,
    *,
    target: Input | Sequence[Input] | None = None,
    progress: bool = True,
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
    progress : bool
        Show a progress bar.
    **options
        Fields of `Config`: method="noise2void", preset="paper", minutes=2, steps=2000, sigma=25, ...

    Examples
    --------
    >>> model = train(["a.tif", "b.tif"], axes="ZYX", minutes=10)  # doctest: +SKIP
    >>> model.save("worm.safetensors")  # doctest: +SKIP
    """
    return Denoiser(Config.of(**options)).fit(images, axes, target=target, progress=progress)


def denoise(
    image: Input,
    axes: str | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    dtype: str = "same",
    progress: bool = True,
    **options: Any,
) -> Any:
    """Train on one noisy image and return it denoised, with its own dtype and shape; `options` as for `train`.

    With minutes=0, nothing is trained: a network that has seen other pictures denoises a grey or colour one in seconds.

    Ctrl-C and SIGTERM raise KeyboardInterrupt: a result that is half trained must not pass for a whole one. What was
    learned until then, `train` keeps.

    Examples
    --------
    >>> clean = denoise(noisy)  # doctest: +SKIP
    >>> clean = denoise(noisy, minutes=0)  # doctest: +SKIP
    >>> clean = denoise(noisy, method="bm3d", sigma=25)  # doctest: +SKIP
    """
    model = Denoiser(Config.of(**options))
    opened, *more = io.open_images(image, axes)
    if more:
        raise InputError(f"There are {len(more) + 1} images: denoise them one by one, or train on them first.")
    if output is not None:  # what is wrong with it should not be said after the training
        wanted = None if dtype == "same" else io.dtype_of(dtype)
        io.check_output(output, [] if opened.path is None else [opened.path], opened, wanted)
    if model.config.minutes == 0:
        model.take_pretrained(opened)
    elif model.method.trained:
        model.fit(opened, progress=progress)
        if model.summary["interrupted"]:
            raise KeyboardInterrupt(f"Training was stopped at step {model.summary['steps']}.")
    return model.denoise(opened, output=output, dtype=dtype)
