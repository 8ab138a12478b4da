"""The methods. One is one file here and one line in `METHODS`, or an entry point of another package."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import entry_points

from noise2same.config import Config
from noise2same.errors import InputError
from noise2same.methods.base import METHOD_SETTINGS, Facts, Method
from noise2same.methods.classical import BM3D, NLM
from noise2same.methods.laine import Laine
from noise2same.methods.masked import Noise2Self, Noise2Void, Noise2Void2
from noise2same.methods.noise2same import Noise2Same
from noise2same.methods.supervised import Noise2Noise, Noise2True

__all__ = ["METHODS", "METHOD_SETTINGS", "Facts", "Method", "check_target", "every", "find"]

METHODS: dict[str, type[Method]] = {
    "noise2same": Noise2Same,
    "noise2void": Noise2Void,
    "noise2void2": Noise2Void2,
    "noise2self": Noise2Self,
    "laine": Laine,
    "noise2true": Noise2True,
    "noise2noise": Noise2Noise,
    "nlm": NLM,
    "bm3d": BM3D,
}
ENTRY_POINTS = "noise2same.methods"


def every() -> dict[str, type[Method]]:
    """All methods by name: ours, and those that installed packages add."""
    return {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)} | METHODS


def find(config: Config) -> type[Method]:
    """The method `config` names, if it can use its settings; what is wrong with them as one sentence."""
    name = config.method
    methods = METHODS if name in METHODS else every()
    if name not in methods:
        near = get_close_matches(name, methods, n=1)
        meant = f" did you mean {near[0]}?" if near else ""
        raise InputError(f"There is no method '{name}':{meant} There are {', '.join(methods)}.")
    method = methods[name]
    model = config.noise_model
    if model not in method.noise_models:
        able = [other for other, its in methods.items() if model in its.noise_models]
        raise InputError(f"{name} cannot use the noise model {model}; {' and '.join(able)} can.")
    default = Config(preset=config.preset, method=name)
    for setting in METHOD_SETTINGS:
        if setting not in method.settings and getattr(config, setting) != getattr(default, setting):
            raise InputError(f"{name} does not use {setting}: leave it out, or use another method.")
    return method


def check_target(config: Config, *, given: bool) -> None:
    """Raise InputError if the method is not trained, or needs a target and has none, or the other way round."""
    name, method = config.method, find(config)
    if not method.trained:
        raise InputError(f"{name} is not trained: denoise with it straight away.")
    if method.supervised and not given:
        raise InputError(f"{name} learns from {method.needs}: give the targets (noise2same train --target).")
    if given and not method.supervised:
        raise InputError(f"{name} learns from {method.needs} alone: leave out the targets, or use noise2true.")
