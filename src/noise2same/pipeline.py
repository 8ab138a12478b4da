"""From noisy images to denoised ones: check, plan, train, predict, assess. For one image or thousands.

Every door calls this: the command line and `noise2same.denoise`. It prints nothing; a `Listener` shows what it likes.
Of several files, each is opened when its turn comes, and one that is bad does not keep the others from being done.
Those that were trained on are not decoded again, unless all of them together are too large for memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from noise2same import io, markup, methods
from noise2same.config import Config
from noise2same.denoiser import Denoiser
from noise2same.device import Device, is_out_of_memory
from noise2same.errors import Diverged, InputError, NoSpace
from noise2same.files import PREFIX, claim
from noise2same.journal import Journal, source_of
from noise2same.plan import TRAINING_FILES, Plan

if TYPE_CHECKING:
    from noise2same.noise.diagnose import Diagnosis
    from noise2same.one_image import Denoised
    from noise2same.quality.assess import Assessment
    from noise2same.quality.checks import Verdict, Word
    from noise2same.training.state import OnStep

FIXED = ("method", "channels", "block", "features", "levels", "noise_model")
"""Settings of a trained network that cannot change, since its weights would not fit."""


@dataclass(frozen=True, eq=False)
class Item:
    """One image of a job."""

    source: io.Image | Path
    """An opened image, or a file that is opened when its turn comes."""
    output: Path | None = None
    """File for the result; None for an array."""
    report: Path | None = None
    """File for a report on it."""
    whole: Path | None = None
    """File of several images that the result becomes a part of, when all of them are done."""

    @property
    def goes_to(self) -> Path | None:
        """The file in which the result is found in the end."""
        return self.output if self.whole is None else self.whole

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return str(self.source) if isinstance(self.source, Path) else self.source.name

    @property
    def path(self) -> Path | None:
        """Its file, if it has one."""
        return self.source if isinstance(self.source, Path) else self.source.path

    def sent(self) -> Item:
        """The same for another process, which may be in another folder."""
        if self.path is None or self.output is None:
            raise InputError("Workers open and write images themselves: give names of files, not arrays.")
        return Item(self.path.absolute(), self.output.absolute(), self.report and self.report.absolute())


@dataclass(frozen=True)
class Job:
    """Images to denoise, and what their results are to be. `check` makes it."""

    items: tuple[Item, ...]
    axes: str | None = None
    """Of images that are not opened yet, where they do not say themselves."""
    dtype: str = "same"
    """Of the results: "same" as their images, or the name of another."""
    tta: bool | None = None
    """Whether to use test-time augmentation; None for small images only."""
    strength: float = 1.0
    """From 0, the input, to 1, the denoised image."""
    verdict: bool = True
    """Whether to assess each result."""
    strict: bool = False
    """Whether the first image that cannot be denoised ends the job."""
    workers: int | None = None
    """Processes on this machine that share the work: one image, or an image each of several."""
    scheduler: str | None = None
    """Dask scheduler whose workers do."""

    @property
    def goes_on(self) -> bool:
        """Whether an image that cannot be denoised is left out, and the others are done."""
        return len(self.items) > 1 and not self.strict

    def open(self, item: Item, denoiser: Denoiser) -> io.Image:
        """Open an image, and see whether it can be denoised and its result written."""
        trained = denoiser if denoiser.network is not None else None
        fallback = None if trained is None else trained.axes
        image = item.source
        if isinstance(image, Path):
            image = io.read(image, self.axes, fallback=fallback)
        if trained is not None:
            trained.check_fits(image)
        if item.output is not None:
            wanted = None if self.dtype == "same" else io.dtype_of(self.dtype)
            io.check_output(item.output, [] if image.path is None else [image.path], image, wanted)
        return image

    def identity(self, denoiser: Denoiser) -> str:
        """What stands for the model and the settings of the results."""
        settings = {name: getattr(self, name) for name in ("axes", "dtype", "tta", "strength")}
        told = json.dumps(settings | {"model": denoiser.digest()}, sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Result:
    """What came out for one image of a job."""

    item: Item
    denoised: NDArray[Any] | Path | None = None
    """The result, or the file that holds it; None if it failed."""
    assessment: Assessment | None = None
    """Of one image alone; it holds pixels, and those of thousands would not fit into memory."""
    verdict: Verdict | None = None
    """On it, if it was made now."""
    word: Word | None = None
    """Of the verdict, also of one that was made before."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The verdict and what it rests on, as JSON holds them."""
    error: str = ""
    """Why it failed."""
    skipped: bool = False
    """Whether it was there already, made by the same job."""
    source: str = ""
    """What `journal.source_of` said of its file before it was opened."""
    seconds: float = 0.0
    """That it took."""
    warnings: tuple[str, ...] = ()
    """What another process warned of."""

    def _repr_html_(self) -> str:
        if self.assessment is not None:
            return self.assessment._repr_html_()
        return markup.paragraph(f"{self.item.name}: {self.error or self.item.goes_to or 'denoised'}")

    def figures(self) -> dict[str, Any]:
        """Names of the files, and the verdict with its figures, as JSON holds them."""
        names: dict[str, Any] = {"input": self.item.name}
        if self.error:
            return names | {"error": self.error}
        names["output"] = None if self.item.goes_to is None else str(self.item.goes_to)
        names |= {"skipped": True} if self.skipped else {"seconds": round(self.seconds, 3)}
        return names | self.facts


@dataclass(frozen=True)
class Listener:
    """What is told of a run while it goes on."""

    say: Callable[[str], None] = lambda line: None
    """Given a line for people: the plan, and where things are kept."""
    on_step: OnStep | None = None
    """Given the `TrainingState` after each step; True or "stop" ends training and keeps what was learned."""
    on_image: Callable[[io.Image], None] = lambda image: None
    """Given each image that is opened to be denoised by this process."""
    on_block: Callable[[io.Image, int, int], bool | None] = lambda image, done, total: None
    """Given the image and how many of its blocks are done, of how many; True raises `errors.Cancelled`."""
    on_result: Callable[[Result], None] = lambda result: None
    """Given the result of each image as soon as it is there."""


SILENT = Listener()


def check(
    images: io.Input | Sequence[io.Input],
    outputs: Sequence[str | os.PathLike[str] | None],
    reports: Sequence[Path | None] | None = None,
    wholes: Sequence[Path | None] | None = None,
    *,
    axes: str | None = None,
    dtype: str = "same",
    tta: bool | None = None,
    strength: float = 1.0,
    verdict: bool = True,
    strict: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    denoiser: Denoiser | None = None,
) -> Job:
    """See whether images can be denoised and results written, before any work starts.

    One file is opened. Of several, names and folders are looked at only: there may be thousands, and one that is bad
    must not keep the others from being done.

    Parameters
    ----------
    images : path, array, Image or sequence of them
        What to denoise. Only metadata is read here.
    outputs : sequence of path
        File for each result, None for an array.
    reports : sequence of path, optional
        File for a report on each result.
    wholes : sequence of path, optional
        File that each result becomes a part of, as `io.series.places` says.
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
    strict : bool
        End with the first image that cannot be denoised; otherwise it is named, and the others are done.
    workers, scheduler : optional
        As for `Denoiser.denoise`.
    denoiser : Denoiser, optional
        If it has a network already, whether an opened image fits that is checked too.

    Returns
    -------
    Job
        For `run`.
    """
    fallback = None if denoiser is None or denoiser.network is None else denoiser.axes
    sources = io.list_images(images, axes, fallback=fallback)
    if len(sources) == 1 and isinstance(sources[0], Path):
        sources = [io.read(sources[0], axes, fallback=fallback)]
    targets = [None if output is None else Path(output).expanduser() for output in outputs]
    wanted = None if dtype == "same" else io.dtype_of(dtype)
    pages = [None] * len(sources) if reports is None else reports
    joined = [None] * len(sources) if wholes is None else wholes
    items = tuple(Item(*one) for one in zip(sources, targets, pages, joined, strict=True))
    job = Job(items, axes, dtype, tta, strength, verdict, strict, workers, scheduler)
    known = {item.path.resolve(): item.path for item in job.items if item.path is not None}
    for item in job.items:
        if item.goes_to is not None:
            source = known.get(item.goes_to.resolve(), item.path)
            io.check_output(item.goes_to, [] if source is None else [source], None, wanted)
        if isinstance(item.source, io.Image):
            job.open(item, Denoiser() if denoiser is None else denoiser)
    return job


def run(
    job: Job,
    denoiser: Denoiser,
    *,
    plan: Plan | None = None,
    keep: Path | None = None,
    journal: Path | None = None,
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
    journal : path, optional
        Folder of the results, where what is done is noted (`journal.Journal`).
    resume : bool
        Go on from a training that was stopped, and leave out images whose results are there by this job.
    resume : bool
        Go on where a run was stopped: in training or, if that was done, in denoising to a Zarr store.
    plan, log, device, progress, listener
        As for `train`; `device` is where to denoise as well.

    Returns
    -------
    list of Result
        One for each image. Of several images, one that cannot be denoised is a result with an `error`.
    """
    learns = denoiser.network is None and denoiser.method.trained
    opened: dict[Path, io.Image] = {}
    if learns:
        images = open_to_train(
            denoiser, [item.source for item in job.items], job.axes, listener, strict=not job.goes_on
        )
        if denoiser.config.minutes == 0:
            denoiser.use_pretrained(images, say=listener.say)
        else:
            options: dict[str, Any] = {"plan": plan, "resume": resume, "log": log, "device": device}
            train(denoiser, images, model=keep, progress=progress, strict=not job.goes_on, listener=listener, **options)
        opened = {image.path: image for image in images if image.path is not None}
    elif keep is not None and keep.exists() and len(job.items) == 1:
        denoiser.diagnose_again([job.open(job.items[0], denoiser)])  # as it was when it was trained
    diagnosis = denoiser.diagnosis if len(job.items) == 1 else None
    book = None if journal is None else Journal(journal, job.identity(denoiser))
    results = _find_done(job, book, resume, listener)
    for result in results.values():
        listener.on_result(result)
    todo = [item for item in job.items if item not in results]

    def take(result: Result) -> None:
        if book is not None:
            _note(book, result)
        results[result.item] = result if len(job.items) == 1 else replace(result, assessment=None)
        listener.on_result(result)
        if result.item.whole is not None:
            _join(job, result.item.whole, results, book, denoiser, listener)

    try:
        for whole in dict.fromkeys(item.whole for item in results if item.whole is not None):
            _join(job, whole, results, book, denoiser, listener)
        if todo and len(job.items) > 1 and (job.workers or job.scheduler):
            denoise_on_workers(job, todo, denoiser, device, resume, take)
        else:
            for item in todo:
                image = None if item.path is None else opened.pop(item.path, None)
                ways: dict[str, Any] = {"diagnosis": diagnosis, "resume": resume, "listener": listener}
                take(denoise_item(item, job, denoiser, device, image=image, **ways))
    except BaseException as error:
        kept = keep if keep is not None and keep.exists() else None
        done = sum(not result.error for result in results.values())
        told = _what_is_kept(job, done, kept, resumable=book is not None)
        if isinstance(error, KeyboardInterrupt):
            nothing = f"Interrupted.{'' if told else ' Nothing was written.'}"
            raise type(error)(f"{str(error) or nothing}{told}") from None
        if kept is not None or done:
            listener.say(told.strip())
        raise
    if keep is not None and keep.exists():
        if any(result.error for result in results.values()):
            listener.say(f"The trained model is kept in {keep}: with --resume, only what failed is done again.")
        else:
            keep.unlink()
    return [results[item] for item in job.items]


def open_to_train(
    denoiser: Denoiser,
    sources: Sequence[io.Input],
    axes: str | None = None,
    listener: Listener = SILENT,
    *,
    fallback: str | None = None,
    strict: bool = False,
) -> list[io.Image]:
    """Open images to train on: an evenly spread choice of many files, and of several those that can be opened."""
    leave_out = None if strict or len(sources) == 1 else _leaving_out(listener)
    images, _ = denoiser.open_to_train(sources, axes, fallback=fallback, on_unreadable=leave_out)
    files = sum(not isinstance(source, io.Image) for source in sources)
    if files > TRAINING_FILES:
        listener.say(f"Training on {len(images)} of {files} files, evenly spread.")
    return images


def _leaving_out(listener: Listener) -> Callable[[InputError], None]:
    return lambda error: listener.say(f"{error} It is left out of training.")


def denoise_on_workers(
    job: Job, items: Sequence[Item], denoiser: Denoiser, device: Device, resume: bool, take: Callable[[Result], None]
) -> None:
    """Denoise images on Dask workers, one each at a time; `take` gets each result as it is there.

    The model goes to each worker once, by a file beside the results.
    """
    from noise2same.prediction.cluster import connect
    from noise2same.prediction.workers import run_on

    alone = replace(job, items=job.items[:2], workers=None, scheduler=None)  # two: a fault of one does not end the rest
    sent = {item.sent(): item for item in items}
    folder = next((item.output.parent for item in items if item.output is not None), None)

    def on_done(found: list[tuple[Item, Result]]) -> None:
        for item, result in found:
            for told in result.warnings:
                warnings.warn(told, stacklevel=1)
            take(replace(result, item=sent[item]))
            if result.error and job.strict:
                raise InputError(result.error)

    with (
        connect(job.workers, job.scheduler) as client,
        tempfile.TemporaryDirectory(dir=folder, prefix=PREFIX) as shared,
    ):
        model = None
        if denoiser.network is not None:
            model = denoiser.save(Path(shared).absolute() / "model.safetensors")
        task = partial(denoise_in_worker, alone, model, denoiser.config, device, resume)
        run_on(client, task, sent, on_done)


@lru_cache(maxsize=1)
def _load_once(model: Path, method: Any) -> Denoiser:
    return Denoiser.load(model, method=method)


def denoise_in_worker(job: Job, model: Path | None, config: Config, device: Device, resume: bool, item: Item) -> Result:
    """As `denoise_item`, in another process. An error that no other image would be spared is raised."""
    method: Any = config.method if isinstance(config.method, type) else None
    denoiser = Denoiser(config) if model is None else _load_once(model, method)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = denoise_item(item, job, denoiser, device, resume=resume)
    ours = tuple(str(one.message) for one in caught if "noise2same" in one.filename)
    return replace(result, assessment=None, warnings=ours)


def denoise_item(
    item: Item,
    job: Job,
    denoiser: Denoiser,
    device: Device = None,
    *,
    diagnosis: Diagnosis | None = None,
    resume: bool = False,
    listener: Listener = SILENT,
    image: io.Image | None = None,
) -> Result:
    """Denoise and assess one image, and free its memory; `image` is the opened one, if it is open already."""
    began = time.monotonic()
    source = "" if item.path is None else source_of(item.path)
    before = "" if item.output is None else source_of(item.output)
    assessment = None
    try:
        image = job.open(item if image is None else replace(item, source=image), denoiser)
        listener.on_image(image)
        options: dict[str, Any] = {"dtype": job.dtype, "tta": job.tta, "strength": job.strength, "device": device}
        options |= {"output": item.output, "on_block": partial(listener.on_block, image), "diagnosis": diagnosis}
        options |= {"workers": job.workers, "scheduler": job.scheduler, "resume": resume}
        done = denoiser.denoise_in_detail(image, **options)
        if job.verdict:
            assessment = assess(image, done, job.tta)
            if item.report is not None:
                report(item.report, assessment, denoiser)
    except NoSpace:
        raise
    except KeyboardInterrupt:
        if item.output is None or source_of(item.output) == before:
            raise
        raise KeyboardInterrupt(f"Interrupted while the result was judged; {item.output} is complete.") from None
    except InputError as error:
        if not job.goes_on:
            raise
        return Result(item, error=str(error), source=source)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        told = f"Memory ran out for {item.name}, also with smaller blocks: free some, or use a computer with more."
        if not job.goes_on:
            raise InputError(told) from error
        return Result(item, error=told, source=source)
    finally:
        if image is not None:
            image.forget()
    result = Result(item, done.result, source=source, seconds=time.monotonic() - began)
    if assessment is None:
        return result
    verdict = assessment.verdict
    return replace(result, assessment=assessment, verdict=verdict, word=verdict.word, facts=assessment.figures())


def _join(
    job: Job, whole: Path, results: dict[Item, Result], book: Journal | None, denoiser: Denoiser, listener: Listener
) -> None:
    """Make one file of the results that belong to it, if all of them are there and it is not."""
    items = [item for item in job.items if item.whole == whole]
    if not all(item in results for item in items) or all(results[item].denoised == whole for item in items):
        return
    failed = [item.name for item in items if results[item].error]
    if len(failed) == len(items):
        return
    if failed:
        told = f"{whole} is not written, as {' and '.join(failed)} failed; with --series, leave out what cannot be read"
        listener.say(f"{told}, and with --resume, nothing is done twice.")
        return
    paths, parts = [item.path for item in items if item.path], [item.output for item in items if item.output]
    note = denoiser.note(job.strength)
    io.series.join(whole, parts, [replace(io.read(path, job.axes), note=note) for path in paths])
    for item in items:
        results[item] = replace(results[item], denoised=whole)
        if book is not None:
            _note(book, results[item], images=_numbers(items))


def _numbers(items: Sequence[Item]) -> list[str]:
    """Which images of its file are in one output."""
    return [item.path.name for item in items if item.path is not None]


def _find_done(job: Job, book: Journal | None, resume: bool, listener: Listener) -> dict[Item, Result]:
    """Results that are there by this job; without `resume` they are only counted, as they are made again."""
    found = {}
    for item in job.items if book is not None and book.known else ():
        entry, place = _entry(job, item, book) if book else (None, None)
        complete = item.report is None or item.report.exists()
        if entry is not None and complete and (entry.get("verdict") or not job.verdict):
            facts = {"verdict": {"word": entry["verdict"]}} if job.verdict else {}
            found[item] = Result(item, place, word=entry.get("verdict"), facts=facts, skipped=True)
    if found and not resume:
        listener.say(f"{len(found)} of {len(job.items)} results are there already; --resume would keep them.")
    return found if resume else {}


def _entry(job: Job, item: Item, book: Journal) -> tuple[dict[str, Any] | None, Path | None]:
    """What the journal has of a result, and where that is: together with others in one file, or by itself."""
    if item.path is None or item.output is None:
        return None, None
    if item.whole is not None:
        entry = book.find(item.path, item.whole)
        together = [other for other in job.items if other.whole == item.whole]
        if entry is not None and entry.get("images") == _numbers(together):
            return entry, item.whole
    return book.find(item.path, item.output), item.output


def _note(book: Journal, result: Result, **more: Any) -> None:
    """Note in the journal that a result is complete."""
    if not isinstance(result.denoised, Path):
        return
    source = result.source or ("" if result.item.path is None else source_of(result.item.path))
    try:
        book.add(source, result.denoised, verdict=result.word, **more)
    except OSError as error:
        told = f"{book.path} cannot be written ({error.strerror}): --resume will not see what is done."
        warnings.warn(told, stacklevel=1)


def _what_is_kept(job: Job, done: int, keep: Path | None, *, resumable: bool) -> str:
    """Sentences for a user whose job was stopped: how far it came, and how to go on."""
    said = f" {done} of {len(job.items)} images are done." if len(job.items) > 1 else ""
    if keep is not None:
        said += f" The trained model is kept in {keep}."
    if keep is not None or resumable:
        said += " The same command with --resume goes on from here."
    return said


def assess(noisy: io.Image, done: Denoised, tta: bool | None = None) -> Assessment:
    """Judge a result by the denoiser that made it; `tta` is as it was made with."""
    from noise2same.data.film import is_film
    from noise2same.quality import assess as quality
    from noise2same.quality.film import read_part

    tuned = done.tuned
    seen = tuned.denoiser.seen_as(noisy)
    written = isinstance(done.result, Path)
    clean = io.read_result(done.result, noisy) if written else io.wrap(done.result, noisy.axes)
    used = tuned.denoiser.uses_tta(noisy) if tta is None else tta
    options: dict[str, Any] = {"diagnosis": tuned.diagnosis, "tta": used, "input_share": done.input_share}
    film = read_part(noisy, clean) if clean is not None and is_film(noisy) else None
    result = None if clean is None else tuned.denoiser.seen_as(clean, like=seen)
    return quality.assess(seen, result, tuned, film=film, **options)


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
    strict: bool = True,
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
    strict : bool
        End if an image cannot be read; otherwise one of several is named and left out.
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
    options |= {"say": listener.say, "on_step": listener.on_step}
    options["on_unreadable"] = None if strict or len(images) == 1 else _leaving_out(listener)
    writes = model is not None and is_first_worker()
    with claim(model) if model is not None and writes else nullcontext():
        try:
            denoiser.fit(images, axes, target=target, checkpoint=checkpoint, **options)
        except Diverged as error:
            kept = _keep_good(denoiser, model, checkpoint) if model and checkpoint and writes else ""
            wait_for_everyone()
            raise Diverged(f"{error}{kept}") from None
        if model is not None and writes:
            _save(denoiser, model)
        wait_for_everyone()
        if denoiser.summary["interrupted"]:
            where = (
                f" What was learned is in {model}; the same command with --resume goes on from here." if model else ""
            )
            raise KeyboardInterrupt(f"Training was interrupted at step {denoiser.summary['steps']}.{where}")
        if checkpoint is not None and writes:
            checkpoint.unlink(missing_ok=True)


def _save(denoiser: Denoiser, model: Path) -> None:
    """Save a trained denoiser; where the disk is full, in the folder for temporary files, and NoSpace says so."""
    try:
        denoiser.save(model)
    except NoSpace as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="noise2same-")) / model.name
        try:
            denoiser.save(elsewhere)
        except InputError:
            elsewhere.parent.rmdir()
            raise error from None
        raise NoSpace(f"{error} What was learned is in {elsewhere}; move it.") from None


def _keep_good(denoiser: Denoiser, model: Path, checkpoint: Path) -> str:
    """Save what a run had learned before it diverged, and return the sentences that say where it is."""
    said = ""
    if denoiser.summary["steps"] > 0:
        _save(denoiser, model)
        said = f" What was learned before is in {model}."
    if checkpoint.exists():
        said += f" With --resume as well, training goes on from {checkpoint}."
    return said


def checkpoint_of(model: Path) -> Path:
    """Where the state of an unfinished training of `model` is kept; just .ckpt could be a file of the user's."""
    return model.with_name(model.stem.removesuffix(".unfinished") + ".unfinished.ckpt")


def load_unfinished(keep: Path, config: Config) -> Denoiser | None:
    """The model of a job that was stopped after its training, while it denoised; None if there is none.

    InputError if it was trained with other settings than those in `config`.
    """
    if not keep.exists() or checkpoint_of(keep).exists():
        return None
    denoiser = Denoiser.load(keep)
    if denoiser.config != Denoiser(config).config:
        raise InputError(f"{keep} was trained with other settings: give the same, or start without --resume.")
    return denoiser


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
