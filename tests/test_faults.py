"""What happens in long runs, done for real: kills, signals, full disks, two writers, little memory, moving inputs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from noise2same import Denoiser, io, train
from noise2same.errors import InputError
from noise2same.io import tiff

Run = Callable[..., tuple[int, str, str]]
PROGRAM = (sys.executable, "-m", "noise2same")
SMALL = ("--set", "features=4", "--set", "batch=2", "--set", "patch=32")
SECONDS = 60
"""That a process may take to come to where it is stopped, or to its end."""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other signals and no limits")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Path) -> Path:
    """Work in a folder with a model."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(trained, "m.safetensors")
    return tmp_path


def noisy(side: int = 40, seed: int = 0) -> Any:
    wave = 120 + 60 * np.sin(np.arange(side) / 5)
    return (wave + np.random.default_rng(seed).normal(0, 20, (side, side))).astype(np.float32)


def start(*arguments: object, program: tuple[str, ...] = PROGRAM) -> subprocess.Popen[str]:
    command = [*program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    """Wait for something to be so while a process runs."""
    end = time.monotonic() + SECONDS
    while not there():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.002)


def ends(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and stderr."""
    _, err = process.communicate(timeout=SECONDS)
    return process.returncode, err


def left() -> list[str]:
    """Temporary files."""
    return sorted(path.name for path in Path().rglob("*") if ".part" in path.name)


# kills and signals


@pytest.mark.parametrize("suffix", [".npy", ".tif"])
def test_a_killed_prediction_leaves_no_result_and_the_next_run_says_what_is_left(run: Run, suffix: str) -> None:
    np.save("in.npy", noisy(1500))
    job = ("denoise", "in.npy", "-m", "m.safetensors", "--tta", "--no-verdict")
    for _ in range(2):  # what is left does not pile up
        process = start(*job, "-o", f"out{suffix}")
        wait_until(process, Path(f".part.out{suffix}").exists)
        process.send_signal(signal.SIGKILL)
        assert ends(process)[0] == -signal.SIGKILL
        assert not Path(f"out{suffix}").exists()
        assert left() == [f".part.out{suffix}", f".part.out{suffix}.lock"]
    code, _, err = run(*job[:-2], "--no-tta", "--no-verdict", "-o", "other.npy")
    assert code == 0 and f"Warning: . has what runs left that were killed: .part.out{suffix}; delete it" in err
    code, _, err = run(*job, "-o", f"out{suffix}")
    assert code == 0 and f"Warning: .part.out{suffix} was left by a run that was killed, and is replaced." in err
    assert left() == []
    whole = Denoiser.load("m.safetensors").denoise("in.npy", tta=True)
    np.testing.assert_array_equal(np.asarray(io.read(f"out{suffix}").data), whole)


def test_two_processes_with_one_output() -> None:
    np.save("in.npy", noisy(1500))
    job = ("denoise", "in.npy", "-o", "out.npy", "-m", "m.safetensors", "--tta", "--no-verdict")
    first = start(*job)
    wait_until(first, Path(".part.out.npy.lock").exists)
    second = start(*job)
    code, err = ends(second)
    assert code == 2 and f"out.npy is being written by another process ({first.pid} on " in err
    assert ends(first)[0] == 0 and left() == [] and np.load("out.npy").shape == (1500, 1500)


def test_two_trainings_of_one_model() -> None:
    np.save("in.npy", noisy(64))
    first = start("train", "in.npy", "-m", "new.safetensors", "--steps", 20000, *SMALL)
    wait_until(first, Path(".part.new.safetensors.lock").exists)
    code, err = ends(start("train", "in.npy", "-m", "new.safetensors", "--steps", 1, *SMALL))
    assert code == 2 and "new.safetensors is being written by another process" in err
    first.send_signal(signal.SIGTERM)
    assert ends(first)[0] == 130 and left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_prediction(number: signal.Signals) -> None:
    np.save("in.npy", noisy(1500))
    np.save("out.npy", noisy(5))
    process = start("denoise", "in.npy", "-o", "out.npy", "-m", "m.safetensors", "--tta")
    wait_until(process, Path(".part.out.npy").exists)
    process.send_signal(number)
    code, err = ends(process)
    assert code == 130 and err == "Interrupted. Nothing was written.\n"
    assert left() == [] and np.load("out.npy").shape == (5, 5)


def test_a_signal_in_assessment() -> None:
    np.save("in.npy", noisy(1500))
    process = start("denoise", "in.npy", "-o", "out.npy", "-m", "m.safetensors", "--no-tta")
    wait_until(process, Path("out.npy").exists)
    process.send_signal(signal.SIGTERM)
    code, err = ends(process)
    assert code == 130 and err == "Interrupted while the result was judged; out.npy is complete.\n"
    assert np.load("out.npy").shape == (1500, 1500)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_that_was_stopped_after_its_training_is_resumed(run: Run, number: signal.Signals) -> None:
    np.save("in.npy", noisy(1500))
    job = ("denoise", "in.npy", "--steps", 3, *SMALL, "--tta", "--no-verdict")
    assert run(*job, "-o", "whole.npy")[0] == 0
    process = start(*job, "-o", "out.npy")
    wait_until(process, Path(".part.out.npy").exists)
    process.send_signal(number)
    code, err = ends(process)
    assert code == (-9 if number == signal.SIGKILL else 130)
    kept = "The trained model is kept in out.unfinished.safetensors. The same command with --resume goes on from here."
    assert (kept in err) == (number == signal.SIGTERM)
    assert Path("out.unfinished.safetensors").exists() and not Path("out.npy").exists()
    code, _, err = run(*job, "--seed", 5, "-o", "out.npy", "--resume")
    assert code == 2 and "out.unfinished.safetensors was trained with other settings" in err
    code, _, err = run(*job, "-o", "out.npy", "--resume")
    assert code == 0 and "Training" not in err
    np.testing.assert_array_equal(np.load("out.npy"), np.load("whole.npy"))
    assert not Path("out.unfinished.safetensors").exists() and left() == []


SLOW = """
import time
from noise2same.cli.main import main
from noise2same.methods.classical import NLM

def denoise(self, image):  # as a library does that looks up when it is done only
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            time.sleep(1)
        except KeyboardInterrupt:
            pass

NLM.denoise = denoise
main()
"""


def test_what_does_not_look_up_is_ended_in_time() -> None:
    np.save("in.npy", noisy(40))
    Path("slow.py").write_text(SLOW)
    process = start("denoise", "in.npy", "-o", "out.npy", "--method", "nlm", program=(sys.executable, "slow.py"))
    wait_until(process, Path(".part.out.npy").exists)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert ends(process) == (130, "Interrupted.\n") and time.monotonic() - began < 10
    assert left() == []


# full disks


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("only root can mount a file system")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["out.npy", "out.tif", "out.png", "out.zarr"])
def test_a_disk_that_is_full_of_results(run: Run, tiny_disk: Path, name: str) -> None:
    image = noisy(800, 1).clip(0, 65535).astype(np.uint16) * 250
    np.save("in.npy", image)
    (tiny_disk / "kept").write_text("before")
    code, out, err = run("denoise", "in.npy", "-o", tiny_disk / name, "-m", "m.safetensors", "--no-verdict")
    assert (code, out) == (2, "") and err.count("\n") == 1, err
    assert f"{tiny_disk / name} cannot be written: No space left on device; free space" in err
    assert content(tiny_disk) == {"kept": b"before"}


def test_a_disk_that_fills_up_in_a_folder_ends_the_job(run: Run, tiny_disk: Path) -> None:
    Path("in").mkdir()
    for seed in range(5):
        np.save(f"in/{seed}.npy", noisy(170, seed))
    job = ("denoise", "in", "-o", tiny_disk / "out", "-m", "m.safetensors", "--no-verdict")
    code, _, err = run(*job)
    assert code == 2 and "2 of 5 images are done. The same command with --resume goes on from here." in err
    assert err.count("No space left") == 1
    assert sorted(content(tiny_disk / "out")) == [".noise2same.jsonl", "0.npy", "1.npy"]
    subprocess.run(["mount", "-o", "remount,size=2m", tiny_disk], check=True)
    code, _, err = run(*job, "--resume")
    assert code == 0 and "2 of these were there already" in err


def test_a_full_disk_for_a_report_and_a_model(run: Run, tiny_disk: Path) -> None:
    np.save("in.npy", noisy(64))
    (tiny_disk / "page.html").write_text("before")
    (tiny_disk / "filler").write_bytes(bytes(250_000))
    code, _, err = run("denoise", "in.npy", "-o", "out.npy", "-m", "m.safetensors", "--report", tiny_disk / "page.html")
    assert code == 2 and "page.html cannot be written: No space left" in err and np.load("out.npy").shape == (64, 64)
    (tiny_disk / "m.safetensors").write_text("before")
    command = ("train", "in.npy", "-m", tiny_disk / "m.safetensors", "--steps", 3, "--from-scratch")
    code, _, err = run(*command)
    assert code == 2 and "m.safetensors cannot be written: No space left" in err
    assert content(tiny_disk) == {"page.html": b"before", "m.safetensors": b"before", "filler": bytes(250_000)}
    elsewhere = Path(err.split("What was learned is in ")[1].split("; move it")[0])
    assert Denoiser.load(elsewhere).summary["steps"] == 3  # which is not lost
    shutil.rmtree(elsewhere.parent)


def test_output_that_nobody_takes() -> None:
    for command in (("info", "m.safetensors"), ("info", "m.safetensors", "--json"), ("--help",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run([*PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (2, "Error: The output cannot be written: No space left on device.\n")


def test_a_log_on_a_disk_that_is_read_only(run: Run, tiny_disk: Path) -> None:
    np.save("in.npy", noisy(64))
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    code, _, err = run("train", "in.npy", "-m", "new.safetensors", "--steps", 3, *SMALL, "--log", tiny_disk / "log")
    assert code == 2 and "The log in" in err and "Read-only file system" in err and "Traceback" not in err


# too little memory

READ_LIMITED = """
import resource
from noise2same import io
from noise2same.errors import InputError

image = io.read("in.tif")
image.data
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20,) * 2)
try:
    image.data[...]
except InputError as error:
    print(error)
"""

LIMITED = """
import resource, sys, warnings
import numpy as np
from noise2same import Denoiser, pipeline
from noise2same.errors import InputError
from noise2same.prediction import engines
import noise2same.quality.assess

if sys.argv[1] == "torch":
    engines.choose_engine = lambda device: None
model = Denoiser.load("m.safetensors")
pipeline.run(pipeline.check(np.load("in.npy")[:64, :64], ["small.npy"], denoiser=model), model)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]) * 2**20,) * 2)
warnings.simplefilter("always")
warnings.showwarning = lambda message, *_, **__: print(message)
try:
    pipeline.run(pipeline.check("in.npy", ["out.npy"], denoiser=model, tta=False, verdict=False), model)
    print("done")
except InputError as error:
    print(error)
"""


@pytest.mark.long  # with less memory than these, oneDNN itself may crash
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize(("engine", "megabytes"), [("openvino", 340), ("openvino", 20)])
def test_too_little_memory(engine: str, megabytes: int) -> None:
    if engine == "openvino":
        pytest.importorskip("openvino")
    Path("limited.py").write_text(LIMITED)
    image = noisy(700)
    np.save("in.npy", image)
    train(image[:64, :64], steps=1, progress=False).save("m.safetensors")  # of the usual width
    done = subprocess.run(
        [sys.executable, "limited.py", engine, str(megabytes)], capture_output=True, text=True, timeout=SECONDS
    )
    said = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    if megabytes > 100:
        assert said == ["Memory ran out: going on in smaller blocks, which takes longer.", "done"]
        assert np.load("out.npy").shape == (700, 700)
    else:
        assert said[-1].startswith("Memory ran out for in.npy, also with smaller blocks")
        assert not Path("out.npy").exists()
    assert left() == []


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_too_little_memory_to_read() -> None:
    tifffile.imwrite("in.tif", np.zeros((8000, 8000), np.uint16), compression="zlib")
    done = subprocess.run([sys.executable, "-c", READ_LIMITED], capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout.startswith("in.tif does not fit into memory; convert it to .zarr"), done.stderr


# inputs that move


def test_a_file_that_shrinks_while_it_is_read() -> None:
    """Which would end a process that has it mapped into memory."""
    np.save("in.npy", noisy(300))
    image = io.read("in.npy")
    with open("in.npy", "r+b") as file:
        file.truncate(10_000)
    with pytest.raises(InputError, match=r"in.npy is damaged.*it has become shorter while it was read"):
        image.data[250:]
    tifffile.imwrite("in.tif", noisy(300))
    before, tiff.LAZY_BYTES = tiff.LAZY_BYTES, 1000
    try:
        image = io.read("in.tif")
    finally:
        tiff.LAZY_BYTES = before
    os.truncate("in.tif", 10_000)
    with pytest.raises(InputError, match=r"in.tif is damaged.*it has become shorter"):
        image.data[250:]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda: os.truncate("in.npy", 5_000_000), "in.npy is damaged|in.npy has changed while it was read"),
        (lambda: os.unlink("in.npy"), "in.npy is damaged|in.npy was taken away while it was read"),
        (lambda: np.save("in.npy", noisy(1500, 1)), "in.npy has changed while it was read"),
    ],
    ids=["shrinks", "vanishes", "changes"],
)
def test_an_input_that_moves(change: Callable[[], None], sentence: str, run: Run) -> None:
    np.save("in.npy", noisy(1500))

    def move() -> None:
        while not Path(".part.out.npy").exists():
            time.sleep(0.001)
        change()

    threading.Thread(target=move, daemon=True).start()
    code, _, err = run("denoise", "in.npy", "-o", "out.npy", "-m", "m.safetensors", "--tta")
    assert code == 2 and "Traceback" not in err
    assert re.search(sentence, err.splitlines()[-1]), err
    assert not Path("out.npy").exists() and left() == []
