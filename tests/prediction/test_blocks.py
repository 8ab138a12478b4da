"""How images are cut into regions and blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from noise2same.prediction.blocks import Grid, chunks_of, halved

SIZES = [(1, 1), (7, 300), (257, 511), (2048, 2048), (5, 33, 40), (64, 256, 257)]


def covered(regions, size):
    count = np.zeros(size, np.uint8)
    for region in regions:
        count[region] += 1
    return count


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("most", [1000, 100_000, 10**9])
def test_blocks_cover_each_pixel_once_and_their_windows_are_bounded(size, most):
    grid = Grid(size, (9,) * len(size), (4,) * len(size))
    blocks = grid.split(grid.whole, most)
    assert (covered(blocks, size) == 1).all()
    smallest = 28 ** len(size)  # a block of one stride, and its halo
    for block in blocks:
        window = grid.window(block)
        assert np.prod([part.stop - part.start for part in window]) <= max(most, smallest)
        for part, inner, length in zip(window, block, size, strict=True):
            assert part.start % 4 == part.stop % 4 == 0
            assert part.start <= max(0, inner.start - 9)
            assert part.stop >= min(length, inner.stop + 9)
            assert part.stop < length + 4


def test_an_image_that_fits_is_one_block():
    grid = Grid((100, 201), (23, 23), (4, 4))
    assert grid.split(grid.whole, 100 * 204) == [grid.whole]


def test_blocks_are_no_longer_than_is_asked_for():
    grid = Grid((100, 201), (0, 0), (1, 1))
    for block in grid.split(grid.whole, 10**9, longest=(30, 500)):
        assert block[0].stop - block[0].start <= 30
        assert block[1] == slice(0, 201)


def test_blocks_span_a_short_axis():
    grid = Grid((64, 4096, 4096), (23, 23, 23), (4, 4, 4))
    region = (slice(0, 64), slice(1024, 2048), slice(1024, 2048))
    blocks = grid.split(region, 3_000_000)
    assert all(block[0] == slice(0, 64) for block in blocks)
    windows = (grid.window(block) for block in blocks)
    work = sum(np.prod([part.stop - part.start for part in window]) for window in windows)
    assert work < 1.8 * 64 * 1024**2


@pytest.mark.parametrize("most", [10, 50_000, 10**9])
def test_regions_are_made_of_whole_chunks(most):
    grid = Grid((70, 300, 500), (9, 9, 9), (4, 4, 4))
    regions = grid.gather(most, (32, 64, 100))
    assert (covered(regions, grid.size) == 1).all()
    for region in regions:
        for part, chunk, length in zip(region, (32, 64, 100), grid.size, strict=True):
            assert part.start % chunk == 0
            assert part.stop % chunk == 0 or part.stop == length
    assert len(regions) == {10: 75, 50_000: 75, 10**9: 1}[most]


def test_halves_make_the_whole_until_they_are_small():
    blocks = [(slice(3, 50), slice(10, 100))]
    for _ in range(20):
        blocks = list(itertools.chain.from_iterable(halved(block, (4, 4)) for block in blocks))
    assert (covered(blocks, (60, 110))[3:50, 10:100] == 1).all()
    assert max(part.stop - part.start for block in blocks for part in block) <= 16


def test_a_store_is_written_by_shards_or_chunks_and_an_array_anyhow():
    class Store:
        chunks, shards = (1, 2, 16, 16), None

    class Sharded(Store):
        shards = (1, 2, 64, 32)

    assert chunks_of(Store(), "TCYX") == (16, 16)
    assert chunks_of(Sharded(), "TCYX") == (64, 32)
    assert chunks_of(np.zeros((2, 2)), "YX") is None
