"""A training run as the command line starts it: it can be stopped, and goes on with --resume."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from noise2same.cli.terminal import tell
from noise2same.config import Config
from noise2same.errors import Diverged, InputError
from noise2same.training.launch import wait_for_everyone

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser


def run_training(
    denoiser: Denoiser, files: list[Path], axes: str | None, model: Path, *, first_worker: bool = True, **options: Any
) -> None:
    """Train with a checkpoint beside `model`, and save it. Interrupted, say how to go on and exit with 130.

    Of a training that diverges, the last good weights are saved. Of several workers, the first one writes.
    """
    checkpoint = checkpoint_of(model)
    if not options["resume"] and checkpoint.exists():
        tell(f"Starting anew; with --resume, the stopped run in {checkpoint} would go on.")
    if options["resume"] and not checkpoint.exists() and denoiser.network is None:
        raise InputError(f"There is nothing to resume: {checkpoint} does not exist; start without --resume.")
    try:
        denoiser.fit(files, axes, checkpoint=checkpoint, say=tell, **options)
    except Diverged as error:
        kept = keep_good(denoiser, model, checkpoint) if first_worker else ""
        wait_for_everyone()
        raise InputError(f"{error}{kept}") from None
    if first_worker:
        denoiser.save(model)
    wait_for_everyone()
    if denoiser.summary["interrupted"]:
        tell(
            f"Interrupted at step {denoiser.summary['steps']}. What was learned is in {model}; "
            "the same command with --resume goes on from here."
        )
        raise typer.Exit(130)
    if first_worker:
        checkpoint.unlink(missing_ok=True)


def keep_good(denoiser: Denoiser, model: Path, checkpoint: Path) -> str:
    """Save what a run had learned before it diverged, and return the sentence that says where it is."""
    said = ""
    if denoiser.summary["steps"] > 0:
        said = f" What was learned before is in {denoiser.save(model)}."
    if checkpoint.exists():
        said += f" With --resume as well, training goes on from {checkpoint}."
    return said


def keep_network(model: Path, trained: Config, wanted: Config) -> Config:
    """Settings for training a model further: those it was trained with, but for what is wanted and can change."""
    fields = ["method", "block", "features", "levels", "noise_model"]
    for name in fields:
        if name in wanted.model_fields_set and getattr(wanted, name) != getattr(trained, name):
            raise InputError(f"{model} was made with {name}={getattr(trained, name)}, which cannot change in a resume.")
    changed = {name: getattr(wanted, name) for name in wanted.model_fields_set if name not in fields}
    if "steps" in changed or "minutes" in changed:  # a budget replaces that of the other kind
        changed = {"steps": None, "minutes": None} | changed
    return trained.model_copy(update=changed)


def checkpoint_of(model: Path) -> Path:
    """Where the state of an unfinished training of `model` is kept; just .ckpt could be a file of the user's."""
    return model.with_name(model.stem.removesuffix(".unfinished") + ".unfinished.ckpt")
