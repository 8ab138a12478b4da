"""The tool that makes the starter networks repeats itself, goes on after a kill, and writes models that work."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data

from noise2same import Denoiser
from noise2same.noise.synthetic import gaussian
from noise2same.quality.metrics import psnr

TOOL = Path(__file__).parents[1] / "tools" / "pretrain.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("pretrain", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["pretrain"] = module  # which dataclasses look for
    threads = torch.get_num_threads()
    spec.loader.exec_module(module)
    yield module
    torch.set_num_threads(threads)
    del sys.modules["pretrain"]


def run(tool, folder, *options, names=("grey", "colour")):
    given = ["--crops", "10", "--steps", "8", "--batch", "2", "--every", "100"]
    tool.main([*names, "--state", str(folder), "--out", str(folder), *given, *options])
    return [Denoiser.load(folder / f"{name}16.safetensors") for name in names]


@pytest.fixture(scope="module")
def made(tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrain")
    return folder, run(tool, folder)


def same(one, other):
    ours, theirs = one.network.state_dict(), other.network.state_dict()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_repeats_from_its_seed(tool, made, tmp_path):
    _, models = made
    assert all(map(same, models, run(tool, tmp_path)))
    (tmp_path / "grey16.pt").unlink()
    assert not same(models[0], run(tool, tmp_path, "--seed", "1", names=["grey"])[0])


def test_goes_on_after_a_kill(tool, made, tmp_path, monkeypatch):
    folder, models = made
    for name in ("crops.npy", "validation.npy"):
        (tmp_path / name).symlink_to(folder / name)
    follow = tool.Run.follow

    def killed(self, decay):
        if self.steps == 6:
            raise KeyboardInterrupt
        follow(self, decay)

    monkeypatch.setattr(tool, "SAVE", -1.0)
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(tool.Run, "follow", killed)
        run(tool, tmp_path, names=["grey"])
    assert not (tmp_path / "grey16.safetensors").exists()
    assert torch.load(tmp_path / "grey16.pt", weights_only=True)["steps"] == 5
    assert same(models[0], run(tool, tmp_path, names=["grey"])[0])


def test_the_models_denoise(made):
    folder, models = made
    for model, clean in zip(models, (data.coins()[:96, :90], data.astronaut()[:96, 150:250]), strict=True):
        noisy = gaussian(clean, 50, np.random.default_rng(0))
        assert psnr(clean, model.denoise(noisy, model.axes), 255) > psnr(clean, noisy, 255) + 3
    rows = list(csv.DictReader((folder / "grey16.csv").open()))
    assert [row["steps"] for row in rows] == ["1", "8"] and all(float(row["25"]) > 15 for row in rows)


def test_begins_with_a_model(tool, made, tmp_path):
    folder, models = made
    for name in ("crops.npy", "validation.npy"):
        (tmp_path / name).symlink_to(folder / name)
    begun = run(tool, tmp_path, "--begin", str(folder / "grey16.safetensors"), "--rate", "1e-8", names=["grey"])[0]
    for one, other in zip(begun.network.parameters(), models[0].network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_its_noise_has_the_variance_it_should(tool, monkeypatch):
    monkeypatch.setattr(tool, "CORRELATED", 0.0)
    monkeypatch.setattr(tool, "CLIPPED", 0.0)
    clean = torch.full((3, 1, 2 * tool.PATCH, tool.PATCH), 40.0)
    gain, sigma = torch.tensor([[0.0, 5.0], [20.0, 0.0], [2.0, 3.0]]).T.reshape(2, 3, 1, 1, 1)
    noise = tool.noisy(clean, gain, sigma, torch.Generator().manual_seed(0)) - clean
    for part in noise.split(tool.PATCH, 2):  # drawn in different ways
        torch.testing.assert_close(part.var((1, 2, 3)), torch.tensor([25.0, 800.0, 89.0]), rtol=0.08, atol=0)
        assert part.mean((1, 2, 3)).abs().max() < 1.5


def test_patches_are_normalised_as_images_are_in_prediction(tool):
    pictures = torch.randint(0, 256, (4, 3, tool.SIZE, tool.SIZE), dtype=torch.uint8)  # alike everywhere
    batch = tool.Batch.draw(pictures, 64, torch.Generator().manual_seed(0))
    assert batch.x.shape == batch.clean.shape == (64, 3, tool.PATCH, tool.PATCH)
    assert batch.x.mean().abs() < 0.02 and abs(batch.x.std() - 1) < 0.03
    assert (batch.clean.std((1, 2, 3)) < 1.02).all() and torch.isfinite(batch.weight).all()


def test_every_picture_has_an_author_and_a_licence():
    rows = list(csv.DictReader(TOOL.with_name("pretrain_pictures.csv").open()))
    assert {row["used"] for row in rows} == {"yes", "validation", "no"}
    for row in rows:
        assert row["author"] and row["licence"].startswith(("CC", "GPL", "LGPL")), row
        assert (row["used"] == "no") == bool(row["reason"]), row
