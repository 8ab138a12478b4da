"""Nothing leaves the machine, and nothing is read or written but what was chosen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

from noise2same import Denoiser, io
from noise2same.errors import InputError

WITHOUT_NETWORK = ["unshare", "--map-root-user", "--net"]
CAN_CUT_OFF = (
    shutil.which("unshare") is not None
    and subprocess.run([*WITHOUT_NETWORK, "true"], capture_output=True, check=False).returncode == 0
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def noisy(*shape):
    return np.random.default_rng(0).normal(100, 20, shape).astype(np.float32)


def files(folder="."):
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.skipif(not CAN_CUT_OFF, reason="needs a namespace without a network")
def test_all_works_with_the_network_cut_off():
    tifffile.imwrite("in.tif", noisy(64, 64))
    tiny = ["--set", "features=4", "--set", "batch=1", "--set", "patch=16", "--steps", "2"]
    for command in (
        ["train", "in.tif", "-m", "m.safetensors", *tiny],
        ["denoise", "in.tif", "-o", "out.tif", "-m", "m.safetensors", "--report", "report.html"],
    ):
        program = [*WITHOUT_NETWORK, sys.executable, "-m", "noise2same"]
        done = subprocess.run([*program, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["..npy", "a..npy", "sub/../sub/b.npy", " .npy", "x\\y.npy", "%2e%2e%2fz.npy"])
def test_results_stay_in_the_folder_whatever_the_input_is_called(run, trained, name):
    Path("sub").mkdir()
    with Path(name).open("wb") as file:
        np.save(file, noisy(32, 32))
    np.save("other.npy", noisy(32, 32))
    before = set(files())
    code, _, err = run("denoise", name, "other.npy", "-o", "out", "-m", trained, "--no-verdict")
    assert code in (0, 1, 2), err
    assert {Path(new).parts[0] for new in set(files()) - before} <= {"out"}


@pytest.mark.parametrize(
    "path", ["../secret.zarr", "../../secret.zarr", "/secret.zarr", "0/../../secret.zarr", "..", ""]
)
def test_a_zarr_cannot_name_arrays_outside_of_itself(path):
    with io.create("secret.zarr", io.Image(noisy(16, 16), "YX")) as out:
        out[...] = 7
    with io.create("in.ome.zarr", io.Image(noisy(16, 16), "YX")) as out:
        out[...] = 1
    metadata = Path("in.ome.zarr/zarr.json")
    fields = json.loads(metadata.read_text())
    fields["attributes"]["ome"]["multiscales"][0]["datasets"][0]["path"] = path
    metadata.write_text(json.dumps(fields))
    try:
        found = np.asarray(io.read("in.ome.zarr").data)
    except InputError:
        return
    assert (found == 1).all()


def test_a_model_cannot_name_files(trained, monkeypatch):
    """Its header may hold any text: none of it is opened."""
    opened = []

    def watch(event, arguments):
        if event == "open" and "forbidden" in str(arguments[0]):
            opened.append(arguments[0])

    sys.addaudithook(watch)
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(trained, "pt") as file:
        header = json.loads(file.metadata()["noise2same"])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header["summary"] |= {"log": "/forbidden.py", "checkpoint": "/forbidden.ckpt"}
    header["config"]["method_settings"] |= {"noise_model": "/forbidden.py"}
    save_file(weights, "m.safetensors", {"noise2same": json.dumps(header)})
    with pytest.raises(InputError):
        Denoiser.load("m.safetensors")
    assert not opened
