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
from noise2same.cli.learn import denoise, train
from noise2same.cli.options import Axes, Inputs, Json, Report
from noise2same.cli.scores import show_comparison, show_invariance
from noise2same.cli.terminal import console, fail, flat, print_json, stdout, tell
from noise2same.cli.verdicts import show_verdicts
from noise2same.errors import InputError

app = typer.Typer(
    help="Denoise images from the noisy images alone: no clean data, no pairs, no noise model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ClickException: Any = typer.BadParameter.__mro__[2]  # its module depends on the version of typer


app.command()(denoise)
app.command()(train)


@app.command()
def evaluate(
    prediction: Annotated[str, typer.Argument(help="Denoised image or folder; the noisy ones with --invariance.")],
    truth: Annotated[str | None, typer.Argument(help="Clean image, or a folder with the same file names.")] = None,
    invariance: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Measure D(f) of this model on noisy images, which takes no truth."),
    ] = None,
    noisy: Annotated[
        str | None, typer.Option(metavar="NOISY", help="Judge the denoised image by the noisy one; no truth needed.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="With --noisy: what denoised it, to estimate its error.")
    ] = None,
    report: Report = None,
    axes: Axes = None,
    data_range: Annotated[float | None, typer.Option("--range", help="Of the truth, for PSNR; 255 for 8 bit.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a denoised image with the clean one: PSNR (plain, affine-fit, min-max) and SSIM.

    Without a clean one, --noisy tells whether to trust it. Or measure how much each pixel a model predicts depends on
    the noisy one in its place: --invariance, D(f) in eq. 5.
    """
    if noisy is not None:
        if invariance is not None or data_range is not None:
            raise InputError("--noisy judges a denoised image: leave out --invariance and --range.")
        truths = None if truth is None else io.find([truth])
        show_verdicts(io.find([prediction]), io.find([noisy]), truths, model, axes, report, as_json)
        return
    if model is not None or report is not None:
        raise InputError("--model and --report need the noisy image too: give it with --noisy.")
    if invariance is not None:
        if truth is not None or data_range is not None:
            raise InputError("--invariance takes noisy images only: leave out the truth and --range.")
        show_invariance(invariance.expanduser(), io.find([prediction]), axes, as_json)
        return
    if truth is None:
        raise InputError(
            "evaluate takes a denoised image and the clean one, or --noisy and the noisy one, "
            "or --invariance MODEL and a noisy image."
        )
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
        if name == "training history":  # fifty points, for programs and reports
            continue
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    stdout().print(table)


@app.command()
def diagnose(
    inputs: Inputs,
    axes: Axes = None,
    picture: Annotated[
        Path | None, typer.Option(help="PNG file to draw: noise variance against intensity, and correlation.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what noise the images have: its kind and strength, and whether neighbouring pixels share it."""
    from noise2same.cli.noise import show_diagnosis

    show_diagnosis(io.find(inputs), axes, None if picture is None else picture.expanduser(), as_json)


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
    from noise2same.cli.demo import run

    results = run(output, minutes, console)
    if as_json:
        print_json(results)


@app.command()
def reproduce(
    what: Annotated[
        str, typer.Argument(help="table1, table2, table3, efficiency, sigma, visual or bound; all for every one.")
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Only this one of table3 and visual: bsd68, hanzi, imagenet, planaria, planaria-like, w2s, fmd."
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="cpu: minutes a cell. paper: the paper's network and steps, for a GPU.")
    ] = "cpu",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data.", envvar="NOISE2SAME_DATA", show_envvar=True)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the results; what is done there is not done again.")
    ] = Path("reproduction"),
    jobs: Annotated[int, typer.Option(min=1, help="Cells to train at once, on a CPU.")] = 1,
    steps: Annotated[int | None, typer.Option(min=1, help="Train each cell so long only, to try it out.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only list the cells, and how long they will take.")] = False,
) -> None:
    """Regenerate a table or figure of the paper: train, test, and write a page with the paper's numbers beside ours."""
    from noise2same.cli.reproduction import RunSpec, show_plan, show_reproduction

    if preset not in ("cpu", "paper"):
        raise InputError(f"--preset {preset}: it is cpu or paper.")
    spec = RunSpec("paper" if preset == "paper" else "cpu", dataset, steps)
    if plan:
        show_plan(what, out.expanduser(), spec, jobs)
    else:
        show_reproduction(what, out.expanduser(), spec, data, jobs)


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
