"""`noise2same train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noise2same.cli._options import (
    TRAINING,
    AboutOptions,
    Axes,
    Inputs,
    Json,
    RunOptions,
    Target,
    TrainingOptions,
    expand_options,
)
from noise2same.cli._terminal import console, print_json, tell
from noise2same.errors import InputError


@expand_options
def train(
    inputs: Inputs,
    model: Annotated[Path, typer.Option("--model", "-m", help="Model file to write (.safetensors).")],
    target: Target = None,
    axes: Axes = None,
    *,
    training: TrainingOptions,
    run: RunOptions,
    devices: Annotated[
        int,
        typer.Option(
            min=1,
            help="Processes that train one model together, each on a GPU or its share of the CPU.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    nodes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Machines that train one model together: run the same command on each, with MASTER_ADDR or by srun.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    about: AboutOptions,
    as_json: Json = False,
) -> None:
    """Train a model on noisy images, for use with denoise --model."""
    from noise2same import io

    plan, model = training.read_plan(run.plan), model.expanduser()
    config = training.config(plan)
    if model.suffix != ".safetensors":
        raise InputError(f"{model}: the name of a model ends in .safetensors.")
    io.check_place(model)
    files = io.find(inputs)
    from noise2same import pipeline
    from noise2same.denoiser import Denoiser
    from noise2same.training import launch

    if devices * nodes > 1 and not launch.is_worker():
        launch.check_devices(run.device, devices)
        raise typer.Exit(launch.relaunch(devices, nodes))
    console.quiet = not launch.is_first_worker()
    denoiser = Denoiser(config)
    if run.resume and not pipeline.checkpoint_of(model).exists():
        if not model.exists():
            raise InputError(f"There is nothing to resume: neither {model} nor {pipeline.checkpoint_of(model)} exists.")
        if plan is not None:
            raise InputError(f"{model} is finished, and a plan starts a new run: leave out --plan or --resume.")
        denoiser = pipeline.load_to_resume(model, training.given())
    denoiser.about = denoiser.about.with_given(**about.given())
    listener = pipeline.Listener(say=tell)
    fallback = None if denoiser.network is None else denoiser.axes
    if target is None:
        images = pipeline.open_to_train(denoiser, files, axes, listener, fallback=fallback)
    else:
        images = io.open_images(list(files), axes, fallback=fallback)
    pipeline.train(
        denoiser,
        images,
        axes,
        model=model,
        target=target,
        plan=plan,
        resume=run.resume,
        log=run.log,
        device=run.device,
        progress=launch.is_first_worker(),
        strict=False,
        listener=listener,
    )
    tell(f"Model written to {model}")
    if as_json and launch.is_first_worker():
        print_json({"model": str(model), "training": denoiser.summary})
