"""Notebooks: those of the docs run, and results show themselves."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

import noise2same as n2s
from noise2same import io, pipeline
from noise2same.noise.diagnose import diagnose

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
RUN = runpy.run_path(str(ROOT / "tools" / "run_notebooks.py"))["run"]
NOISY = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.float32)


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_docs_runs(path: Path) -> None:
    done = RUN(nbformat.read(path, 4), 'BUDGET = {"steps": 3, "features": 4}')
    shown = [output.data for output in outputs(done) if "data" in output]
    pages = "".join(data.get("text/html", "") for data in shown)
    assert "<progress" in pages and "step 3" in pages  # the bar
    assert sum("image/png" in data for data in shown) >= 2  # the preview, and before and after
    assert "Denoiser" in pages and "because" in pages and "every check" in pages


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_docs_was_run_and_opens_in_colab(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert len(outputs(notebook)) > 4 and not [one for one in outputs(notebook) if one.output_type == "error"]
    assert f"colab.research.google.com/github/noise2same/noise2same/blob/main/docs/notebooks/{path.name}" in (
        notebook.cells[0].source
    )
    assert sum("pip install" in cell.source for cell in notebook.cells) == 1
    first, *others = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert first is None and others == list(range(1, len(others) + 1))  # from top to bottom, but for pip
    assert path.stat().st_size < 1_500_000 and str(Path.home()) not in json.dumps(notebook)


def test_all_that_a_user_holds_shows_itself() -> None:
    model = n2s.Denoiser(n2s.Config(steps=2, features=4, batch=2, patch=32))
    assert "not trained" in model._repr_html_()
    job = pipeline.check(NOISY, [None])
    (result,) = pipeline.run(job, model)
    pages = [model, model.plan, diagnose([NOISY[None, None]]), result, result.assessment, result.assessment.verdict]
    for one in pages:
        page = one._repr_html_()
        opened, closed = (re.findall(rf"<{slash}(\w+)", page) for slash in ("", "/"))
        assert sorted(opened) == sorted(closed) and opened, type(one)
    assert model.plan.method.reason in model._repr_html_()
    assert result.assessment.verdict.word.capitalize() in result._repr_html_()


def test_names_are_text_and_not_html() -> None:
    from noise2same.quality.assess import assess

    image = io.describe(io.Image(NOISY, "YX", title="<script>alert(1)</script>"))
    page = assess(image, NOISY)._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page
