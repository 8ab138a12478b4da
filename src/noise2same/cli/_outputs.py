"""Which file each result and report goes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from noise2same import io
from noise2same.errors import InputError


def plan_outputs(inputs: Sequence[str], files: Sequence[Path], output: Path) -> list[Path]:
    """Where each result goes: OUT itself for one file; a folder OUT of the same names for a folder or several."""
    several = len(files) > 1 or len(inputs) > 1 or list(files) != [Path(inputs[0]).expanduser()]
    named = output.suffix and not (output.is_dir() and not io.supported(output))
    if not several and named:
        return [output]
    if io.supported(output) and not output.is_dir():
        raise InputError(f"{output} is one file but there are several inputs: give a folder.")
    outputs = [output / io.output_name(file) for file in files]
    check_distinct(outputs)
    return outputs


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
