"""NIfTI 1 and 2, of neuroimaging: volumes, and series of them. The header with its affine and extensions is kept."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from noise2same.errors import InputError
from noise2same.io import units
from noise2same.io.extras import load
from noise2same.io.image import Image
from noise2same.io.packed import filled, mapped, stored
from noise2same.io.scaling import Scaling

suffixes = (".nii", ".nii.gz")
default_output = ""

ORDER = "CTZYX"  # of axes in a file, slowest first
LONGEST = 2**15 - 1  # pixels along an axis of NIfTI 1
LENGTHS = {"meter": "meter", "mm": "millimeter", "micron": "micrometer"}  # NIfTI's names
TIMES = {"sec": "s", "msec": "ms", "usec": "µs"}


def read(path: Path) -> Image:
    nibabel = load("nibabel", "medicine", path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        volume = nibabel.load(path)
    if not isinstance(volume, nibabel.Nifti1Pair):  # NIfTI 2 is one of its children
        raise ValueError(f"it is {type(volume).__name__}")
    proxy, header = volume.dataobj, volume.header
    raw = proxy.dtype
    if raw.fields:
        raise InputError(f"{path} has pixels of colors ({', '.join(raw.names)}); convert it to numbers first.")
    scaling = Scaling(raw, float(proxy.slope), float(proxy.inter))
    full = proxy.shape[::-1]
    if len(full) > len(ORDER):
        raise InputError(f"{path} has {len(full)} dimensions, of which at most 5 are read; split it first.")
    letters = ORDER[-len(full) :]
    # an axis of length one is no axis, but for Y and X
    chosen = [(letter, size) for letter, size in zip(letters, full, strict=True) if size > 1 or letter in "YX"]
    axes, shape = "".join(letter for letter, _ in chosen), tuple(size for _, size in chosen)
    details = {"nifti": {"header": header.copy(), "shape": shape, "exact": scaling.exact, "dtype": scaling.dtype}}
    return Image(stored(path, int(proxy.offset), shape, scaling), axes, *_sizes(header), path, details)


def _sizes(header: Any) -> tuple[dict[str, float], str]:
    length, time = header.get_xyzt_units()
    zooms = [abs(float(f"{zoom:.7g}")) for zoom in header.get_zooms()]
    found = {letter: (zoom, LENGTHS.get(length, "")) for letter, zoom in zip("XYZ", zooms, strict=False)}
    if len(zooms) > 3 and time in TIMES:
        found["T"] = (zooms[3], TIMES[time])
    return units.combine(found)


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if dtype == np.float16:
        raise InputError(f"{path}: NIfTI holds no float16; choose float32 with --dtype, or write .tif.")
    kept = like is not None and like.details.get("nifti", {}).get("shape") == like.shape
    if like is not None and not kept and not set(like.axes) <= set(ORDER):
        raise InputError(f"{path}: NIfTI holds no separate images (axes '{like.axes}'); write .tif or .zarr.")


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    nibabel = load("nibabel", "medicine", path)
    kept = like.details.get("nifti", {})
    axes = "".join(letter for letter in ORDER if letter in like.axes)
    if kept.get("shape") == like.shape:
        header, axes = kept["header"].copy(), like.axes  # whatever the user called them, they stay where they were
    else:
        header = _new_header(nibabel, like, axes)
    header.set_data_dtype(dtype)
    header.set_slope_inter(1, 0)
    header["vox_offset"] = 0  # the first that can be
    if like.note:
        header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", like.note.encode()))
    head = BytesIO()
    header.write_to(head)
    start = int(header["vox_offset"])
    with filled(path) as file:
        file.write(head.getvalue().ljust(start, b"\0"))
        shape = tuple(like.shape[like.axes.index(letter)] for letter in axes)
        out = mapped(file, shape, dtype.newbyteorder(header.endianness))
        yield out.transpose([axes.index(letter) for letter in like.axes])
        out.flush()


def _new_header(nibabel: Any, like: Image, axes: str) -> Any:
    """The header of an image from another format, with the affine of a series of DICOM if there is one."""
    sizes = {letter: like.shape[like.axes.index(letter)] if letter in axes else 1 for letter in ORDER}
    last = max(number for number, letter in enumerate(reversed(ORDER), 1) if letter in axes)
    shape = tuple(sizes[letter] for letter in reversed(ORDER))[:last]
    header = nibabel.Nifti1Header() if max(shape) <= LONGEST else nibabel.Nifti2Header()
    header.set_data_shape(shape)
    unit = like.unit if like.unit in LENGTHS.values() else "micrometer"
    told = {letter: like.pixel_size.get(letter, 0.0) for letter in "XYZT"}
    zooms = [units.convert(told[letter], like.unit, unit) or 1.0 for letter in "XYZ"] + [told["T"] or 1.0, 1.0]
    header.set_zooms(zooms[:last])
    name = next(name for name, full in LENGTHS.items() if full == unit)
    header.set_xyzt_units(name if like.unit in units.LENGTHS else None, "sec" if told["T"] else None)
    affine = like.details.get("affine")
    header.set_sform(np.diag([*zooms[:3], 1.0]) if affine is None else affine, code="scanner")
    return header
