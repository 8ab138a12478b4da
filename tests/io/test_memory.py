"""A file that is filled piece by piece, and one that is read so, do not come to lie in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from roundtrip import noise

from noise2same import io

STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
SHAPE = 128, 1024, 1024
"""256 MB as uint16."""
FEW = 2**27
"""Bytes that may be held: of some planes, and what libraries take."""


def peak() -> int:
    """Bytes that this process has held at most since it forgot."""
    return 1024 * next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))


@pytest.mark.skipif(not FORGET.exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("name", "compression"),
    [("a.npy", ""), ("a.tif", ""), ("a.ome.tif", ""), ("a.tif", "lzw"), ("a.mrc", ""), ("a.fits", ""), ("a.nii", "")],
)
def test_memory_does_not_grow_with_the_file(
    name: str, compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noise2same.io.image.LAZY_BYTES", FEW)
    monkeypatch.setattr("noise2same.io.tiff.LAZY_BYTES", FEW)
    plane = noise(SHAPE[1:])
    details = {"compression": compression} if compression else {}
    image = io.Image(np.broadcast_to(plane, SHAPE), "ZYX", details=details)
    with io.create(tmp_path / f"small.{name}", io.Image(image.data[:2], "ZYX", details=details)) as out:
        out[:] = plane
    assert io.read(tmp_path / f"small.{name}", "ZYX").shape == (2, *plane.shape)  # which loaded the libraries
    FORGET.write_text("5")
    before = peak()
    with io.create(tmp_path / name, image) as out:
        for number in range(0, SHAPE[0], 4):
            out[number : number + 4] = plane
    written = io.read(tmp_path / name, "ZYX")
    assert all(np.array_equal(written.data[number], plane) for number in range(SHAPE[0]))
    assert peak() - before < FEW
