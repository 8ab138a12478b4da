"""The last door: a format that only a reader of bioio knows, which is installed as pip would."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from roundtrip import copy, noise

import noise2same as n2s
from noise2same import io
from noise2same.errors import InputError
from noise2same.io import any_bioio, formats

bioio = pytest.importorskip("bioio")

READER = '''
import numpy as np
import dask.array as da
import xarray as xr
from bioio_base import types, exceptions
from bioio_base.reader import Reader as Base
from bioio_base.reader_metadata import ReaderMetadata as BaseMetadata

class Reader(Base):
    """Arrays of NumPy in an archive, one a scene."""

    @staticmethod
    def _is_supported_image(fs, path, **kwargs):
        return True

    def __init__(self, image, **kwargs):
        self._path = str(image)
        self._file = np.load(self._path)
        self._fs = None

    @property
    def scenes(self):
        return tuple(self._file.files)

    def _read_delayed(self):
        pixels = self._file[self.current_scene]
        dims = "TCZYXS"[: pixels.ndim]
        return xr.DataArray(da.from_array(pixels, chunks=16), dims=list(dims))

    def _read_immediate(self):
        return self._read_delayed().compute()

    @property
    def channel_names(self):
        return ["actin", "tubulin"]

    @property
    def physical_pixel_sizes(self):
        return types.PhysicalPixelSizes(0.5, 0.2, 0.1)

class ReaderMetadata(BaseMetadata):
    @staticmethod
    def get_supported_extensions():
        return ["archive", "txt"]

    @staticmethod
    def get_reader():
        return Reader
'''


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    site = tmp_path_factory.mktemp("site")
    package = site / "bioio_archive"
    package.mkdir()
    (package / "__init__.py").write_text("from .reader import Reader, ReaderMetadata\n")
    (package / "reader.py").write_text(READER)
    info = site / "bioio_archive-1.0.dist-info"
    info.mkdir()
    told = "Metadata-Version: 2.1\nName: bioio-archive\nVersion: 1.0\nRequires-Dist: bioio-base\n"
    (info / "METADATA").write_text(told)
    (info / "entry_points.txt").write_text("[bioio.readers]\nbioio-archive = bioio_archive\n")
    (info / "RECORD").write_text("")
    monkeypatch.syspath_prepend(site)
    for clear in (any_bioio.known.cache_clear, any_bioio._opened.cache_clear):
        clear()
    bioio.plugins.plugins_by_ext_cache.clear()
    yield
    any_bioio.known.cache_clear()
    any_bioio._opened.cache_clear()
    bioio.plugins.plugins_by_ext_cache.clear()
    for name in [name for name in sys.modules if name.startswith("bioio_archive")]:
        del sys.modules[name]


def write(path: Path, **scenes: np.ndarray) -> None:
    with path.open("wb") as file:
        np.savez(file, **scenes)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("lazy", [False, True])
def test_scenes_axes_and_sizes(lazy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lazy:
        monkeypatch.setattr("noise2same.io.image.LAZY_BYTES", 100)
    first, second = noise((1, 2, 3, 32, 40)), noise((1, 2, 3, 40, 32)) + 1
    write(tmp_path / "a.archive", one=first, two=second)
    (tmp_path / "notes.txt").write_text("no image, though a reader says so")
    images = io.open_images(tmp_path)
    assert [image.label for image in images] == ["a.archive/0", "a.archive/1"]
    for image, pixels in zip(images, (first, second), strict=True):
        assert (image.axes, image.unit, image.pixel_size) == ("CZYX", "micrometer", {"Z": 0.5, "Y": 0.2, "X": 0.1})
        np.testing.assert_array_equal(image.data[...], pixels[0])
        np.testing.assert_array_equal(image.data[1, :, 3:7, -5:], pixels[0, 1, :, 3:7, -5:])
        assert [channel.name for channel in io.channels(image)] == ["actin", "tubulin"]
    copied = copy(images[1], tmp_path / io.output_name(tmp_path / "a.archive" / "1"))
    assert copied.path == tmp_path / "a_s1.ome.tif"
    assert [channel.name for channel in io.channels(copied)] == ["actin", "tubulin"]


@pytest.mark.usefixtures("installed")
def test_colors_and_results(tmp_path: Path) -> None:
    write(tmp_path / "a.archive", one=noise((1, 1, 1, 64, 70, 3), "uint8"))
    assert io.read(tmp_path / "a.archive").axes == "YXC"
    clean = n2s.denoise(tmp_path / "a.archive", minutes=0, output=tmp_path / "b.tif")
    assert io.read(clean).shape == (64, 70, 3)
    with pytest.raises(InputError, match="is read, not written"):
        io.check_output(tmp_path / "c.archive", [])


@pytest.mark.usefixtures("installed")
def test_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.archive").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"a.archive is truncated or corrupt"):
        io.read(tmp_path / "a.archive")


def test_without_a_reader_there_is_advice(tmp_path: Path) -> None:
    (tmp_path / "a.archive").touch()
    with pytest.raises(InputError, match=r"'.archive' is not supported"):
        io.read(tmp_path / "a.archive")
    (tmp_path / "a.vsi").touch()
    with pytest.raises(InputError, match=r"cellSens.*or install noise2same\[bioio\] and a reader of bioio for '.vsi'"):
        io.read(tmp_path / "a.vsi")
    assert not formats.supported(tmp_path / "a.vsi")
