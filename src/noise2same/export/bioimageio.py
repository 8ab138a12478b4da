"""A package for the BioImage Model Zoo, which Fiji (deepImageJ, JDLL), ilastik, QuPath and others open."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from noise2same import __version__
from noise2same.errors import InputError
from noise2same.export import onnx, torchscript
from noise2same.export.model import INPUT, OUTPUT, Exportable, smallest_tile, tile_steps
from noise2same.files import replacing

PAPER = {
    "text": "Xie, Wang, Ji: Noise2Same: Optimizing A Self-Supervised Bound for Image Denoising. NeurIPS 2020.",
    "url": "https://arxiv.org/abs/2010.11971",
}
SOFTWARE = {"text": f"noise2same {__version__}", "url": "https://github.com/noise2same/noise2same"}


def write(model: Exportable, path: Path) -> float:
    """Write a package (.zip) of version 0.5 of the specification, with weights for TorchScript and for ONNX.

    Nothing is fetched from the internet or sent there. Returns the largest difference of either from our results.
    """
    try:
        from bioimageio.spec import ValidationContext, save_bioimageio_package
        from bioimageio.spec.model import v0_5 as spec
    except ModuleNotFoundError as error:
        raise onnx.missing(error.name or "bioimageio.core") from None
    check_license(model.about.license)
    with TemporaryDirectory() as name, ValidationContext(root=Path(name), perform_io_checks=False):
        folder = Path(name)
        difference = max(torchscript.write(model, folder / "weights.pt"), onnx.write(model, folder / "weights.onnx"))
        np.save(folder / "image.npy", model.image)
        np.save(folder / "denoised.npy", model.expected)
        (folder / "README.md").write_text(documentation(model), encoding="utf-8")
        described = describe(model, path.stem, folder, spec)
        with replacing(path) as partial:
            save_bioimageio_package(described, output_path=partial)
    return difference


def check_license(license: str | None) -> None:
    """Raise InputError for a license that the specification does not know."""
    from bioimageio.spec.generic.v0_3 import LicenseId

    try:
        _ = license is None or LicenseId(license)
    except ValueError:
        raise InputError(
            f"{license} is no license of the SPDX list: give a name such as CC-BY-4.0, MIT or CC0-1.0."
        ) from None


def describe(model: Exportable, name: str, folder: Path, spec: Any) -> Any:
    """The model in the words of the specification."""
    portable, about = model.portable, model.about
    channels = [f"channel{number}" for number in range(portable.channels)]
    shape = list(zip(model.letters, smallest_tile(portable), tile_steps(portable), portable.halo, strict=True))
    common = [spec.BatchAxis(), spec.ChannelAxis(channel_names=channels)]
    values = spec.IntervalOrRatioDataDescr(type="float32")
    taken = spec.InputTensorDescr(
        id=INPUT,
        description="noisy image, raw pixels",
        axes=[
            *common,
            *(spec.SpaceInputAxis(id=a, size=spec.ParameterizedSize(min=least, step=by)) for a, least, by, _ in shape),
        ],
        test_tensor=spec.FileDescr(**hashed(folder / "image.npy")),
        data=values,
    )
    given = spec.OutputTensorDescr(
        id=OUTPUT,
        description="denoised image, in the units of the input",
        axes=[
            *common,
            *(
                spec.SpaceOutputAxisWithHalo(id=a, size=spec.SizeReference(tensor_id=INPUT, axis_id=a), halo=halo)
                for a, _, _, halo in shape
            ),
        ],
        test_tensor=spec.FileDescr(**hashed(folder / "denoised.npy")),
        data=values,
    )
    weights = spec.WeightsDescr(
        torchscript=spec.TorchscriptWeightsDescr(
            **hashed(folder / "weights.pt"), pytorch_version=spec.Version(torch.__version__.partition("+")[0])
        ),
        onnx=spec.OnnxWeightsDescr(**hashed(folder / "weights.onnx"), opset_version=onnx.OPSET, parent="torchscript"),
    )
    return spec.ModelDescr(
        name=title(name),
        description=model.facts["description"],
        authors=[spec.Author(name=author.replace("/", " ")) for author in about.authors],
        cite=[spec.CiteEntry(**PAPER), spec.CiteEntry(**SOFTWARE)],
        license=about.license,
        documentation=spec.FileDescr(**hashed(folder / "README.md")),
        tags=[
            "denoising",
            f"{portable.dims}d",
            "self-supervised",
            "unet",
            "pytorch",
            "noise2same",
            "image-restoration",
        ],
        training_data=training_data(about.training_data),
        inputs=[taken],
        outputs=[given],
        weights=weights,
        config=spec.Config(noise2same=model.facts),
    )


def hashed(path: Path) -> dict[str, Any]:
    """A file, and what tells whether it is the same."""
    return {"source": path, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def title(name: str) -> str:
    """A name that the specification allows, such as 'noise2same worm'."""
    plain = re.sub(r"[^A-Za-z0-9_+\- ()]+", " ", name).strip()
    return f"noise2same {plain}"[:64].strip()


def training_data(said: str | None) -> Any:
    """The data set, of which only a sentence or an address is known."""
    if said is None:
        return None
    from bioimageio.spec.dataset.v0_3 import DatasetDescr
    from bioimageio.spec.generic.v0_3 import HttpUrl

    address = HttpUrl(said) if said.startswith(("https://", "http://")) else None
    return DatasetDescr(name="Training data", description=said[:1024], source=address)


def documentation(model: Exportable) -> str:
    """The page that comes with a package."""
    portable, about, facts = model.portable, model.about, model.facts
    axes = ", ".join(model.letters)
    how = f"noise2same {facts['noise2same']}, method {facts['method']}, for {facts['steps']} steps"
    start = ", beginning with a network pretrained on photographs" if facts["pretrained"] else ""
    said = {
        "Training data": about.training_data,
        "License": about.license,
        "Authors": ", ".join(about.authors) or None,
    }
    lines = [
        "# Denoising with noise2same",
        "",
        f"{facts['description']} It was trained with {how}{start}. No clean images were needed.",
        "",
        "Normalization is part of the model: give it pixels as they come from the instrument.",
        "",
        *(f"- {name}: {value or 'not stated'}" for name, value in said.items()),
        "",
        "## Tiles",
        "",
        f"An output pixel depends on pixels up to {list(portable.reach)} away ({axes}).",
        f"Tiles are to overlap, and {list(portable.halo)} pixels are to be cut from each of their sides.",
        "",
        "## What it does not do",
        "",
        *(f"- {sentence}" for sentence in facts["left_out"]),
        "",
        "## Validation",
        "",
        "Use it on images of the same instrument and settings as the training images.",
        "Subtract the result from the input: what was removed should look like noise, without structures of the image.",
        "`noise2same denoise --model` and `noise2same evaluate` check a result and say whether it can be trusted.",
        "",
    ]
    return "\n".join(lines)
