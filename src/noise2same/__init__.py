"""noise2same: denoise images from the noisy images alone.

>>> import numpy as np
>>> import noise2same as n2s
>>> noisy = np.random.default_rng(0).poisson(50, (64, 64)).astype(np.uint16)
>>> clean = n2s.denoise(noisy, minutes=0)  # 0 trains nothing: the network that comes with the package does it
>>> clean.shape, clean.dtype
((64, 64), dtype('uint16'))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = ["Config", "Denoiser", "Plan", "denoise", "plan", "train"]
_LAZY = {"Config": "config", "Denoiser": "denoiser", "Plan": "plan", "denoise": "api", "plan": "api", "train": "api"}

if TYPE_CHECKING:
    from noise2same.api import denoise, plan, train
    from noise2same.config import Config
    from noise2same.denoiser import Denoiser
    from noise2same.plan import Plan


def __getattr__(name: str) -> Any:
    """Import torch and the rest only when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module 'noise2same' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"noise2same.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for completion, without importing them."""
    return sorted([*__all__, "__doc__", "__version__"])
