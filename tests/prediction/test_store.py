"""One image into a Zarr store: by one process or several, stopped, resumed and disturbed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from dask_processes import scheduler_with

from noise2same import Config, Denoiser
from noise2same.errors import Cancelled, InputError

FRAMES = 24


def write_film(path: Path, version: str = "0.5", frames: int = FRAMES, **options: Any) -> None:
    """An OME-Zarr film with one further resolution level, each frame in four chunks."""
    group = zarr.open_group(path, mode="w", zarr_format={"0.4": 2, "0.5": 3}[version])
    pixels = np.random.default_rng(0).normal(100, 20, (frames, 100, 90)).astype(np.uint16)
    named = [{"name": "t", "type": "time"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    scales = [{"type": "scale", "scale": [1.0, side, side]} for side in (0.5, 1.0)]
    levels = [{"path": str(number), "coordinateTransformations": [scale]} for number, scale in enumerate(scales)]
    multiscale = {"name": "film", "axes": named, "datasets": levels}
    ome = {"ome": {"version": "0.5", "multiscales": [multiscale]}}
    group.attrs.update(ome if version == "0.5" else {"multiscales": [multiscale | {"version": "0.4"}]})
    encoding = {"chunk_key_encoding": {"name": "v2", "separator": "/"}} if version == "0.4" else {}
    for number, shape in enumerate([pixels.shape, (frames, 50, 45)]):
        array = group.create_array(
            str(number), shape=shape, dtype="uint16", **({"chunks": (1, 64, 64)} | encoding | options)
        )
        if number == 0:
            array[...] = pixels


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> tuple[Path, Denoiser, Path]:
    """A film, a model for it, and what one process makes of it."""
    folder = tmp_path_factory.mktemp("film")
    write_film(folder / "in.ome.zarr")
    model = Denoiser.load(trained)
    model.denoise(folder / "in.ome.zarr", output=folder / "clean.ome.zarr")
    return folder / "in.ome.zarr", model, folder / "clean.ome.zarr"


def assert_same(one: Path, other: Path) -> None:
    """Both levels are equal, bit for bit."""
    for level in ("0", "1"):
        a, b = (zarr.open_array(path / level, mode="r") for path in (one, other))
        assert (a.chunks, a.shards, a.dtype) == (b.chunks, b.shards, b.dtype)
        np.testing.assert_array_equal(a[...], b[...])


def lines(output: Path) -> int:
    """How many parts of an unfinished store are done."""
    done = output.with_name(f"{output.name}.unfinished") / "done.jsonl"
    return done.read_bytes().count(b"\n") if done.exists() else 0


def start(*arguments: object) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    call = [sys.executable, "-m", "noise2same", *map(str, arguments)]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def when_done(process: subprocess.Popen[str], output: Path, count: int) -> None:
    """Wait until so many parts are done."""
    end = time.monotonic() + 120
    while lines(output) < count:
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.002)


# Workers


@pytest.fixture(scope="module")
def cluster() -> Any:
    with scheduler_with(2) as (address, _):
        yield address


@pytest.mark.parametrize(
    ("version", "options"),
    [("0.4", {}), ("0.5", {"chunks": (1, 32, 32), "shards": (1, 64, 64)}), ("0.5", {"chunks": (5, 50, 90)})],
    ids=["0.4", "shards", "chunks-of-several-frames"],
)
def test_a_cluster_makes_what_one_process_makes(
    version: str, options: Any, cluster: str, trained: Path, tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    source, here, there = (tmp_path / name for name in ("in.ome.zarr", "here.ome.zarr", "there.ome.zarr"))
    write_film(source, version, 12, **options)
    Denoiser.load(trained).denoise(source, output=here)
    code, _, err = run("denoise", source, "-o", there, "-m", trained, "--scheduler", cluster, "--no-verdict")
    assert (code, err.count("\n")) == (0, 1), err
    assert_same(here, there)
    assert sorted(os.listdir(tmp_path)) == ["here.ome.zarr", "in.ome.zarr", "there.ome.zarr"]


def test_images_with_statistics_of_their_own_and_a_tiff(cluster: str, film: Any, tmp_path: Path) -> None:
    _, model, _ = film
    pixels = np.random.default_rng(1).normal(100, 20, (3, 70, 80)) * [[[1]], [[2]], [[3]]]
    tifffile.imwrite(tmp_path / "in.tif", pixels.astype(np.float32), photometric="minisblack")
    own = Denoiser(model.config.model_copy(update={"normalization": "image"}))
    own.network, own.normalization = model.network, model.normalization
    expected = own.denoise(tmp_path / "in.tif", axes="TYX")
    own.denoise(tmp_path / "in.tif", axes="TYX", output=tmp_path / "out.zarr", scheduler=cluster)
    np.testing.assert_array_equal(zarr.open(tmp_path / "out.zarr", mode="r")["0"][...], expected)


def test_workers_on_this_machine(film: Any, tmp_path: Path) -> None:
    source, model, clean = film
    reports: list[tuple[int, int]] = []
    model.denoise(source, output=tmp_path / "out.zarr", workers=2, on_block=lambda *at: reports.append(at))
    assert_same(clean, tmp_path / "out.zarr")
    assert reports == sorted(reports) and reports[-1] == (FRAMES, FRAMES)


def test_what_workers_cannot_share(film: Any, tmp_path: Path, trained: Path) -> None:
    source, model, _ = film
    with pytest.raises(InputError, match=r"ends in \.zarr"):
        model.denoise(source, output=tmp_path / "out.tif", workers=2)
    with pytest.raises(InputError, match=r"ends in \.zarr"):
        model.denoise(source, workers=2)
    with pytest.raises(InputError, match="name of a file"):
        model.denoise(np.zeros((64, 64), np.float32), output=tmp_path / "out.zarr", workers=2)

    with pytest.raises(InputError, match="nlm takes a whole image"):
        Denoiser(Config(method="nlm")).denoise(source, output=tmp_path / "out.zarr", workers=2)
    assert not list(tmp_path.iterdir())


def test_a_worker_that_dies_is_replaced_by_the_others(film: Any, tmp_path: Path) -> None:
    source, model, clean = film
    with scheduler_with(2) as (address, (_, first, _)):

        def kill(done: int, total: int) -> None:
            if done > 3:
                first.kill()

        model.denoise(source, output=tmp_path / "out.zarr", scheduler=address, on_block=kill)
    assert_same(clean, tmp_path / "out.zarr")


@pytest.mark.parametrize(("victims", "sentence"), [((1, 2), "All Dask workers are gone"), ((0,), "scheduler is lost")])
def test_when_all_is_lost_the_job_can_be_resumed(
    victims: tuple[int, ...], sentence: str, film: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, model, clean = film
    monkeypatch.setattr("noise2same.prediction.workers.ALONE_SECONDS", 1.0)
    output, kept = tmp_path / "out.zarr", 0
    with scheduler_with(2) as (address, processes):

        def kill(done: int, total: int) -> None:
            nonlocal kept
            kept = done
            for number in victims if done > 3 else ():
                processes[number].kill()

        with pytest.raises(InputError, match=rf"{sentence}.*parts that are done are kept in .*--resume"):
            model.denoise(source, output=output, scheduler=address, on_block=kill)
    assert not output.exists() and lines(output) == kept > 3
    new = []
    model.denoise(source, output=output, resume=True, on_block=lambda done, total: new.append(done))
    assert new == list(range(kept, FRAMES + 1))
    assert_same(clean, output)


# Resume


@pytest.mark.parametrize("workers", [(), ("--workers", 1)], ids=["alone", "workers"])
def test_killed_and_resumed(workers: tuple[Any, ...], film: Any, trained: Path, tmp_path: Path, run: Any) -> None:
    source, _, clean = film
    output = tmp_path / "out.ome.zarr"
    command = ("denoise", source, "-o", output, "-m", trained, "--no-verdict", *workers)
    process = start(*command)
    when_done(process, output, 4)
    process.kill()
    process.wait()
    kept = lines(output)
    assert not output.exists() and kept < FRAMES
    store = output.with_name("out.ome.zarr.unfinished")
    with (store / "done.jsonl").open("ab") as file:
        file.write(b"[[[[20, 21]], [[0, 1")  # as if it were killed while it wrote
    code, _, err = run("denoise", source, "-o", tmp_path / "other.zarr", *command[4:7])
    assert code == 0 and f"{store} is left from another job that was stopped" in err
    shutil.rmtree(tmp_path / "other.zarr")
    code, _, err = run(*command)
    assert code == 2 and str(store) in err and "--resume" in err and "delete it" in err and store.exists()
    files = {path: path.stat().st_mtime_ns for path in store.glob(f"{output.name}/0/c/[0-3]/*/*")}
    assert len(files) == 16
    moved = {output / path.relative_to(store / output.name): time for path, time in files.items()}
    assert run(*command, "--resume")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in moved} == moved, "what was done is done again"
    assert_same(clean, output)
    assert os.listdir(tmp_path) == [output.name]


def test_interrupted_says_how_to_go_on(film: Any, trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.zarr"
    process = start("denoise", film[0], "-o", output, "-m", trained)
    when_done(process, output, 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "parts that are done are kept in" in err and "--resume" in err and "Traceback" not in err
    assert not output.exists() and not (output.with_name("out.zarr.unfinished") / "lock").exists()


class Stop(Exception):
    """Something unforeseen."""


def stop_after(count: int) -> Callable[[int, int], None]:
    def on_block(done: int, total: int) -> None:
        if done == count:
            raise Stop

    return on_block


def test_another_job_is_not_resumed(film: Any, tmp_path: Path) -> None:
    source, model, clean = film
    output = tmp_path / "out.zarr"
    shutil.copytree(source, tmp_path / "in.zarr")
    with pytest.raises(Stop):
        model.denoise(source, output=output, on_block=stop_after(5))
    kept = lines(output)
    assert kept >= 4
    other = Denoiser(model.config)
    other.network, other.normalization = other.new_network(), model.normalization
    for denoiser, image, options, word in (
        (model, tmp_path / "in.zarr", {}, "another input"),
        (other, source, {}, "another model"),
        (model, source, {"strength": 0.5}, "another setting"),
        (model, source, {"dtype": "float32"}, "another output"),
    ):
        with pytest.raises(InputError, match=rf"belongs to another job, with {word}"):
            denoiser.denoise(image, output=output, resume=True, **options)
        assert lines(output) == kept
    model.denoise(source, output=output, resume=True)
    assert_same(clean, output)


def test_two_processes_with_one_output(film: Any, trained: Path, tmp_path: Path) -> None:
    source, model, clean = film
    output = tmp_path / "out.zarr"
    process = start("denoise", source, "-o", output, "-m", trained, "--no-verdict")
    when_done(process, output, 1)
    for resume in (False, True):
        with pytest.raises(InputError, match=rf"is being filled by process {process.pid}"):
            model.denoise(source, output=output, resume=resume)
    assert process.wait(timeout=60) == 0
    assert_same(clean, output)


def test_the_lock_of_a_dead_process_does_not_count(film: Any, tmp_path: Path) -> None:
    source, model, _ = film
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = tmp_path / "out.zarr.unfinished"
    folder.mkdir()
    host = os.uname().nodename
    (folder / "lock").write_text(f"1 not-{host}")
    with pytest.raises(InputError, match=f"by process 1 on not-{host}.*delete"):
        model.denoise(source, output=tmp_path / "out.zarr")
    (folder / "lock").write_text(f"{dead.pid} {host}")
    model.denoise(source, output=tmp_path / "out.zarr")
    assert os.listdir(tmp_path) == ["out.zarr"]


def test_nothing_is_left_that_is_of_no_use(film: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noise2same.prediction.cluster.ANSWER_SECONDS", 0.5)
    source, model, _ = film
    output = tmp_path / "out.zarr"
    with pytest.raises(Cancelled):
        model.denoise(source, output=output, on_block=lambda done, total: done == 5)
    with pytest.raises(InputError, match="does not answer"):
        model.denoise(source, output=output, scheduler="tcp://127.0.0.1:1")
    assert not list(tmp_path.iterdir())


def test_what_was_there_before_stays_until_the_end(film: Any, tmp_path: Path) -> None:
    source, model, clean = film
    shutil.copytree(source, tmp_path / "out.zarr")
    with pytest.raises(Stop):
        model.denoise(source, output=tmp_path / "out.zarr", on_block=stop_after(5))
    assert_same(source, tmp_path / "out.zarr")
    model.denoise(source, output=tmp_path / "out.zarr", resume=True)
    assert_same(clean, tmp_path / "out.zarr")
    assert os.listdir(tmp_path) == ["out.zarr"]


# Chunks


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "cluster"])
def test_a_chunk_that_vanishes_is_an_error(shared: bool, film: Any, cluster: str, tmp_path: Path) -> None:
    model = Denoiser(Config(minutes=0, time=0, blend=False)).use_pretrained(film[0])  # frame by frame
    source, output = tmp_path / "in.zarr", tmp_path / "out.zarr"
    shutil.copytree(film[0], source)
    away = source / "0" / "c" / str(FRAMES - 1) / "1" / "0"
    shutil.rmtree(source / "0" / "c" / "0" / "0")  # absent from the start: zeros
    zeros = zarr.open_array(source / "0", mode="r")[0, :64, :64]
    assert not zeros.any()

    def lose(done: int, total: int) -> None:
        away.unlink(missing_ok=True)

    with pytest.raises(InputError, match=rf"in.zarr changed while it was read: its chunk 0/c/{FRAMES - 1}/1/0 is gone"):
        model.denoise(source, output=output, on_block=lose, scheduler=cluster if shared else None)
    assert not output.exists()
    shutil.copy(film[0] / away.relative_to(source), away)
    model.denoise(source, output=output, resume=True)
    model.denoise(film[0], output=tmp_path / "whole.zarr")
    whole = zarr.open_array(tmp_path / "whole.zarr" / "0", mode="r")[1:]
    np.testing.assert_array_equal(zarr.open_array(output / "0", mode="r")[1:], whole)


def test_the_manifest_is_json_that_people_can_read(film: Any, tmp_path: Path) -> None:
    source, model, _ = film
    with pytest.raises(Stop):
        model.denoise(source, output=tmp_path / "out.zarr", on_block=stop_after(2))
    folder = tmp_path / "out.zarr.unfinished"
    job = json.loads((folder / "job.json").read_text())
    assert job["input"][0] == str(source) and job["model"] == model.digest()
    first = json.loads((folder / "done.jsonl").read_text().splitlines()[0])
    assert first == [[[[0, 1]], [[0, 100], [0, 90]]], [0, first[1][1]]]
