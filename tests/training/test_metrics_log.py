"""Loss curves: complete, extended by a resumed run, and with a sentence where they cannot be written."""

from __future__ import annotations

import csv
import importlib.util

import pytest
from runs import run

from noise2same.errors import InputError
from noise2same.plan import Recipe
from noise2same.training.metrics_log import MetricsLog


def rows(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_tenth_step_is_logged(tmp_path):
    _, outcome = run(recipe=Recipe(steps=25), log=tmp_path / "new" / "log")
    found = rows(tmp_path / "new" / "log")
    assert [row["step"] for row in found] == ["10", "20"]
    assert set(found[0]) == {"step", *outcome.terms} and all(float(row["reconstruction"]) > 0 for row in found)


@pytest.mark.skipif(not importlib.util.find_spec("tensorboard"), reason="needs TensorBoard")
def test_tensorboard_gets_the_same_figures(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(recipe=Recipe(steps=20), log=tmp_path)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    logged = [(str(event.step), event.value) for event in events.Scalars("reconstruction")]
    assert logged == [(row["step"], pytest.approx(float(row["reconstruction"]))) for row in rows(tmp_path)]


def test_without_tensorboard_there_is_the_csv_file(tmp_path, monkeypatch):
    monkeypatch.setattr("noise2same.training.metrics_log.find_spec", lambda name: None)
    run(recipe=Recipe(steps=10), log=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]


def test_a_resumed_run_goes_on_and_a_new_one_begins_anew(tmp_path):
    """A killed run may have logged steps after its checkpoint, which come again."""
    recipe, checkpoint, log = Recipe(steps=40), tmp_path / "run.ckpt", tmp_path / "log"
    run(recipe=recipe, log=log, checkpoint=checkpoint, on_step=lambda state: state.step == 15)
    first = rows(log)
    with (log / "metrics.csv").open("a") as file:
        file.write("20,9,9,9\n")
    run(recipe=recipe, log=log, checkpoint=checkpoint, resume=True)
    assert [row["step"] for row in rows(log)] == ["10", "20", "30", "40"] and rows(log)[0] == first[0]
    assert rows(log)[1]["masked"] != "9"
    run(recipe=Recipe(steps=10), log=log)
    assert [row["step"] for row in rows(log)] == ["10"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file.log cannot be made.*choose another"):
        run(log=tmp_path / "file" / "log")
    (tmp_path / "log" / "metrics.csv").mkdir(parents=True)
    with pytest.raises(InputError, match=r"log cannot be made.*choose another"):
        run(log=tmp_path / "log")


def test_a_log_that_can_be_written_no_more_does_not_end_the_training(tmp_path):
    def spoil(state):
        if state.step == 12:
            (tmp_path / "metrics.csv").unlink()
            (tmp_path / "metrics.csv").mkdir()

    with pytest.warns(UserWarning, match=r"metrics\.csv cannot be written.*training goes on") as said:
        _, outcome = run(recipe=Recipe(steps=40), log=tmp_path, on_step=spoil)
    assert outcome.steps == 40 and len(said) == 1


def test_a_file_that_is_not_ours_is_replaced(tmp_path):
    (tmp_path / "metrics.csv").write_text("a,b\n1,2\n")
    log = MetricsLog(tmp_path, last_step=10)
    log.write(20, {})
    log.close()
    assert rows(tmp_path) == [{"step": "20"}]
