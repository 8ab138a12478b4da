"""The methods. One is one class here and one line in `METHODS`, or an entry point of another package, or a class."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from noise2same.config import Config, sentence_of
from noise2same.errors import InputError
from noise2same.methods.base import Algorithm, Architecture, Classical, DataProfile, Method
from noise2same.methods.classical import BM3D, NLM
from noise2same.methods.laine import Laine
from noise2same.methods.masked import Noise2Self, Noise2Void, Noise2Void2
from noise2same.methods.noise2same import Noise2Same
from noise2same.methods.projected import Projected
from noise2same.methods.supervised import Noise2Noise, Noise2True
from noise2same.methods.sure import Sure

__all__ = [
    "AUTO",
    "METHODS",
    "Algorithm",
    "Architecture",
    "Classical",
    "DataProfile",
    "Method",
    "candidates",
    "check_target",
    "every",
    "find",
    "settings_of",
    "shared_settings",
]

METHODS: dict[str, type[Algorithm]] = {
    method.name: method
    for method in (
        Noise2Same,
        Projected,
        Sure,
        Noise2Void,
        Noise2Void2,
        Noise2Self,
        Laine,
        Noise2True,
        Noise2Noise,
        NLM,
        BM3D,
    )
}
AUTO: tuple[type[Method], ...] = (Sure, Projected, Noise2Same)
"""What "auto" chooses from, in the order of preference; the choice is the plan's."""
SHARED_SETTINGS = ("sigma", "gain", "noise_extent")
ENTRY_POINTS = "noise2same.methods"


def every() -> dict[str, type[Algorithm]]:
    """All methods by name: ours, and those that installed packages add."""
    return {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)} | METHODS


def find(name: str | type[Any]) -> type[Algorithm]:
    """The method of a name, or the class itself."""
    if isinstance(name, type):
        if not issubclass(name, Algorithm):
            raise InputError(f"{name.__name__} is not a method: it must be a subclass of noise2same.methods.Method.")
        return name
    methods = METHODS if name in METHODS else every()
    if name not in methods:
        near = get_close_matches(name, ["auto", *methods], n=1)
        meant = f" did you mean {near[0]}?" if near else ""
        raise InputError(f"There is no method '{name}':{meant} There are auto, {', '.join(methods)}.")
    return methods[name]


def shared_settings(config: Config) -> list[str]:
    """Which of the settings that only some methods use are set."""
    return [name for name in SHARED_SETTINGS if getattr(config, name) != Config.model_fields[name].default]


def settings_of(method: type[Algorithm], config: Config) -> Any:
    """A method's own settings, if it can use all that is set; what is wrong with them as one sentence."""
    fields = method.Settings.model_fields
    for name in config.method_settings:
        if name not in fields:
            others = [other for other, its in METHODS.items() if name in its.Settings.model_fields]
            if not others:
                known = [*Config.model_fields, *fields]
                raise InputError(f"{name}: there is no such setting; there are {', '.join(known)}.")
            raise InputError(f"{method.name} does not use {name}: leave it out, or use {' or '.join(others)}.")
    for name in shared_settings(config):
        if name not in method.uses:
            raise InputError(f"{method.name} does not use {name}: leave it out, or use another method.")
    if config.channels == "separate" and issubclass(method, Method) and not method.separable:
        raise InputError(f"{method.name} trains all channels together: leave out channels, or use another method.")
    preset = dict(method.paper_settings) if config.preset == "paper" else {}
    if config.sigma is not None:  # Theorem 2 replaces the preset's weight
        preset.pop("lambda_inv", None)
    given = preset | config.method_settings
    try:
        settings = method.Settings(**given)
    except ValidationError as error:
        raise InputError(sentence_of(error, given)) from None
    method.check(settings, config)
    return settings


def candidates(config: Config) -> list[type[Algorithm]]:
    """The methods that can do what a config asks for: the one it names or, for auto, all of `AUTO` that can."""
    if config.method != "auto":
        method = find(config.method)
        settings_of(method, config)
        return [method]
    able: list[type[Algorithm]] = []
    problems: list[InputError] = []
    for method in AUTO:
        try:
            settings_of(method, config)
            able.append(method)
        except InputError as error:
            has_all = config.method_settings.keys() <= method.Settings.model_fields.keys()
            problems.insert(0 if has_all else len(problems), error)
    if not able:
        raise problems[0]
    return able


def check_target(config: Config, *, given: bool) -> None:
    """Raise InputError if the method is not trained, or needs a target and has none, or the other way round."""
    method, name = candidates(config)[0], config.method_name
    if not issubclass(method, Method):
        raise InputError(f"{name} is not trained: denoise with it straight away.")
    if method.supervised and not given:
        raise InputError(f"{name} learns from {method.needs}: give the targets (noise2same train --target).")
    if given and not method.supervised:
        raise InputError(f"{name} learns from {method.needs} alone: leave out the targets, or use noise2true.")
