"""Exports give what we give, in the programs that they are for."""

from __future__ import annotations

import json
import warnings
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

import noise2same as n2s
from noise2same.data import axes as ax
from noise2same.errors import InputError
from noise2same.noise.samples import samples
from noise2same.one_image import Tuned
from noise2same.prediction.engines import import_openvino

SMALL = {"steps": 3, "features": 4, "levels": 2, "batch": 2, "patch": 32, "patch_3d": (8, 16, 16), "progress": False}
RANGE = 1e-4  # what issue 30 asks for


def noisy(kind):
    """A real picture or volume with noise, of an odd size, and its axes."""
    found = {sample.axes: sample for sample in samples().values()}
    sample = found[{"grey": "YX", "colour": "YXC", "volume": "ZYX"}[kind]]
    cut = {"grey": np.s_[60:131, 40:137], "colour": np.s_[60:131, 40:137], "volume": np.s_[:11, 40:83, 60:117]}[kind]
    return sample.noisy[cut].astype(np.float32), sample.axes


def trained(image, axes, **options):
    return n2s.train(image, axes, **(SMALL | options))


@pytest.fixture(scope="module")
def models():
    kept = {}

    def of(kind):
        if kind not in kept:
            image, axes = noisy(kind)
            kept[kind] = trained(image, axes, channels="joint"), image, axes
        return kept[kind]

    return of


def run(path, x):
    """What the program that an export is for makes of (1, C, [Z,] Y, X)."""
    if path.suffix == ".pt":
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.jit.load(path)(torch.from_numpy(x)).numpy()
    if path.suffix == ".onnx":
        from onnxruntime import InferenceSession

        return InferenceSession(path).run(None, {"image": x})[0]
    compiled = import_openvino().Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled(x)[0]


def difference(path, image, axes, ours):
    x = ax.to_network(image, axes).astype(np.float32)
    return np.abs(run(path, x) - ax.to_network(ours, axes)).max() / np.ptp(image)


def network_alone(model, image, axes):
    return Tuned(model, torch.device("cpu")).denoise(image, axes, dtype="float32", tta=False)


@pytest.mark.parametrize("suffix", [".pt", ".onnx", ".xml"])
@pytest.mark.parametrize("kind", ["grey", "colour", "volume"])
def test_an_export_gives_our_own_result(models, kind, suffix, tmp_path):
    model, image, axes = models(kind)
    path = tmp_path / f"model{suffix}"
    exported = model.export(path)
    assert exported.difference <= RANGE
    assert difference(path, image, axes, network_alone(model, image, axes)) <= RANGE
    larger = np.concatenate([image, image[..., ::-1, :] if axes == "YXC" else image[..., ::-1]], axes.index("X"))
    assert difference(path, larger, axes, network_alone(model, larger, axes)) <= RANGE  # sizes are free


@pytest.mark.parametrize("suffix", [".pt", pytest.param(".onnx", marks=pytest.mark.long)])
def test_with_a_sample_and_tta_it_is_what_denoise_gives(models, suffix, tmp_path):
    model, image, axes = models("grey")
    exported = model.export(tmp_path / f"model{suffix}", sample=image, axes=axes, tta=True)
    ours = model.denoise_in_detail(image, axes, dtype="float32")
    assert max(ours.input_share) > 0.01  # the blend is at work
    assert difference(exported.path, image, axes, ours.result) <= RANGE
    assert not [sentence for sentence in exported.left_out if "tta" in sentence or "alone" in sentence]


CASES = {
    "statistics of each image": {"normalization": "image"},
    "three levels": {"levels": 3},
    "the paper's network": {"block": "residual"},
    "anti-aliased pooling": {"method": "noise2void2"},
    "a blind spot": {"method": "laine"},
    "a noise model": {"method": "laine", "noise_model": "gaussian"},
}


@pytest.mark.long
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_every_network_of_ours_can_be_exported(options, tmp_path):
    image, axes = noisy("grey")
    model = trained(image, axes, **options)
    for name in ("model.pt", "model.onnx"):
        path = model.export(tmp_path / name).path
        assert difference(path, image, axes, network_alone(model, image, axes)) <= RANGE


@pytest.mark.long
def test_one_network_for_each_channel(tmp_path):
    image, axes = noisy("colour")
    model = trained(image, axes, channels="separate")
    path = model.export(tmp_path / "model.onnx").path
    assert difference(path, image, axes, network_alone(model, image, axes)) <= RANGE


@pytest.mark.parametrize(
    "suffix", [".pt", *(pytest.param(suffix, marks=pytest.mark.long) for suffix in (".onnx", ".xml"))]
)
def test_the_stabilized_scale_and_the_flux_of_stars(suffix, tmp_path):
    rng = np.random.default_rng(0)
    sky = np.full((90, 77), 20.0)
    sky[rng.integers(0, 90, 30), rng.integers(0, 77, 30)] += 1e4 * rng.pareto(1, 30).clip(0.1, 10)
    stars = rng.poisson(sky).astype(np.float32)
    model = trained(stars, "YX", scale="stabilized")
    assert model.normalization.stabilizer is not None
    exported = model.export(tmp_path / f"stars{suffix}", sample=stars)
    ours = model.denoise(stars, tta=False)
    assert difference(exported.path, stars, "YX", ours) <= RANGE
    faint = stars < 100  # the range is that of the brightest star
    found = run(exported.path, stars[None, None])[0, 0]
    np.testing.assert_allclose(found[faint], ours[faint], atol=0.05)


def test_nothing_of_it_is_bound_to_this_device(models, tmp_path):
    model, image, axes = models("grey")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = str(torch.jit.load(model.export(tmp_path / "model.pt", sample=image, axes=axes).path).inlined_graph)
    assert 'Device = prim::Constant[value="cpu"]' not in graph
    assert "value=<Tensor>" not in graph


class Unknown(nn.Module):
    multiple, reach = (1, 1), (1, 1)

    def forward(self, x):
        return x


def test_an_unknown_network_is_refused(models, tmp_path):
    model, *_ = models("grey")
    other = model._with(Unknown())
    with pytest.raises(InputError, match=r"cannot be exported.*Unknown.*noise2same itself"):
        other.export(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_tile_that_would_fill_the_memory_is_refused(tmp_path):
    image, axes = noisy("volume")
    model = trained(image, axes, levels=5)
    with pytest.raises(InputError, match="smallest tile of this model has 240 × 240 × 240"):
        model.export(tmp_path / "model.zip")
    assert model.export(tmp_path / "model.pt").difference <= RANGE


def test_what_differs_is_refused(models, tmp_path, monkeypatch):
    model, *_ = models("grey")
    monkeypatch.setattr("noise2same.export.model.TOLERANCE", -1.0)
    with pytest.raises(InputError, match="differ from ours"):
        model.export(tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "to", "sentence"),
    [
        ("model.txt", None, "says no format"),
        ("model.onnx", "torchscript", "ends in .pt"),
        ("model.onnx", "onx", "should be one of"),
        ("nowhere/model.onnx", None, "not a folder"),
    ],
)
def test_names_and_formats_that_are_wrong(models, tmp_path, name, to, sentence):
    model, *_ = models("grey")
    with pytest.raises(InputError, match=sentence):
        model.export(tmp_path / name, to)


@pytest.mark.parametrize(("method", "sentence"), [("auto", "not trained"), ("nlm", "nlm has no network")])
def test_what_has_no_network_is_refused(tmp_path, method, sentence):
    with pytest.raises(InputError, match=sentence):
        n2s.Denoiser(n2s.Config(method=method)).export(tmp_path / "model.onnx")


@pytest.mark.parametrize(("library", "suffix"), [("onnxscript", ".onnx"), ("bioimageio.spec", ".zip")])
def test_a_missing_library_is_one_line(models, tmp_path, monkeypatch, library, suffix):
    model, *_ = models("grey")
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(InputError, match=r"noise2same\[export\]"):
        model.export(tmp_path / f"model{suffix}")


def test_an_export_says_what_it_is(models, tmp_path):
    import onnx

    model, *_ = models("grey")
    said = {"license": "CC-BY-4.0", "training_data": "https://example.org/worms", "authors": ["Ann Onym"]}
    model.export(tmp_path / "model.onnx", **said)
    model.export(tmp_path / "model.pt", **said)
    graph = onnx.load(tmp_path / "model.onnx")
    cards = [json.loads(graph.metadata_props[0].value)]
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("noise2same.json"))
        cards.append(json.loads(archive.read(name)))
    for card in cards:
        assert (card["license"], card["training_data"], card["authors"]) == (*list(said.values())[:2], ["Ann Onym"])
        assert card["axes"] == "bcyx"
    assert graph.opset_import[0].version == 18
    ends = [tensor.type.tensor_type.shape.dim for tensor in (graph.graph.input[0], graph.graph.output[0])]
    assert [[dim.dim_param or dim.dim_value for dim in dims] for dims in ends] == [["batch", 1, "y", "x"]] * 2
