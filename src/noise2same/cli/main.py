"""The command line: results go to stdout, the rest to stderr. Commands import what they need when they run."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NoReturn

import typer

from noise2same import __version__
from noise2same.cli._completion import completing, is_asked
from noise2same.cli._interrupt import interruptible
from noise2same.cli._terminal import console, fail, tell
from noise2same.cli.demo import demo
from noise2same.cli.denoise import denoise
from noise2same.cli.diagnose import diagnose
from noise2same.cli.doctor import doctor
from noise2same.cli.evaluate import evaluate
from noise2same.cli.export import export
from noise2same.cli.info import info
from noise2same.cli.methods import methods
from noise2same.cli.plan import plan
from noise2same.cli.reproduce import reproduce
from noise2same.cli.studio import studio
from noise2same.cli.train import train
from noise2same.errors import InputError
from noise2same.files import FULL

__all__ = ["app", "console", "main"]

app = typer.Typer(
    help="Denoise images from the noisy images alone: no clean data, no pairs, no noise model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ClickException: Any = typer.BadParameter.__mro__[2]  # its module depends on the version of typer


def says_when_interrupted(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command say what it kept when it is interrupted; typer would end it without a word."""

    @wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as error:
            tell(str(error) or "Interrupted.")
            raise typer.Exit(130) from None

    return call


for command in (denoise, train, plan, diagnose, evaluate, info, export, methods, doctor, studio, demo, reproduce):
    app.command()(says_when_interrupted(command))


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


def _lose_stdout(error: OSError) -> NoReturn:
    """End because stdout takes nothing more; files of ours are written by `files.replacing`, which has other errors."""
    if error.errno not in (errno.EPIPE, *FULL):
        raise error
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)  # or Python tries again at its end
    if error.errno == errno.EPIPE:  # such as | head, which has seen enough
        sys.exit(0)
    fail(f"The output cannot be written: {error.strerror}.")


def main() -> None:
    """Run the command line: 0 done, 1 done in part, 2 bad usage or input, 130 interrupted."""
    if not sys.warnoptions:  # what libraries warn each other about is not for users
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module="noise2same")
    warnings.showwarning = lambda message, *_, **__: tell(str(message), "Warning: ", "yellow")
    try:
        with interruptible():
            command = completing(app) if is_asked() else app
            code = command(prog_name="noise2same", standalone_mode=False)
            sys.stdout.flush()
        sys.exit(code)
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
            _lose_stdout(error)
        fail(f"{error.filename}: {error.strerror}.")
    except (MemoryError, RuntimeError) as error:
        from noise2same.device import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        fail("Memory ran out: use smaller images or parts of them, or free memory.")
    except (KeyboardInterrupt, typer.Abort):
        tell("Interrupted.")
        sys.exit(130)


if __name__ == "__main__":
    main()
