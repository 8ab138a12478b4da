"""DICOM, read only: a file, or a folder of the slices of one series, which are a volume."""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io.extras import load
from noise2same.io.image import Image, lazily
from noise2same.io.raw import Boxes

suffixes = (".dcm", ".dicom", ".ima")
default_output = ".ome.tif"

MARK = (128, b"DICM")  # where a file says what it is; many have a name without a suffix
UNEVEN = 0.01  # of the distance of slices: rounding in headers is less, and a missing slice is 1
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])  # DICOM's axes of the patient, and NIfTI's


def files_of(folder: Path) -> list[Path]:
    """The DICOM files of a folder, by suffix or, where a name has none, by what is in them."""
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and _is_dicom(path)]


def _is_dicom(path: Path) -> bool:
    if path.suffix.lower() in suffixes:
        return path.is_file()
    named = path.suffix and not path.suffix[1:].isdigit()  # a UID has numbers between its dots
    if named or path.name == "DICOMDIR" or not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(MARK[0])
        return file.read(len(MARK[1])) == MARK[1]


def sources(folder: Path) -> list[Path]:
    """What the DICOM files of a folder are: one volume, which is the folder, or images, which are the files."""
    series: dict[str, list[Path]] = defaultdict(list)
    for path, header in _headers(folder, files_of(folder)):
        series[str(header.get("SeriesInstanceUID", ""))].append(path)
    if len(series) == 1:
        return [folder]
    if all(len(paths) == 1 for paths in series.values()):
        return [path for paths in series.values() for path in paths]
    listed = ", ".join(f"{len(paths)} files as {paths[0].name}" for paths in list(series.values())[:4])
    raise InputError(f"{folder} has {len(series)} series of DICOM ({listed}, ...); move each to a folder of its own.")


def read(path: Path) -> Image:
    if not path.is_dir():
        [(_, header)] = _headers(path, [path])
        return _single(path, header)
    headers = _headers(path, files_of(path))
    if len(headers) == 1:
        return _single(path, headers[0][1], headers[0][0])
    return _volume(path, headers)


def _headers(where: Path, paths: Sequence[Path]) -> list[tuple[Path, Any]]:
    """The headers of files that have pixels which can be decoded."""
    from noise2same.io import dicom_codecs

    pydicom = load("pydicom", "medicine", where)
    pixels = load("pydicom.pixels.utils", "medicine", where)
    dicom_codecs.register(pydicom.pixels.get_decoder)
    found = []
    for path in paths:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                header = pydicom.dcmread(file, stop_before_pixels=True)
            except pydicom.errors.InvalidDicomError:
                raise ValueError("no DICOM header") from None
            left = os.fstat(file.fileno()).st_size - file.tell()
        if "EncryptedAttributesSequence" in header and "Rows" not in header:
            raise InputError(f"{path} is encrypted, with its image; export it again without protection.")
        if "Rows" not in header or "BitsAllocated" not in header:
            kind = header.get("SOPClassUID")
            raise InputError(f"{path} has no image: it is {getattr(kind, 'name', 'DICOM without pixels')}.")
        syntax = _syntax(header)
        _check_decoder(path, pydicom.pixels, syntax)
        if not (syntax.is_compressed or syntax.is_deflated) and left < pixels.get_expected_length(header):
            raise InputError(f"{path} is truncated: it ends before its pixels do; copy or export it again.")
        found.append((path, header))
    return found


def _syntax(header: Any) -> Any:
    """How a file is written; very old ones do not say it."""
    return header.file_meta.get("TransferSyntaxUID", load("pydicom.uid", "medicine", Path()).ImplicitVRLittleEndian)


def _check_decoder(path: Path, pixels: Any, syntax: Any) -> None:
    if not syntax.is_transfer_syntax or syntax.is_private:
        raise InputError(f"{path} has a transfer syntax that is not of the standard ({syntax}); export it again.")
    try:
        known = not syntax.is_compressed or pixels.get_decoder(syntax).is_available
    except NotImplementedError:
        known = False
    if not known:
        raise InputError(
            f"{path} is compressed as {syntax.name}, which cannot be decoded here: pip install "
            "'pydicom[pixeldata]' or decompress it with gdcmconv --raw."
        )


def _single(path: Path, header: Any, file: Path | None = None) -> Image:
    """One file: an image, or frames that are a film or a volume."""
    count, groups = int(header.get("NumberOfFrames") or 1), header.get("PerFrameFunctionalGroupsSequence") or []
    shared = [*(header.get("SharedFunctionalGroupsSequence") or []), header]
    levels = [[group, *shared] for group in groups] if len(groups) == count else [shared] * count
    size = {**_plane(levels[0])}
    outer = ""
    if count > 1:
        places = [_position(level) for level in levels] if groups else []
        outer = "Z" if places and len(set(places)) == count else "T" if "FrameTime" in header else "?"
        if outer == "T":
            size["T"] = float(header.FrameTime) / 1000
        elif outer == "Z":
            size |= _spacing(path, sorted(places), header)
    frames = [(file or path, number if count > 1 else None) for number in range(count)]
    return _image(path, header, frames, [_rescale(level) for level in levels], outer, (count,)[: len(outer)], size)


def _volume(path: Path, headers: list[tuple[Path, Any]]) -> Image:
    """Slices of a series, sorted by their place; several volumes of one place are a film."""
    kinds = {(h.Rows, h.Columns, h.get("SamplesPerPixel", 1), int(h.get("NumberOfFrames") or 1)) for _, h in headers}
    if len(kinds) > 1 or next(iter(kinds))[3] > 1:
        raise InputError(f"{path} has slices of several sizes, or files of several frames; name its files one by one.")
    number = {file: int(header.get("InstanceNumber") or 0) for file, header in headers}
    placed = all("ImagePositionPatient" in header and "ImageOrientationPatient" in header for _, header in headers)
    place = {file: _position([header]) if placed else float(number[file]) for file, header in headers}
    ordered = sorted(headers, key=lambda one: (number[one[0]], place[one[0]]))
    stacks: dict[float, list[tuple[Path, Any]]] = defaultdict(list)
    for one in ordered:
        stacks[round(place[one[0]], 3)].append(one)
    places = sorted(stacks)
    times = {len(stack) for stack in stacks.values()}
    if len(times) > 1:
        raise InputError(f"{path} has some slices more often than others; move each volume to a folder of its own.")
    count = times.pop()
    slices = [stacks[at][time] for time in range(count) for at in places]
    size = _plane([slices[0][1]])
    if len(places) > 1:
        size |= _spacing(path, places, slices[0][1]) if placed else _thickness(slices[0][1])
    outer = "T" * (count > 1) + "Z" * (len(places) > 1)
    shape = (count,) * (count > 1) + (len(places),) * (len(places) > 1)
    frames = [(file, None) for file, _ in slices]
    image = _image(path, slices[0][1], frames, [_rescale([h]) for _, h in slices], outer, shape, size)
    return replace(image, details={"affine": _affine(slices[0][1], size)}) if placed and "Z" in size else image


def _image(
    path: Path,
    header: Any,
    frames: Sequence[tuple[Path, int | None]],
    rescales: list[tuple[float, float]],
    outer: str,
    shape: tuple[int, ...],
    size: dict[str, float],
) -> Image:
    if header.get("PhotometricInterpretation") == "PALETTE COLOR":
        raise InputError(f"{path} has a palette, so its pixels are not intensities; convert it to grey or RGB.")
    colors = (int(header.SamplesPerPixel),) if header.get("SamplesPerPixel", 1) > 1 else ()
    raw = load("pydicom.pixels.utils", "medicine", path).pixel_dtype(header)
    frame = (int(header.Rows), int(header.Columns), *colors)
    dtype = _physical(raw, header.get("BitsStored", 16), rescales)
    pixels = _Frames(frames, rescales, (*shape, *frame), len(frame), dtype, whole=_syntax(header).is_deflated)
    axes = f"{outer}YX{'C' if colors else ''}"
    return Image(lazily(pixels, path), "" if "?" in axes else axes, size, "millimeter", path)


def _physical(raw: np.dtype[Any], bits: int, rescales: list[tuple[float, float]]) -> np.dtype[Any]:
    """Type of rescaled pixels: integers stay integers where slopes and intercepts are, as for CT."""
    if set(rescales) == {(1.0, 0.0)}:
        return raw.newbyteorder("=")
    if any(slope != 1 or intercept % 1 for slope, intercept in rescales):
        return np.dtype(np.float32)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if raw.kind == "i" else (0, 2**bits)
    intercepts = [intercept for _, intercept in rescales]
    small = low + min(intercepts) >= -(2**15) and high + max(intercepts) <= 2**15
    return np.dtype(np.int16 if small else np.int32)


class _Frames(Boxes):
    """Frames of files, the last of whose axes are those of a frame; a file that is packed is read as a `whole`."""

    def __init__(
        self,
        frames: Sequence[tuple[Path, int | None]],
        rescales: list[tuple[float, float]],
        shape: tuple[int, ...],
        inner: int,
        dtype: np.dtype[Any],
        *,
        whole: bool,
    ) -> None:
        self._frames, self._rescales, self._inner, self._whole = frames, rescales, inner, whole
        self.shape, self.dtype = shape, dtype

    def _box(self, box: Any) -> NDArray[Any]:
        out = np.empty([part.stop - part.start for part in box], self.dtype)
        outer = box[: -self._inner]
        for place in product(*(range(part.start, part.stop) for part in outer)):
            number = int(np.ravel_multi_index(place, self.shape[: -self._inner])) if place else 0
            at = tuple(index - part.start for index, part in zip(place, outer, strict=True))
            out[at] = self._frame(number)[tuple(box[-self._inner :])]
        return out

    def _frame(self, number: int) -> NDArray[Any]:
        path, index = self._frames[number]
        slope, intercept = self._rescales[number]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = load("pydicom", "medicine", path).dcmread(path) if self._whole else path
            pixels = load("pydicom.pixels", "medicine", path).pixel_array(source, index=index)
        if (slope, intercept) == (1, 0):
            return np.asarray(pixels)
        return pixels.astype(self.dtype) * self.dtype.type(slope) + self.dtype.type(intercept)


def _find(levels: Sequence[Any], sequence: str, key: str) -> Any:
    """A value of a header, which may be in a sequence of the frame, of all frames, or at the top."""
    for level in levels:
        inside = level.get(sequence) or []
        found = (inside[0].get(key) if inside else None) or level.get(key)
        if found is not None:
            return found
    return None


def _rescale(levels: Sequence[Any]) -> tuple[float, float]:
    slope, intercept = (
        _find(levels, "PixelValueTransformationSequence", f"Rescale{name}") for name in ("Slope", "Intercept")
    )
    return float(1 if slope is None else slope), float(0 if intercept is None else intercept)


def _plane(levels: Sequence[Any]) -> dict[str, float]:
    found = _find(levels, "PixelMeasuresSequence", "PixelSpacing") or levels[-1].get("ImagerPixelSpacing")
    return {"Y": float(found[0]), "X": float(found[1])} if found else {}


def _vectors(levels: Sequence[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Directions of a row, of a column, and across the plane."""
    found = _find(levels, "PlaneOrientationSequence", "ImageOrientationPatient") or [1, 0, 0, 0, 1, 0]
    row, column = np.array(found[:3], float), np.array(found[3:], float)
    return row, column, np.cross(row, column)


def _position(levels: Sequence[Any]) -> float:
    """Where a slice is along the direction across it, in millimeters."""
    found = _find(levels, "PlanePositionSequence", "ImagePositionPatient")
    return 0.0 if found is None else float(np.dot(_vectors(levels)[2], np.array(found, float)))


def _spacing(path: Path, places: Sequence[float], header: Any) -> dict[str, float]:
    steps = np.diff(places)
    middle = float(np.median(steps))
    if middle <= 0:
        return _thickness(header)
    if np.abs(steps - middle).max() > UNEVEN * middle:
        warnings.warn(f"{path}: its slices are not evenly spaced, or some are missing.", stacklevel=2)
    return {"Z": float(f"{middle:.6g}")}


def _thickness(header: Any) -> dict[str, float]:
    found = header.get("SpacingBetweenSlices") or header.get("SliceThickness")
    return {"Z": float(found)} if found else {}


def _affine(header: Any, size: dict[str, float]) -> NDArray[Any]:
    """From pixels to the patient, as NIfTI has it."""
    row, column, across = _vectors([header])
    affine = np.eye(4)
    affine[:3, :3] = np.stack([row * size["X"], column * size["Y"], across * size["Z"]], 1)
    affine[:3, 3] = np.array(header.ImagePositionPatient, float)
    return LPS_TO_RAS @ affine


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> NoReturn:
    raise InputError(f"{path}: DICOM is only read; write .ome.tif, .zarr or .nii instead.")


create = check
