"""Evenly spread parts of large images."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import tifffile

from noise2same import io
from noise2same.data.sampling import evenly_spread, read_boxes

LARGEST = {2: (20, 30), 3: (4, 20, 30)}


@pytest.mark.parametrize("shapes", [[(50, 70)], [(7, 33, 90)], [(50, 70), (10, 10), (7, 33, 90)]])
def test_all_boxes_cover_every_pixel_once(shapes):
    counts = [np.zeros(shape, int) for shape in shapes]
    for image, region in evenly_spread(shapes, 1.0, LARGEST):
        box = counts[image][region]
        assert all(n <= most for n, most in zip(box.shape, LARGEST[box.ndim], strict=True))
        box += 1
    assert all((count == 1).all() for count in counts)


@pytest.mark.parametrize("share", [0.03, 0.1, 0.5, 0.9])
def test_a_share_is_spread_over_all_images(share):
    shapes = [(200, 300)] * 5
    boxes = evenly_spread(shapes, share, LARGEST)
    assert boxes == sorted(boxes, key=lambda box: box[0]) and len(boxes) == len(set(map(str, boxes)))
    taken = [sum(a.stop - a.start for a, _ in [region]) for _, region in boxes]
    assert sum(taken) == pytest.approx(share * 5 * 200 * 10, rel=0.15)  # ten boxes of 30 pixels stand in a row
    assert {image for image, _ in boxes} == set(range(5))


def test_there_is_always_a_box_where_there_is_an_image():
    assert evenly_spread([], 0.5, LARGEST) == []
    assert len(evenly_spread([(10, 10), (500, 500)], 1e-9, LARGEST)) == 1


def test_boxes_are_parts_of_the_images():
    rng = np.random.default_rng(0)
    films = io.open_images([rng.normal(size=(3, 600, 50)), rng.normal(size=(2, 40, 50))], "TYX")
    whole = read_boxes(films, 10**9)
    assert [box.shape for box in whole] == [(1, 1, 600, 50)] * 3 + [(1, 1, 40, 50)] * 2
    known = {float(value) for box in whole for value in box.flat}
    boxes = read_boxes(films, 30_000)
    assert 15_000 < sum(box.size for box in boxes) <= 33_000
    assert {float(value) for box in boxes for value in box.flat} <= known


def test_images_of_a_large_set_do_not_stay_in_memory(tmp_path):
    for name in "ab":
        tifffile.imwrite(tmp_path / f"{name}.tif", np.zeros((600, 500), "uint16"))
    images = io.open_images(tmp_path)
    seen = [weakref.ref(image.data[...].base) for image in images]  # the pixels of which this is a view
    boxes = read_boxes(images, 300_000)
    assert boxes and all(whole() is None for whole in seen)
