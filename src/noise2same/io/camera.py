"""Camera raw: the mosaic of the sensor, before it is demosaiced, when the noise of its pixels is still independent.

It is four planes of half the size: R, G1, B and G2. They are written as they came, as a DNG, or as a developed picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noise2same.errors import InputError
from noise2same.io.extras import load
from noise2same.io.image import Decoded, Image

if TYPE_CHECKING:
    from noise2same.io.formats import Format

suffixes = (".dng", ".nef", ".cr2", ".cr3", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw")
default_output = ".dng"

PICTURES = (".png", ".tif", ".tiff")  # where a developed picture goes
CHANNELS = {"R": "FF0000", "G1": "00FF00", "B": "0000FF", "G2": "00FF00"}  # by LibRaw's number of their color
CFA = 32803  # TIFF's photometric interpretation of a mosaic
DENOMINATOR = 10**6  # of the fractions in a DNG
D65 = 21  # EXIF's number of the light that LibRaw's color matrices are for
# Tags that go over from a file that is TIFF itself, as most raw files are: who, when and what with, and colors of a DNG
KEPT_TAGS = (271, 272, 306, 315, 33432, 50708, 50721, 50722, 50723, 50724, 50727, 50728, 50730, 50778, 50779, 50964)
ORIENTATIONS = {0: 1, 3: 3, 5: 8, 6: 6}  # LibRaw's flip -> TIFF


def read(path: Path) -> Image:
    with _opened(path) as raw:
        sizes, pattern, colors = raw.sizes, raw.raw_pattern, raw.color_desc
        if raw.raw_image is None or pattern is None or pattern.shape != (2, 2) or sorted(colors) != sorted(b"RGBG"):
            raise InputError(f"{path} is not of a sensor with a Bayer mosaic; develop it to 16-bit TIFF first.")
        places = _places(raw.raw_colors_visible[:2, :2])
        details = {
            "places": places,
            "black": [float(level) for level in raw.black_level_per_channel],
            "white": int(raw.white_level),
            "balance": [float(gain) for gain in raw.camera_whitebalance],
            "matrix": np.array(raw.rgb_xyz_matrix, float)[:3].tolist(),
            "orientation": ORIENTATIONS.get(int(sizes.flip), 1),
        }
    shape = (4, sizes.height // 2, sizes.width // 2)
    channels = [{"label": name, "color": color} for name, color in CHANNELS.items()]
    data = Decoded(path, shape, np.uint16, _planes)
    return Image(data, "CYX", path=path, details={"camera": details, "omero": {"channels": channels}})


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    rawpy = load("rawpy", "camera", path)
    try:
        with rawpy.imread(str(path)) as raw:
            yield raw
    except rawpy.LibRawFileUnsupportedError:
        raise InputError(
            f"{path} is no camera raw file that LibRaw {'.'.join(map(str, rawpy.libraw_version))} can read, "
            "or is truncated; update rawpy, or convert it to DNG."
        ) from None
    except rawpy.LibRawError as error:
        reason = error.args[0] if error.args else b""
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error


def _places(colors: NDArray[Any]) -> list[tuple[int, int]]:
    """Row and column of R, G1, B and G2 in the pattern. Where both greens have one number, G1 is in the row of R."""
    found = {int(color): [(int(y), int(x)) for y, x in np.argwhere(colors == color)] for color in colors.flat}
    if 3 not in found:
        (red,) = found[0]
        found[1], found[3] = ([place for place in found[1] if (place[0] == red[0]) is first] for first in (True, False))
    return [found[color][0] for color in range(4)]


def _planes(path: Path) -> NDArray[Any]:
    with _opened(path) as raw:
        places = _places(raw.raw_colors_visible[:2, :2])
        return np.stack([_plane(raw.raw_image_visible, place) for place in places])


def _plane(mosaic: NDArray[Any], place: tuple[int, int]) -> NDArray[Any]:
    """A color of a mosaic, without the odd last row or column."""
    height, width = (length // 2 * 2 for length in mosaic.shape)
    return mosaic[place[0] : height : 2, place[1] : width : 2]


def _fill(mosaic: NDArray[Any], like: Image, planes: NDArray[Any]) -> None:
    """Put planes back into the mosaic they came from."""
    like.check_unchanged()
    for place, plane in zip(like.details["camera"]["places"], planes, strict=True):
        _plane(mosaic, place)[...] = plane


def check(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if path.suffix.lower() != ".dng":
        raise InputError(f"{path}: the raw files of cameras are only read; write .dng, .tif or .png instead.")
    _check_mosaic(path, like, dtype)


def _check_mosaic(path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
    if like is None:
        return
    if "camera" not in like.details or like.shape[0] != len(CHANNELS):
        raise InputError(f"{path}: a DNG holds the mosaic of a camera raw file, which {like.name} is not; write .tif.")
    if dtype != np.uint16:
        raise InputError(f"{path}: a mosaic, or what is developed of it, has uint16, not {dtype}; write .npy or .zarr.")


@contextmanager
def create(path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    import tifffile

    assert like.path is not None
    out = np.zeros(like.shape, dtype)
    yield out
    with _opened(like.path) as raw:
        mosaic = raw.raw_image_visible.copy()
    _fill(mosaic, like, out)
    tifffile.imwrite(path, mosaic, photometric=CFA, metadata=None, software=like.note or False, extratags=_tags(like))


class Developing:
    """A format of pictures, for images of cameras: what is written is demosaiced, by LibRaw, with 16 bits."""

    def __init__(self, pictures: Format) -> None:
        self._pictures = pictures
        self.suffixes, self.default_output, self.read = pictures.suffixes, "", pictures.read

    def check(self, path: Path, like: Image | None, dtype: np.dtype[Any]) -> None:
        _check_mosaic(path, like, dtype)

    def create(self, path: Path, like: Image, dtype: np.dtype[Any]) -> AbstractContextManager[Any]:
        return self._created(path, like, dtype)

    @contextmanager
    def _created(self, path: Path, like: Image, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
        assert like.path is not None
        out = np.zeros(like.shape, dtype)
        yield out
        with _opened(like.path) as raw:
            _fill(raw.raw_image_visible, like, out)  # LibRaw's own memory
            picture = raw.postprocess(output_bps=16, use_camera_wb=True, no_auto_bright=True)
        with self._pictures.create(
            path, Image(picture, "YXC", path=like.path, note=like.note), picture.dtype
        ) as pixels:
            pixels[...] = picture


def _tags(like: Image) -> list[tuple[int, Any, int, Any, bool]]:
    """What makes a TIFF a DNG."""
    known = like.details["camera"]
    order = np.argsort([2 * row + column for row, column in known["places"]])
    tags: dict[int, tuple[Any, int, Any]] = {
        274: ("H", 1, known["orientation"]),
        33421: ("H", 2, (2, 2)),  # size of the pattern of colors
        33422: ("B", 4, tuple((0, 1, 2, 1)[number] for number in order)),
        50706: ("B", 4, (1, 4, 0, 0)),  # version, and the oldest reader
        50707: ("B", 4, (1, 1, 0, 0)),
        50708: ("s", 0, "unknown camera"),
        50713: ("H", 2, (2, 2)),
        50714: ("2I", 4, _fractions([known["black"][number] for number in order])),
        50717: ("I", 1, known["white"]),
    }
    gains = known["balance"][:3]
    if min(gains) > 0:
        tags[50728] = ("2I", 3, _fractions([gains[1] / gain for gain in gains]))
    if np.any(known["matrix"]):
        tags[50721], tags[50778] = ("2i", 9, _fractions(np.ravel(known["matrix"]))), ("H", 1, D65)
    return [(code, *tag, True) for code, tag in sorted((tags | _kept_tags(like)).items())]


def _fractions(values: Any) -> tuple[int, ...]:
    return tuple(part for value in values for part in (round(float(value) * DENOMINATOR), DENOMINATOR))


def _kept_tags(like: Image) -> dict[int, tuple[Any, int, Any]]:
    import tifffile

    assert like.path is not None
    found: dict[int, tuple[Any, int, Any]] = {}
    with suppress(tifffile.TiffFileError, OSError), tifffile.TiffFile(like.path) as tif:
        for tag in tif.pages.first.tags:
            if tag.code in KEPT_TAGS:
                count = 0 if tag.dtype == tifffile.DATATYPE.ASCII else tag.count
                found[tag.code] = (int(tag.dtype), count, tag.value)
    return found
