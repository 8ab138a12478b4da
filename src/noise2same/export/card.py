"""What an export says of itself, read back."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from noise2same.errors import InputError
from noise2same.export.onnx import missing


def read_card(path: Path) -> dict[str, Any]:
    """What an export says of itself: axes, halo, license, training data, authors and more; no model is loaded."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: give the file of an export.")
    try:
        found: dict[str, Any] = READERS[path.suffix.lower()](path)
    except (KeyError, ValueError, StopIteration, AttributeError, zipfile.BadZipFile, ElementTree.ParseError):
        raise InputError(f"{path} is not an export of noise2same, or is damaged: export the model again.") from None
    return found


def _of_torchscript(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(next(name for name in archive.namelist() if name.endswith("noise2same.json"))))


def _of_bioimageio(path: Path) -> Any:
    with zipfile.ZipFile(path) as package, package.open("weights.pt") as weights:
        return _of_torchscript(weights)  # type: ignore[arg-type] # a file within a file


def _of_onnx(path: Path) -> Any:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as error:
        raise missing(error.name or "onnx") from None
    try:
        properties = onnx.load(path).metadata_props
    except DecodeError as error:
        raise ValueError from error
    return json.loads(next(one.value for one in properties if one.key == "noise2same"))


def _of_openvino(path: Path) -> Any:
    said = ElementTree.parse(path).find("./rt_info/noise2same/card")
    return json.loads(said.attrib["value"])  # type: ignore[union-attr] # an AttributeError says that there is none


READERS = {".pt": _of_torchscript, ".zip": _of_bioimageio, ".onnx": _of_onnx, ".xml": _of_openvino}
"""By the suffix of an export."""
