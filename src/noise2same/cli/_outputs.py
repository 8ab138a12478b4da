"""Which file each result and report goes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from noise2same import io
from noise2same.errors import InputError


class Planned(NamedTuple):
    """An image, and where its result goes."""

    source: Path
    output: Path
    whole: Path | None = None
    """File of several images that the result becomes a part of."""

    @property
    def goes_to(self) -> Path:
        """Where it is in the end."""
        return self.whole or self.output


def plan_outputs(
    inputs: Sequence[str],
    files: Sequence[Path],
    output: Path,
    numbers: Sequence[int] | None = None,
    suffix: str = "",
) -> list[Planned]:
    """Where each result goes: OUT itself for one file; a folder OUT of the same names for a folder or several.

    Of files with several images, all are taken or those of the numbers; `suffix` is another than the files have.
    """
    several = len(files) > 1 or len(inputs) > 1 or list(files) != [io.as_path(inputs[0])]
    if numbers is not None and len(files) == 1:
        io.series.check(files[0], numbers)
    named = bool(output.suffix) and not (output.is_dir() and not io.supported(output))
    if not several and named:
        if suffix:
            raise InputError(f"--format {suffix} is for a folder of results, but {output} has a suffix already.")
        return _plan_file(files[0], output, numbers, named=True)
    if io.supported(output) and not output.is_dir():
        raise InputError(f"{output} is one file but there are several inputs: give a folder.")
    planned: list[Planned] = []
    for file in files:
        try:
            planned += _plan_file(file, output / io.output_name(file, suffix), numbers)
        except InputError:  # which is said when its turn comes
            if len(files) == 1:
                raise
            planned.append(Planned(file, output / io.output_name(file, suffix)))
    check_distinct([one.output for one in planned])
    return planned


def _plan_file(file: Path, output: Path, numbers: Sequence[int] | None, *, named: bool = False) -> list[Planned]:
    """Where the results of a file's images go, of which there may be one."""
    names = io.series.names(file, numbers)
    if len(names) == 1 and names[0] != file and not named and not io.series.holds_several(output):
        output = io.series.numbered(output, int(names[0].name))
    outputs, whole = io.series.places(names, output)
    return [Planned(name, place, whole) for name, place in zip(names, outputs, strict=True)]


def check_suffix(suffix: str | None) -> str:
    """The suffix of --format with its dot; InputError if no format has it."""
    if not suffix:
        return ""
    suffix = suffix if suffix.startswith(".") else f".{suffix}"
    io.check_format(Path(f"image{suffix}"))
    return suffix


def check_numbers(text: str | None) -> list[int] | None:
    """The numbers of --series, such as 0,2, in their order; None for all images."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--series {text}: give numbers, counted from 0, such as 0,2.")
    return sorted({int(part) for part in parts})


def plan_reports(
    report: Path | None, files: Sequence[Path], inputs: Sequence[Path], outputs: Sequence[Path] = ()
) -> list[Path | None]:
    """Where the report on each file goes: the file that is named, or a page for each in a folder of that name.

    Never in place of an input or an output.
    """
    if report is None:
        return [None] * len(files)
    report = report.expanduser()
    if len(files) > 1:
        if report.suffix in (".html", ".png"):
            raise InputError(f"--report {report}: there are {len(files)} images, so name a folder.")
        if report.exists() and not report.is_dir():
            raise InputError(f"--report {report}: this is a file, and there are {len(files)} images; name a folder.")
        pages = [report / f"{io.stem(file)}.html" for file in files]
        check_distinct(pages)
        return list(pages)
    if report.suffix not in (".html", ".png"):
        raise InputError(f"--report {report}: the name of a report ends in .html or .png.")
    io.check_apart(report, inputs)
    io.check_apart(report, outputs, "output")
    io.check_place(report)
    return [report]


def plan_preview(preview: Path | None, files: Sequence[Path], written: Sequence[Path]) -> Path | None:
    """Where the preview of a film goes, in place of neither an input nor what else is written."""
    if preview is None:
        return None
    from noise2same.quality.preview import check_preview

    preview = preview.expanduser()
    if len(files) > 1:
        raise InputError(f"--preview {preview} is for one film, but there are {len(files)} inputs: name one of them.")
    check_preview(preview)
    io.check_apart(preview, files)
    io.check_apart(preview, written, "output")
    io.check_place(preview)
    return preview


def check_distinct(outputs: Sequence[Path]) -> None:
    """Raise InputError if two results would go to the same file."""
    twice = [path for path, count in Counter(outputs).items() if count > 1]
    if twice:
        raise InputError(f"Two inputs would both be written to {min(twice)}: rename one.")


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; what is made and still empty when something goes wrong is removed again."""
    made = []
    try:
        for parent in reversed([folder, *folder.parents]):
            if parent.exists() and not parent.is_dir():
                raise InputError(f"{folder} cannot be made: {parent} is a file; choose another output.")
            if not parent.exists():
                parent.mkdir()
                made.append(parent)
        yield
    except BaseException as error:
        for parent in reversed(made):
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError) and not folder.is_dir():
            raise InputError(f"{folder} cannot be made: {error.strerror}; choose another output.") from None
        raise
