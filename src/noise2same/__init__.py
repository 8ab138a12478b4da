"""noise2same: denoise images from the noisy images alone.

>>> import noise2same as n2s
>>> clean = n2s.denoise(noisy)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Config", "Denoiser", "denoise", "train"]

if TYPE_CHECKING:
    from noise2same.config import Config
    from noise2same.denoiser import Denoiser, denoise, train


def __getattr__(name: str) -> Any:
    """Import torch and the rest only when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module 'noise2same' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("noise2same.config" if name == "Config" else "noise2same.denoiser"), name)
