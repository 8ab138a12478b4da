"""The command line: results go to stdout, the rest to stderr; torch is imported only by commands that need it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from noise2same import __version__, io
from noise2same.apps.files import made_folder, plan_outputs
from noise2same.apps.options import (
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
    Resume,
    Seed,
    Settings,
    Sigma,
    Steps,
    configure,
)
from noise2same.apps.run import checkpoint_of, is_first_worker, keep_network, run_training
from noise2same.apps.scores import show_comparison, show_invariance
from noise2same.apps.terminal import bar, console, fail, flat, print_json, stdout, tell
from noise2same.errors import InputError

app = typer.Typer(
    help="Denoise images from the noisy images alone: no clean data, no pairs, no noise model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ClickException: Any = typer.BadParameter.__mro__[2]  # its module depends on the version of typer


@app.command()
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
    augment: Annotated[
        bool | None,
        typer.Option(help="Average 8 rotations and flips: slower, a bit better.", show_default="for small images"),
    ] = None,
    method: Method = None,
    noise_model: NoiseModel = None,
    preset: Preset = None,
    minutes: Minutes = None,
    steps: Steps = None,
    seed: Seed = None,
    sigma: Sigma = None,
    lambda_inv: LambdaInv = None,
    from_scratch: FromScratch = False,
    settings: Settings = None,
    log: Log = None,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Denoise images; without --model, by training on them first."""
    training: dict[str, Any] = {
        "method": method,
        "noise_model": noise_model,
        "preset": preset,
        "minutes": minutes,
        "steps": steps,
        "seed": seed,
        "sigma": sigma,
        "lambda_inv": lambda_inv,
        "from_scratch": from_scratch or None,
    }
    config = configure(settings, **training)
    training |= {"set": settings or None, "log": log, "resume": resume or None}
    given = [name.replace("_", "-") for name, value in training.items() if value is not None]
    if model is not None and given:
        raise InputError(f"--{given[0]} is for training, but --model is trained already: leave one of them out.")
    files = io.find(inputs)
    outputs = plan_outputs(inputs, files, output.expanduser())
    from noise2same.denoiser import Denoiser

    denoiser = Denoiser(config) if model is None else Denoiser.load(model.expanduser())
    learns = model is None and denoiser.method.trained
    unused = [name for name in given if name not in ("method", "sigma")]
    if model is None and not learns and unused:
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
        if learns:
            run_training(denoiser, files, axes, kept, resume=resume, log=log)
        try:
            for file, target in zip(files, outputs, strict=True):
                with bar(f"Denoising {file.name}") as advance:
                    denoiser.denoise(file, axes, output=target, dtype=dtype, augment=augment, advance=advance)
                tell(f"{file} -> {target}")
        except BaseException:
            if learns:
                tell(f"The trained model is kept in {kept}; use it with --model.")
            raise
        if learns:
            kept.unlink(missing_ok=True)
    if as_json:
        print_json({"outputs": [str(path) for path in outputs], "training": denoiser.summary})


@app.command()
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
    from_scratch: FromScratch = False,
    settings: Settings = None,
    log: Log = None,
    resume: Resume = False,
    devices: Annotated[int, typer.Option(min=1, help="Processors per machine.", rich_help_panel="Training")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.", rich_help_panel="Training")] = 1,
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
        from_scratch=from_scratch or None,
    )
    model = model.expanduser()
    if model.suffix != ".safetensors":
        raise InputError(f"{model}: the name of a model ends in .safetensors.")
    io.check_place(model)
    files = io.find(inputs)
    first_worker = devices * nodes == 1 or is_first_worker()
    console.quiet = not first_worker
    from noise2same.denoiser import Denoiser

    denoiser = Denoiser(config)
    if resume and not checkpoint_of(model).exists():
        if not model.exists():
            raise InputError(f"There is nothing to resume: neither {model} nor {checkpoint_of(model)} exists.")
        denoiser = Denoiser.load(model)
        denoiser.config = keep_network(model, denoiser.config, config)
    run_training(denoiser, files, axes, model, target=target, resume=resume, log=log, devices=devices, nodes=nodes)
    tell(f"Model written to {model}")
    if as_json and first_worker:
        print_json({"model": str(model), "training": denoiser.summary})


@app.command()
def evaluate(
    prediction: Annotated[str, typer.Argument(help="Denoised image or folder; the noisy ones with --invariance.")],
    truth: Annotated[str | None, typer.Argument(help="Clean image, or a folder with the same file names.")] = None,
    invariance: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Measure D(f) of this model on noisy images, which takes no truth."),
    ] = None,
    axes: Axes = None,
    data_range: Annotated[float | None, typer.Option("--range", help="Of the truth, for PSNR; 255 for 8 bit.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a denoised image with the clean one: PSNR (plain, affine-fit, min-max) and SSIM.

    Or measure how much each pixel a model predicts depends on the noisy one in its place: --invariance, D(f) in eq. 5.
    """
    if invariance is not None:
        if truth is not None or data_range is not None:
            raise InputError("--invariance takes noisy images only: leave out the truth and --range.")
        show_invariance(invariance.expanduser(), io.find([prediction]), axes, as_json)
        return
    if truth is None:
        raise InputError("evaluate takes a denoised image and the clean one, or --invariance MODEL and a noisy image.")
    show_comparison(io.find([prediction]), io.find([truth]), axes, data_range, as_json)


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
    table = Table(show_header=False, title=Text(str(model)))
    for name, value in flat(facts).items():
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    stdout().print(table)


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods: what each needs and when to use it."""
    from noise2same.methods import every

    rows = {name: {"needs": method.needs, "when": method.when} for name, method in every().items()}
    if as_json:
        print_json(rows)
        return
    table = Table("method", "needs", Column("when", overflow="fold"))
    for name, row in rows.items():
        table.add_row(name, row["needs"], row["when"])
    stdout().print(table)


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
    if not sys.warnoptions:  # what libraries warn each other about is not for users
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module="noise2same")
    warnings.showwarning = lambda message, *_, **__: tell(str(message), "Warning: ", "yellow")
    try:
        sys.exit(app(prog_name="noise2same", standalone_mode=False))
    except InputError as error:
        fail(str(error))
    except ClickException as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # the help has been shown then
            context = getattr(error, "ctx", None)
            hint = f" See {context.command_path} --help." if context else ""
            fail(f"{' '.join(error.format_message().split()).removesuffix('.')}.{hint}")
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}.")
    except (KeyboardInterrupt, typer.Abort):
        tell("Interrupted.")
        sys.exit(130)


if __name__ == "__main__":
    main()
