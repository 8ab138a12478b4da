"""Folders of many files: each is opened in its turn, a bad one is skipped, and a job goes on where it was stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noise2same.io import formats

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--set", "features=4", "--set", "batch=2", "--set", "patch=32")

# a package that adds a format, which notes each file that is opened, and how many results there were then
NOTED = """
import os
import numpy as np
from noise2same.io import Image

opened = []

class Raw:
    suffixes, default_output = (".raw",), ".npy"
    def read(self, path):
        opened.append((path.name, len([n for n in os.listdir("out") if n[0] != "."]) if os.path.isdir("out") else 0))
        return Image(np.frombuffer(path.read_bytes(), np.uint8).reshape(32, -1), "YX", path=path)
    def check(self, path, like, dtype):
        pass
    def create(self, path, like, dtype):
        raise NotImplementedError

raw = Raw()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Path) -> Path:
    """Work in a folder with a model."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(trained, "m.safetensors")
    return tmp_path


Opened = list[tuple[str, int]]


@pytest.fixture
def opened(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Each .raw file that was opened, and how many results there were by then."""
    site = tmp_path_factory.mktemp("site")
    (site / "noted_format.py").write_text(NOTED)
    info = site / "noted_format-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noted-format\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[noise2same.formats]\n.raw = noted_format:raw\n")
    monkeypatch.syspath_prepend(str(site))
    formats._added.cache_clear()
    import noted_format

    yield noted_format.opened
    del sys.modules["noted_format"]
    formats._added.cache_clear()


def noisy(seed: int = 0, side: int = 32) -> Any:
    wave = 120 + 60 * np.sin(np.arange(side) / 5)
    return np.clip(wave + np.random.default_rng(seed).normal(0, 20, (side, side)), 0, 255).astype(np.uint8)


def folder(count: int, suffix: str = ".npy") -> list[str]:
    """A folder `in` with so many images; their names."""
    Path("in").mkdir()
    names = [f"{number:05}{suffix}" for number in range(count)]
    for seed, name in enumerate(names):
        if suffix == ".raw":
            Path("in", name).write_bytes(noisy(seed).tobytes())
        else:
            np.save(f"in/{name}", noisy(seed))
    return names


def lines(out: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What --json says of each file, and the summary."""
    *files, summary = map(json.loads, out.splitlines())
    return files, summary["summary"]


def test_each_file_is_opened_in_its_turn(run: Run, opened: Opened) -> None:
    names = folder(5, ".raw")
    assert run("denoise", "in", "-o", "out", "-m", "m.safetensors", "--no-verdict")[0] == 0
    assert opened == [(name, done) for done, name in enumerate(names)]


def test_training_opens_an_evenly_spread_choice(run: Run, opened: Opened) -> None:
    names = folder(1500, ".raw")
    assert run("train", "in", "-m", "new.safetensors", "--steps", 1, *SMALL)[0] == 0
    chosen = [name for name, _ in opened]
    assert len(chosen) == len(set(chosen)) == 512 and chosen == sorted(chosen)
    places = [names.index(name) for name in chosen]
    assert max(np.diff(places)) < 7 and places[0] < 3 and places[-1] > 1496
    opened.clear()
    run("plan", "in", *SMALL)
    assert [name for name, _ in opened] == chosen  # chance has a seed
    opened.clear()
    run("plan", "in", "--seed", 1, *SMALL)
    assert len(opened) == 512 and [name for name, _ in opened] != chosen


def test_what_is_done_is_skipped(run: Run) -> None:
    names = folder(6)
    job = ("denoise", "in", "-o", "out", "-m", "m.safetensors", "--json")
    assert run(*job)[0] == 0
    before = {name: Path("out", name).stat().st_mtime_ns for name in names}
    Path("out", names[0]).unlink()
    Path("out", names[1]).write_bytes(b"half a file")
    np.save(f"in/{names[2]}", noisy(99))
    with Path("out/.noise2same.jsonl").open("r+") as journal:
        kept = [line for line in journal if names[3] not in line]
        journal.seek(0)
        journal.truncate()
        journal.writelines([*kept, '{"output": "00003.npy", "job": "'])  # as a killed process leaves it
    code, out, err = run(*job, "--resume")
    files, summary = lines(out)
    assert code == 0 and summary["skipped"] == 2 and summary["done"] == 4, err
    assert {line["input"] for line in files if line.get("skipped")} == {"in/00004.npy", "in/00005.npy"}
    assert sum(summary["verdicts"].values()) == 6 and "2 of these were there already" in err
    for name in names[4:]:
        assert Path("out", name).stat().st_mtime_ns == before[name]
    assert lines(run(*job, "--resume")[1])[1]["skipped"] == 6
    # what another model, or other settings, made is not taken for this job's
    assert lines(run(*job, "--resume", "--strength", 0.5)[1])[1]["skipped"] == 0
    run("train", "in", "-m", "m.safetensors", "--steps", 1, *SMALL)
    assert lines(run(*job, "--resume", "--strength", 0.5)[1])[1]["skipped"] == 0
    code, _, err = run(*job, "--strength", 0.5)
    assert "6 of 6 results are there already; --resume would keep them." in err  # and are made again


def test_a_journal_does_not_vouch_for_a_verdict_or_report_that_is_missing(run: Run) -> None:
    folder(2)
    job = ("denoise", "in", "-o", "out", "-m", "m.safetensors", "--resume", "--json")
    assert lines(run(*job, "--no-verdict")[1])[1]["done"] == 2
    assert lines(run(*job)[1])[1]["done"] == 2
    assert lines(run(*job, "--report", "pages")[1])[1]["done"] == 2
    assert lines(run(*job, "--report", "pages")[1])[1]["skipped"] == 2


def test_strict_ends_with_the_first_fault(run: Run) -> None:
    names = folder(3)
    Path("in", names[1]).write_bytes(b"no image")
    job = ("denoise", "in", "-o", "out", "-m", "m.safetensors")
    code, _, err = run(*job, "--strict")
    assert code == 2 and Path("out", names[0]).exists() and not Path("out", names[2]).exists()
    assert err.splitlines()[-1].startswith("Error: in/00001.npy is truncated or corrupt")
    assert "1 of 3 images are done. The same command with --resume goes on from here." in err
    np.save(f"in/{names[1]}", noisy(1))
    code, out, _ = run(*job, "--strict", "--resume", "--json")
    assert code == 0 and lines(out)[1] | {"seconds": 0, "verdicts": {}} == {
        "done": 2, "skipped": 1, "failed": 0, "verdicts": {}, "seconds": 0
    }  # fmt: skip


def test_exit_codes(run: Run) -> None:
    names = folder(3)
    job = ("denoise", "in", "-o", "out", "-m", "m.safetensors")
    assert run(*job)[0] == 0
    words = set(lines(run(*job, "--json")[1])[1]["verdicts"])
    assert words <= {"check", "do not trust"}  # it is hardly trained
    code, _, err = run(*job, "--fail-on", "check", "-q")
    assert code == 1 and err == "Error: The verdict on 3 of 3 results is 'check' or worse (--fail-on).\n"
    assert run(*job, "--resume", "--fail-on", "check")[0] == 1  # verdicts of before count
    assert run(*job, "--fail-on", "do-not-trust")[0] == ("do not trust" in words)
    for name in names[:2]:
        Path("in", name).write_bytes(b"")
    assert run(*job)[0] == 1
    Path("in", names[2]).write_bytes(b"")
    code, out, err = run(*job, "--json", "-q")
    assert code == 2 and [bool(line["error"]) for line in lines(out)[0]] == [True] * 3
    assert err.count("Error: ") == 6 and "00002.npy" in err.splitlines()[-1]


def test_how_much_is_said(run: Run) -> None:
    folder(2)
    job = ("denoise", "in", "-o", "out", "-m", "m.safetensors")
    assert run(*job, "-q") == (0, "", "")
    short, long = run(*job)[2], run(*job, "-v")[2]
    assert short.count("\n") == 4 and "1 of 2: in/00000.npy -> out/00000.npy: " in short  # with a hint and a summary
    assert "2 images in" in short and long.count("\n") == 6 and len(long) > 2 * len(short)


def test_options_from_a_file(run: Run) -> None:
    folder(2)
    settings = 'inputs = "in"\noutput = "out"\nmodel = "m.safetensors"\nno_such = 3\n'
    Path("a.toml").write_text(settings)
    code, _, err = run("denoise", "--config", "a.toml")
    assert code == 2 and "a.toml: there is no option no_such." in err and "axes, channels," in err
    Path("a.toml").write_text(settings.replace("no_such = 3", "verdict = false\nfail-on = 'check'"))
    assert "--fail-on looks at the verdict" in run("denoise", "--config", "a.toml")[2]
    Path("a.toml").write_text(settings.replace("no_such = 3", "verdict = false\nstrength = 0\njson = true"))
    code, out, err = run("denoise", "--config", "a.toml")
    assert code == 0 and lines(out)[1]["done"] == 2, err
    assert np.array_equal(np.load("out/00000.npy"), np.load("in/00000.npy"))
    assert run("denoise", "--config", "a.toml", "--strength", 1, "-o", "other")[0] == 0  # the command line wins
    assert not np.array_equal(np.load("other/00000.npy"), np.load("in/00000.npy"))
    Path("b.toml").write_text("steps = 2\nset = {features = 4, patch = 32}\n")
    code, out, err = run("plan", "in", "--config", "b.toml", "--json")
    assert json.loads(out)["config"]["features"] == 4 and json.loads(out)["budget"]["value"]["steps"] == 2


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "noise2same", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_job_says_how_to_go_on(run: Run, number: signal.Signals) -> None:
    Path("in").mkdir()
    for seed in range(12):
        np.save(f"in/{seed:02}.npy", noisy(seed, 700))
    job = ("denoise", "in", "-o", "out", "-m", "m.safetensors", "--no-verdict", "--json")
    process = start(*job)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())  # as soon as the file is done
    assert first["input"] == "in/00.npy" and process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    said = err.splitlines()[-1]
    assert said.startswith("Interrupted. ") and said.endswith("The same command with --resume goes on from here.")
    assert not [name for name in os.listdir("out") if ".part" in name]
    done = len([name for name in os.listdir("out") if name.endswith(".npy")])
    assert f"{done} of 12 images are done." in said and 0 < done < 12
    assert lines(run(*job, "--resume")[1])[1]["skipped"] == done


@pytest.mark.parametrize("where", ["workers", "scheduler"])
def test_workers_make_the_same_results(run: Run, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    names = folder(6)
    nan = noisy(7).astype(np.float32)
    nan[3, 3] = np.nan
    np.save(f"in/{names[4]}", nan)
    Path("in", names[2]).write_bytes(b"no image")
    job = ("denoise", "in", "-m", "m.safetensors", "--json", "--report", "pages")
    assert run(*job, "-o", "one")[0] == 1
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "prediction"))
    from dask_processes import scheduler_with

    with scheduler_with(2) if where == "scheduler" else nullcontext(("2", [])) as (given, _):
        code, out, err = run(*job, "-o", "many", f"--{where}", given)
        files, summary = lines(out)
        assert code == 1 and (summary["done"], summary["failed"]) == (5, 1), err
        assert {line["input"] for line in files} == {f"in/{name}" for name in names}
        assert f"{names[4]}: 1 NaN or infinite pixels were passed through" in err and "1 failed" in err
        np.save(f"in/{names[2]}", noisy(2))
        assert lines(run(*job, "-o", "many", f"--{where}", given, "--resume")[1])[1]["skipped"] == 5
    assert run(*job, "-o", "one", "--resume")[0] == 0
    for name in names:
        assert Path("one", name).read_bytes() == Path("many", name).read_bytes()
    assert sorted(os.listdir("many")) == [".noise2same.jsonl", *names]
