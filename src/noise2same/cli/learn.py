"""The commands that train a network, or use one: `denoise` and `train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noise2same import io
from noise2same.cli.files import made_folder, plan_outputs
from noise2same.cli.options import (
    Axes,
    FromScratch,
    Inputs,
    Json,
    LambdaInv,
    Log,
    Method,
    Minutes,
    NoiseModel,
    Preset,
    Report,
    Resume,
    Seed,
    Settings,
    Sigma,
    Steps,
    Structure,
    configure,
)
from noise2same.cli.run import checkpoint_of, keep_network, run_training
from noise2same.cli.terminal import bar, console, print_json, tell
from noise2same.cli.verdicts import judge_output, plan_reports
from noise2same.errors import InputError
from noise2same.training.launch import is_first_worker, is_worker, relaunch


def denoise(
    inputs: Inputs,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, or folder for several inputs.")],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Trained model to use; without it, the inputs are trained on.")
    ] = None,
    axes: Axes = None,
    dtype: Annotated[
        str, typer.Option(help="Of the output: same as the input, or uint8, uint16, float32, ...")
    ] = "same",
    tta: Annotated[
        bool | None,
        typer.Option(
            help="Test-time augmentation: average 8 rotations and flips; slower, a bit better.",
            show_default="for small images",
        ),
    ] = None,
    report: Report = None,
    method: Method = None,
    noise_model: NoiseModel = None,
    preset: Preset = None,
    minutes: Minutes = None,
    steps: Steps = None,
    seed: Seed = None,
    sigma: Sigma = None,
    lambda_inv: LambdaInv = None,
    structure: Structure = None,
    from_scratch: FromScratch = False,
    settings: Settings = None,
    log: Log = None,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Denoise images; without --model, by training on them first, or with --minutes 0 by a network that is there."""
    training: dict[str, Any] = {
        "method": method,
        "noise_model": noise_model,
        "preset": preset,
        "minutes": minutes,
        "steps": steps,
        "seed": seed,
        "sigma": sigma,
        "lambda_inv": lambda_inv,
        "structure": structure,
        "from_scratch": from_scratch or None,
    }
    config = configure(settings, **training)
    training |= {"set": settings or None, "log": log, "resume": resume or None}
    given = [name.replace("_", "-") for name, value in training.items() if value is not None]
    if model is not None and given:
        raise InputError(f"--{given[0]} is for training, but --model is trained already: leave one of them out.")
    files = io.find(inputs)
    outputs = plan_outputs(inputs, files, output.expanduser())
    reports = plan_reports(report, files, files, outputs)
    from noise2same.denoiser import Denoiser

    denoiser = Denoiser(config) if model is None else Denoiser.load(model.expanduser())
    instant = model is None and config.minutes == 0
    if instant and (resume or log is not None):
        option = "--resume" if resume else "--log"
        raise InputError(f"--minutes 0 trains nothing, which {option} is for: leave one of them out.")
    learns = model is None and not instant and denoiser.method.trained
    unused = [name for name in given if name not in ("method", "sigma")]
    if model is None and not denoiser.method.trained and unused:
        raise InputError(f"--{unused[0]} is for training, but {config.method} is not trained: leave it out.")
    target_dtype = None if dtype == "same" else io.dtype_of(dtype)
    sources = {file.resolve(): file for file in files}
    with made_folder(outputs[0].parent):
        for file, target in zip(files, outputs, strict=True):  # one after the other: there may be thousands
            image = io.open_images(file, axes, fallback=None if model is None else denoiser.axes)[0]
            if model is not None:
                denoiser.check_fits(image)
            io.check_output(target, [sources.get(target.resolve(), file)], image, target_dtype)
        kept = outputs[0].with_name(io.stem(outputs[0]) + ".unfinished.safetensors")
        if instant:
            denoiser.take_pretrained(files, axes, say=tell)
        elif learns:
            run_training(denoiser, files, axes, kept, resume=resume, log=log)
        results = []
        try:
            for file, target, page in zip(files, outputs, reports, strict=True):
                with bar(f"Denoising {file.name}") as on_block:
                    denoiser.denoise(file, axes, output=target, dtype=dtype, tta=tta, on_block=on_block)
                tell(f"{file} -> {target}")
                image = io.open_images(file, axes, fallback=denoiser.axes)[0]
                results.append({"output": str(target)} | judge_output(denoiser, image, target, page, tta))
        except BaseException:
            if learns:
                tell(f"The trained model is kept in {kept}; use it with --model.")
            raise
        if learns:
            kept.unlink(missing_ok=True)
    if as_json:
        print_json({"outputs": [str(path) for path in outputs], "results": results, "training": denoiser.summary})


def train(
    inputs: Inputs,
    model: Annotated[Path, typer.Option("--model", "-m", help="Model file to write (.safetensors).")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="What to predict, for supervised methods: a folder or 'pattern' of files with the same names as IN.",
            rich_help_panel="Training",
        ),
    ] = None,
    axes: Axes = None,
    method: Method = None,
    noise_model: NoiseModel = None,
    preset: Preset = None,
    minutes: Minutes = None,
    steps: Steps = None,
    seed: Seed = None,
    sigma: Sigma = None,
    lambda_inv: LambdaInv = None,
    structure: Structure = None,
    from_scratch: FromScratch = False,
    settings: Settings = None,
    log: Log = None,
    resume: Resume = False,
    devices: Annotated[
        int, typer.Option(min=1, help="Processes that train together, each on a GPU.", rich_help_panel="Training")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Train a model on noisy images, for use with denoise --model."""
    config = configure(
        settings,
        method=method,
        noise_model=noise_model,
        preset=preset,
        minutes=minutes,
        steps=steps,
        seed=seed,
        sigma=sigma,
        lambda_inv=lambda_inv,
        structure=structure,
        from_scratch=from_scratch or None,
    )
    model = model.expanduser()
    if model.suffix != ".safetensors":
        raise InputError(f"{model}: the name of a model ends in .safetensors.")
    io.check_place(model)
    files = io.find(inputs)
    if devices > 1 and not is_worker():
        raise typer.Exit(relaunch(devices))
    first_worker = is_first_worker()
    console.quiet = not first_worker
    from noise2same.denoiser import Denoiser

    denoiser = Denoiser(config)
    if resume and not checkpoint_of(model).exists():
        if not model.exists():
            raise InputError(f"There is nothing to resume: neither {model} nor {checkpoint_of(model)} exists.")
        denoiser = Denoiser.load(model)
        denoiser.config = keep_network(model, denoiser.config, config)
    options = {"target": target, "resume": resume, "log": log}
    run_training(denoiser, files, axes, model, first_worker=first_worker, **options)
    tell(f"Model written to {model}")
    if as_json and first_worker:
        print_json({"model": str(model), "training": denoiser.summary})
