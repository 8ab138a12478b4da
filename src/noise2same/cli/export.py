"""`noise2same export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noise2same.cli._options import AboutOptions, Axes, Json, expand_options
from noise2same.cli._terminal import print_json, tell
from noise2same.errors import InputError


@expand_options
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    to: Annotated[
        str | None,
        typer.Option(help="bioimageio, onnx, openvino or torchscript; by default what the name of the output says."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .zip, .onnx, .xml or .pt.",
            show_default="MODEL with another suffix",
        ),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(help="Noisy image like those that it is for: results are blended with the input as for this one."),
    ] = None,
    axes: Axes = None,
    *,
    tta: Annotated[
        bool, typer.Option("--tta", help="Average over eight rotations and flips: slightly better, eight times slower.")
    ] = False,
    about: AboutOptions,
    as_json: Json = False,
) -> None:
    """Write a model for other programs: raw pixels in, clean pixels out."""
    if to is None and output is None:
        raise InputError("Say what to export to: --to bioimageio, onnx, openvino or torchscript.")
    from noise2same.denoiser import Denoiser
    from noise2same.export import SUFFIXES, format_of

    model = model.expanduser()
    path = output or model.with_suffix(SUFFIXES.get(to or "", ".zip"))
    form = format_of(path, to)
    done = Denoiser.load(model).export(path, form, sample=sample, axes=axes, tta=tta, **about.given())
    for sentence in done.left_out:
        tell(sentence, "Note: ", "yellow")
    tell(f"{done.to} written to {done.path}; it differs from our own result by {done.difference:.1e} of the range.")
    if as_json:
        print_json(done._asdict() | {"path": str(done.path)})
