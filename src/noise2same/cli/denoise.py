"""`noise2same denoise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noise2same.cli._batch import Shown, warn_of_leftovers
from noise2same.cli._options import (
    Axes,
    BatchOptions,
    ClusterOptions,
    Inputs,
    Json,
    Report,
    RunOptions,
    Series,
    TrainingOptions,
    expand_options,
)
from noise2same.cli._terminal import DenoisingBar, console, print_json, tell
from noise2same.errors import InputError

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser
    from noise2same.plan import Plan


@expand_options
def denoise(
    inputs: Inputs,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, or folder for several inputs.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="Trained model to use; without it, one is trained on the inputs."),
    ] = None,
    axes: Axes = None,
    dtype: Annotated[
        str, typer.Option(help="Of the output: same as the input, or uint8, uint16, float32, ...")
    ] = "same",
    tta: Annotated[
        bool | None,
        typer.Option(
            help="Test-time augmentation: average 8 rotations and flips. Slower, slightly better.",
            show_default="for small images",
        ),
    ] = None,
    strength: Annotated[
        float, typer.Option(min=0, max=1, help="How much to denoise: 0 is the input, 1 all of it, 0.5 half of each.")
    ] = 1.0,
    verdict: Annotated[
        bool, typer.Option("--verdict/--no-verdict", help="Judge each result, which takes about a quarter longer.")
    ] = True,
    report: Report = None,
    preview: Annotated[
        Path | None,
        typer.Option(help="Film to write, before and after side by side: .mp4, .webp or .gif; for one film."),
    ] = None,
    series: Series = None,
    suffix: Annotated[
        str | None,
        typer.Option("--format", metavar="SUFFIX", help="Of results in a folder, such as .ome.zarr, .tif or .png."),
    ] = None,
    *,
    training: TrainingOptions,
    run: RunOptions,
    batch: BatchOptions,
    cluster: ClusterOptions,
    as_json: Json = False,
) -> None:
    """Denoise images: train a network on them and apply it, or apply a trained one (--model).

    With --minutes 0, nothing is trained: a pretrained network denoises pictures and films in seconds.
    """
    for option, given in {"--report shows": report, "--fail-on looks at": batch.fail_on}.items():
        if given is not None and not verdict:
            raise InputError(f"{option} the verdict, which --no-verdict leaves out: leave out one of them.")
    from noise2same import io, pipeline
    from noise2same.cli._outputs import (
        check_numbers,
        check_suffix,
        made_folder,
        plan_outputs,
        plan_preview,
        plan_reports,
    )

    console.quiet = batch.quiet
    numbers = check_numbers(series)
    output, place = io.as_path(output), io.stage(output, inputs)
    planned = plan_outputs(inputs, io.find(inputs), place, numbers, check_suffix(suffix))
    files, outputs, wholes = (list(column) for column in zip(*planned, strict=True))
    first = planned[0].goes_to
    reports = plan_reports(report, files, files, outputs)
    preview = plan_preview(preview, files, [*outputs, *filter(None, reports)])
    denoiser, plan = _denoiser(model, training, run)
    learns = denoiser.network is None and denoiser.method.trained and denoiser.config.minutes != 0
    keep = first.with_name(f"{io.stem(first)}.unfinished.safetensors") if learns else None
    if run.resume and keep is not None:
        denoiser = pipeline.load_unfinished(keep, denoiser.config) or denoiser
    with made_folder(outputs[0].parent), io.uploading(output), DenoisingBar(len(files)) as bar:
        options: dict[str, Any] = {"axes": axes, "dtype": dtype, "tta": tta, "strength": strength, "verdict": verdict}
        options |= {"workers": cluster.workers, "scheduler": cluster.scheduler}
        job = pipeline.check(files, outputs, reports, wholes, denoiser=denoiser, strict=batch.strict, **options)
        if preview is not None:
            from noise2same.quality.preview import check_preview, write_preview

            check_preview(preview, job.open(job.items[0], denoiser))
        warn_of_leftovers(outputs)
        shown = Shown(outputs != [place], bar, batch, as_json=as_json)
        listener = pipeline.Listener(say=tell, on_image=bar.begin, on_block=bar, on_result=shown)
        options = {"plan": plan, "resume": run.resume, "log": run.log, "device": run.device}
        options |= {"progress": not batch.quiet, "keep": keep, "journal": outputs[0].parent if shown.several else None}
        results = pipeline.run(job, denoiser, listener=listener, **options)
        if preview is not None:
            film = job.open(job.items[0], denoiser)
            tell(write_preview(preview, film, io.read(first, film.axes)))
    if place != output:
        tell(f"Uploaded to {output}.")
    if as_json and not shown.several:
        written = [str(result.item.goes_to if place == output else output) for result in results]
        figures = [result.figures() for result in results]
        print_json({"outputs": written, "results": figures, "training": denoiser.summary})
    code = shown.end(denoiser.summary)
    if code:
        raise typer.Exit(code)


def _denoiser(model: Path | None, training: TrainingOptions, run: RunOptions) -> tuple[Denoiser, Plan | None]:
    """The trained model that is given, or the one to be trained, and its plan if it has one already."""
    from noise2same.denoiser import Denoiser

    flags = [*training.flags(), *(flag for flag in run.flags() if flag != "--resume")]  # which is for denoising too
    if model is not None:
        if flags:
            raise InputError(f"{flags[0]} is for training, but --model is trained already: leave out one of them.")
        return Denoiser.load(model.expanduser()), None
    plan = training.read_plan(run.plan)
    denoiser = Denoiser(training.config(plan))
    unused = [flag for flag in flags if flag in ("--plan", "--log")]
    if denoiser.config.minutes == 0 and unused:
        raise InputError(f"--minutes 0 trains nothing, which {unused[0]} is for: leave out one of them.")
    unused = [flag for flag in flags if flag not in ("--method", "--sigma", "--set")]
    if not denoiser.method.trained and unused:
        raise InputError(f"{unused[0]} is for training, but {denoiser.method.name} is not trained: leave it out.")
    return denoiser, plan
