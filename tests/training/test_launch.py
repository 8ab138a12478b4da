"""Several processes train one model, through the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from noise2same import Denoiser
from noise2same.training.launch import is_first_worker, is_worker

TINY = ("--set", "features=4", "--set", "levels=1", "--set", "patch=16", "--set", "batch=2")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image = np.random.default_rng(0).normal(100, 20, (64, 64)).astype(np.float32)
    np.save("in.npy", image)


def start(*arguments, program=("-m", "noise2same")):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, *program, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def names():
    return sorted(path.name for path in Path().iterdir())


def test_two_processes_train_one_model():
    process = start("train", "in.npy", "-m", "m.safetensors", *TINY, "--steps", 6, "--devices", 2, "--json")
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    assert json.loads(out)["training"]["steps"] == 6
    assert err.count("Training from scratch") == err.count("Model written") == 1 and "Traceback" not in err
    assert names() == ["in.npy", "m.safetensors"]
    assert Denoiser.load("m.safetensors").summary["steps"] == 6


def test_an_error_of_the_workers_is_one_line_and_its_exit_code():
    np.save("constant.npy", np.ones((64, 64), np.float32))
    process = start("train", "constant.npy", "-m", "m.safetensors", *TINY, "--steps", 6, "--devices", 2)
    out, err = process.communicate(timeout=150)
    lines = set(err.splitlines())
    assert (process.returncode, out) == (2, "") and len(lines) == 1, err
    assert "constant.npy is constant" in err and names() == ["constant.npy", "in.npy"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interruption_keeps_what_all_have_learned(number):
    process = start("train", "in.npy", "-m", "m.safetensors", *TINY, "--steps", 1000, "--devices", 2)
    wait_for("Training  10 %", process)
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err and "--resume" in err
    assert names() == ["in.npy", "m.safetensors", "m.unfinished.ckpt"]
    assert 100 <= Denoiser.load("m.safetensors").summary["steps"] < 1000


def wait_for(beginning, process):
    """Read what a process says until a line begins like this."""
    for line in process.stderr:
        if line.startswith(beginning):
            return
    raise AssertionError(f"{beginning} was never said")


def worker_of(process, rank):
    """Id of the process with this number that a launcher has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    environments = {int(child): Path(f"/proc/{child}/environ").read_bytes().split(b"\0") for child in children}
    return next(child for child, variables in environments.items() if f"RANK={rank}".encode() in variables)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("rank", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_process_that_dies_ends_the_others_with_a_sentence(rank):
    process = start("train", "in.npy", "-m", "m.safetensors", *TINY, "--steps", 5000, "--devices", 2)
    wait_for("Training together", process)
    time.sleep(2)
    os.kill(worker_of(process, rank), signal.SIGKILL)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 137 and "Traceback" not in err
    assert f"Process {rank} of the training was ended by SIGKILL" in err
    assert "m.safetensors" not in names()


@pytest.mark.long
def test_processes_that_were_killed_resume_to_the_same_result():
    code = "from noise2same.cli.main import main; from noise2same.training import loop; "
    Path("often.py").write_text(f"{code}loop.CHECKPOINT_SECONDS = 0; main()")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "often.py")
    task = ("train", "in.npy", *TINY, "--steps", 300)
    assert start(*task, "-m", "whole.safetensors", program=torchrun).wait(timeout=100) == 0
    process = start(*task, "-m", "m.safetensors", program=torchrun)
    wait_for("Training  40 %", process)
    for rank in (1, 0):
        os.kill(worker_of(process, rank), signal.SIGKILL)
    process.communicate(timeout=60)
    assert names() == ["in.npy", "m.unfinished.ckpt", "often.py", "whole.safetensors"]
    assert start(*task, "-m", "m.safetensors", "--resume", program=torchrun).wait(timeout=100) == 0
    first, second = (Denoiser.load(f"{name}.safetensors").network.state_dict() for name in ("whole", "m"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_accelerate_starts_the_processes():
    launcher = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1")
    quiet = ("--mixed_precision", "no", "--dynamo_backend", "no", "-m", "noise2same")
    task = ("train", "in.npy", "-m", "m.safetensors", *TINY, "--steps", 6, "--device", "cpu")
    _, err = (process := start(*task, program=(*launcher, *quiet))).communicate(timeout=150)
    assert process.returncode == 0, err
    assert "Training together: 2 processes, 4 patches a step" in err and err.count("Model written") == 1
    assert names() == ["in.npy", "m.safetensors"]


def test_two_machines_train_one_model(monkeypatch):
    """Two launchers on this machine, which meet at an address as two machines would."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(port))
    task = ("train", "in.npy", "-m", "m.safetensors", *TINY, "--steps", 6, "--nodes", 2)
    machines = [start(*task), start(*task)]
    said = "".join(machine.communicate(timeout=150)[1] for machine in machines)
    assert [machine.returncode for machine in machines] == [0, 0], said
    assert said.count("Training together: 2 processes") == said.count("Model written") == 1
    assert names() == ["in.npy", "m.safetensors"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--devices", 2, "--device", "cuda"), "The device 'cuda' cannot be used"),
        (("--device", "cuda"), "The device 'cuda' cannot be used"),
        (("--nodes", 2), "--nodes 2: the machines need an address to meet"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_cannot_be_had_is_an_error(run, options, sentence, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    code, out, err = run("train", "in.npy", "-m", "m.safetensors", *TINY, "--steps", 6, *options)
    assert (code, out) == (2, "") and sentence in err and len(err.splitlines()) <= 2 and names() == ["in.npy"]


WORKER = """
import json, os, torch
from noise2same.data.patches import Patches
from noise2same.methods import DataProfile
from noise2same.methods.projected import Projected, ProjectedSettings
from noise2same.networks.unet import UNet
from noise2same.noise.model import NoiseModel
from noise2same.plan import Recipe
from noise2same.training import loop
from noise2same.training.held_out import HeldOutSure

rank, seen = int(os.environ["RANK"]), []

class Looking(Projected):
    def __call__(self, network, batch, generator):
        seen.append(float(batch.x.sum()))
        return super().__call__(network, batch, generator)

torch.manual_seed(rank)  # other weights to start with
network = UNet(2, 1, features=4, levels=2, block="plain")
image = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(1))
patches = Patches([image], patch=(16, 16), batch=2)
noise = NoiseModel.gaussian(0.5)
held_out = HeldOutSure(patches, noise, 0)
method = Looking(ProjectedSettings(), DataProfile(2, 1, noise))
steps = []
outcome = loop.fit(
    network, method, patches, Recipe(steps=50), held_out=held_out, device=torch.device("cpu"), checkpoint=None,
    on_step=lambda state: steps.append(state.step) or state.step == 8,
)
torch.save(network.state_dict(), f"weights{rank}.pt")
with open(f"told{rank}.json", "w") as file:
    json.dump({"seen": seen, "steps": steps, "stopped": outcome.stopped, "done": outcome.steps,
               "terms": outcome.terms}, file)
"""


def test_all_workers_end_with_the_same_weights_and_have_different_patches():
    Path("worker.py").write_text(WORKER)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "worker.py")
    _, err = (process := start(program=torchrun)).communicate(timeout=150)
    assert process.returncode == 0, err
    first, second = (torch.load(f"weights{rank}.pt", weights_only=True) for rank in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    one, other = (json.loads(Path(f"told{rank}.json").read_text()) for rank in range(2))
    assert one["done"] == other["done"] == len(one["seen"]) == len(other["seen"]) == 8  # the first one's listener
    assert one["steps"] == list(range(1, 9)) and other["steps"] == [] and one["stopped"] and other["stopped"]
    assert not set(one["seen"]) & set(other["seen"])
    assert one["terms"] == other["terms"]


SLOW = """
import os, time
from noise2same import Denoiser
from noise2same.cli.main import main
from noise2same.methods import METHODS
from noise2same.methods.noise2same import Noise2Same
from noise2same.training import loop

save = Denoiser.save

def slow(self, path):
    time.sleep(3)
    assert os.path.exists("m.unfinished.ckpt"), "another worker has deleted the checkpoint"
    return save(self, path)

class Diverging(Noise2Same):
    left = 3

    def __call__(self, *arguments):
        self.left -= 1
        return {name: value / (self.left > 0) for name, value in super().__call__(*arguments).items()}

Denoiser.save, loop.CHECKPOINT_SECONDS = slow, 0.0
if DIVERGES:
    METHODS["noise2same"] = Diverging
main()
"""


@pytest.mark.parametrize("diverges", [False, True])
def test_no_worker_ends_or_deletes_anything_before_the_model_is_safe(diverges):
    """torchrun ends all workers as soon as one has failed, also one that is just saving the model."""
    Path("slow.py").write_text(SLOW.replace("DIVERGES", str(diverges)))
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "slow.py")
    task = ("train", "in.npy", "-m", "m.safetensors", "--method", "noise2same", *TINY, "--steps", 6)
    process = start(*task, program=torchrun)
    _, err = process.communicate(timeout=150)
    assert (process.returncode != 0) == diverges, err
    assert Denoiser.load("m.safetensors").summary["steps"] == (2 if diverges else 6)
    assert names() == sorted(["in.npy", "m.safetensors", "slow.py", *["m.unfinished.ckpt"] * diverges])


def test_which_worker_is_the_first(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert is_first_worker() and not is_worker()
    monkeypatch.setenv("RANK", "0")
    assert is_first_worker() and is_worker()
    monkeypatch.setenv("RANK", "1")
    assert not is_first_worker()


def test_starting_the_command_line_imports_no_torch():
    code = "import sys, noise2same.cli.main; sys.exit(any(name in sys.modules for name in ('torch', 'accelerate')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_comes_at_once():
    started = time.monotonic()
    assert start("train", "--help").wait(timeout=60) == 0
    assert time.monotonic() - started < 20
