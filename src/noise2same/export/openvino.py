"""OpenVINO: two files of its own format, the graph (.xml) and the weights (.bin) beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noise2same.errors import InputError
from noise2same.export.model import Exportable
from noise2same.export.onnx import as_onnx
from noise2same.files import replacing
from noise2same.prediction.engines import import_openvino

EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
"""Or OpenVINO may compute in 16 bits."""


def write(model: Exportable, path: Path) -> float:
    """Write a model; returns its largest difference from our results (`Exportable.check`)."""
    try:
        openvino = import_openvino()
    except ModuleNotFoundError:
        raise InputError("This export needs OpenVINO: pip install 'noise2same[export,openvino]'.") from None
    core = openvino.Core()
    graph: Any = core.read_model(as_onnx(model).SerializeToString())
    graph.set_rt_info(model.card(), ["noise2same", "card"])
    compiled = core.compile_model(graph, "CPU", EXACT)
    difference = model.check(lambda image: compiled(image)[0], "openvino")
    with replacing(path.with_suffix(".bin")) as weights, replacing(path) as partial:
        openvino.save_model(graph, partial, compress_to_fp16=False)
        written = partial.with_suffix(".bin")
        if written != weights:  # long names are shortened
            written.replace(weights)
    return difference
