"""Every engine gives the same numbers, and one that cannot be used is done without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from skimage import data

from noise2same import train
from noise2same.device import is_out_of_memory
from noise2same.networks.blindspot import BlindSpot
from noise2same.networks.unet import UNet
from noise2same.prediction.engines import Half, OpenVINO, folded, import_openvino, prepare_for_inference

if find_spec("openvino") is None:
    pytest.skip("needs OpenVINO", allow_module_level=True)
openvino = import_openvino()
CPU = torch.device("cpu")
without_onednn = torch.backends.mkldnn.flags(enabled=False)
"""For half precision on a CPU, which oneDNN computes with instructions that some claim to have and do not."""


def trained(dims, channels=1, **kind):
    torch.manual_seed(0)
    network = UNet(dims, channels, features=8, levels=3, **({"block": "plain"} | kind))
    for _ in range(3):
        network(3 * torch.randn(2, channels, *(16,) * dims) + 1)
    return network


@pytest.mark.parametrize("kind", [{}, {"block": "residual"}, {"finest_skip": False, "blur_pool": True}])
@pytest.mark.parametrize(("channels", "shape"), [(1, (37, 41)), (3, (64, 32)), (2, (5, 17, 33))])
@torch.inference_mode()
def test_engines_agree_on_any_size(kind, channels, shape):
    network = trained(len(shape), channels, **kind)
    fast, plain = prepare_for_inference(network, CPU), folded(network)
    assert isinstance(fast, OpenVINO)
    for count in (1, 3):
        x = torch.randn(count, channels, *shape)
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-4, atol=1e-4)


def test_without_openvino_pytorch_predicts(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert isinstance(prepare_for_inference(trained(2), CPU), UNet)


@torch.inference_mode()
def test_when_it_fails_pytorch_predicts_with_a_warning(monkeypatch):
    def fail(*_):
        raise RuntimeError("no such operation")

    monkeypatch.setattr(openvino.Core, "compile_model", fail)
    network = trained(2)
    with pytest.warns(UserWarning, match="OpenVINO cannot run this network .no such operation.; PyTorch does"):
        copy = prepare_for_inference(network, CPU)
    x = torch.randn(1, 1, 32, 32)
    torch.testing.assert_close(copy(x), folded(network)(x))


def test_a_network_of_another_kind_stays_with_pytorch():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(prepare_for_inference(BlindSpot(2, 1, 1, features=4, levels=2), CPU), BlindSpot)


@torch.inference_mode()
@without_onednn
def test_half_precision_agrees_to_a_thousandth_of_the_range():
    network, x = trained(2), torch.randn(1, 1, 64, 64)
    plain = folded(network)
    half = Half(plain)(x)
    assert half.dtype == torch.float32
    assert (half - plain(x)).abs().max() < 1e-3 * (x.max() - x.min())


def test_training_further_changes_what_is_predicted():
    image = data.camera()[200:264, 200:264] + np.random.default_rng(0).normal(0, 25, (64, 64)).astype(np.float32)
    model = train(image, steps=20, features=4, batch=2, patch=32, progress=False)
    before = model.denoise(image)
    model.fit(image, resume=True, progress=False)
    assert not np.array_equal(model.denoise(image), before)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("[CPU] Add node: std::bad_alloc"), True),
        (RuntimeError("could not create a memory object"), True),
        (MemoryError(), True),
        (RuntimeError("could not create a primitive"), True),  # of oneDNN, under RLIMIT_AS
        (RuntimeError("could not execute a primitive"), False),
    ],
)
def test_every_engine_s_words_for_lack_of_memory_are_understood(error, expected):
    assert is_out_of_memory(error) == expected


OUT_OF_MEMORY = """
import resource, warnings
import numpy as np, torch
from noise2same.networks.unet import UNet
from noise2same.prediction import predict
from noise2same.prediction.engines import OpenVINO, folded
from noise2same.data.normalize import Normalization

def more_memory(message, *details):
    resource.setrlimit(resource.RLIMIT_AS, before)

torch.set_num_threads(1)
torch.manual_seed(0)
network = OpenVINO(folded(UNet(3, 1, features=16, levels=3, block="plain")))
image, unit = np.random.default_rng(0).normal(size=(64, 128, 128)).astype("float32"), Normalization((0.0,), (1.0,))
whole, cut, counts = np.zeros_like(image), np.zeros_like(image), []
predict.predict(network, image, "ZYX", whole, normalization=unit)
network = OpenVINO(network.network)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
before = resource.getrlimit(resource.RLIMIT_AS)
warnings.showwarning = more_memory
resource.setrlimit(resource.RLIMIT_AS, (used + 48 * 2**20, before[1]))  # the first layer's output takes 64 MB
predict.predict(network, image, "ZYX", cut, normalization=unit, on_block=lambda done, total: counts.append(total))
print(counts[-1], abs(cut - whole).max() < 1e-5 * np.ptp(whole))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux to limit memory")
def test_when_openvino_runs_out_of_memory_blocks_are_halved():
    """The limit is gone once it was met: libraries crash if memory for something small is refused."""
    done = subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True)
    count, same = done.stdout.split() or [0, done.stderr]
    assert int(count) > 1 and same == "True"


RECORDING = """
import os, sys

def record(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["RECORD"], "a") as file:
            print(event, arguments, file=file)

sys.addaudithook(record)
"""
"""Run by Python at its start, in each process and its children."""
DENOISING = """
import numpy as np, noise2same as n2s
image = np.random.default_rng(0).normal(100, 20, (48, 48)).astype("float32")
model = n2s.train(image, steps=2, features=4, batch=2, patch=32, progress=False)
model.denoise(image)
model.report("page.html", image)
print(type(model._prepared[1]).__name__)
"""


def test_nothing_leaves_the_machine_and_nothing_is_left_at_home(tmp_path):
    home, record, trace = tmp_path / "home", tmp_path / "record", tmp_path / "trace"
    home.mkdir()
    (tmp_path / "sitecustomize.py").write_text(RECORDING)
    known = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("XDG_")}
    places = {"HOME": str(home), "LOCALAPPDATA": str(home), "RECORD": str(record), "PYTHONDONTWRITEBYTECODE": "1"}
    places["MPLCONFIGDIR"] = str(tmp_path)  # a cache, which is Matplotlib's right
    places["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    command = [sys.executable, "-c", DENOISING]
    strace = shutil.which("strace")
    if strace and subprocess.run([strace, "-qq", "-o", trace, "true"], capture_output=True).returncode == 0:
        calls = "trace=connect,sendto,sendmsg,sendmmsg"
        command = [strace, "-f", "-qq", "-s", "256", "-e", calls, "-o", str(trace), *command]
    done = subprocess.run(command, env=known | places, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "OpenVINO", done.stderr
    assert not record.exists(), record.read_text()
    lines = trace.read_text().splitlines() if trace.exists() else []
    assert not [line for line in lines if "AF_INET" in line]
    assert not list(home.rglob("*"))


def test_a_call_in_a_child_process_would_be_recorded(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(RECORDING)
    record = tmp_path / "record"
    environment = os.environ | {"RECORD": str(record), "PYTHONPATH": str(tmp_path)}
    code = """
import multiprocessing, socket
if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=socket.getaddrinfo, args=("localhost", 80))
    process.start()
    process.join()
"""
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert "socket.getaddrinfo ('localhost', 80" in record.read_text()
