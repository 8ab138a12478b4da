"""Noise that a user can simulate: a function of a clean image that returns a noisy one, from a file or from Python."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError

Simulator = Callable[[NDArray[Any]], NDArray[Any]]
"""sample(clean) -> noisy: arrays of one shape in the units of the images, with new noise at each call."""
BIAS, UNUSABLE = 0.05, 0.8
"""Mean of the noise, in its standard deviations, from which on a simulator is said to be biased; and by how much that
of the darkest and of the brightest quarter of the pixels may differ: where bright and dark are pulled together, the
covariance of output and noise cannot be drawn around the output."""
DRAWS = 16


def load(path: Path) -> Simulator:
    """Run a Python file and return its function `sample`."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file for the noise model.")
    try:
        sample = runpy.run_path(str(path)).get("sample")
    except Exception as error:
        raise InputError(f"{path}: it does not run ({type(error).__name__}: {error}).") from error
    if not callable(sample):
        raise InputError(f"{path}: it has no function sample(clean), which should return a noisy image.")
    return sample


def draw(sample: Simulator, clean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Noisy image of the shape of `clean`; what is wrong with the simulator as one sentence."""
    try:
        noisy = np.asarray(sample(clean))
    except Exception as error:
        raise InputError(f"The noise model's sample(clean) fails ({type(error).__name__}: {error}).") from error
    if noisy.shape != clean.shape:
        raise InputError(f"The noise model's sample(clean) returns shape {noisy.shape} for an image of {clean.shape}.")
    if noisy.dtype.kind not in "fiu" or not np.isfinite(noisy).all():
        raise InputError("The noise model's sample(clean) returns something other than finite numbers.")
    return noisy.astype(np.float32)


def check(sample: Simulator, clean: NDArray[np.float32]) -> None:
    """Try a simulator on an image like those to be denoised; warn if its noise has a mean, refuse if that varies."""
    draws = np.stack([draw(sample, clean) - clean for _ in range(DRAWS)])
    std = float(draws.std())
    if std == 0:
        raise InputError("The noise model's sample(clean) adds no noise.")
    low, high = np.quantile(clean, (0.25, 0.75))
    dark, bright = (float(draws[:, part].mean()) / std for part in (clean <= low, clean >= high))
    if abs(bright - dark) > UNUSABLE:
        raise InputError(
            f"The noise that sample(clean) adds has the mean {dark:.2f} in dark and {bright:.2f} in bright pixels, in "
            "its standard deviations: it should be zero. Such noise cannot be modelled; use the noise model none."
        )
    mean = float(draws.mean()) / std
    if abs(mean) > BIAS:
        warnings.warn(
            f"The simulated noise is not zero on average but {mean:.2f} of its standard deviation: "
            "the result will be as much too bright or too dark.",
            stacklevel=2,
        )
