"""Which file each result goes to, and which files belong together."""

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


def check_distinct(outputs: Sequence[Path]) -> None:
    """Raise InputError if two results would go to the same file."""
    twice = [path for path, count in Counter(outputs).items() if count > 1]
    if twice:
        raise InputError(f"Two inputs would both be written to {min(twice)}: rename one.")


def labels(files: Sequence[Path]) -> list[str]:
    """What to call files in a table: their names or, where two have the same, their paths."""
    names = [file.name for file in files]
    return names if len(set(names)) == len(names) else [str(file) for file in files]


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
