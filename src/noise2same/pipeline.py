"""From noisy images to denoised ones: check, plan, train, predict, assess. For one image or thousands.

Every door calls this: the command line and `noise2same.denoise`. It prints nothing; a `Listener` shows what it likes.
Each image is opened once. It is decoded once too, unless all images together are too large for memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from noise2same import io, markup, methods
from noise2same.config import Config
from noise2same.denoiser import Denoised, Denoiser, Device
from noise2same.errors import Diverged, InputError
from noise2same.plan import Plan

if TYPE_CHECKING:
    from noise2same.noise.diagnose import Diagnosis
    from noise2same.quality.assess import Assessment
    from noise2same.training.state import OnStep

FIXED = ("method", "channels", "block", "features", "levels", "noise_model")
"""Settings of a trained network that cannot change, since its weights would not fit."""


@dataclass(frozen=True)
class Item:
    """One image of a job."""

    image: io.Image
    output: Path | None = None
    """File for the result; None for an array."""
    report: Path | None = None
    """File for a report on it."""


@dataclass(frozen=True)
class Job:
    """Images to denoise, opened, and what their results are to be. `check` makes it."""

    items: tuple[Item, ...]
    dtype: str = "same"
    """Of the results: "same" as their images, or the name of another."""
    tta: bool | None = None
    """Whether to use test-time augmentation; None for small images only."""
    strength: float = 1.0
    """From 0, the input, to 1, the denoised image."""
    verdict: bool = True
    """Whether to assess each result."""

    @property
    def images(self) -> list[io.Image]:
        """All images."""
        return [item.image for item in self.items]


@dataclass(frozen=True)
class Result:
    """What came out for one image of a job."""

    item: Item
    denoised: NDArray[Any] | Path | None = None
    """The result, or the file that holds it; None if it failed."""
    assessment: Assessment | None = None
    error: str = ""
    """Why it failed."""

    def _repr_html_(self) -> str:
        if self.assessment is not None:
            return self.assessment._repr_html_()
        return markup.paragraph(f"{self.item.image.name}: {self.error or self.item.output or 'denoised'}")

    def figures(self) -> dict[str, Any]:
        """Names of the files, and the verdict with its figures, as JSON holds them."""
        names: dict[str, Any] = {"input": self.item.image.name}
        if self.error:
            return names | {"error": self.error}
        names["output"] = None if self.item.output is None else str(self.item.output)
        return names | ({} if self.assessment is None else self.assessment.figures())


@dataclass(frozen=True)
class Listener:
    """What is told of a run while it goes on."""

    say: Callable[[str], None] = lambda line: None
    """Given a line for people: the plan, and where things are kept."""
    on_step: OnStep | None = None
    """Given the `TrainingState` after each step; True or "stop" ends training and keeps what was learned."""
    on_block: Callable[[io.Image, int, int], bool | None] = lambda image, done, total: None
    """Given the image and how many of its blocks are done, of how many; True raises `errors.Cancelled`."""
    on_result: Callable[[Result], None] = lambda result: None
    """Given the result of each image as soon as it is there."""


SILENT = Listener()


def check(
    images: io.Input | Sequence[io.Input],
    outputs: Sequence[str | os.PathLike[str] | None],
    reports: Sequence[Path | None] | None = None,
    *,
    axes: str | None = None,
    dtype: str = "same",
    tta: bool | None = None,
    strength: float = 1.0,
    verdict: bool = True,
    denoiser: Denoiser | None = None,
) -> Job:
    """Open all images, and see whether they can be denoised and written, before any work starts.

    Parameters
    ----------
    images : path, array, Image or sequence of them
        What to denoise. Only metadata is read here.
    outputs : sequence of path
        File for each result, None for an array.
    reports : sequence of path, optional
        File for a report on each result.
    axes : str, optional
        Axes of the images where they do not say themselves.
    dtype : str
        "same" as the input, or the name of another, such as "float32".
    tta : bool, optional
        Test-time augmentation; by default for small images.
    strength : float
        From 0, the input, to 1, the denoised image.
    verdict : bool
        Assess each result, which reports need.
    denoiser : Denoiser, optional
        If it has a network already, whether the images fit that is checked too.

    Returns
    -------
    Job
        For `run`.
    """
    trained = denoiser if denoiser is not None and denoiser.network is not None else None
    opened = io.open_images(images, axes, fallback=None if trained is None else trained.axes)
    targets = [None if output is None else Path(output).expanduser() for output in outputs]
    wanted = None if dtype == "same" else io.dtype_of(dtype)
    sources = {image.path.resolve(): image.path for image in opened if image.path is not None}
    for image, target in zip(opened, targets, strict=True):
        if trained is not None:
            trained.check_fits(image)
        if target is not None:
            source = sources.get(target.resolve(), image.path)
            io.check_output(target, [] if source is None else [source], image, wanted)
    pages = [None] * len(opened) if reports is None else reports
    return Job(tuple(map(Item, opened, targets, pages)), dtype, tta, strength, verdict)


def run(
    job: Job,
    denoiser: Denoiser,
    *,
    plan: Plan | None = None,
    keep: Path | None = None,
    resume: bool = False,
    log: Path | None = None,
    device: Device = None,
    progress: bool = False,
    listener: Listener = SILENT,
) -> list[Result]:
    """Train on the images of a job if the denoiser is not trained yet, then denoise and assess each of them.

    Parameters
    ----------
    job : Job
        What `check` returned.
    denoiser : Denoiser
        A trained one is used as it is. Otherwise it is trained first or, with minutes=0, takes the pretrained network.
    keep : path, optional
        Model file in which a trained network is kept until all results are written.
    plan, resume, log, device, progress, listener
        As for `train`; `device` is where to denoise as well.

    Returns
    -------
    list of Result
        One for each image. Of several images, one that cannot be denoised is a result with an `error`.
    """
    learns = denoiser.network is None and denoiser.method.trained
    diagnosis = None
    if learns and denoiser.config.minutes == 0:
        denoiser.use_pretrained(job.images, say=listener.say)
        learns = False
    elif learns:
        options: dict[str, Any] = {"plan": plan, "resume": resume, "log": log, "device": device, "progress": progress}
        train(denoiser, job.images, model=keep, listener=listener, **options)
        if len(job.items) == 1:
            diagnosis = denoiser.diagnosis
    results = []
    try:
        for item in job.items:
            results.append(_denoise(item, job, denoiser, device, diagnosis, listener))
            listener.on_result(results[-1])
    except BaseException:
        if learns and keep is not None:
            listener.say(f"The trained model is kept in {keep}; use it with --model.")
        raise
    if learns and keep is not None and any(not result.error for result in results):
        keep.unlink(missing_ok=True)
    return results


def _denoise(
    item: Item, job: Job, denoiser: Denoiser, device: Device, diagnosis: Diagnosis | None, listener: Listener
) -> Result:
    """Denoise and assess one image, and free its memory."""
    image, on_block = item.image, partial(listener.on_block, item.image)
    assessment = None
    try:
        options: dict[str, Any] = {"dtype": job.dtype, "tta": job.tta, "strength": job.strength, "device": device}
        done = denoiser.denoise_in_detail(image, output=item.output, on_block=on_block, diagnosis=diagnosis, **options)
        if job.verdict:
            assessment = assess(image, done, job.tta)
            if item.report is not None:
                report(item.report, assessment, denoiser)
    except InputError as error:
        if len(job.items) == 1:
            raise
        return Result(item, error=str(error))
    finally:
        image.forget()
    return Result(item, done.result, assessment)


def assess(noisy: io.Image, done: Denoised, tta: bool | None = None) -> Assessment:
    """Judge a result by the denoiser that made it; `tta` is as it was made with."""
    from noise2same.quality import assess as quality

    tuned = done.tuned
    clean = io.read(done.result, noisy.axes) if isinstance(done.result, Path) else done.result
    used = tuned.denoiser.uses_tta(noisy) if tta is None else tta
    return quality.assess(noisy, clean, tuned, diagnosis=tuned.diagnosis, tta=used, input_share=done.input_share)


def report(path: Path, assessment: Assessment, denoiser: Denoiser | None, truth: io.Image | None = None) -> Path:
    """Write the report on a result, and the folder that it goes to."""
    from noise2same.quality.report import write_report

    path.parent.mkdir(parents=True, exist_ok=True)
    settings = None if denoiser is None else denoiser.report_settings()
    training = None if denoiser is None else denoiser.summary
    return write_report(path, assessment, settings=settings, training=training, truth=truth)


def train(
    denoiser: Denoiser,
    images: list[io.Image],
    axes: str | None = None,
    *,
    model: Path | None = None,
    target: io.Input | Sequence[io.Input] | None = None,
    plan: Plan | None = None,
    resume: bool = False,
    log: Path | None = None,
    device: Device = None,
    progress: bool = False,
    listener: Listener = SILENT,
) -> None:
    """Train a denoiser and save it, with a checkpoint beside it until it is safe.

    Ctrl-C and SIGTERM save what was learned and raise KeyboardInterrupt. A training that diverges saves its last good
    weights and raises `Diverged`. Under torchrun, the first worker writes.

    Parameters
    ----------
    denoiser : Denoiser
        An untrained one, or one to train further (`load_to_resume`).
    images : list of Image
        The opened images.
    model : path, optional
        Model file to write; without one, nothing is saved.
    resume : bool
        Go on from the checkpoint, or from the denoiser's own weights.
    axes, target, plan, log, device, progress
        As for `Denoiser.fit`.
    listener : Listener
        What is told of it.
    """
    from noise2same.training.launch import is_first_worker, wait_for_everyone

    checkpoint = None if model is None else checkpoint_of(model)
    if checkpoint is not None and checkpoint.exists() and not resume:
        listener.say(f"Starting anew; with --resume, the stopped run in {checkpoint} would go on.")
    if resume and denoiser.network is None and (checkpoint is None or not checkpoint.exists()):
        raise InputError(f"There is nothing to resume: {checkpoint} does not exist; start without --resume.")
    options: dict[str, Any] = {"plan": plan, "resume": resume, "log": log, "device": device, "progress": progress}
    writes = model is not None and is_first_worker()
    try:
        denoiser.fit(
            images, axes, target=target, checkpoint=checkpoint, say=listener.say, on_step=listener.on_step, **options
        )
    except Diverged as error:
        kept = _keep_good(denoiser, model, checkpoint) if model and checkpoint and writes else ""
        wait_for_everyone()
        raise Diverged(f"{error}{kept}") from None
    if model is not None and writes:
        denoiser.save(model)
    wait_for_everyone()
    if denoiser.summary["interrupted"]:
        where = f" What was learned is in {model}; the same command with --resume goes on from here." if model else ""
        raise KeyboardInterrupt(f"Training was interrupted at step {denoiser.summary['steps']}.{where}")
    if checkpoint is not None and writes:
        checkpoint.unlink(missing_ok=True)


def _keep_good(denoiser: Denoiser, model: Path, checkpoint: Path) -> str:
    """Save what a run had learned before it diverged, and return the sentences that say where it is."""
    said = ""
    if denoiser.summary["steps"] > 0:
        said = f" What was learned before is in {denoiser.save(model)}."
    if checkpoint.exists():
        said += f" With --resume as well, training goes on from {checkpoint}."
    return said


def checkpoint_of(model: Path) -> Path:
    """Where the state of an unfinished training of `model` is kept; just .ckpt could be a file of the user's."""
    return model.with_name(model.stem.removesuffix(".unfinished") + ".unfinished.ckpt")


def load_to_resume(model: Path, given: Mapping[str, Any]) -> Denoiser:
    """Load a finished model to train it further: it keeps all of its settings but those that are given.

    Raises InputError if one is given that its network cannot change.
    """
    denoiser = Denoiser.load(model)
    trained, wanted = denoiser.config, Config.of(**given)
    if denoiser.plan is not None:
        trained = trained.model_copy(update={"channels": denoiser.plan.channels.value})
    changed = {name: getattr(wanted, name) for name in wanted.model_fields_set if name != "method_settings"}
    for name, value in (changed | wanted.method_settings).items():
        before = trained.method_settings.get(name, "auto") if name == "noise_model" else getattr(trained, name, None)
        if name in FIXED and value != before:
            raise InputError(f"{model} was made with {name}={before}, which cannot change in a resume.")
    if "steps" in changed or "minutes" in changed:  # a budget replaces that of the other kind
        changed = {"steps": None, "minutes": None} | changed
    changed["method_settings"] = trained.method_settings | wanted.method_settings
    denoiser.config = Config.of(**(trained.model_dump() | changed))
    methods.candidates(denoiser.config)  # which says what does not go together
    return denoiser
