"""The picture of a result."""

from __future__ import annotations

import imageio.v3 as imageio
import numpy as np
import pytest

from noise2same.report import before_after, busiest, plane_of


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((60, 80), "YX"), ((60, 80, 3), "YXC"), ((6, 50, 40), "ZYX"), ((2, 2, 30, 30), "TCYX"), ((1, 1), "YX")],
)
def test_panels_stand_side_by_side(shape, axes, tmp_path):
    clean = np.random.default_rng(0).normal(size=shape)
    before_after({"noisy": clean + 1, "denoised": clean, "clean": clean}, axes, tmp_path / "figure.png")
    picture = imageio.imread(tmp_path / "figure.png")[..., :3].astype(float)
    third = picture.shape[1] // 3
    assert picture.std() > 10
    noisy, denoised, true = (picture[60:, i * third + 20 : (i + 1) * third - 20] for i in range(3))
    assert np.abs(denoised - true).mean() <= np.abs(noisy - true).mean() or shape == (1, 1)


def test_the_zoom_is_where_something_happens():
    plane = np.zeros((100, 100))
    plane[70:75, 10:15] = 1
    rows, columns = busiest(plane, 32)
    assert rows.start <= 70 and rows.stop >= 75 and columns.start <= 10 and columns.stop >= 15


def test_of_a_volume_the_middle_slice_is_shown():
    volume = np.arange(5.0)[:, None, None] * np.ones((5, 4, 3))
    assert plane_of(volume, "ZYX").shape == (4, 3, 1)
    assert (plane_of(volume, "ZYX") == 2).all()
