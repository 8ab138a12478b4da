"""Denoiser: what a user holds. It learns from noisy images, denoises, and is kept in one file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from noise2same import __version__, io, markup, methods
from noise2same.config import Config
from noise2same.data import axes as ax
from noise2same.data import film
from noise2same.data.normalize import Normalization, fill_invalid
from noise2same.data.patches import Patches
from noise2same.data.sampling import open_spread, read_boxes
from noise2same.device import Device, describe, pick
from noise2same.errors import Diverged, InputError
from noise2same.fingerprint import measure_films, read_and_measure
from noise2same.io import Input
from noise2same.methods import Algorithm, Architecture, DataProfile, Method
from noise2same.model_file import About, Header, read_model, write_model
from noise2same.networks.film import tell
from noise2same.networks.pretrained import load_pretrained
from noise2same.networks.separate import Separate
from noise2same.noise.diagnose import Diagnosis, diagnose
from noise2same.noise.frames import read_runs
from noise2same.one_image import DIAGNOSED_VALUES, Denoised, Request, Tuned, denoise_image
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
from noise2same.prediction.engines import prepare_for_inference
from noise2same.prediction.predict import OnBlock, Prediction

if TYPE_CHECKING:
    from noise2same.export import Exported
    from noise2same.quality.checks import Verdict
    from noise2same.training.state import OnStep, TrainingState


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

    @property
    def frames(self) -> int:
        """Frames of a film before and after each frame that the network looks at; 0 if it is none for films."""
        if self.plan is not None:
            return self.plan.time.value
        return 0 if self.config.time == "auto" else self.config.time

    # learning

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

    # denoising

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

    def denoise_in_detail(self, image: Input, axes: str | None = None, **options: Any) -> Denoised:
        """As `denoise` for one image, with what was found on the way; `options` are the fields of `Request`."""
        request = Request(**options)
        if self.network is None and self.method.trained:
            raise InputError("This denoiser is not trained yet: call fit or load a model first.")
        opened, *more = io.open_images(image, axes, fallback=self.axes)
        if more:
            raise InputError(f"There are {len(more) + 1} images: denoise them one by one.")
        return denoise_image(self, opened, request)

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

    def seen_as(self, image: io.Image, like: io.Image | None = None) -> io.Image:
        """An image as the network takes it: of a film, along time (`data.film.along_time`)."""
        return film.along_time(image, like) if self.frames and ("T" in image.axes or "Z" not in image.axes) else image

    def uses_tta(self, image: io.Image) -> bool:
        """Whether an image gets test-time augmentation by default: if a frame ([Z,] Y, X) or a whole film is small."""
        largest = TTA_PIXELS if self.plan is None else self.plan.tta_pixels.value
        seen = self.seen_as(image)
        return math.prod(seen.shape[seen.axes.index(axis)] for axis in ax.spatial(seen.axes)) <= largest

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
        known = self.known_normalization() or Normalization.measure(boxes)
        return Tuned(self, where, diagnosis, measure_blend(self.ready(where), boxes, noise, known, where))

    def prediction(
        self, image: io.Image, out: Any, device: torch.device, blend: Blend | None, *, tta: bool, strength: float
    ) -> Prediction:
        """The work of denoising an image into an array, which can be done in parts."""
        memory = None if self.plan is None else self.plan.block_memory.value
        options: dict[str, Any] = {"tta": tta, "blend": blend, "strength": strength, "memory": memory, "device": device}
        known, seen = self.known_normalization(), self.seen_as(image)
        target = out if seen.data.ndim == out.ndim else out[None]
        return Prediction(self.ready(device), seen.data, seen.axes, target, normalization=known, **options)

    @property
    def _blends(self) -> bool:
        return self.config.blend if self.plan is None else self.plan.blend.value

    def known_normalization(self) -> Normalization | None:
        """Statistics to normalize with; None for those of each image by itself."""
        how = self.config.normalization if self.plan is None else self.plan.normalization.value
        return self.normalization if how == "dataset" else None

    def ready(self, device: torch.device) -> nn.Module:
        """The network, ready to predict on a device; it is made once for any number of images."""
        assert self.network is not None, "only a network is made ready"
        if self._prepared is None or self._prepared[0] != device:
            self._prepared = device, prepare_for_inference(self.network, device)
        return self._prepared[1]

    # the model file

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one `.safetensors` file: weights, and in its header everything else."""
        if self.network is None:
            raise InputError("This denoiser is not trained yet: there is nothing to save.")
        path = Path(path)
        said = {"summary": self.summary, "about": self.about.model_dump(mode="json")}
        write_model(path, self._header() | said, self.network.state_dict())
        return path

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
        portable = export.Portable(self.network, self.known_normalization(), self.channels, blend, tta)
        facts = {"noise2same": __version__, "method": self.method.name, "model": self.digest()}
        facts |= {"steps": self.summary.get("steps", 0), "pretrained": self.summary.get("pretrained", False)}
        return export.write(place, form, portable, about, facts, pixels, blends=self._blends)

    def _header(self) -> dict[str, Any]:
        """All that decides its results but the weights, as JSON holds it."""
        return {
            "config": self.config.model_dump(mode="json"),
            "plan": None if self.plan is None else self.plan.model_dump(mode="json"),
            "axes": self.axes,
            "channels": self.channels,
            "normalization": dataclasses.asdict(self.normalization),
        }

    def digest(self) -> str:
        """What tells this model from others: a hash of its weights and of what it takes with them."""
        found = hashlib.sha256(json.dumps(self._header(), sort_keys=True).encode())
        weights = {} if self.network is None else self.network.state_dict()
        for name, values in sorted(weights.items()):
            found.update(name.encode() + values.cpu().contiguous().numpy().tobytes())
        return found.hexdigest()

    def note(self, strength: float = 1.0) -> str:
        """What a result says of how it was made."""
        blended = f", strength {strength:g}" * (strength < 1)
        return f"noise2same {__version__}, {self.method.name}, model {self.digest()[:12]}{blended}"

    def __getstate__(self) -> dict[str, Any]:
        """All but what is made anew on first use, which cannot be pickled or copied."""
        return vars(self) | {"_prepared": None}

    # the network

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

    def _with(self, network: nn.Module) -> Denoiser:
        """The same denoiser with another network."""
        other = copy(self)
        other.network, other._prepared = network, None
        return other
