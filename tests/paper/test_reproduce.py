"""Tables and figures of the paper: made of every cell it has, never trained twice, and kept when stopped."""

from __future__ import annotations

import json
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy import ndimage

from noise2same.config import Config
from noise2same.paper.reproduce import ARTEFACTS, pack, protocols, render
from noise2same.paper.reproduce.cost import hours, stand_in
from noise2same.paper.reproduce.protocols import RunSpec
from noise2same.paper.reproduce.published import TABLE1, TABLE3, published
from noise2same.paper.reproduce.store import Store
from noise2same.paper.reproduce.tables import gap_closed, published_gap

PAPER_GAPS = {"bsd68": 0.875, "hanzi": 0.861, "imagenet": 0.918}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small pictures in the layout of BSD68, ImageNet and w2s."""
    rng, root = np.random.default_rng(0), tmp_path_factory.mktemp("data")

    def picture(*shape: int) -> np.ndarray:
        smooth = ndimage.gaussian_filter(rng.standard_normal(shape), (4, 4, 0)[: len(shape)])
        return (255 * (smooth - smooth.min()) / np.ptp(smooth)).astype(np.uint8)

    for name, count in (("Train400", 400), ("BSD68", 68)):
        (root / "bsd" / name).mkdir(parents=True)
        for number in range(count):
            imageio.imwrite(root / "bsd" / name / f"{number:03}.png", picture(32, 32))
    (root / "imagenet").mkdir()
    for number in range(40):
        imageio.imwrite(root / "imagenet" / f"{number}.jpg", picture(128, 128, 3))
    for name in ("avg1", "avg400"):
        (root / "w2s24" / name).mkdir(parents=True)
        for number in range(4):
            imageio.imwrite(root / "w2s24" / name / f"{number}_1.png", picture(64, 64))
    return root


def test_there_is_a_cell_for_every_number_of_the_paper() -> None:
    rows = protocols.table3(RunSpec())
    for method, scores in TABLE3.items():
        for name in scores:
            dataset = name.split()[0].replace("planaria", "planaria-like")
            assert (dataset, method) in rows, f"{method} on {name}"
    assert list(protocols.table1(RunSpec())) == list(TABLE1)
    assert all((dataset, "auto") in rows for dataset in protocols.DEFAULT_DATASETS)
    assert len(protocols.sigma(RunSpec())) == 40


@pytest.mark.parametrize("preset", ["cpu", "paper"])
@pytest.mark.parametrize("what", ARTEFACTS)
def test_names_are_unique_and_settings_are_right(what: str, preset: protocols.Preset) -> None:
    cells = ARTEFACTS[what][0](RunSpec(preset)).values()
    assert len({cell.name for cell in cells}) == len(cells)
    for cell in cells:
        steps, time = hours(cell, preset)
        assert (steps > 0) == (cell.method not in ("noisy", "NLM", "BM3D")) == (time > 0), cell.name


def test_the_paper_s_settings() -> None:
    cells = protocols.table3(RunSpec("paper"))
    config = Config.of(**cells["bsd68", "Noise2Same"].settings(stand_in()))
    assert (config.preset, config.method, config.steps, config.features) == ("paper", "noise2same", 80_000, 96)
    assert (config.method_settings["lambda_inv"], config.method_settings["fill"]) == (0.95, "donut")
    settings = cells["hanzi", "Noise2Same"].settings(stand_in())
    assert settings == {"preset": "paper", "steps": 50_000, "method": "noise2same"}


def test_rows_are_the_losses_that_they_name() -> None:
    cells = protocols.table3(RunSpec())
    methods = {row: cells["bsd68", row].settings(stand_in())["method"] for row in ("Noise2Same", "projected", "auto")}
    assert methods == {"Noise2Same": "noise2same", "projected": "projected", "auto": "auto"}
    cell = cells["bsd68", "Noise2Self, noise"].settings(stand_in())
    assert cell["fill"] == "gaussian" and cell["steps"] == 2000 and not cell["early_stopping"]


def test_gaps_as_published() -> None:
    for dataset, gap in PAPER_GAPS.items():
        assert published_gap(dataset, "Noise2Same", "") == pytest.approx(gap, abs=0.001)
    assert published("Noise2Same", "planaria-like", "C1") == 29.48
    results = {
        name: {"score": "psnr", "scores": {"": {"psnr": value}}} for name, value in (("noisy", 20.0), ("A", 27.0))
    }
    assert gap_closed(results, "A", "") is None  # without Noise2True
    results["Noise2True"] = {"score": "psnr", "scores": {"": {"psnr": 30.0}}}
    assert gap_closed(results, "A", "") == pytest.approx(0.7)


def test_a_table_is_made_once(run, data: Path, tmp_path: Path) -> None:
    command = ("reproduce", "table1", "--steps", 3, "--data", data, "--out", tmp_path)
    code, out, err = run(*command)
    assert code == 0, err
    page = (tmp_path / "cpu" / "table1.md").read_text()
    assert "26.83" in page and "27.15" in page and "![" in page
    assert (tmp_path / "cpu" / "table1.png").stat().st_size > 10_000
    blind = json.loads((tmp_path / "cpu" / "cells" / "bsd68-laine.json").read_text())
    assert blind["invariance"] < 1e-9 and blind["scores"][""]["n"] == 68 and blind["loss"] == "laine"
    assert blind["provenance"]["command"].startswith("noise2same reproduce") and blind["summary"]["history"]
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "cpu" / "cells").iterdir()}
    code, out, err = run(*command)
    assert code == 0 and "6 of 6 cells are done" in err and "26.83" in out
    assert files == {file: file.stat().st_mtime_ns for file in (tmp_path / "cpu" / "cells").iterdir()}


def test_a_run_that_was_stopped_goes_on(run, data: Path, tmp_path: Path, interrupt) -> None:
    command = ("reproduce", "efficiency", "--steps", 6, "--data", data, "--out", tmp_path)
    interrupt(4)
    code, _, err = run(*command)
    cells = tmp_path / "cpu" / "cells"
    assert code == 130, err
    assert [file.name for file in cells.iterdir()] == ["imagenet-noise2self-noise.ckpt"]
    code, _, err = run(*command)
    assert code == 0, err
    assert not list(cells.glob("*.ckpt")) and len(list(cells.glob("*.json"))) == 4
    history = json.loads((cells / "imagenet-noise2self-noise.json").read_text())["summary"]["history"]
    assert history[-1]["step"] == 6 and all(np.isfinite(point["score"]) for point in history)


def test_the_bounds_hold_in_training(run, data: Path, tmp_path: Path) -> None:
    code, _, err = run("reproduce", "bound", "--steps", 30, "--data", data, "--out", tmp_path)
    assert code == 0, err
    history = json.loads((tmp_path / "cpu" / "cells" / "bound.json").read_text())["summary"]["history"]
    for point in history[5:]:
        assert point["left"] < point["theorem 2"] + 0.02 and point["theorem 2"] <= point["theorem 1"] + 1e-6
        assert 0 < point["error"] < point["left"]


def test_panels_and_table3_of_one_data_set_with_two_jobs(run, data: Path, tmp_path: Path) -> None:
    command = ("--dataset", "w2s", "--steps", 2, "--data", data, "--out", tmp_path)
    code, _, err = run("reproduce", "table3", *command, "--jobs", 2)
    assert code == 0, err
    page = (tmp_path / "cpu" / "table3.md").read_text()
    assert all(method in page for method in protocols.REAL_ROWS) and "100.0%" in page
    code, _, err = run("reproduce", "visual", *command)
    assert code == 0 and "9 of 9 cells are done" in err
    assert imageio.imread(tmp_path / "cpu" / "visual-w2s.png").shape[1] > 1000


def test_sigma_on_characters(data_dir: Path, font: None, run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "CHARACTERS", 20)
    monkeypatch.setattr(protocols, "SIGMAS_LOSS", (0.2, 0.5))
    code, _, err = run("reproduce", "sigma", "--steps", 2, "--data", data_dir, "--out", tmp_path)
    assert code == 0, err
    first = json.loads((tmp_path / "cpu" / "cells" / "sigma-0.3-loss-0.2.json").read_text())
    second = json.loads((tmp_path / "cpu" / "cells" / "sigma-0.3-loss-0.5.json").read_text())
    assert second["settings"]["lambda_inv"] == pytest.approx(2.5 * first["settings"]["lambda_inv"])


@pytest.fixture
def committed(tmp_path: Path) -> Store:
    """A copy of the committed figures, without the pages and pictures."""
    folder = Path(__file__).parents[2] / "docs" / "results"
    if not (folder / "cpu.json").exists():
        pytest.skip("needs the committed results, which the source distribution does not have")
    (tmp_path / "cpu.json").write_bytes((folder / "cpu.json").read_bytes())
    return Store(tmp_path / "cpu")


def test_the_committed_pages_are_those_of_the_compact_file(committed: Store) -> None:
    pages = Path(__file__).parents[2] / "docs" / "results" / "cpu"
    for what in set(ARTEFACTS) - {"visual"}:  # which shows pictures that the file does not have
        page = render(what, committed, RunSpec())
        assert page.read_text() == (pages / page.name).read_text()
        assert (pages / f"{what}.png").exists()


def test_a_packed_cell_is_done(committed: Store, run) -> None:
    code, out, err = run("reproduce", "table1", "--out", committed.folder.parent)
    assert code == 0 and "6 of 6 cells are done" in err and "26.83" in out


def test_packing_keeps_the_figures(committed: Store, tmp_path: Path) -> None:
    committed.cells.mkdir(parents=True)
    cell = committed.read("bound") | {"invariance": 1 / 3, "examples": [30.123456789]}
    points = [point | {"invariance": 0.5} for point in cell["summary"]["history"]]
    summary = cell["summary"] | {"history": points}
    (committed.cells / "bound.json").write_text(json.dumps(cell | {"summary": summary}))
    other = committed.read("bsd68-auto")
    packed = Store(pack(committed.folder).with_suffix(""))
    (committed.cells / "bound.json").unlink()
    found = packed.read("bound")
    assert found["invariance"] == 0.333333 and found["examples"] == [30.1235]
    assert found["summary"] == cell["summary"]  # the history without its loss terms
    assert packed.read("bsd68-auto") == other and list(packed) == list(committed)
    assert len(packed.file.read_text().splitlines()) == len(list(packed)) + 2


def test_a_plan_costs_nothing(run, tmp_path: Path) -> None:
    code, out, _ = run("reproduce", "all", "--preset", "paper", "--plan", "--out", tmp_path)
    assert code == 0 and "80000" in out and "hours of training" in out and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["table9"], "there are table1"),
        (["table3", "--dataset", "cifar"], "one of bsd68"),
        (["table1", "--dataset", "hanzi"], "leave it out"),
        (["table1", "--preset", "gpu"], "cpu or paper"),
        (["table3", "--dataset", "fmd"], "fmd48"),
        (["table3", "--dataset", "planaria"], "CARE"),
    ],
)
def test_bad_input(run, data: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    code, out, err = run("reproduce", *arguments, "--data", data, "--out", tmp_path)
    assert code == 2 and words in err and not out and len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
