"""ONNX: one file, which ONNX Runtime and many others run."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch

from noise2same.errors import InputError
from noise2same.export.model import INPUT, OUTPUT, Exportable
from noise2same.files import replacing

OPSET = 18
"""Version of the operators. ONNX Runtime knows it since 1.14."""


def write(model: Exportable, path: Path) -> float:
    """Write a model; returns its largest difference from our results (`Exportable.check`)."""
    graph = as_onnx(model)
    data = graph.SerializeToString()
    try:
        from onnxruntime import InferenceSession
    except ModuleNotFoundError:
        raise missing("onnxruntime") from None
    session = InferenceSession(data, providers=["CPUExecutionProvider"])
    difference = model.check(lambda image: session.run(None, {INPUT: image})[0], "onnx")
    with replacing(path) as partial:
        partial.write_bytes(data)
    return difference


def as_onnx(model: Exportable) -> Any:
    """The model as ONNX's own object, with sizes by the names of their axes."""
    try:
        import onnx
        import onnxscript  # noqa: F401 (torch uses it, and would fail without a sentence)
    except ModuleNotFoundError as error:
        raise missing(error.name or "onnx") from None
    portable, letters = model.portable, model.letters
    sizes = {0: torch.export.Dim("batch")}
    for axis, (letter, least) in enumerate(zip(letters, portable.smallest, strict=True), start=2):
        sizes[axis] = torch.export.Dim(letter, min=least)
    chatty = logging.getLogger("torch.onnx")
    level = chatty.level
    chatty.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about itself
            program = torch.onnx.export(
                portable,
                (model.example(),),
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=(sizes,),
            )
    except Exception as error:  # torch has many kinds
        reason = " ".join(str(error).split())[:100]
        raise InputError(f"PyTorch {torch.__version__} cannot export this model ({reason}): upgrade torch.") from error
    finally:
        chatty.setLevel(level)
    assert program is not None
    graph = program.model_proto
    for dim, name in zip(graph.graph.output[0].type.tensor_type.shape.dim, ("batch", "", *letters), strict=True):
        if name:
            dim.dim_param = name
    onnx.helper.set_model_props(graph, {"noise2same": model.card()})
    graph.doc_string = model.facts["description"]
    return graph


def missing(name: str) -> InputError:
    """What is to be said if a library is not there."""
    return InputError(f"This export needs {name}: pip install 'noise2same[export]'.")
