"""The package passes the Model Zoo's own tests, offline, and runs in its pipeline."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import torch

import noise2same as n2s
from noise2same import io
from noise2same.noise.samples import samples
from noise2same.one_image import Tuned

pytest.importorskip("bioimageio.core", reason="comes with the extra export")
pytestmark = pytest.mark.filterwarnings("ignore")  # of bioimageio, pydantic and xarray, about each other

SAID = {"license": "CC-BY-4.0", "training_data": "Photographs with noise.", "authors": ["Ann Onym"]}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Model, image and package."""
    folder = tmp_path_factory.mktemp("package")
    image = samples()["gray"].noisy[100:267, 100:250].astype(np.float32)
    model = n2s.train(image, steps=3, features=4, levels=2, batch=2, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = model.export(folder / "grey.zip", sample=image, **SAID)
    return model, image, exported.path


def run_their_test(path, cache):
    """Run their test in a process that has no network, and return what it says."""
    code = (
        "import socket, sys\n"
        "def refuse(*_, **__): raise OSError('no network in this test')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from bioimageio.core import test_model\n"
        "found = test_model(sys.argv[1])\n"
        "print(found.format())\n"
        "sys.exit(found.status != 'passed')\n"
    )
    own = {"BIOIMAGEIO_CACHE_PATH": str(cache)}
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=os.environ | own, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_it_passes_their_test_offline(package, tmp_path):
    said = run_their_test(package[2], tmp_path)
    for weights in ("torchscript", "onnx"):
        assert f"Reproduce test outputs from test inputs ({weights})" in said


@pytest.mark.long
@pytest.mark.parametrize("kind", ["color", "volume"])
def test_colour_and_volumes_pass_too(kind, tmp_path):
    sample = samples()[kind]
    model = n2s.train(sample.noisy, sample.axes, steps=3, features=4, batch=2, channels="joint", progress=False)
    exported = model.export(tmp_path / "model.zip", sample=sample.noisy, axes=sample.axes, **SAID)
    assert exported.difference <= 1e-4
    run_their_test(exported.path, tmp_path)


def pipeline_result(package, image, blocks, weights="torchscript"):
    from bioimageio.core import Tensor, create_prediction_pipeline, load_model_description
    from bioimageio.core.digest_spec import create_sample_for_model

    described = load_model_description(package, perform_io_checks=False)
    with create_prediction_pipeline(described, weight_format=weights) as pipeline:
        tensor = Tensor.from_numpy(image[None, None], dims=["batch", "channel", "y", "x"])
        sample = create_sample_for_model(described, inputs={"image": tensor})
        if blocks:
            found = pipeline.predict_sample_with_blocking(sample, ns=2)
        else:
            found = pipeline.predict_sample_without_blocking(sample, skip_input_padding=True, skip_output_cropping=True)
    return np.asarray(found.members["denoised"].data)[0, 0]


@pytest.mark.parametrize("weights", ["torchscript", "onnx"])
def test_their_pipeline_gives_our_result(package, weights):
    model, image, path = package
    ours = model.denoise(image, tta=False)
    found = pipeline_result(path, image, blocks=False, weights=weights)
    assert np.abs(found - ours).max() <= 1e-4 * np.ptp(image)


def test_their_tiles_leave_no_seams(package):
    model, image, path = package
    image = image[:160, :144]  # their last tile ends with the image, and so has to begin on the network's grid
    blend, halo = model.tuned_to(io.open_images(package[1], "YX")[0], "cpu").blend, 18
    padded = np.pad(image, halo, mode="symmetric")  # as their pipeline does
    ours = Tuned(model, torch.device("cpu"), blend=blend).denoise(padded, "YX", tta=False)[halo:-halo, halo:-halo]
    found = pipeline_result(path, image, blocks=True)
    assert np.abs(found - ours).max() <= 1e-4 * np.ptp(image)


def test_it_says_all_there_is_to_say(package):
    import yaml

    with zipfile.ZipFile(package[2]) as archive:
        said = yaml.safe_load(archive.read("rdf.yaml"))
        page = archive.read("README.md").decode()
    assert said["format_version"].startswith("0.5.")
    assert said["license"] == SAID["license"]
    assert said["authors"] == [{"name": "Ann Onym"}]
    assert said["training_data"]["description"] == SAID["training_data"]
    assert said["cite"][0]["url"] == "https://arxiv.org/abs/2010.11971"
    assert {"torchscript", "onnx"} == said["weights"].keys()
    assert all(re.fullmatch("[0-9a-f]{64}", weights["sha256"]) for weights in said["weights"].values())
    assert [axis["halo"] for axis in said["outputs"][0]["axes"] if axis["type"] == "space"] == [18, 18]
    for sentence in ("## Validation", "Photographs with noise.", "CC-BY-4.0", "Ann Onym"):
        assert sentence in page
