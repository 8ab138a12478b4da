"""Which files are meant, and whether one can be written, found out before any work starts."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noise2same.errors import InputError
from noise2same.files import file_of
from noise2same.io import dicom, foreign, formats, series
from noise2same.io.image import Image
from noise2same.io.remote import Url, as_path


def find(inputs: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Files, folders and glob patterns -> image files, in order and each once.

    A folder stands for every image directly inside it, sorted by name; a Zarr folder, or one of the slices of a
    DICOM series, is itself an image. Files among them that may be images but cannot be read are named in a warning.
    """
    if isinstance(inputs, str | os.PathLike):
        inputs = [inputs]
    found = [path for item in inputs for path in _expand(as_path(item))]
    return list(dict.fromkeys(found))


def _expand(path: Path) -> list[Path]:
    if isinstance(path, Url):
        if not formats.is_zarr(path):
            raise InputError(f"{path}: only Zarr stores are read from elsewhere; download the file first.")
        return [path]
    if formats.is_dicom_folder(path):
        return dicom.sources(path)
    if os.path.isdir(path) and not formats.is_zarr(path):
        return _images(path, path.iterdir(), f"{path} is a folder without images")
    if os.path.exists(file_of(path)):  # unlike pathlib's, false for names that cannot be
        formats.format_of(file_of(path), reading=True)
        return [path]
    if glob.has_magic(str(path)):
        matches = map(Path, glob.glob(str(path), recursive=True))
        # only known suffixes are reported: it may match anything, such as the pieces of a Zarr folder
        return _images(path, matches, f"The pattern '{path}' matches no image", known=True)
    raise InputError(f"{path} does not exist; check its name and folder.")


def _images(where: Path, items: Iterable[Path], nothing: str, *, known: bool = False) -> list[Path]:
    """The images among some items. Others that cannot be read are named in a warning or, without images, an error."""
    items = sorted(items)
    images = [item for item in items if _is_image(item)]
    unread = foreign.unread((item for item in items if not formats.supported(item)), known=known)
    what, step = foreign.describe(unread)
    step = step or f"supported are {', '.join(formats.suffixes())}"
    if not images:
        raise InputError(f"{nothing} that can be read: there are {what}; {step}." if what else f"{nothing}; {step}.")
    films = [item for item in images if formats.BUILT_IN.get(formats.suffix_of(item).lower()) in ("animation", "video")]
    if not known and 0 < len(films) < len(images):  # previews, as programs leave them beside their images
        names = some([film.name for film in films])
        warnings.warn(f"{where}: skipped {names} beside other images; name films to denoise them.", stacklevel=2)
        images = [item for item in images if item not in films]
    if unread:
        warnings.warn(f"{where}: skipped {what}, which cannot be read; {step}.", stacklevel=2)
    return images


def _is_image(path: Path) -> bool:
    hidden = path.name.startswith(".")  # such as our own temporary files
    return not hidden and formats.supported(path) and (path.is_file() or formats.is_zarr(path))


def pair(images: Sequence[Path], partners: Sequence[Path], kind: str) -> list[Path]:
    """The partner of each image: the file of the same name without suffix, or simply the other where there is one each.

    The images of one file are the partners of those of another in their order.

    Parameters
    ----------
    images, partners : sequence of Path
        Each image must have a partner; partners of no image are left out.
    kind : str
        What a partner is, such as "truth", for the error that lists images without.
    """
    if len(images) == len(partners) and (len(images) == 1 or (_in_one_file(images) and _in_one_file(partners))):
        return list(partners)
    names, by_name = {stem(path) for path in images}, dict[str, Path]()
    for path in partners:
        other = by_name.setdefault(stem(path), path)
        if path != other and stem(path) in names:
            raise InputError(f"{other} and {path} could both be the {kind} of one image: rename or remove one.")
    missing = [str(path) for path in images if stem(path) not in by_name]
    if missing:
        raise InputError(f"There is no {kind} of the same name for {some(missing)}: rename or add it.")
    return [by_name[stem(path)] for path in images]


def _in_one_file(paths: Sequence[Path]) -> bool:
    return len({path.parent if series.number_of(path) is not None else path for path in paths}) == 1


def stem(path: Path) -> str:
    """Name without the suffix of its format: 'a.1.ome.tif' -> 'a.1'; 'a.czi/1' -> 'a_s1'."""
    number = series.number_of(path)
    if number is not None:
        return f"{stem(path.parent)}_s{number}"
    name = path.name.removesuffix(formats.suffix_of(path) or path.suffix)
    return name[:-4] if name.lower().endswith(".ome") else name


def some(names: Sequence[str]) -> str:
    """A list of names for a message, cut after the fifth."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_output(
    path: str | os.PathLike[str], inputs: Sequence[str | os.PathLike[str]], like: Image | None = None, dtype: Any = None
) -> None:
    """Raise InputError if `path` cannot be written, or would overwrite one of the inputs.

    With `like` (what is going to be written, see `create`) and `dtype`, also if its format cannot hold that.
    """
    path = Path(path).expanduser()
    kind = np.dtype(dtype) if dtype is not None else like.dtype if like is not None else np.dtype(np.float32)
    formats.writer_of(path, like).check(path, like, kind)
    check_apart(path, inputs)
    check_place(path)


def check_apart(path: str | os.PathLike[str], others: Sequence[str | os.PathLike[str]], kind: str = "input") -> None:
    """Raise InputError if to write `path` would overwrite one of the others, by whatever name; `kind` is what it is."""
    target = as_path(path).resolve()
    for other in (file_of(as_path(item).resolve()) for item in others):
        same = os.path.exists(other) and os.path.exists(target) and other.samefile(target)
        if same or other == target or other in target.parents or target in other.parents:
            raise InputError(f"{path} would overwrite the {kind} {other.name}; choose another name for it.")


def output_name(path: Path, wanted: str = "") -> str:
    """File name for what is made from the image `path`: its own, or that of another format if its own is only read.

    One of several images of a file has its number in it: 'a_s1.tif' is of 'a.tif/1'. `wanted` is another suffix.
    """
    number = series.number_of(path)
    if number is not None:
        return series.numbered(Path(output_name(path.parent, wanted)), number).name
    if wanted:
        return stem(path) + wanted
    suffix = formats.suffix_of(path)
    if not suffix:  # folders may have any name
        return path.name + (dicom.default_output if formats.is_dicom_folder(path) else ".zarr")
    other = formats.format_of(path).default_output
    return path.name.removesuffix(suffix) + other if other else path.name


def check_format(path: Path) -> None:
    """Raise InputError if no format writes files of this suffix."""
    formats.format_of(path).check(path, None, np.dtype(np.float32))


def check_place(path: Path) -> None:
    """Raise InputError if nothing can be written there, or something would go that is not an image."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path} cannot be written: {folder} is not a folder; create it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: no permission in {folder}; choose another folder.")
    if os.path.isdir(path) and not (
        formats.is_zarr(path) and (formats.has_zarr_files(path) or not any(path.iterdir()))
    ):
        raise InputError(f"{path} is a folder and not replaced by an image; choose another name.")
    if os.path.isfile(path) and formats.is_zarr(path):
        raise InputError(f"{path} is a file and not replaced by a Zarr folder; choose another name.")
