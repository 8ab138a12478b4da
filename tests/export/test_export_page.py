"""The examples of docs/export.md, run as they are there."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from noise2same.denoiser import Denoiser
from noise2same.one_image import Tuned

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
EXAMPLES = re.findall(r"## With (.+?)\n\n```python\n(.+?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, trained):
    """With a noisy image, and the exports that the page speaks of."""
    made = tmp_path_factory.mktemp("page")
    np.save(made / "noisy.npy", np.random.default_rng(0).normal(100, 20, (61, 70)).astype(np.float32))
    model = Denoiser.load(trained)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for suffix in (".zip", ".onnx", ".xml", ".pt"):
            model.export(made / f"scope{suffix}")
    return made


@pytest.mark.filterwarnings("ignore")  # other programs warn in their own way
@pytest.mark.parametrize(("program", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_the_example_works(folder, trained, monkeypatch, program, example):
    monkeypatch.chdir(folder)
    found: dict[str, np.ndarray] = {}
    exec(example, found)
    noisy, model = np.load("noisy.npy"), Denoiser.load(trained)
    ours = Tuned(model, torch.device("cpu")).denoise(noisy, "YX", tta=False)
    assert len(EXAMPLES) == 4
    inside = np.s_[24:-24, 24:-24] if program == "bioimageio.core" else np.s_[:]  # which pads at the borders
    assert np.abs(found["clean"] - ours)[inside].max() <= 1e-4 * np.ptp(noisy)


@pytest.mark.parametrize("suffix", [".zip", ".onnx", ".xml", ".pt"])
def test_an_export_can_be_asked_what_it_is(folder, run, suffix):
    code, out, _ = run("info", folder / f"scope{suffix}", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["axes"] == "bcyx"
    assert found["about"] == {"license": None, "training_data": None, "authors": []}
    assert "not stated" in run("info", folder / f"scope{suffix}")[1]


@pytest.mark.parametrize("suffix", [".zip", ".onnx", ".xml", ".pt"])
def test_another_file_is_refused_with_a_sentence(tmp_path, run, suffix):
    path = tmp_path / f"other{suffix}"
    path.write_bytes(b"<a/>")
    code, _, err = run("info", path)
    assert code == 2
    assert "is not an export of noise2same" in err
