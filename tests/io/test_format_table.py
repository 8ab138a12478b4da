"""The table of formats in the documentation, measured: each row by a file that the format's own library wrote."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from format_cases import CASES, Case
from roundtrip import noise

from noise2same import io
from noise2same.io import formats
from noise2same.io.formats import Several
from noise2same.io.image import Decoded, Part

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
BEGIN, END = "<!-- measured by tests/io/test_format_table.py -->\n", "<!-- end -->\n"
HEAD = ["Format", "Suffixes", "Needs", "Write", "Read piece by piece", "Several images", "Axes", "Pixel size"]
HEAD += ["Types", "Metadata kept"]


@dataclass
class Measured:
    """What was found of a format."""

    case: Case
    result: str = ""
    """Suffix of the result."""
    lazily: str = ""
    types: list[str] = field(default_factory=list)
    """That come back as they were."""
    kept: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        case = self.case
        found = formats.format_of(Path(f"a{case.suffix}"))
        written = "yes" if self.result == case.suffix else f"as `{self.result}`"
        cells = [
            case.row,
            " ".join(f"`{one}`" for one in case.names or found.suffixes),
            f"`{case.needs}`" if case.needs else "",
        ]
        cells += [written, self.lazily, "yes" if isinstance(found, Several) else "one"]
        cells += ["from the file" if case.axes else "asked for", "kept" if case.size else "none"]
        return [*cells, ", ".join(self.types), ", ".join(self.kept)]


def source_of(case: Case, dtype: str, folder: Path, data: Path | None) -> tuple[Path, np.ndarray | None]:
    """The file of a case, and its pixels if they are known."""
    path = folder / f"{dtype}{case.suffix}"
    if case.make is None:
        assert data is not None
        path = folder / Path(case.real).name
        shutil.copy(data / case.real, path)
        return path, None
    pixels = noise(case.shape, dtype)
    case.make(path, pixels)
    return path, pixels


def measure(case: Case, folder: Path, data: Path | None) -> Measured:
    """Read a file of each type, write it again, and compare."""
    measured = Measured(case)
    (folder / "out").mkdir()
    for dtype in case.dtypes:
        path, pixels = source_of(case, dtype, folder, data)
        image = io.read(path, None if case.axes else "ZYX")
        assert image.axes == (case.axes or "ZYX") and image.shape == case.shape
        if pixels is not None and case.exact:
            np.testing.assert_array_equal(image.data[...], pixels)
        if case.size:
            assert image.pixel_size == pytest.approx(dict(case.size), rel=1e-4)
        name = io.output_name(path)
        with io.create(folder / "out" / name, image) as out:
            out[...] = image.data[...]
        written = io.read(folder / "out" / name, None if case.axes else "ZYX")
        assert (written.axes, written.unit) == (image.axes, image.unit)
        assert written.pixel_size == pytest.approx(image.pixel_size)
        if written.dtype == dtype and np.array_equal(written.data[...], image.data[...]):
            measured.types.append(dtype)
        told, found = case.told(path), case.found(folder / "out" / name)
        measured.kept = [fact for fact, value in told.items() if value and found.get(fact) == value]
        measured.lazily, measured.result = how_read(path, image), name.removeprefix(io.stem(path))
    return measured


def how_read(path: Path, image: io.Image) -> str:
    """Whether a part of an image can be read without the rest."""
    if not is_decoded(image):
        return "yes"
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("noise2same.io") and hasattr(module, "LAZY_BYTES"):
                patch.setattr(module, "LAZY_BYTES", 1)
        return "no" if is_decoded(io.read(path, image.axes)) else "above 1 GiB"


def is_decoded(image: io.Image) -> bool:
    data = image.data
    return isinstance(data._whole if isinstance(data, Part) else data, Decoded | np.ndarray)


def table(rows: list[Measured]) -> str:
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def test_every_format_has_a_case() -> None:
    there = {formats.BUILT_IN[formats.suffix_of(Path(f"a{case.suffix}"))] for case in CASES}
    assert set(formats.BUILT_IN.values()) == there, "add the others to format_cases.py"


def test_the_table_is_what_is_measured(data_dir: Path, tmp_path: Path) -> None:
    """With NOISE2SAME_WRITE=1, the table is written anew."""
    for library in ("ome_types", "nd2", "liffile", "mrcfile", "astropy", "nibabel", "pydicom", "rawpy", "av"):
        pytest.importorskip(library)
    rows = []
    for case in CASES:
        folder = tmp_path / case.row.replace("/", " ")
        folder.mkdir()
        rows.append(measure(case, folder, data_dir))
    before, rest = PAGE.read_text().split(BEGIN)
    shown, after = rest.split(END)
    if os.environ.get("NOISE2SAME_WRITE"):
        PAGE.write_text(before + BEGIN + table(rows) + END + after)
    else:
        assert shown == table(rows), "NOISE2SAME_WRITE=1 pytest tests/io/test_format_table.py writes it anew"
