"""noise2same: denoise images from the noisy images alone.

>>> import noise2same as n2s
>>> clean = n2s.denoise(noisy)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = ["Config", "Denoiser", "denoise", "train"]
ROOMS = {"Config": "config", "Denoiser": "denoiser", "denoise": "api", "train": "api"}

if TYPE_CHECKING:
    from noise2same.api import denoise, train
    from noise2same.config import Config
    from noise2same.denoiser import Denoiser


def __getattr__(name: str) -> Any:
    """Import torch and the rest only when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module 'noise2same' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"noise2same.{ROOMS[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for completion, without importing them."""
    return sorted([*__all__, "__doc__", "__version__"])
