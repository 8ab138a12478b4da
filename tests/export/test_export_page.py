"""The examples of docs/export.md, run as they are there."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from noise2same.denoiser import Denoiser, Tuned

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
