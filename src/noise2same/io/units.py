"""Names of units, as OME-NGFF spells them, and pixel sizes in one of them."""

from __future__ import annotations

import math
import warnings
from typing import Any

# full name: (symbol, metres)
LENGTHS = {
    "angstrom": ("Å", 1e-10),
    "nanometer": ("nm", 1e-9),
    "micrometer": ("µm", 1e-6),
    "millimeter": ("mm", 1e-3),
    "centimeter": ("cm", 1e-2),
    "meter": ("m", 1.0),
    "inch": ("in", 0.0254),
}
SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "ms": 1e-3, "millisecond": 1e-3, "min": 60.0, "minute": 60.0}
SECONDS |= {"h": 3600.0, "hour": 3600.0, "µs": 1e-6, "microsecond": 1e-6}
# both Unicode signs for micro, and ImageJ's escaped one
_ALIASES = {"um": "micrometer", "µm": "micrometer", "μm": "micrometer", "\\u00b5m": "micrometer"}
_ALIASES |= {"micron": "micrometer", "microns": "micrometer", "pixel": "", "pixels": "", "none": ""}
_ALIASES |= {full: full for full in LENGTHS}
_ALIASES |= {symbol: name for name, (symbol, _) in LENGTHS.items()}


def name(text: str) -> str:
    """Full name of a unit of length: 'um' -> 'micrometer'; unknown ones stay as they are."""
    text = text.strip()
    return _ALIASES.get(text, _ALIASES.get(text.lower(), text))


def symbol(unit: str) -> str:
    """The reverse of `name`: 'micrometer' -> 'µm'."""
    return LENGTHS[unit][0] if unit in LENGTHS else unit


def convert(value: float, unit: str, to: str) -> float | None:
    """A length in another unit, or None if there is no way from the one to the other."""
    if unit == to:
        return value
    return value * LENGTHS[unit][1] / LENGTHS[to][1] if unit in LENGTHS and to in LENGTHS else None


def checked(sizes: Any, axes: str, *, name: str) -> dict[str, float]:
    """Pixel sizes along these axes out of what a file says.

    That may be anything: what is not made of positive numbers is left out, with a warning that names the file.
    """
    try:
        numbers = {letter: float(size) for letter, size in sizes.items() if letter in axes}
        if all(math.isfinite(size) and size > 0 for size in numbers.values()):
            return numbers
    except (AttributeError, TypeError, ValueError):
        pass
    warnings.warn(
        f"{name}: its pixel size {str(sizes)[:80]} is not made of positive numbers and left out.", stacklevel=4
    )
    return {}


def combine(found: dict[str, tuple[float, str]]) -> tuple[dict[str, float], str]:
    """Size and unit per axis letter, as found -> sizes in one unit (that of X; T in seconds), and that unit."""
    found = {letter: (float(value), text) for letter, (value, text) in found.items()}
    found = {letter: pair for letter, pair in found.items() if math.isfinite(pair[0]) and pair[0] > 0}
    unit = next((name(found[letter][1]) for letter in "XYZ" if letter in found and name(found[letter][1])), "")
    sizes: dict[str, float] = {}
    for letter in "TZYX":
        if letter not in found:
            continue
        value, text = found[letter]
        size = value * SECONDS[text] if letter == "T" and text in SECONDS else None
        if letter != "T":
            size = convert(value, name(text), unit)
        if size is not None:
            sizes[letter] = size
    if not unit and all(size == 1 for letter, size in sizes.items() if letter != "T"):
        sizes = {letter: size for letter, size in sizes.items() if letter == "T"}  # one pixel per pixel says nothing
    return sizes, unit
