"""MRC2014, the format of electron microscopy: images, stacks, volumes and stacks of volumes. Its unit is Ångström."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io import units
from noise2same.io.extras import load
from noise2same.io.image import Image
from noise2same.io.mapped import Filled
from noise2same.io.packed import filled, mapped, stored
from noise2same.io.scaling import Scaling

suffixes = (".mrc", ".mrcs", ".map", ".rec", ".st", ".mrc.gz", ".map.gz")
default_output = ""

MODES = {"int8": 0, "int16": 1, "float32": 2, "uint16": 6, "float16": 12}
HEADER = 1024  # bytes before the extended header
VOLUME, VOLUME_STACK = 1, 401  # space groups; 0 is an image or a stack of images
STACKS, VOLUMES = (".mrcs", ".st"), (".map", ".rec", ".map.gz")  # the name says it, whatever the space group does
IMOD_STAMP, IMOD_SIGNED = 1146047817, 1  # IMOD's mark in a header, and its flag that mode 0 has a sign
SLAB = 2**22  # values of which statistics are computed at once


def read(path: Path) -> Image:
    header, extended = _headers(path)
    dtype, shape, axes = _dtype(path, header), *_shape(path, header)
    details = {"mrc": header, "mrc_extended": extended}
    data = stored(path, HEADER + len(extended), shape, Scaling(dtype))
    return Image(data, axes, *_sizes(header), path, details)


def _headers(path: Path) -> tuple[NDArray[Any], bytes]:
    """The header, in the byte order of its file, and the extended one."""
    mrcfile = load("mrcfile", "microscopes", path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old files without a mark are read too, if all that counts here is sound
        with mrcfile.open(path, permissive=True, header_only=True) as mrc:
            header, extended = np.array(mrc.header), mrc.extended_header
    counts = [int(header[name]) for name in ("nx", "ny", "nz")]
    if min(counts) < 1 or extended is None:
        raise ValueError("no MRC header")
    return header, extended.tobytes()


def _dtype(path: Path, header: NDArray[Any]) -> np.dtype[Any]:
    mode = int(header["mode"])
    name = next((name for name, number in MODES.items() if number == mode), "")
    if not name:
        known = ", ".join(f"{number} ({name})" for name, number in MODES.items())
        raise InputError(f"{path} has pixels of MRC mode {mode}, but only {known} are read; convert it first.")
    stamp, flags = np.frombuffer(header["extra2"].tobytes(), header.dtype["nx"])[10:12]
    if mode == 0 and stamp == IMOD_STAMP and not flags & IMOD_SIGNED:
        name = "uint8"
    return np.dtype(name).newbyteorder(header.dtype["nx"].byteorder)


def _shape(path: Path, header: NDArray[Any]) -> tuple[tuple[int, ...], str]:
    """Shape and axes."""
    nx, ny, nz, mz, group = (int(header[name]) for name in ("nx", "ny", "nz", "mz", "ispg"))
    name = path.name.lower()
    if VOLUME_STACK <= group < 2 * VOLUME_STACK and mz > 0 and nz % mz == 0:
        return (nz // mz, mz, ny, nx), "SZYX"
    if nz == 1 and (group == 0 or name.endswith(STACKS)):
        return (ny, nx), "YX"
    stack = name.endswith(STACKS) or (group == 0 and not name.endswith(VOLUMES))
    return (nz, ny, nx), "SYX" if stack else "ZYX"


def _sizes(header: NDArray[Any]) -> tuple[dict[str, float], str]:
    """Size of a pixel: columns, rows and sections may lie along any axis of the cell."""
    lengths = [float(header["cella"][name]) for name in "xyz"]
    counts = [int(header[name]) for name in ("mx", "my", "mz")]
    along = [int(header[name]) - 1 for name in ("mapc", "mapr", "maps")]
    if sorted(along) != [0, 1, 2]:  # older files leave them out
        along = [0, 1, 2]
    found = {
        letter: (float(f"{lengths[axis] / counts[axis]:.7g}"), "angstrom")  # a quotient of 32 bits has no more digits
        for letter, axis in zip("XYZ", along, strict=True)
        if counts[axis] > 0
    }
    return units.combine(found)


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if like is None:
        return
    if dtype.name not in MODES and not _keeps(like, dtype):
        known = ", ".join(MODES)
        raise InputError(f"{path}: MRC holds {known}, not {dtype}; choose one of them with --dtype, or write .tif.")
    if like.axes not in ("YX", "ZYX", "SYX", "TYX", "SZYX", "TZYX") and not _keeps(like, dtype):
        raise InputError(f"{path}: MRC holds images, stacks and volumes, not axes '{like.axes}'; write .tif or .zarr.")


def _keeps(like: Image, dtype: np.dtype[Any]) -> bool:
    """Whether the header of the input describes what is written."""
    header = like.details.get("mrc")
    if header is None or math.prod(like.shape) != math.prod(int(header[name]) for name in ("nx", "ny", "nz")):
        return False
    return dtype.name in MODES or dtype == _dtype(Path(like.name), header).newbyteorder("=")


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    load("mrcfile", "microscopes", path)
    kept = _keeps(like, dtype)
    header = like.details["mrc"].copy() if kept else _new_header(path, like)
    extended = like.details["mrc_extended"] if kept else b""
    if dtype.name in MODES:
        header["mode"] = MODES[dtype.name]
    used = int(header["nlabl"])
    if like.note and 0 <= used < len(header["label"]):
        header["label"][used], header["nlabl"] = like.note.encode("ascii", "replace")[:80], used + 1
    with filled(path) as file:
        file.write(header.tobytes() + extended)
        out = mapped(file, like.shape, dtype.newbyteorder(header.dtype["nx"].byteorder))
        yield out
        _describe(header, out)
        out.flush()
        file.seek(0)
        file.write(header.tobytes())


def _new_header(path: Path, like: Image) -> NDArray[Any]:
    """The header of an image from another format, little-endian."""
    dtype = load("mrcfile.dtypes", "microscopes", path).HEADER_DTYPE.newbyteorder("<")
    header = np.zeros((), dtype)
    volume = like.shape[like.axes.index("Z")] if "Z" in like.axes else 1
    *outer, ny, nx = like.shape
    counts = {"x": nx, "y": ny, "z": math.prod(outer)}
    for letter, count in counts.items():
        header[f"n{letter}"] = count
        header[f"m{letter}"] = volume if letter == "z" else count
        size = units.convert(like.pixel_size.get(letter.upper(), 0.0), like.unit, "angstrom")
        header["cella"][letter] = (size or 0.0) * header[f"m{letter}"]
    header["cellb"] = (90, 90, 90)
    header["mapc"], header["mapr"], header["maps"] = 1, 2, 3
    header["ispg"] = 0 if "Z" not in like.axes else VOLUME if like.axes == "ZYX" else VOLUME_STACK
    header["map"], header["machst"], header["nversion"] = b"MAP ", (0x44, 0x44, 0, 0), 20141
    return header


def _describe(header: NDArray[Any], out: Filled) -> None:
    """Note minimum, maximum, mean and deviation of the finite pixels: viewers take their contrast from them."""
    flat, low, high, count, total, squares = out.reshape(-1), math.inf, -math.inf, 0, 0.0, 0.0
    for start in range(0, flat.size, SLAB):
        part = np.asarray(flat[start : start + SLAB], np.float64)
        part = part[np.isfinite(part)]
        out.release()
        if part.size:
            low, high, count = min(low, float(part.min())), max(high, float(part.max())), count + part.size
            total, squares = total + float(part.sum()), squares + float((part**2).sum())
    mean = total / max(count, 1)
    header["dmin"], header["dmax"], header["dmean"] = (low, high, mean) if count else (0, -1, -2)  # "not known"
    header["rms"] = math.sqrt(max(squares / count - mean**2, 0)) if count else -1
