"""The data sets: as noisy as published, the same for a seed, divided rightly, and clear about what is missing."""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
import tifffile

from noise2same.errors import InputError
from noise2same.paper.datasets import DATASETS, Dataset
from noise2same.quality.metrics import psnr, psnr_affine


def input_psnr(dataset: Dataset, condition: str = "") -> float:
    test = dataset.test[condition]
    scores = [psnr(y, x, data_range=dataset.data_range) for y, x in zip(test.clean, test.noisy, strict=True)]
    return float(np.mean(scores))


def test_bsd68(data_dir: Path) -> None:
    dataset = DATASETS["bsd68"](data_dir)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test[""])) == (396, 4, 68)
    assert input_psnr(dataset) == pytest.approx(20.19, abs=0.15)
    assert input_psnr(DATASETS["bsd68"](data_dir, sigma=50)) == pytest.approx(20.19 - 6.02, abs=0.15)


@pytest.mark.parametrize("by", ["tile", "glyph"])
def test_hanzi(data_dir: Path, font: None, by: str) -> None:
    dataset = DATASETS["hanzi"](data_dir, characters=300, by=by)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test[""])) == (1260, 360, 180)
    assert input_psnr(dataset) == pytest.approx(6.7, abs=0.35)  # published 6.45, with a font of bolder strokes
    parts = [{image.tobytes() for image in part.clean} for part in (dataset.train, dataset.test[""])]
    assert bool(parts[0] & parts[1]) == (by == "tile")
    assert all(image.min() >= 0 and image.max() <= 1 for image in dataset.train.noisy)


def test_hanzi_with_gaussian_noise_alone(data_dir: Path, font: None) -> None:
    dataset = DATASETS["hanzi"](data_dir, characters=100, sigma=0.3, missing=False)
    assert input_psnr(dataset) == pytest.approx(-20 * np.log10(0.3), abs=0.05)


def test_imagenet(data_dir: Path) -> None:
    dataset = DATASETS["imagenet"](data_dir, crops=1)
    assert dataset.axes == "YXC" and {image.shape for image in dataset.train.noisy} == {(128, 128, 3)}
    assert input_psnr(dataset) == pytest.approx(9.69, abs=0.15)


def test_planaria_like(data_dir: Path) -> None:
    dataset = DATASETS["planaria-like"](data_dir)
    assert list(dataset.test) == ["C1", "C2", "C3"]
    strengths = [input_psnr(dataset, condition) for condition in dataset.test]
    assert strengths == sorted(strengths, reverse=True) and strengths[0] > strengths[2] + 5
    assert all(image.shape[1:] == (512, 512) for image in dataset.test["C1"].noisy)


def test_planaria_in_the_layout_of_care(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    root = tmp_path / "planaria"
    (root / "train_data").mkdir(parents=True)
    pairs = rng.random((2, 40, 1, 4, 8, 8)).astype(np.float32)
    with pytest.raises(InputError, match=r"data_label\.npz is missing"):
        DATASETS["planaria"](tmp_path)
    np.savez(root / "train_data" / "data_label.npz", X=pairs[0], Y=pairs[1], axes="SCZYX")
    with pytest.raises(InputError, match="no TIFF files"):
        DATASETS["planaria"](tmp_path)
    for place in ("GT", "condition_1", "condition_2", "condition_3"):
        (root / "test_data" / place).mkdir(parents=True)
        tifffile.imwrite(root / "test_data" / place / "worm.tif", rng.integers(0, 4000, (6, 32, 32)).astype(np.uint16))
    dataset = DATASETS["planaria"](tmp_path)
    assert (len(dataset.train), len(dataset.validation)) == (38, 2)
    assert dataset.train.noisy[0].shape == (4, 8, 8) and list(dataset.test) == ["C1", "C2", "C3"]
    low, high = np.percentile(dataset.test["C2"].noisy[0], (2, 99.8))
    assert (low, high) == pytest.approx((0, 1), abs=0.01)
    (root / "test_data" / "condition_3" / "worm.tif").unlink()
    with pytest.raises(InputError, match=r"condition_3 misses worm\.tif"):
        DATASETS["planaria"](tmp_path)


@pytest.mark.parametrize(("name", "expected"), [("w2s", 19.33), ("fmd", 27.24)])  # as in docs/results/cpu/table3.md
def test_real_fluorescence(data_dir: Path, name: str, expected: float) -> None:
    dataset = DATASETS[name](data_dir)
    test = dataset.test[""]
    score = psnr_affine if name == "w2s" else psnr
    found = np.mean([score(prediction=x, truth=y, data_range=255) for y, x in zip(test.clean, test.noisy, strict=True)])
    assert found == pytest.approx(expected, abs=0.01)
    assert not {image.tobytes() for image in test.noisy} & {image.tobytes() for image in dataset.train.noisy}


@pytest.mark.parametrize("name", ["bsd68", "imagenet", "fmd"])
def test_the_same_seed_gives_the_same_images(data_dir: Path, name: str) -> None:
    options = {"crops": 1} if name == "imagenet" else {}
    first, again, other = (DATASETS[name](data_dir, seed=seed, **options) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.test[""].noisy[0], again.test[""].noisy[0])
    assert not np.array_equal(first.test[""].noisy[0], other.test[""].noisy[0])


@pytest.mark.parametrize("name", list(DATASETS))
def test_what_is_missing_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="is missing"):
        DATASETS[name](tmp_path)
    monkeypatch.delenv("NOISE2SAME_DATA", raising=False)
    with pytest.raises(InputError, match="--data"):
        DATASETS[name]()


def test_too_few_images_are_counted(tmp_path: Path) -> None:
    (tmp_path / "bsd" / "Train400").mkdir(parents=True)
    imageio.imwrite(tmp_path / "bsd" / "Train400" / "1.png", np.zeros((8, 8), np.uint8))
    with pytest.raises(InputError, match=r"1 files.* but there should be 400"):
        DATASETS["bsd68"](tmp_path)
