"""Dask clusters: real schedulers and workers, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dask_processes import free_port, scheduler_with

from noise2same import __version__
from noise2same.errors import InputError
from noise2same.prediction.cluster import connect


def test_workers_on_this_machine_end_with_the_block() -> None:
    with connect(workers=2) as client:
        pids = set(client.run(os.getpid).values())
        assert len(pids) == 2 and os.getpid() not in pids
        assert client.submit(sum, [1, 2]).result() == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_cluster_that_runs_already_is_left_alone() -> None:
    with scheduler_with(1) as (address, running):
        for _ in range(2):
            with connect(scheduler=address) as client:
                assert client.submit(sum, [1, 2]).result() == 3
        assert all(process.poll() is None for process in running)


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noise2same.prediction.cluster.ANSWER_SECONDS", 0.5)
    for address in (f"tcp://127.0.0.1:{free_port()}", "nonsense", "carrier://pigeon:1"):
        with pytest.raises(InputError, match="does not answer"), connect(scheduler=address):
            pass


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noise2same.prediction.cluster.ANSWER_SECONDS", 3)
    with (
        scheduler_with(0) as (address, _),
        pytest.raises(InputError, match="has no workers"),
        connect(scheduler=address),
    ):
        pass


def test_a_worker_without_the_package_or_with_another_version(tmp_path: Path) -> None:
    (tmp_path / "other" / "noise2same").mkdir(parents=True)
    (tmp_path / "other" / "noise2same" / "__init__.py").write_text("__version__ = '0.0.1'")
    (tmp_path / "none" / "noise2same").mkdir(parents=True)
    (tmp_path / "none" / "noise2same" / "__init__.py").write_text("raise ImportError('no such package')")
    for folder, sentence in (("other", f"0.0.1 but this is {__version__}"), ("none", "cannot import noise2same")):
        path = f"{tmp_path / folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        with (
            scheduler_with(1, PYTHONPATH=path) as (address, _),
            pytest.raises(InputError, match=sentence),
            connect(scheduler=address),
        ):
            pass


def test_a_script_without_a_guard_ends_with_a_sentence(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from noise2same.prediction.cluster import connect\nwith connect(workers=1): print('never')\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and "never" not in done.stdout
    assert "InputError: 1 workers could not be started" in done.stderr and "if __name__ == '__main__'" in done.stderr


def test_one_of_both() -> None:
    with pytest.raises(InputError, match="one of them"), connect(workers=1, scheduler="tcp://127.0.0.1:1"):
        pass
