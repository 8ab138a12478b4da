"""Axes strings such as 'TCZYX': whether one describes an array, and which is meant where a file says nothing."""

from __future__ import annotations

from noise2same.errors import InputError, UnknownAxes

LETTERS = "STCZYX"


def check(axes: str, shape: tuple[int, ...], *, name: str = "the array") -> str:
    """Return `axes` in capitals if it describes an array of this shape; say what does not fit otherwise.

    Parameters
    ----------
    axes : str
        One letter per dimension, of S, T, C, Z, Y and X, each at most once; Y and X are required.
    shape : tuple of int
        Shape of the array to be described.
    name : str
        What to call the array in an error, usually its file.
    """
    axes = axes.upper()
    unknown = sorted(set(axes) - set(LETTERS))
    if unknown:
        raise InputError(f"{name}: axes '{axes}' has the unknown letter {unknown[0]!r}; use S, T, C, Z, Y and X.")
    if len(set(axes)) != len(axes):
        raise InputError(f"{name}: axes '{axes}' names a letter twice.")
    if not {"Y", "X"} <= set(axes):
        raise InputError(f"{name}: axes '{axes}' must contain both Y and X.")
    if len(axes) != len(shape):
        raise InputError(f"{name}: axes '{axes}' has {len(axes)} letters but the data has shape {shape}.")
    if 0 in shape:
        raise InputError(f"{name} is empty: its shape is {shape}.")
    return axes


def guess(shape: tuple[int, ...], *, name: str = "the array") -> str:
    """Axes of an array that carries no metadata, where only one reading is sensible.

    Two dimensions are YX, and a last dimension of 3 or 4 behind two long ones is colour (YXC). Anything else could be a
    volume, a time series or separate images, so it is asked for.
    """
    if len(shape) == 2:
        return "YX"
    if len(shape) == 3 and shape[2] in (3, 4) and min(shape[:2]) >= 16:
        return "YXC"
    hints = {
        3: "'ZYX' (a volume), 'SYX' (separate images), 'TYX' (a time series) or 'CYX' (channels)",
        4: "'TZYX', 'CZYX', 'SYXC' or another order",
    }
    hint = hints.get(len(shape), "one letter of S, T, C, Z, Y and X per dimension")
    raise UnknownAxes(f"{name} has shape {shape} and does not say what its axes are: pass axes, such as {hint}.", shape)
