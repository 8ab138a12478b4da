"""FITS, the format of astronomy: the image's header is kept whole, with its WCS, and all other HDUs byte by byte."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.files import file_of
from noise2same.io import units
from noise2same.io.extras import load
from noise2same.io.image import Image, lazily
from noise2same.io.packed import filled, mapped, opened, stored
from noise2same.io.raw import Boxes
from noise2same.io.scaling import Scaling

suffixes = (".fits", ".fit", ".fts", ".fits.gz", ".fit.gz", ".fits.fz")
default_output = ""

START = b"SIMPLE"  # of every file
BLOCK = 2880  # bytes, of which headers and data are whole multiples
BITPIX = {8: ">u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
COPY_BYTES = 2**20  # of other HDUs, copied at once
SLAB = 2**22  # pixels of which the sign is changed at once
# the axis that a CTYPE means; those with spectra in them are not here: to treat them as Z or C is the user's choice
CTYPES = {"TIME": "T", "UTC": "T", "TAI": "T", "STOKES": "C", "CHANNEL": "C", "RGB": "C", "DEPTH": "Z", "SAMPLE": "S"}
ASCII_UNITS = {"micrometer": "um", "angstrom": "Angstrom"}  # as the standard spells them; others by their symbols
OURS = {"T": "TIME", "C": "CHANNEL", "Z": "DEPTH", "S": "SAMPLE"}
# HDUs beside the image that are none, by the names of many pipelines: errors, weights, flags
COMPANIONS = (
    "ERR ERROR UNCERT UNCERTAINTY STDDEV SIGMA VAR VARIANCE IVAR RMS WHT WEIGHT WEIGHTS DQ MASK FLAG FLAGS QUALITY "
    "BADPIX BPM CTX CON NSAMP SAMP TIME EXP COVERAGE D2IMARR WCSDVARR AREA"
)
STALE = ("CHECKSUM", "DATASUM", "DATAMIN", "DATAMAX")  # what is said of pixels that are replaced


def read(path: Path, number: int = 0) -> Image:
    with _hdus(path) as hdus:
        pictures = _pictures(path, hdus)
        hdu = hdus[pictures[number]]
        header, shape = hdu.header.copy(), tuple(hdu.shape)
        tiled, at = type(hdu).__name__ == "CompImageHDU", hdu.fileinfo()
    while len(shape) > 2 and shape[0] == 1:  # such as one polarization and one frequency
        shape = shape[1:]
    scaling = _scaling(header)
    section = _Section(path, pictures[number], shape, scaling)
    data = lazily(section, path) if tiled else stored(path, at["datLoc"], shape, scaling)
    kept = {"header": header, "scaling": scaling, "shape": shape}
    kept |= {"start": at["hdrLoc"], "stop": at["datLoc"] + at["datSpan"]}
    axes = _axes(header, shape)
    return Image(data, axes, *_sizes(header, axes), path, {"fits": kept}, len(pictures) - 1)


def count(path: Path) -> int:
    with _hdus(path) as hdus:
        return len(_pictures(path, hdus))


def _pictures(path: Path, hdus: Any) -> list[int]:
    """Numbers of the HDUs that are images to denoise."""
    found = [number for number, hdu in enumerate(hdus) if _is_picture(hdu)]
    if not found:
        kinds = ", ".join(f"{hdu.name or number} ({type(hdu).__name__})" for number, hdu in enumerate(hdus))
        raise InputError(f"{path} has no HDU with an image of two dimensions or more: it has {kinds}.")
    return found


@contextmanager
def _hdus(path: Path) -> Iterator[Any]:
    """The HDUs of a file, with their pixels as they are stored. A file that ends too early is a ValueError."""
    fits = load("astropy.io.fits", "astronomy", path)
    with opened(path) as file:
        if not file.read(len(START)).startswith(START):
            raise ValueError("no FITS header")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cards that are not quite standard are kept as they are
        warnings.filterwarnings("error", "File may have been truncated")
        with fits.open(path, memmap=False, do_not_scale_image_data=True, ignore_missing_simple=False) as hdus:
            yield hdus


def _is_picture(hdu: Any) -> bool:
    image = hdu.is_image and len(hdu.shape) >= 2 and min(hdu.shape[-2:]) > 1
    return image and hdu.name.upper().strip("0123456789_ ") not in COMPANIONS.split()


def _scaling(header: Any) -> Scaling:
    bits, blank = int(header["BITPIX"]), header.get("BLANK")
    raw = np.dtype(BITPIX[bits])
    blank = int(blank) if bits > 0 and isinstance(blank, int) else None
    scaling = Scaling(raw, float(header.get("BSCALE", 1)), float(header.get("BZERO", 0)), blank)
    return _Flipped(raw) if bits > 0 and scaling == replace(scaling, **_other_kind(bits)) else scaling


def _other_kind(bits: int) -> dict[str, Any]:
    """The scaling that stands for integers of the other kind, with a sign or without."""
    return {"scale": 1.0, "zero": -128.0 if bits == 8 else 2.0 ** (bits - 1), "blank": None}


class _Flipped(Scaling):
    """Integers of the kind that FITS does not have: bytes with a sign, and others without."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(f"{'i' if self.raw.itemsize == 1 else 'u'}{self.raw.itemsize}")

    def __call__(self, raw: NDArray[Any]) -> NDArray[Any]:
        return flipped(raw.astype(self.raw.newbyteorder("="), copy=False).view(self.dtype))


def flipped(integers: NDArray[Any]) -> NDArray[Any]:
    """Integers with their highest bit changed: FITS has only signed ones, but for bytes, and shifts the others."""
    kind = integers.dtype
    high = np.array(1 << (8 * kind.itemsize - 1), f"u{kind.itemsize}").astype(kind.newbyteorder("="))
    return integers ^ high


class _Section(Boxes):
    """Physical values of an HDU that is compressed in tiles, or in a packed file."""

    def __init__(self, path: Path, number: int, shape: tuple[int, ...], scaling: Scaling) -> None:
        self._path, self._number, self._scaling = path, number, scaling
        self.shape, self.dtype = shape, scaling.dtype

    def _box(self, box: Any) -> NDArray[Any]:
        with _hdus(self._path) as hdus:
            hdu = hdus[self._number]
            ones = (slice(0, 1),) * (len(hdu.shape) - self.ndim)
            raw = np.asarray(hdu.section[(*ones, *box)])
        return self._scaling(raw.reshape(raw.shape[len(ones) :]))


def _axes(header: Any, shape: tuple[int, ...]) -> str:
    """Axes of an image; '' where the header does not say."""
    outer = ""
    for number in range(len(shape), 2, -1):
        kind = str(header.get(f"CTYPE{number}", "")).strip().upper()
        color = not kind and number == len(shape) == 3 and shape[0] == 3  # as programs for photographers write it
        outer += "C" if color else CTYPES.get(kind, "?")
    axes = f"{outer}YX"
    return axes if "?" not in axes and len(set(axes)) == len(axes) else ""


def _sizes(header: Any, axes: str) -> tuple[dict[str, float], str]:
    """Sizes of pixels along axes whose unit is a length, or a time; angles on the sky stay in the header."""
    found = {}
    for number, letter in enumerate(reversed(axes), 1):
        unit, size = str(header.get(f"CUNIT{number}", "")).strip(), header.get(f"CDELT{number}")
        known = unit in units.SECONDS if letter == "T" else units.name(unit) in units.LENGTHS
        if known and isinstance(size, int | float):
            found[letter] = (float(size), unit)
    return units.combine(found)


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if dtype == np.float16:
        raise InputError(f"{path}: FITS holds no float16; choose float32 with --dtype, or write .tif.")


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    fits = load("astropy.io.fits", "astronomy", path)
    kept = like.details.get("fits", {})
    if kept.get("shape") != like.shape:
        kept = {}
    header = kept["header"].copy() if kept else _new_header(fits, like)
    if not (kept and kept["scaling"].exact and kept["scaling"].dtype == dtype):
        _set_type(header, dtype)
    for key in STALE:
        header.remove(key, ignore_missing=True, remove_all=True)
    if like.note:
        header.add_history(like.note)
    with filled(path) as file:
        if kept:
            _copy(like, file, 0, kept["start"])
        if path.suffix.lower() == ".fz":
            whole = np.zeros(like.shape, dtype)
            yield whole
            file.write(_tiled(fits, _as_stored(whole, like.axes), header, first=not kept or kept["start"] == 0))
        else:
            yield from _plain(file, header, like, dtype)
        if kept:
            _copy(like, file, kept["stop"], None)


def _plain(file: BinaryIO, header: Any, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the pixels of an HDU to fill; then they are as FITS has them."""
    file.write(header.tostring().encode("ascii"))
    planes = like.axes.endswith("YXC")
    shape = (*like.shape[:-3], *np.roll(like.shape[-3:], 1).tolist()) if planes else like.shape
    out = mapped(file, shape, dtype.newbyteorder(">"))
    yield np.moveaxis(out, -3, -1) if planes else out
    if isinstance(_scaling(header), _Flipped):
        flat = out.reshape(-1)
        for start in range(0, flat.size, SLAB):
            flat[start : start + SLAB] = flipped(flat[start : start + SLAB])
    out.flush()
    file.write(bytes(-out.nbytes % BLOCK))


def _as_stored(pixels: NDArray[Any], axes: str) -> NDArray[Any]:
    """Colors are planes."""
    return np.moveaxis(pixels, -1, -3) if axes.endswith("YXC") else pixels


def _tiled(fits: Any, pixels: NDArray[Any], header: Any, *, first: bool) -> bytes:
    """An HDU that is compressed in tiles, without loss; `first` for one at the start of a file."""
    kind = "RICE_1" if pixels.dtype.kind in "ui" and pixels.dtype.itemsize < 8 else "GZIP_2"
    content = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hdu = fits.CompImageHDU(pixels, header, compression_type=kind, quantize_level=0)
        fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(content)
    return content.getvalue()[0 if first else BLOCK :]


def _copy(like: Image, file: BinaryIO, start: int, stop: int | None) -> None:
    """Bytes of the input, which may have been changed meanwhile, to the end of a new file."""
    assert like.path is not None
    like.check_unchanged()
    _append(file, file_of(like.path), start, stop)


def _append(file: BinaryIO, source: Path, start: int, stop: int | None) -> None:
    with opened(source) as content:
        content.seek(start)
        while part := content.read(COPY_BYTES if stop is None else min(COPY_BYTES, stop - content.tell())):
            file.write(part)


def join(path: Path, parts: Sequence[Path], likes: Sequence[Image]) -> None:
    """The file that the images came from with all of them replaced, or a new file with an HDU for each."""
    fits = load("astropy.io.fits", "astronomy", path)
    sources = {None if like.path is None else file_of(like.path) for like in likes}
    with filled(path) as file:
        if len(sources) > 1 or not all(like.details.get("fits") for like in likes):
            for part in parts:
                _append_hdu(fits, file, part)
            return
        done = 0
        for part, like in sorted(zip(parts, likes, strict=True), key=lambda one: one[1].details["fits"]["start"]):
            kept = like.details["fits"]
            behind = _length(like.path) - kept["stop"]
            _copy(like, file, done, kept["start"])
            _append(file, part, kept["start"], _length(part) - behind)
            done = kept["stop"]
        _copy(likes[0], file, done, None)


def _length(path: Path | None) -> int:
    """Bytes of a file, unpacked."""
    assert path is not None
    with opened(file_of(path)) as file:
        return file.seek(0, 2)


def _append_hdu(fits: Any, file: BinaryIO, part: Path) -> None:
    """Add a file of one image to another file, as an extension behind the first."""
    with _hdus(part) as hdus:
        hdu = hdus[-1]
        header, at = hdu.header.copy(), hdu.fileinfo()
        packed = len(hdus) > 1  # an image in tiles is an extension already
    if file.tell() == 0 or packed:
        _append(file, part, 0 if file.tell() == 0 else at["hdrLoc"], None)
        return
    cards = [card for card in header.cards if card.keyword not in ("SIMPLE", "EXTEND", "PCOUNT", "GCOUNT")]
    places = 2 + int(header["NAXIS"])
    counts = [("PCOUNT", 0), ("GCOUNT", 1)]
    extension = fits.Header([("XTENSION", "IMAGE   "), *cards[:places], *counts, *cards[places:]])
    file.write(extension.tostring().encode("ascii"))
    _append(file, part, at["datLoc"], None)


def _new_header(fits: Any, like: Image) -> Any:
    """The header of an image from another format."""
    axes = like.axes[:-3] + "CYX" if like.axes.endswith("YXC") else like.axes
    header = fits.Header([("SIMPLE", True), ("BITPIX", 8), ("NAXIS", len(axes))])
    for number, letter in enumerate(reversed(axes), 1):
        header[f"NAXIS{number}"] = like.shape[like.axes.index(letter)]
    header["EXTEND"] = True
    for number, letter in enumerate(reversed(axes), 1):
        if letter in OURS:
            header[f"CTYPE{number}"] = OURS[letter]
        if letter in like.pixel_size and (letter == "T" or like.unit in units.LENGTHS):
            unit = "s" if letter == "T" else ASCII_UNITS.get(like.unit, units.symbol(like.unit))
            header[f"CUNIT{number}"], header[f"CDELT{number}"] = unit, like.pixel_size[letter]
    return header


def _set_type(header: Any, dtype: np.dtype[Any]) -> None:
    """Note the type of new pixels, which are physical values."""
    for key in ("BSCALE", "BZERO", "BLANK"):
        header.remove(key, ignore_missing=True)
    bits = 8 * dtype.itemsize
    header["BITPIX"] = -bits if dtype.kind == "f" else bits
    if dtype.kind == ("i" if bits == 8 else "u"):
        header["BSCALE"], header["BZERO"] = 1, int(_other_kind(bits)["zero"])
