"""Denoiser: what a user holds. It learns from noisy images, denoises, and is kept in one file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from noise2same import __version__, io, markup, methods
from noise2same.config import Config
from noise2same.data import axes as ax
from noise2same.data import film
from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.data.patches import Patches
from noise2same.data.sampling import open_spread, read_boxes
from noise2same.device import describe, pick
from noise2same.errors import Diverged, InputError
from noise2same.fingerprint import measure_films, read_and_measure
from noise2same.io import Input
from noise2same.methods import Algorithm, Architecture, Classical, DataProfile, Method
from noise2same.model_file import About, Header, read_model, write_model
from noise2same.networks.film import tell
from noise2same.networks.pretrained import load_pretrained
from noise2same.networks.separate import Separate
from noise2same.noise.diagnose import Diagnosis, diagnose
from noise2same.noise.frames import read_runs
from noise2same.plan import (
    FEATURES,
    TRAINING_FILES,
    TTA_PIXELS,
    Channels,
    Plan,
    architecture_of,
    choose_time,
    read_and_plan,
    settings_untrained,
)
from noise2same.prediction.blend import Blend, measure_blend
from noise2same.prediction.cluster import connect
from noise2same.prediction.engines import prepare_for_inference
from noise2same.prediction.predict import OnBlock, Predicted, Prediction, predict_block, predict_whole

if TYPE_CHECKING:
    from noise2same.export import Exported
    from noise2same.quality.checks import Verdict
    from noise2same.training.state import OnStep, TrainingState

Device = str | torch.device | None
"""Name of a device such as "cuda:1" or "cpu"; None for the fastest there is."""
DIAGNOSED_VALUES = 2**20
"""Of an image that are read to diagnose its noise before it is denoised."""
SOME = 5
"""Lost frames that a warning names."""


@dataclasses.dataclass(frozen=True)
class Denoised:
    """A denoised image, and what was found on the way."""

    result: Any
    """The array, or the path of the file that holds it."""
    input_share: tuple[float, ...]
    """Share of the input in the result of each channel, from 0 to 1, because more than noise was taken away."""
    tuned: Tuned
    """What it was made with."""


@dataclasses.dataclass(frozen=True)
class Tuned:
    """A denoiser with what was found for one image, to denoise any part of it in the same way."""

    denoiser: Denoiser
    device: torch.device
    diagnosis: Diagnosis | None = None
    """Of the image's noise, if it was diagnosed."""
    blend: Blend | None = None
    """Of output and input; None for the output alone."""

    @property
    def network(self) -> nn.Module | None:
        """The denoiser's."""
        return self.denoiser.network

    def denoise(self, image: Input, axes: str | None = None, *, dtype: str = "same", tta: bool | None = None) -> Any:
        """As `Denoiser.denoise`."""
        return self.denoiser.denoise_in_detail(image, axes, dtype=dtype, tta=tta, tuned=self).result

    def denoise_part(self, image: io.Image, part: Sequence[slice]) -> NDArray[Any]:
        """The pixels of a part as they are in the whole result without tta, of which nothing else is computed.

        Parameters
        ----------
        image : Image
            The whole image, of which only the part and its halo are read.
        part : sequence of slice
            Start and stop along each of its axes: one index along S and T, all of C.
        """
        seen, shape = self.denoiser.seen_as(image), tuple(cut.stop - cut.start for cut in part)
        whole = [slice(0, 1)] * (len(seen.axes) - len(part)) + list(part)
        cuts = dict(zip(seen.axes, whole, strict=True))
        sample = ax.Sample(seen.data, seen.axes, {axis: cuts[axis].start for axis in ax.SAMPLES if axis in cuts})
        pixels, _ = predict_block(
            self.denoiser._ready(self.device),
            sample,
            tuple(cuts[axis] for axis in ax.spatial(seen.axes)),
            normalization=self.denoiser._normalization() or Normalization.measure(read_boxes([seen], DIAGNOSED_VALUES)),
            blend=self.blend,
            device=self.device,
        )
        return ax.from_network(pixels, seen.axes, tuple(cut.stop - cut.start for cut in whole)).reshape(shape)


class Denoiser:
    """Learns to denoise from noisy images alone.

    Parameters
    ----------
    config : Config, optional
        What to ask for; the defaults suit a few minutes on a CPU.

    Attributes
    ----------
    network : Module or None
        The trained network, None before `fit`.
    plan : Plan or None
        What was decided for its training, and why; None before `fit`, and where nothing was trained.
    diagnosis : Diagnosis or None
        Of the noise in the images that `fit` was given last; it is not kept in the file.
    axes : str
        Axes of the images it was trained on.
    channels : int
        Channels it takes.
    normalization : Normalization
        Statistics of the training images.
    summary : dict
        What happened in training: steps, seconds, noise level, loss terms.
    about : About
        Its license, training data and authors, as far as anybody said; kept in the file.

    Examples
    --------
    >>> noisy = np.random.default_rng(0).normal(100, 20, (48, 48))
    >>> model = Denoiser(Config(steps=2)).fit(noisy, progress=False)
    >>> model.denoise(noisy).shape
    (48, 48)
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        methods.candidates(self.config)  # which says what is wrong with the settings
        self.network: nn.Module | None = None
        self._prepared: tuple[torch.device, nn.Module] | None = None
        self.plan: Plan | None = None
        self.diagnosis: Diagnosis | None = None
        self.axes, self.channels = "YX", 1
        self.normalization = Normalization((0.0,), (1.0,))
        self.summary: dict[str, Any] = {}
        self.about = About()

    def _repr_html_(self) -> str:
        if self.network is None:
            return markup.paragraph("A denoiser that is not trained yet.")
        rows = {
            "method": self.method.name,
            "images like": f"{self.axes}, {self.channels} channel{'s' * (self.channels > 1)}",
            "trained for": f"{self.summary.get('steps', 0)} steps, {self.summary.get('seconds', 0.0):.0f} s",
            "parameters": f"{sum(weights.numel() for weights in self.network.parameters()):,}",
        }
        plan = "" if self.plan is None else markup.folded("the plan", self.plan._repr_html_())
        return markup.heading("Denoiser") + markup.table(rows.items()) + plan

    @property
    def method(self) -> type[Algorithm]:
        """The method that it uses: the plan's choice where the settings leave it open."""
        if isinstance(self.config.method, str) and self.plan is not None:
            return methods.find(self.plan.method.value)
        return methods.candidates(self.config)[0]

    def fit(
        self,
        images: Input | Sequence[Input],
        axes: str | None = None,
        *,
        target: Input | Sequence[Input] | None = None,
        plan: Plan | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        device: Device = None,
        log: str | os.PathLike[str] | None = None,
        progress: bool = True,
        say: Callable[[str], None] = lambda line: None,
        on_step: OnStep | None = None,
        on_point: Callable[[Denoiser], dict[str, float]] | None = None,
        on_unreadable: Callable[[InputError], None] | None = None,
    ) -> Denoiser:
        """Train on noisy images and return self.

        Ctrl-C ends training early and keeps what was learned; `summary["interrupted"]` then is True. When the loss
        becomes NaN or infinite again and again, `Diverged` is raised, and this denoiser has the last weights that were
        good.

        Parameters
        ----------
        images, axes, target
            As for `train`.
        plan : Plan, optional
            Of an earlier run, to be repeated; without it, one is made for these images.
        checkpoint : path, optional
            Where the state of the run is kept every minute; yours to remove once the model is saved.
        resume : bool
            Go on from `checkpoint`; without one, go on from the weights of this denoiser with a new budget.
        device : str or torch.device, optional
            Where to train; the fastest device there is by default.
        log : path, optional
            Folder for the loss terms, as CSV and for TensorBoard.
        progress : bool
            Show a progress bar.
        say : callable
            Given the plan, line by line, before training starts.
        on_step : callable, optional
            Given the `TrainingState` after each step. If it returns True or "stop", training ends and keeps what was
            learned. `state.preview(image)` denoises an image with the network as it is.
        on_point : callable, optional
            Given a denoiser as trained so far, fifty times in the run; the figures it returns join the history in
            `summary`.
        on_unreadable : callable, optional
            Given the error of each image that cannot be read, which is then left out; without it, the error is raised.
        """
        if plan is not None:
            self.config = plan.config
        if self.config.minutes == 0:
            raise InputError("minutes=0 trains nothing: give it some minutes, or denoise without training.")
        from noise2same.training.held_out import held_out_error  # imports what only training needs
        from noise2same.training.launch import count_workers
        from noise2same.training.loop import fit
        from noise2same.training.pace import fastest
        from noise2same.training.progress import ProgressBar
        from noise2same.training.state import to_all

        opened, targets = self.open_to_train(images, axes, target, on_unreadable=on_unreadable)
        before = self.normalization
        self.adopt(opened, resume)
        further = self.network is not None
        plan, method, patches = self._plan_training(opened, targets, plan, on_unreadable)
        where = pick(device)
        recipe = plan.recipe(count_workers())
        for line in plan.lines(describe(where)):
            say(line)
        if count_workers() > 1:
            together = f"{count_workers()} processes, {count_workers() * patches.batch} patches a step"
            say(f"Training together: {together}, learning rate {recipe.learning_rate:.2g}.")
        assert self.network is not None
        saved = None if checkpoint is None else Path(checkpoint)
        noise = method.profile.noise
        held_out = held_out_error(patches, noise, self.config.seed, method.supervised, noisy_target=method.noisy_target)
        with ProgressBar() as bar:
            outcome = fit(
                self.network,
                method,
                patches,
                recipe,
                held_out=held_out,
                device=where,
                checkpoint=saved,
                resume=resume and saved is not None and saved.exists(),
                log=None if log is None else Path(log),
                on_step=to_all(bar if progress else None, self._previewing(on_step)),
                on_point=None if on_point is None else lambda network: on_point(self._with(network)),
            )
        self.network.cpu()
        if further and outcome.unchanged:
            self.normalization = before
        ended = outcome.interrupted or outcome.stopped or outcome.stopped_early or outcome.diverged
        starved = None if ended else plan.starved(outcome.steps, outcome.seconds, fastest(outcome.history))
        if starved:
            say(starved)
        self.summary = dataclasses.asdict(outcome) | {
            "starved": starved,
            "sigma": list(noise.sigma),
            "device": str(where),
            "images": len(opened),
            "pretrained": plan.start.value == "pretrained",
        }
        if outcome.diverged:
            raise Diverged(
                f"Training diverged after step {outcome.steps}, and {outcome.retries} lower learning rates did not "
                "help: look for strange values in the images, or give a much lower rate, such as "
                f"learning_rate={plan.learning_rate.value / 100:.1g} (--set on the command line)."
            )
        return self

    def open_to_train(
        self,
        images: Input | Sequence[Input],
        axes: str | None = None,
        target: Input | Sequence[Input] | None = None,
        *,
        fallback: str | None = None,
        on_unreadable: Callable[[InputError], None] | None = None,
    ) -> tuple[list[io.Image], list[io.Image] | None]:
        """Open what `fit` would train on: an evenly spread choice of many files, and with targets all pairs."""
        methods.check_target(self.config, given=target is not None)
        if target is not None:
            opened = io.open_images(images, axes, fallback=fallback)
            return opened, io.open_pairs(opened, target, axes)
        options: dict[str, Any] = {"most": TRAINING_FILES, "seed": self.config.seed, "on_unreadable": on_unreadable}
        return open_spread(images, axes, fallback=fallback, **options), None

    def _plan_training(
        self,
        images: list[io.Image],
        targets: list[io.Image] | None,
        plan: Plan | None,
        on_unreadable: Callable[[InputError], None] | None,
    ) -> tuple[Plan, Method, Patches]:
        """Read the images, make a plan for them unless one is given, and make what it asks for."""
        trained: Channels | None = None
        if self.network is not None:
            trained = "separate" if isinstance(self.network, Separate) else "joint"
            kept = {"features": self._architecture().features, "time": self.frames}
            self.config = self.config.model_copy(update=kept)  # it keeps its network
        time = choose_time(images, self.config) if plan is None else plan.time
        films = measure_films(images, time.value) if time.value and trained is None else None
        given: dict[str, Any] = {"plan": plan, "trained": trained, "on_unreadable": on_unreadable}
        plan, found = read_and_plan(images, targets, self.config, time, **given)
        self.plan, self.diagnosis = plan, found.diagnosis
        stabilizer = plan.training_scale.stabilizer
        data = found.data if stabilizer is None else found.data.on_scale(stabilizer)
        method = plan.create_method(plan.profile(data))
        patches = data.patches(
            plan.patch,
            plan.batch.value,
            strengths=found.strengths if plan.strength_per_image.value else None,
            held_out=plan.held_out.value,
            seed=self.config.seed,
            context=plan.time.value,
        )
        self.normalization, self._prepared = data.normalization, None
        if self.network is None:
            self.network = self._new_network(method, plan.channels.value)
            if plan.start.value in ("pretrained", "inflated"):
                load_pretrained(self.network)
            if films is not None:
                tell(self.network, films)
        return plan, method, patches

    def diagnose_again(self, images: list[io.Image]) -> None:
        """Diagnose the noise of the images that it was trained on, as `fit` did; a file does not keep that."""
        how = self.config.normalization if self.plan is None else self.plan.normalization.value
        self.diagnosis = read_and_measure(images, None, self.config, time=self.frames, normalization=how).diagnosis

    def _previewing(self, on_step: OnStep | None) -> OnStep | None:
        """A listener whose `state.preview(image)` denoises an image with the network as it is."""
        if on_step is None:
            return None

        def call(state: TrainingState) -> Any:
            def preview(image: Input, axes: str | None = None) -> Any:
                return self._with(state.preview()).denoise(image, axes, tta=False)

            return on_step(dataclasses.replace(state, preview=preview))

        return call

    def use_pretrained(
        self,
        images: Input | Sequence[Input],
        axes: str | None = None,
        *,
        say: Callable[[str], None] = lambda line: None,
    ) -> Denoiser:
        """Take the pretrained network as it is, for images like these, and return self (minutes=0)."""
        default = Config(preset=self.config.preset)
        for name in ("method", "from_scratch", "method_settings", *methods.SHARED_SETTINGS):
            if getattr(self.config, name) != getattr(default, name):
                culprit = next(iter(self.config.method_settings), name) if name == "method_settings" else name
                raise InputError(f"minutes=0 trains nothing, which {culprit} is for: leave one of them out.")
        opened = open_spread(images, axes, most=TRAINING_FILES, seed=self.config.seed)
        self.adopt(opened, resume=False)
        self.config = settings_untrained(opened, self.config, self.method)
        network = self.new_network()
        if self.frames:
            tell(network, measure_films(opened, self.frames))
        if (len(ax.spatial(self.axes)) != 2 and not self.frames) or not load_pretrained(network):
            raise InputError(
                f"{opened[0].name}: pretrained networks are there for 2D images, with 1 or 3 channels or a network for "
                f"each, and the default network, not for {len(ax.spatial(self.axes))}D ones with {self.channels} "
                "channel(s) and these settings; leave out minutes=0 to train one."
            )
        say(f"Not training: the pretrained network as it is, on {describe(pick())}.")
        self.network, self._prepared = network.eval(), None
        self.normalization = Normalization((0.0,) * self.channels, (1.0,) * self.channels)
        self.summary = {"steps": 0, "seconds": 0.0, "interrupted": False, "images": len(opened), "pretrained": True}
        return self

    def denoise(
        self,
        image: Input,
        axes: str | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        dtype: str = "same",
        tta: bool | None = None,
        strength: float = 1.0,
        device: Device = None,
        on_block: OnBlock | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        resume: bool = False,
    ) -> Any:
        """Denoise one image, block by block, or all images of a file that holds several.

        Where the network takes away more than the noise of the image, the result is blended with the input, so that it
        is not worse than that (`prediction.blend`).

        Parameters
        ----------
        image : path or array
            What to denoise; from a file it is read block by block where the format allows.
        axes : str, optional
            Its axes, where it does not say itself.
        output : path, optional
            File to write, in the format of its suffix, with the axes and pixel size of the input. Appears complete or
            not at all.
        dtype : str
            "same" as the input (integers rounded and clipped), or the name of another, such as "float32".
        tta : bool, optional
            Test-time augmentation: average over eight rotations and flips; slightly better, eight times slower. By
            default images get it whose frames are small (`uses_tta`).
        strength : float
            From 0, the input, to 1, the denoised image; between them, a blend of both.
        device : str or torch.device, optional
            Where to compute, such as "cpu" or "cuda:1"; by default the fastest device there is.
        on_block : callable, optional
            Called as `on_block(done, total)` after each block. If it returns True, denoising ends with
            `errors.Cancelled`, and no file is left.
        workers : int, optional
            Processes on this machine to share the work, with one thread each; from a file to a Zarr store only. A
            script that gives it needs `if __name__ == "__main__":`.
        scheduler : str, optional
            Address of a Dask scheduler whose workers share the work, which see the same files as this process.
        resume : bool
            Go on with a Zarr store that a stopped job left unfinished.

        Returns
        -------
        array or Path
            The denoised array, or the path of the file when `output` is given; lists of them as for `api.denoise`.
        """
        options: dict[str, Any] = {"dtype": dtype, "tta": tta, "strength": strength, "device": device}
        options |= {"workers": workers, "scheduler": scheduler, "resume": resume, "on_block": on_block}
        if output is not None and isinstance(io.as_path(output), io.Url):
            with io.uploading(output):
                self.denoise(image, axes, output=io.stage(output, [image]), **options)
            return io.as_path(output)
        images = io.open_images(image, axes, fallback=self.axes)
        names = io.names_in_one_file(images, "denoise them one by one")
        outputs, whole = ([None] * len(names), None) if output is None else io.series.places(names, Path(output))
        pairs = zip(images, outputs, strict=True)
        results = [self.denoise_in_detail(one, output=place, **options).result for one, place in pairs]
        if whole is not None:
            io.series.join(whole, results, [dataclasses.replace(one, note=self.note(strength)) for one in images])
        return whole or (results[0] if len(results) == 1 else results)

    def denoise_in_detail(
        self,
        image: Input,
        axes: str | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        dtype: str = "same",
        tta: bool | None = None,
        strength: float = 1.0,
        device: Device = None,
        on_block: OnBlock | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        resume: bool = False,
        diagnosis: Diagnosis | None = None,
        tuned: Tuned | None = None,
    ) -> Denoised:
        """As `denoise`, with what was found on the way.

        Parameters
        ----------
        image, axes, output, dtype, tta, strength, device, on_block, workers, scheduler, resume
            As for `denoise`.
        diagnosis : Diagnosis, optional
            Of the noise of this image, if it is known already.
        tuned : Tuned, optional
            What was found for the image that this one is a part of.
        """
        if not 0 <= strength <= 1:
            raise InputError(f"strength={strength:g}: it should be from 0, the input, to 1, the denoised image.")
        if self.network is None and self.method.trained:
            raise InputError("This denoiser is not trained yet: call fit or load a model first.")
        opened, *more = io.open_images(image, axes, fallback=self.axes)
        if more:
            raise InputError(f"There are {len(more) + 1} images: denoise them one by one.")
        if self.network is not None:
            if tuned is None:
                self.check_fits(opened)
        elif tta:
            raise InputError(f"{self.method.name} is not a network, which tta is for: leave that out.")
        target = opened.dtype if dtype == "same" else io.dtype_of(dtype)
        opened = dataclasses.replace(opened, note=self.note(strength))
        shared = workers is not None or scheduler is not None
        if output is not None and opened.path is not None:
            io.check_output(output, [opened.path])
        if shared:
            self._check_shared(opened, output)
        used = self.uses_tta(opened) if tta is None else tta
        options: dict[str, Any] = {"tta": used, "strength": strength}
        out: Any = None
        if output is not None and io.is_store(output) and self.network is not None:
            place = Path(output).expanduser()
            ways: dict[str, Any] = {"on_block": on_block, "workers": workers, "scheduler": scheduler, "resume": resume}
            done, found = self._fill_store(opened, place, target, options, device, diagnosis, tuned, **ways)
        else:
            sink: AbstractContextManager[Any]
            sink = nullcontext(np.empty(opened.shape, target)) if output is None else io.create(output, opened, target)
            with sink as out:
                found = self.tuned_to(opened, device, diagnosis) if tuned is None else tuned
                done = self._predict(opened, out, options, on_block, found)
                opened.check_unchanged()
        for told in self._passed_through(opened, done.invalid):
            warnings.warn(told, stacklevel=3)
        if opened.others:
            told = f"{opened.name} holds {opened.others + 1} images, of which the first was denoised"
            named = opened.path is not None and io.series.count(opened.path) > 1
            warnings.warn(f"{told}{f'; the next is {opened.name}/1' * named}.", stacklevel=3)
        return Denoised(out if output is None else Path(output), tuple(done.input_share.tolist()), found)

    def _passed_through(self, image: io.Image, invalid: int) -> list[str]:
        """What to say of frames and pixels that were not denoised."""
        told = []
        if self.frames and (lost := film.lost_frames(image)):
            which = ", ".join(map(str, lost[:SOME])) + ", ..." * (len(lost) > SOME)
            many = f"{len(lost)} frame{'s' * (len(lost) > 1)} without a picture ({which})"
            told.append(f"{image.name}: {many} passed through as {'they are' if len(lost) > 1 else 'it is'}.")
            invalid -= len(lost) * math.prod(image.shape) // image.shape[image.axes.index("T")]
        if invalid:
            told.append(f"{image.name}: {invalid} NaN or infinite pixels were passed through.")
        return told

    def report(
        self,
        path: str | os.PathLike[str],
        image: Input,
        axes: str | None = None,
        *,
        truth: Input | None = None,
    ) -> Verdict:
        """Denoise an image, write a page (.html) or picture (.png) about the result, and return the verdict on it.

        For large images, only the central 2048 × 2048 (× 32) region is denoised, rendered and assessed.

        Parameters
        ----------
        path : path
            File to write.
        image, axes
            As for `denoise`.
        truth : path or array, optional
            The clean image, for PSNR and SSIM.
        """
        from noise2same.quality.assess import assess
        from noise2same.quality.report import write_report

        noisy, *_ = io.open_images(image, axes, fallback=self.axes)
        known = None if truth is None else io.open_images(truth, axes, fallback=self.axes)[0]
        io.check_apart(path, [one.path for one in (noisy, known) if one is not None and one.path is not None])
        if self.network is not None:
            self.check_fits(noisy)
        tuned, tta = self.tuned_to(noisy), None if self.network is None else self.uses_tta(noisy)
        assessment = assess(noisy, None, tuned, diagnosis=tuned.diagnosis, tta=tta)
        write_report(path, assessment, settings=self.report_settings(), training=self.summary, truth=known)
        return assessment.verdict

    def report_settings(self) -> dict[str, Any]:
        """What a report says of the model: the decisions of its plan with their reasons, or else its settings."""
        if self.plan is None:
            return self.config.model_dump(mode="json")
        return {name: f"{value} ({reason})" for name, value, reason in self.plan.rows()}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one `.safetensors` file: weights, and in its header everything else."""
        if self.network is None:
            raise InputError("This denoiser is not trained yet: there is nothing to save.")
        path = Path(path)
        said = {"summary": self.summary, "about": self.about.model_dump(mode="json")}
        write_model(path, self._header() | said, self.network.state_dict())
        return path

    def export(
        self,
        path: str | os.PathLike[str],
        to: str | None = None,
        *,
        sample: Input | None = None,
        axes: str | None = None,
        tta: bool = False,
        license: str | None = None,
        training_data: str | None = None,
        authors: Sequence[str] = (),
    ) -> Exported:
        """Write the model for other programs, in a form that takes raw pixels to clean ones in one call.

        It carries normalization and the stabilized scale. It is compared with our own result before it is written, and
        refused if it differs.

        Parameters
        ----------
        path : path
            File to write.
        to : {"bioimageio", "onnx", "openvino", "torchscript"}, optional
            Its format, by default that of the suffix: .zip, .onnx, .xml, .pt.
        sample : path or array, optional
            A noisy image like those that it is for. With one, the export blends its result with the input as `denoise`
            does for this image; without, it gives the network's result alone.
        axes : str, optional
            Axes of the sample, where it does not say itself.
        tta : bool
            Average over eight rotations and flips, as `denoise` does with small images: eight times the work.
        license, training_data, authors
            What the export says of the model, where the model file does not say it or says something else.

        Returns
        -------
        Exported
            Where it is, and how much it differs from our own result.

        Examples
        --------
        >>> noisy = np.random.default_rng(0).normal(100, 20, (48, 48))
        >>> model = Denoiser(Config(steps=2, features=4)).fit(noisy, progress=False)
        >>> model.export(getfixture("tmp_path") / "model.pt").difference < 1e-4
        True
        """
        from noise2same import export

        if not self.method.trained:
            raise InputError(f"{self.method.name} has no network to export: denoise with noise2same itself.")
        if self.network is None:
            raise InputError("This denoiser is not trained yet: call fit or load a model first.")
        place = Path(path).expanduser()
        form = export.format_of(place, to)
        export.check_network(self.network)
        io.check_place(place)
        about = self.about.with_given(license=license, training_data=training_data, authors=tuple(authors))
        blend, pixels = None, None
        if sample is not None:
            opened, *_ = io.open_images(sample, axes, fallback=self.axes)
            self.check_fits(opened)
            blend = self.tuned_to(opened, "cpu").blend
            pixels, _ = fill_invalid(max(read_boxes([opened], DIAGNOSED_VALUES), key=np.size))
        portable = export.Portable(self.network, self._normalization(), self.channels, blend, tta)
        return export.write(place, form, portable, about, self._facts(), pixels, blends=self._blends)

    def _facts(self) -> dict[str, Any]:
        """What an export says of the model, beside what people say of it."""
        return {
            "noise2same": __version__,
            "method": self.method.name,
            "model": self.digest(),
            "steps": self.summary.get("steps", 0),
            "pretrained": self.summary.get("pretrained", False),
        }

    def _header(self) -> dict[str, Any]:
        """All that decides its results but the weights, as JSON holds it."""
        return {
            "config": self.config.model_dump(mode="json"),
            "plan": None if self.plan is None else self.plan.model_dump(mode="json"),
            "axes": self.axes,
            "channels": self.channels,
            "normalization": dataclasses.asdict(self.normalization),
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, method: type[Method] | None = None) -> Denoiser:
        """Read a model written by `save`. Nothing in the file is executed, and no file that it names is opened.

        Parameters
        ----------
        path : path
            File of the model.
        method : class, optional
            The method, if it was given as a class that no installed package names.
        """
        header, weights = read_model(Path(path))
        try:
            stored = Header(**header)
            model = cls(Config.from_header(stored.config | ({} if method is None else {"method": method})))
            model.plan = None if stored.plan is None else Plan.model_validate(stored.plan)
            model.axes, model.channels, model.summary = stored.axes, stored.channels, stored.summary
            model.about = stored.about
            model.normalization = Normalization(**dict(stored.normalization))
            model.network = model.new_network()
            model.network.load_state_dict(weights)
        except InputError as error:  # such as a method of a package that is not installed
            raise InputError(f"{path} cannot be used: {error}") from error
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            made = header.get("version", "an unknown version")
            raise InputError(
                f"{path} is damaged, or does not fit this version (it is of {made}): train it again."
            ) from error
        return model

    def __getstate__(self) -> dict[str, Any]:
        """All but what is made anew on first use, which cannot be pickled or copied."""
        return vars(self) | {"_prepared": None}

    def _with(self, network: nn.Module) -> Denoiser:
        """The same denoiser with another network."""
        other = copy(self)
        other.network, other._prepared = network, None
        return other

    def new_network(self) -> nn.Module:
        """Untrained network for the axes, channels and seed of this denoiser."""
        dims = 3 if self.frames else len(ax.spatial(self.axes))
        profile = DataProfile(dims, self.channels, level_given=self.config.level_given, frames=self.frames)
        method = self.method
        assert issubclass(method, Method), "only methods that are trained have a network"
        made = method(methods.settings_of(method, self.config), profile, self._architecture())
        channels = self.config.channels if self.plan is None else self.plan.channels.value
        return self._new_network(made, "separate" if channels == "separate" else "joint")

    def _architecture(self) -> Architecture:
        return architecture_of(self.config, FEATURES if self.plan is None else self.plan.features.value)

    def _new_network(self, method: Method, channels: Channels) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            return method.new_network(channels)

    def tuned_to(self, image: io.Image, device: Device = None, diagnosis: Diagnosis | None = None) -> Tuned:
        """Find what an image is denoised with: its noise, unless that is known, and its blend.

        There is no blend where the noise cannot be measured, or single pixels are lost, which are to be replaced.
        """
        where = pick(device)
        if self.network is None or not self._blends:
            return Tuned(self, where, diagnosis)
        boxes = read_boxes([self.seen_as(image)], DIAGNOSED_VALUES)
        diagnosis = diagnose(boxes, read_runs([image])) if diagnosis is None else diagnosis
        noise = diagnosis.noise
        if self.plan is not None and self.plan.noise_is_given:
            noise = self.plan.noise.value
        if max(noise.sigma) == 0 or noise.kind == "impulse":
            return Tuned(self, where, diagnosis)
        known = self._normalization() or Normalization.measure(boxes)
        return Tuned(self, where, diagnosis, measure_blend(self._ready(where), boxes, noise, known, where))

    @property
    def _blends(self) -> bool:
        return self.config.blend if self.plan is None else self.plan.blend.value

    def _normalization(self) -> Normalization | None:
        """Statistics to normalize with; None for those of each image by itself."""
        how = self.config.normalization if self.plan is None else self.plan.normalization.value
        return self.normalization if how == "dataset" else None

    def _ready(self, device: torch.device) -> nn.Module:
        """The network, ready to predict on a device; it is made once for any number of images."""
        assert self.network is not None, "only a network is made ready"
        if self._prepared is None or self._prepared[0] != device:
            self._prepared = device, prepare_for_inference(self.network, device)
        return self._prepared[1]

    def _predict(
        self, image: io.Image, out: Any, options: dict[str, Any], on_block: OnBlock | None, tuned: Tuned
    ) -> Predicted:
        """Denoise `image` into `out`."""
        if self.network is None:
            method = self.method
            assert issubclass(method, Classical), "a method that is trained has a network"
            classical, strength = (
                method(methods.settings_of(method, self.config), self.config.sigma),
                options["strength"],
            )
            return predict_whole(classical.denoise, image.data, image.axes, out, strength=strength, on_block=on_block)
        work = self.prediction(image, out, tuned.device, tuned.blend, **options)
        return work.run(work.parts(), on_block=on_block)

    def prediction(
        self, image: io.Image, out: Any, device: torch.device, blend: Blend | None, *, tta: bool, strength: float
    ) -> Prediction:
        """The work of denoising an image into an array, which can be done in parts."""
        memory = None if self.plan is None else self.plan.block_memory.value
        options: dict[str, Any] = {"tta": tta, "blend": blend, "strength": strength, "memory": memory, "device": device}
        known, seen = self._normalization(), self.seen_as(image)
        target = out if seen.data.ndim == out.ndim else out[None]
        return Prediction(self._ready(device), seen.data, seen.axes, target, normalization=known, **options)

    def _check_shared(self, image: io.Image, output: str | os.PathLike[str] | None) -> None:
        """Raise InputError if several workers cannot share this."""
        if self.network is None:
            raise InputError(
                f"{self.method.name} takes a whole image at once, which workers cannot share: leave them out."
            )
        if image.path is None:
            raise InputError("Workers open the image themselves: give the name of a file, not an array.")
        if output is None or not io.is_store(output):
            raise InputError("Workers write one image together as Zarr only: give an output that ends in .zarr.")

    def _fill_store(
        self,
        image: io.Image,
        output: Path,
        dtype: np.dtype[Any],
        options: dict[str, Any],
        device: Device,
        diagnosis: Diagnosis | None,
        tuned: Tuned | None,
        *,
        on_block: OnBlock | None,
        workers: int | None,
        scheduler: str | None,
        resume: bool,
    ) -> tuple[Predicted, Tuned]:
        """Denoise `image` into a Zarr store, which can be resumed, and may be done by workers."""
        from noise2same.io import ome_zarr
        from noise2same.io.chunks import Chunked
        from noise2same.prediction.job import unfinished
        from noise2same.prediction.store import Remote, fill_store

        io.check_place(output)
        identity = {
            "input": io.state_of(image),
            "model": self.digest(),
            "output": [output.name, str(np.dtype(dtype))],
            "setting": options | {"blend": tuned is None or tuned.blend is not None},
            "version of noise2same": __version__,
        }
        with ExitStack() as stack:
            job = stack.enter_context(unfinished(output, identity, resume=resume))
            begun = job.identity() is not None
            levels = ome_zarr.open_store(job.store) if begun else ome_zarr.new_store(job.store, image, dtype)
            if isinstance(image.data, Chunked):
                known = np.load(job.chunks) if job.chunks.exists() else None
                there = image.data.watch(known)
                if known is None and there is not None:
                    np.save(job.chunks, there)
            client = remote = None
            if workers is not None or scheduler is not None:
                self.save(job.model)
                client = stack.enter_context(connect(workers, scheduler))
            found = self.tuned_to(image, device, diagnosis) if tuned is None else tuned
            job.begin(identity)
            if client is not None and image.path is not None:
                own = self.config.method if isinstance(self.config.method, type) else None
                where = None if device is None else str(device)
                opening = partial(open_prediction, job.model, own, image.path, image.axes, job.store, job.chunks)
                remote = Remote(uuid4().hex, partial(opening, where, found.blend, **options))
            work = self.prediction(image, levels[0], found.device, found.blend, **options)
            done = fill_store(job, work, levels, client=client, remote=remote, on_block=on_block)
        return done, found

    def digest(self) -> str:
        """What tells this model from others: a hash of its weights and of what it takes with them."""
        found = hashlib.sha256(json.dumps(self._header(), sort_keys=True).encode())
        weights = {} if self.network is None else self.network.state_dict()
        for name, values in sorted(weights.items()):
            found.update(name.encode() + values.cpu().contiguous().numpy().tobytes())
        return found.hexdigest()

    def seen_as(self, image: io.Image) -> io.Image:
        """An image as the network takes it: of a film, along time (`data.film.along_time`)."""
        return film.along_time(image) if self.frames and ("T" in image.axes or "Z" not in image.axes) else image

    @property
    def frames(self) -> int:
        """Frames of a film before and after each frame that the network looks at; 0 if it is none for films."""
        if self.plan is not None:
            return self.plan.time.value
        return 0 if self.config.time == "auto" else self.config.time

    def note(self, strength: float = 1.0) -> str:
        """What a result says of how it was made."""
        blended = f", strength {strength:g}" * (strength < 1)
        return f"noise2same {__version__}, {self.method.name}, model {self.digest()[:12]}{blended}"

    def uses_tta(self, image: io.Image) -> bool:
        """Whether an image gets test-time augmentation by default: if a frame ([Z,] Y, X) or a whole film is small."""
        largest = TTA_PIXELS if self.plan is None else self.plan.tta_pixels.value
        seen = self.seen_as(image)
        return math.prod(seen.shape[seen.axes.index(axis)] for axis in ax.spatial(seen.axes)) <= largest

    def adopt(self, images: list[io.Image], resume: bool) -> None:
        """Take axes and channels from the training images, which must agree among each other."""
        first = images[0]
        if self.network is not None and resume:
            self.check_fits(first)
        else:
            self.network = None
            self.axes, self.channels = first.axes, ax.channels(first.axes, first.shape)
        for image in images[1:]:
            self.check_fits(image, f"{first.name} has")

    def check_fits(self, image: io.Image, other: str = "the model takes") -> None:
        """Raise InputError if an image has other channels or dimensions than those trained on."""
        channels = ax.channels(image.axes, image.shape)
        if channels != self.channels:
            numbered = image.path is not None and io.series.number_of(image.path) is not None
            choose = ", or choose some of the file's images with --series" * numbered
            raise InputError(
                f"{image.name} has {channels} channel(s) but {other} {self.channels}; "
                f"use images with the same channels, or the axes that make them so{choose}."
            )
        here, there = len(ax.spatial(image.axes)), len(ax.spatial(self.axes))
        if here != there:
            hint = (
                "give its axes with S instead of Z to take it plane by plane"
                if here == 3
                else "give its axes, or use others"
            )
            raise InputError(f"{image.name} is {here}D (axes {image.axes}) but {other} {there}D; {hint}.")


def open_prediction(
    model: Path,
    method: type[Method] | None,
    image: Path,
    axes: str,
    store: Path,
    chunks: Path,
    device: str | None,
    blend: Blend | None,
    **options: Any,
) -> Prediction:
    """The work of denoising an image into a store, in a worker that has the same files."""
    from noise2same.io import ome_zarr
    from noise2same.io.chunks import Chunked

    opened = io.read(image, axes)
    if isinstance(opened.data, Chunked) and chunks.exists():
        opened.data.watch(np.load(chunks))
    denoiser = Denoiser.load(model, method=method)
    return denoiser.prediction(opened, ome_zarr.open_store(store)[0], pick(device), blend, **options)
