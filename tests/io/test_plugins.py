"""A format of another package, registered by an entry point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from noise2same import io
from noise2same.errors import InputError
from noise2same.io import formats

MODULE = '''
from contextlib import contextmanager
import numpy as np
from noise2same.io import Image

class Text:
    """Numbers in lines, as people write them."""
    suffixes = (".numbers", ".grey.numbers")
    default_output = ""

    def read(self, path):
        return Image(np.loadtxt(path, dtype="float32", ndmin=2), "YX", path=path)

    def check(self, path, like, dtype):
        pass

    @contextmanager
    def create(self, path, like, dtype):
        out = np.zeros(like.shape, dtype)
        yield out
        np.savetxt(path, out)

class Scan(Text):
    suffixes = (".scan.gz",)
    default_output = ".tif"

text, scan, lie, tiff = Text(), Scan(), Text(), Scan()
'''
POINTS = """[noise2same.formats]
.numbers = other_formats:text
.grey.numbers = other_formats:text
.scan.gz = other_formats:scan
.lie = other_formats:lie
.gone = other_formats:gone
.tif = other_formats:tiff
"""


@pytest.fixture(autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The other package on the path, as pip leaves it there."""
    site = tmp_path_factory.mktemp("site")
    (site / "other_formats.py").write_text(MODULE)
    info = site / "other_formats-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-formats\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(site)
    formats._added.cache_clear()
    yield
    formats._added.cache_clear()


def test_files_of_another_format_are_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "a.NUMBERS").write_text("1 2 3\n4 5 6\n")
    (tmp_path / "b.grey.numbers").write_text("1 2\n3 4\n")
    first, second = io.open_images(tmp_path)
    np.testing.assert_array_equal(first.data, [[1, 2, 3], [4, 5, 6]])
    assert second.shape == (2, 2)
    with io.create(tmp_path / "c.numbers", first) as out:
        out[...] = first.data[...]
    np.testing.assert_array_equal(io.read(tmp_path / "c.numbers").data, first.data)
    assert [io.stem(tmp_path / name) for name in ("a.1.numbers", "b.grey.numbers")] == ["a.1", "b"]
    (tmp_path / "a.NUMBERS").write_text("1 2 three")
    with pytest.raises(InputError, match=r"a.NUMBERS is truncated or corrupt"):
        io.read(tmp_path / "a.NUMBERS")


def test_what_is_made_of_a_format_that_is_only_read() -> None:
    names = {"a.scan.gz": "a.tif", "b.1.SCAN.gz": "b.1.tif", "c.numbers": "c.numbers", "d.jpg": "d.png"}
    names |= {"e.ome.tif": "e.ome.tif", "f.ome.zarr": "f.ome.zarr", "folder": "folder.zarr"}
    assert {name: io.output_name(Path(name)) for name in names} == names


def test_a_suffix_with_several_parts_needs_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.gz").touch()
    with pytest.raises(InputError, match=r"'.gz' is not supported"):
        io.read(tmp_path / "a.gz")
    with pytest.raises(InputError, match=r"use one of .tif, .*\.scan\.gz"):
        io.check_output(tmp_path / "a.xyz", [])


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("a.lie", r"The package other-formats says it reads '.lie', but its format has only"),
        ("a.gone", r"The package other-formats, which reads '.gone', cannot be used"),
    ],
)
def test_broken_packages_are_named(name: str, match: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=match):
        io.read(tmp_path / name)


def test_our_own_formats_stay_ours(tmp_path: Path) -> None:
    for suffix, name in formats.BUILT_IN.items():
        found = formats.format_of(tmp_path / f"a{suffix}")
        assert found.__name__ == f"noise2same.io.{name}" and suffix in found.suffixes  # type: ignore[attr-defined]
