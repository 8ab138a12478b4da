"""The command line: results go to stdout, the rest to stderr; torch is imported only by commands that need it."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from noise2same import __version__, io
from noise2same.config import Config
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser

app = typer.Typer(
    help="Denoise images from the noisy images alone: no clean data, no pairs, no noise model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(stderr=True, highlight=False, soft_wrap=True)


def setting(name: str, *flags: str) -> Any:
    """Option of the command line for a field of `Config`, with its description."""
    return typer.Option(*flags, help=Config.model_fields[name].description, rich_help_panel="Training")


Inputs = Annotated[list[str], typer.Argument(metavar="IN...", help="Noisy images: files, folders or glob patterns.")]
Axes = Annotated[
    str | None,
    typer.Option(help="Letters of S, T, C, Z, Y, X, one per dimension, where a file does not say; ZYX is a volume."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON, and nothing else, to stdout.")]
Preset = Annotated[str | None, setting("preset", "--preset")]
Minutes = Annotated[float | None, setting("minutes", "--minutes")]
Steps = Annotated[int | None, setting("steps", "--steps")]
Seed = Annotated[int | None, setting("seed", "--seed")]
Sigma = Annotated[float | None, setting("sigma", "--sigma")]
LambdaInv = Annotated[str | None, setting("lambda_inv", "--lambda-inv")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other field of Config.", rich_help_panel="Training"),
]
Log = Annotated[
    Path | None, typer.Option(help="Folder for loss curves: CSV, and TensorBoard's.", rich_help_panel="Training")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where a run was stopped.", rich_help_panel="Training")]


@app.command()
def denoise(
    inputs: Inputs,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, or folder for several inputs.")],
    model: Annotated[
        Path | None, typer.Option(help="Trained model to use; without it, the inputs are trained on.")
    ] = None,
    axes: Axes = None,
    dtype: Annotated[
        str, typer.Option(help="Of the output: same as the input, or uint8, uint16, float32, ...")
    ] = "same",
    augment: Annotated[
        bool, typer.Option("--augment", help="Average 8 rotations and flips: slower, a bit better.")
    ] = False,
    preset: Preset = None,
    minutes: Minutes = None,
    steps: Steps = None,
    seed: Seed = None,
    sigma: Sigma = None,
    lambda_inv: LambdaInv = None,
    settings: Settings = None,
    log: Log = None,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Denoise images; without --model, by training on them first."""
    config = configure(
        settings, preset=preset, minutes=minutes, steps=steps, seed=seed, sigma=sigma, lambda_inv=lambda_inv
    )
    files = io.find(inputs)
    outputs = plan_outputs(inputs, files, output)
    from noise2same.denoiser import Denoiser, open_images

    if model is not None:
        denoiser = Denoiser.load(model)
        images = open_images(files, axes, fallback=denoiser.axes)
    else:
        denoiser = Denoiser(config)
        images = open_images(files, axes)
    for image, target in zip(images, outputs, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        io.check_output(target, files, image, None if dtype == "same" else dtype)
    kept = outputs[0].with_name(outputs[0].name.split(".")[0] + ".safetensors")
    if model is None:
        denoiser = run_training(denoiser, images, kept, resume=resume, log=log)
    try:
        for image, target in zip(images, outputs, strict=True):
            with bar(f"Denoising {image.path.name if image.path else ''}") as advance:
                denoiser.denoise(image, output=target, dtype=dtype, augment=augment, advance=advance)
            console.print(f"{image.path} -> {target}")
    except BaseException:
        if model is None:
            denoiser.save(kept)
            console.print(f"The trained model is kept in {kept}; use it with --model.")
        raise
    if as_json:
        print_json({"outputs": [str(path) for path in outputs], "training": denoiser.summary})


@app.command()
def train(
    inputs: Inputs,
    model: Annotated[Path, typer.Option("--model", "-m", help="Model file to write (.safetensors).")],
    axes: Axes = None,
    preset: Preset = None,
    minutes: Minutes = None,
    steps: Steps = None,
    seed: Seed = None,
    sigma: Sigma = None,
    lambda_inv: LambdaInv = None,
    settings: Settings = None,
    log: Log = None,
    resume: Resume = False,
    devices: Annotated[int, typer.Option(min=1, help="Processors per machine.", rich_help_panel="Training")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.", rich_help_panel="Training")] = 1,
    as_json: Json = False,
) -> None:
    """Train a model on noisy images, for use with denoise --model."""
    config = configure(
        settings, preset=preset, minutes=minutes, steps=steps, seed=seed, sigma=sigma, lambda_inv=lambda_inv
    )
    if model.suffix != ".safetensors":
        raise InputError(f"{model}: a model file ends in .safetensors.")
    if not model.parent.is_dir():
        raise InputError(f"{model} cannot be written: {model.parent} is not a folder; create it first.")
    files = io.find(inputs)
    from noise2same.denoiser import Denoiser, open_images

    denoiser = Denoiser(config)
    if resume and not checkpoint_of(model).exists():
        if not model.exists():
            raise InputError(f"There is nothing to resume: neither {model} nor {checkpoint_of(model)} exists.")
        denoiser = Denoiser.load(model)
        denoiser.config = config
    denoiser = run_training(
        denoiser, open_images(files, axes), model, resume=resume, log=log, devices=devices, nodes=nodes
    )
    if is_main_process():
        denoiser.save(model)
        console.print(f"Model written to {model}")
        if as_json:
            print_json({"model": str(model), "training": denoiser.summary})


@app.command()
def evaluate(
    prediction: Annotated[str, typer.Argument(help="Denoised image, or a folder of them.")],
    truth: Annotated[str, typer.Argument(help="Clean image, or a folder with the same file names.")],
    axes: Axes = None,
    data_range: Annotated[float | None, typer.Option("--range", help="Of the truth, for PSNR; 255 for 8 bit.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a denoised image with the clean one: PSNR (plain, affine-fit, min-max) and SSIM."""
    import numpy as np

    from noise2same import metrics

    pairs = pair_files(io.find([prediction]), io.find([truth]))
    rows: dict[str, dict[str, float]] = {}
    for ours, reference in pairs:
        a, b = io.read(reference, axes), io.read(ours, axes)
        rows[ours.name] = metrics.evaluate(np.asarray(a.data), np.asarray(b.data), data_range=data_range, axes=a.axes)
    mean = {name: float(np.mean([row[name] for row in rows.values()])) for name in next(iter(rows.values()))}
    if as_json:
        print_json({"mean": mean, "images": rows})
        return
    table = Table("image", *mean)
    for name, row in ({**rows, "mean": mean} if len(rows) > 1 else rows).items():
        table.add_row(name, *(f"{value:.2f} dB" if "psnr" in key else f"{value:.4f}" for key, value in row.items()))
    Console().print(table)


@app.command()
def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    as_json: Json = False,
) -> None:
    """Show what a model was trained on and how."""
    from noise2same.denoiser import Denoiser

    denoiser = Denoiser.load(model)
    assert denoiser.network is not None
    facts = {
        "axes": denoiser.axes,
        "channels": denoiser.channels,
        "parameters": sum(parameter.numel() for parameter in denoiser.network.parameters()),
        "mean": list(denoiser.normalization.mean),
        "std": list(denoiser.normalization.std),
        "training": denoiser.summary,
        "config": denoiser.config.model_dump(mode="json"),
    }
    if as_json:
        print_json(facts)
        return
    table = Table(show_header=False, title=str(model))
    for name, value in facts.items():
        for key, item in value.items() if isinstance(value, dict) else [("", value)]:
            table.add_row(f"{name} {key}".strip(), str(item))
    Console().print(table)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")] = Path("demo"),
    minutes: Annotated[float, typer.Option(help="Training time per picture.")] = 1.2,
    as_json: Json = False,
) -> None:
    """Add noise to three pictures, denoise them and show before and after."""
    from noise2same.apps.demo import run

    results = run(output, minutes, console)
    if as_json:
        print_json(results)


def configure(settings: Sequence[str] | None, **options: Any) -> Config:
    """Config from the options of a command and its --set NAME=VALUE."""
    for item in settings or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--set {item}: write it as NAME=VALUE.")
        if name.replace("-", "_") not in Config.model_fields:
            raise InputError(f"--set {name}: there is no such setting; there are {', '.join(Config.model_fields)}.")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.replace("-", "_")] = value
    return Config.of(**options)


def plan_outputs(inputs: Sequence[str], files: Sequence[Path], output: Path) -> list[Path]:
    """Where each result goes: OUT itself for one file; a folder OUT of the same names for a folder or several."""
    several = len(files) > 1 or len(inputs) > 1 or io.find(inputs[:1]) != [Path(inputs[0]).expanduser()]
    if not several and not output.is_dir() and not str(output).endswith(os.sep):
        return [output]
    if io.supported(output) and not output.is_dir():
        raise InputError(f"{output} is one file but there are several inputs: give a folder.")
    outputs = [output / io.output_name(file) for file in files]
    twice = {path for path in outputs if outputs.count(path) > 1}
    if twice:
        raise InputError(f"Two inputs would both be written to {min(twice)}: rename one.")
    return outputs


def pair_files(predictions: list[Path], truths: list[Path]) -> list[tuple[Path, Path]]:
    """One file and one file, or files of the same name without suffix."""
    if len(predictions) == len(truths) == 1:
        return [(predictions[0], truths[0])]
    by_name = {path.name.split(".")[0]: path for path in truths}
    missing = [path.name for path in predictions if path.name.split(".")[0] not in by_name]
    if missing:
        raise InputError(f"There is no truth of the same name for {', '.join(missing)}.")
    return [(path, by_name[path.name.split(".")[0]]) for path in predictions]


def run_training(denoiser: Denoiser, images: Any, model: Path, **options: Any) -> Denoiser:
    """Train with a checkpoint beside the model. Interrupted, save what was learned, say how to go on, exit with 130."""
    checkpoint = checkpoint_of(model)
    if options["resume"] and not checkpoint.exists() and denoiser.network is None:
        raise InputError(f"There is nothing to resume: {checkpoint} does not exist.")
    denoiser.fit(images, checkpoint=checkpoint, say=console.print, **options)
    if denoiser.summary["interrupted"]:
        if is_main_process():
            denoiser.save(model)
            console.print(
                f"Interrupted at step {denoiser.summary['steps']}. What was learned is in {model}; "
                "the same command with --resume goes on from here."
            )
        raise typer.Exit(130)
    return denoiser


def checkpoint_of(model: Path) -> Path:
    """Where the state of an unfinished training of `model` is kept."""
    return model.with_suffix(".ckpt")


def is_main_process() -> bool:
    """Whether this is the first worker, or the only one, of a training run."""
    return os.environ.get("LOCAL_RANK", "0") == "0" and os.environ.get("NODE_RANK", "0") == "0"


@contextmanager
def bar(title: str) -> Iterator[Any]:
    """Progress bar on stderr; yields what to call with each further share of the work."""
    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.advance(task, share)


def print_json(value: Any) -> None:
    """Write JSON to stdout."""
    typer.echo(json.dumps(value, indent=2))


def show_version(value: bool) -> None:
    """Print the version and exit."""
    if value:
        typer.echo(f"noise2same {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Denoise images from the noisy images alone: no clean data, no pairs, no noise model."""


def main() -> None:
    """Run the command line: 0 done, 2 bad usage or input, 130 interrupted."""
    warnings.showwarning = lambda message, *_, **__: console.print(f"[yellow]Warning:[/] {message}")
    try:
        app()
    except InputError as error:
        console.print(f"[red]Error:[/] {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("Interrupted.")
        sys.exit(130)


if __name__ == "__main__":
    main()
