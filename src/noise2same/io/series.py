"""The images of a file that holds several: scenes, positions, series. Each has a name: scan.czi/2 is the third.

So whatever takes the name of a file takes that of one of its images. In a Zarr collection, it is a real folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noise2same.errors import InputError
from noise2same.files import PREFIX, file_of, remove, replacing
from noise2same.io import formats
from noise2same.io.formats import Joining, Several
from noise2same.io.image import Image, unreadable


def count(file: Path) -> int:
    """How many images a file holds."""
    found = formats.format_of(file, reading=True)
    if not isinstance(found, Several):
        return 1
    try:
        return found.count(file)
    except InputError:
        raise
    except Exception as error:  # readers raise anything on damaged files
        raise unreadable(file, error) from error


def names(path: Path, wanted: Sequence[int] | None = None) -> list[Path]:
    """The names of all images of a file, or of those that are wanted; its own if it holds one.

    Without `wanted`, the file is opened; with it, whether it has these is seen when they are, or by `check`.
    """
    if file_of(path) != path:
        return [path]
    if wanted is not None and not path.is_dir():
        return [path / str(number) for number in wanted]
    total = count(path)
    if wanted is not None and (total > 1 or set(wanted) != {0}):
        check(path, wanted, total)
        return [path / str(number) for number in wanted]
    return [path] if total == 1 else [path / str(number) for number in range(total)]


def number_of(path: Path) -> int | None:
    """Which image of a file a name stands for; None for a file."""
    inside = path.name.isdecimal() and (bool(formats.suffix_of(path.parent)) or formats.is_zarr(path.parent))
    return int(path.name) if inside else None


def read(path: Path) -> Image:
    """Open what a name stands for: a file, of several images the first, or one of its images."""
    file = file_of(path)
    found = formats.format_of(file, reading=True)
    if file == path:
        return found.read(path)
    number = int(path.name)
    check(file, [number])
    return found.read(file, number) if isinstance(found, Several) else found.read(file)


def check(file: Path, wanted: Sequence[int], total: int | None = None) -> None:
    """Raise InputError if a file has not all images that are wanted; `total` is how many it has, if that is known."""
    total = count(file) if total is None else total
    number = max(wanted)
    if number >= total:
        held = f"{total} images, 0 to {total - 1}" if total > 1 else "one image, number 0"
        raise InputError(f"{file / str(number)} does not exist: {file.name} holds {held}.")


def holds_several(path: Path) -> bool:
    """Whether a file of this name, to be written, can hold several images."""
    return isinstance(formats.format_of(path), Joining)


def places(names: Sequence[Path], output: Path) -> tuple[list[Path], Path | None]:
    """Where results go that are made of the images of one file: a file for each and, if these become one, that.

    Images that can be together in `output` wait in files of their own until all are there; others stay in numbered
    ones. A single image goes to `output` itself.
    """
    if len(names) == 1:
        return [output], None
    numbers = [number_of(name) or 0 for name in names]
    if holds_several(output):
        return [part_name(output, number) for number in numbers], output
    return [numbered(output, number) for number in numbers], None


def part_name(path: Path, number: int) -> Path:
    """Where an image waits until all of a file are there that are written to `path`."""
    return path.with_name(PREFIX + numbered(path, number).name)


def numbered(path: Path, number: int) -> Path:
    """The name of one of several files: 'a_s2.ome.tif' of 'a.ome.tif'."""
    suffix = formats.suffix_of(path)
    name = path.name.removesuffix(suffix)
    inner = ".ome" if name.lower().endswith(".ome") else ""
    return path.with_name(f"{name[: len(name) - len(inner)]}_s{number}{name[len(name) - len(inner) :]}{suffix}")


def join(path: Path, parts: Sequence[Path], likes: Sequence[Image]) -> None:
    """Write one file of several images, each of which is in a file of the same format, made with one of `likes`.

    The parts are gone when it is there.
    """
    found = formats.format_of(path)
    assert isinstance(found, Joining), "places are parts of such a format only"
    with replacing(path) as temporary:
        found.join(temporary, parts, likes)
    for part in parts:
        remove(part)
