"""Training that is killed at any moment, or runs out of memory: real processes, real signals, real limits."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from noise2same import Denoiser

SAVING_OFTEN = """
from noise2same.cli.main import main
from noise2same.training import loop
loop.CHECKPOINT_SECONDS = 0.2
main()
"""
SMALL = ["--set", "features=4", "--set", "levels=1", "--set", "patch=16", "--set", "batch=2", "--from-scratch"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.float32)
    np.save("in.npy", image)


def start(*arguments):
    command = [sys.executable, "-c", SAVING_OFTEN, "train", "in.npy", *SMALL, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def finish(*arguments):
    process = start(*arguments)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err


def killed(seconds, *arguments):
    """Train, and kill the process so many seconds after it has begun; whether that was in time."""
    resume = ["--resume"] if Path("m.unfinished.ckpt").exists() else []
    process = start("-m", "m.safetensors", *arguments, *resume)
    for line in process.stderr:
        if "Training from scratch" in line:
            break
    while not Path("m.unfinished.ckpt").exists() and process.poll() is None:  # there is something to resume
        time.sleep(0.01)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    return process.returncode < 0


@pytest.mark.parametrize(
    ("kills", "early_stopping"),
    [(2, "true"), *(pytest.param(10, word, marks=pytest.mark.long) for word in ("true", "false"))],
)
def test_a_run_that_is_killed_resumes_to_the_same_weights(kills, early_stopping):
    """At random moments, and again after it was resumed."""
    options = ("--steps", 650, "--set", f"early_stopping={early_stopping}")
    finish("-m", "whole.safetensors", *options)
    moments, left = random.Random(kills), kills
    while left:
        left -= killed(moments.uniform(0, 4 / kills), *options)
        if Path("m.safetensors").exists():  # it had ended before
            Path("m.safetensors").unlink()
    resume = ["--resume"] if Path("m.unfinished.ckpt").exists() else []
    finish("-m", "m.safetensors", *options, *resume)
    whole, resumed = (Denoiser.load(f"{name}.safetensors") for name in ("whole", "m"))
    assert resumed.summary["steps"] == whole.summary["steps"] == 650
    first, second = (model.network.state_dict() for model in (whole, resumed))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not Path("m.unfinished.ckpt").exists()


LITTLE_MEMORY = """
import resource, sys, warnings
import numpy as np
import noise2same as n2s

def more_memory(message, *details):
    resource.setrlimit(resource.RLIMIT_AS, before)
    print(message, file=sys.stderr)

image = np.random.default_rng(0).normal(100, 20, (256, 256)).astype(np.float32)
options = {"method": "noise2same", "steps": 2, "progress": False}
n2s.train(image, batch=1, **options)  # loads what takes memory only once
size = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
before = resource.getrlimit(resource.RLIMIT_AS)
warnings.showwarning = more_memory
resource.setrlimit(resource.RLIMIT_AS, ((size + 48 * 1024) * 1024, before[1]))  # the first layer's output takes 64 MB
model = n2s.train(image, batch=128, patch=64, **options)
print(model.summary["steps"])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_less_memory_makes_smaller_parts():
    """The limit is gone once it was met: libraries that torch calls crash if memory for something small is refused."""
    command = [sys.executable, "-c", LITTLE_MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n" and "Memory ran out with 128 patches at once: training goes on with 64" in done.stderr


OWN_DISK = ["unshare", "--map-root-user", "--mount"]


def can_mount():
    if shutil.which("unshare") is None:
        return False
    tried = [*OWN_DISK, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs a disk of its own, to fill it")
def test_a_full_disk_loses_nothing(tmp_path):
    Path("small").mkdir()
    Path("often.py").write_text(SAVING_OFTEN.replace("0.2", "0"))
    train = f"{sys.executable} ../often.py train ../in.npy -m m.safetensors --set features=8 --set batch=1 --steps 5"
    script = f"mount -t tmpfs -o size=40k none small && cd small && echo before > m.safetensors && {train}; "
    command = [*OWN_DISK, "sh", "-c", f"{script} code=$?; cat m.safetensors; ls -A; exit $code"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2 and done.stdout == "before\nm.safetensors\n", done.stderr
    assert done.stderr.count("m.unfinished.ckpt cannot be written: No space left on device") == 1
    kept = re.search(
        r"m\.safetensors cannot be written: No space .* What was learned is in (\S+); move it\.\n", done.stderr
    )
    assert kept is not None and Denoiser.load(kept[1]).summary["steps"] == 5
