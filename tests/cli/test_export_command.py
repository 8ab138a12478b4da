"""`noise2same export`, and what a model says of itself."""

from __future__ import annotations

import json

import numpy as np


def test_export_says_how_far_it_differs(run, trained, tmp_path):
    code, out, err = run("export", trained, "-o", tmp_path / "model.pt", "--json")
    found = json.loads(out)
    assert code == 0
    assert (tmp_path / "model.pt").exists()
    assert found["to"] == "torchscript"
    assert found["difference"] <= 1e-4
    assert "Note: The result is the network's alone" in err


def test_the_name_follows_from_the_model(run, trained, tmp_path):
    model = tmp_path / "mine.safetensors"
    model.write_bytes(trained.read_bytes())
    assert run("export", model, "--to", "torchscript")[0] == 0
    assert (tmp_path / "mine.pt").exists()


def test_without_a_format_it_asks_for_one(run, trained):
    code, _, err = run("export", trained)
    assert code == 2
    assert "Error: Say what to export to" in err


def test_a_license_that_nobody_knows(run, trained, tmp_path):
    code, _, err = run("export", trained, "-o", tmp_path / "model.zip", "--license", "mine")
    assert code == 2
    assert "mine is no license of the SPDX list" in err
    assert not list(tmp_path.iterdir())


def test_what_is_said_at_training_is_kept_and_shown(run, tmp_path):
    noisy, model = tmp_path / "noisy.npy", tmp_path / "model.safetensors"
    np.save(noisy, np.random.default_rng(0).normal(100, 20, (48, 48)).astype(np.float32))
    said = ("--license", "MIT", "--training-data", "Noise alone.", "--author", "Ann", "--author", "Bo")
    small = ("--steps", 2, "--set", "features=4", "--set", "patch=32", "--set", "batch=2")
    assert run("train", noisy, "-m", model, *small, *said)[0] == 0
    about = json.loads(run("info", model, "--json")[1])["about"]
    assert about == {"license": "MIT", "training_data": "Noise alone.", "authors": ["Ann", "Bo"]}
    shown = run("info", model)[1]
    assert "MIT" in shown and "Noise alone." in shown
    assert run("export", model, "-o", tmp_path / "model.pt")[0] == 0
    assert b'"license": "MIT"' in (tmp_path / "model.pt").read_bytes()


def test_a_model_of_which_nothing_is_said(run, trained):
    assert "not stated" in run("info", trained)[1]
