"""Denoiser: what a user holds. It learns from noisy images, denoises, and is kept in one file."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from noise2same import io, methods
from noise2same.config import Config
from noise2same.data import axes as ax
from noise2same.data.normalize import Normalization
from noise2same.data.training_data import prepare
from noise2same.device import describe, pick
from noise2same.errors import Diverged, InputError
from noise2same.io import Input
from noise2same.methods import Facts, Method
from noise2same.model_file import Header, read_model, write_model
from noise2same.networks import pretrained as starter
from noise2same.plan import Recipe
from noise2same.prediction.engines import ready
from noise2same.prediction.predict import predict, predict_whole

if TYPE_CHECKING:
    from noise2same.quality.checks import Verdict
    from noise2same.training.state import OnStep

FULL_LEARNING_RATE_PIXELS = 2**18
"""Pixels of all images, from which on a pretrained network has the full learning rate.

With fewer it has that much less of it, but at least a tenth: it would soon overfit their noise.
"""
SMALL = 2**20
"""Pixels of an image that is denoised in eight orientations unless told otherwise: seconds, even on a CPU."""


class Denoiser:
    """Learns to denoise from noisy images alone.

    Parameters
    ----------
    config : Config, optional
        Settings; the defaults suit a few minutes on a CPU.

    Attributes
    ----------
    network : Module or None
        The trained network, None before `fit`.
    axes : str
        Axes of the images it was trained on.
    channels : int
        Channels it takes.
    normalization : Normalization
        Statistics of the training images.
    blend : tuple of float
        Weight of the network's output in each channel of the result; the rest is the noisy image. 1 but where training
        ended with an output that is estimated to be farther from the truth than the blend.
    summary : dict
        What happened in training: steps, seconds, noise level, loss terms.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        methods.find(self.config)  # which says what is wrong with the settings
        self.network: nn.Module | None = None
        self._prepared: nn.Module | None = None
        self.axes, self.channels = "YX", 1
        self.normalization = Normalization((0.0,), (1.0,))
        self.blend: tuple[float, ...] = (1.0,)
        self.summary: dict[str, Any] = {}

    @property
    def method(self) -> type[Method]:
        """The method that its settings name."""
        return methods.find(self.config)

    def fit(
        self,
        images: Input | Sequence[Input],
        axes: str | None = None,
        *,
        target: Input | Sequence[Input] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        log: str | os.PathLike[str] | None = None,
        progress: bool = True,
        on_step: OnStep | None = None,
        say: Callable[[str], None] = lambda line: None,
        watch: Callable[[Denoiser], dict[str, float]] | None = None,
    ) -> Denoiser:
        """Train on noisy images and return self.

        Ctrl-C ends training early and keeps what was learned; `summary["interrupted"]` then is True. When the loss
        becomes NaN or infinite, `Diverged` is raised, and this denoiser has the last weights that were good.

        Parameters
        ----------
        images, axes, target
            As for `train`.
        checkpoint : path, optional
            Where the state of the run is kept every minute; yours to remove once the model is saved.
        resume : bool
            Go on from `checkpoint`; without one, go on from the weights of this denoiser with a new budget.
        log : path, optional
            Folder for the loss terms, as CSV and for TensorBoard.
        progress : bool
            Whether to show a progress bar on stderr.
        on_step : callable, optional
            Given a `TrainingState` after every step; True or "stop" ends training and keeps what was learned.
        say : callable
            Told in one line what is about to happen.
        watch : callable, optional
            Given a denoiser as trained so far, fifty times in the run; the figures it returns join the history in
            `summary`.
        """
        if self.config.minutes == 0:
            raise InputError("minutes=0 trains nothing: give it some minutes, or denoise without training.")
        from noise2same.training import loop
        from noise2same.training.held_out import held_out_error
        from noise2same.training.progress import ProgressBar
        from noise2same.training.state import to_all

        methods.check_target(self.config, given=target is not None)
        opened = io.open_images(images, axes)
        before = self.normalization, self.blend
        self._adopt(opened, resume)
        further = self.network is not None
        data = prepare(opened, self.config, None if target is None else io.open_pairs(opened, target, axes))
        self.normalization = data.normalization
        method = self.method(self.config, data.facts())
        self._prepared, method.warm = None, True
        if self.network is None:
            self.network = self._new_network(method)
            method.warm = method.adapts and not self.config.from_scratch and starter.begin(self.network)
        device = pick()
        start = "beginning with a trained network" if method.warm else "from scratch"
        say(f"Training on {describe(device)}, {start}: {len(opened)} image{'s' * (len(opened) > 1)}, {data}{method}.")
        saved = None if checkpoint is None else Path(checkpoint)
        patches = data.patches(self.config)
        held_out = held_out_error(
            patches, method.facts.noise, self.config.seed, method.supervised, noisy_target=method.noisy_target
        )
        with ProgressBar() as bar:
            outcome = loop.fit(
                self.network,
                method,
                patches,
                self._recipe(method.warm, len(patches.pixels), len(data.slabs)),
                held_out=held_out,
                device=device,
                checkpoint=saved,
                resume=resume and saved is not None and saved.exists(),
                log=None if log is None else Path(log),
                on_step=to_all(bar if progress else None, on_step),
                on_point=None if watch is None else lambda network: watch(self._with(network)),
            )
        self.network.cpu()
        self.blend = outcome.blend or (1.0,)
        if further and outcome.unchanged:
            self.normalization, self.blend = before
        for line in blend_in_words(self.blend):
            say(line)
        weights = getattr(method, "lambda_inv", None)
        self.summary = dataclasses.asdict(outcome) | {
            "blend": list(self.blend),
            "sigma": list(data.noise.sigma),
            "slope": list(data.noise.slope),
            "lambda_inv": None if weights is None else list(weights),
            "device": str(device),
            "images": len(opened),
            "warm": method.warm,
        }
        if outcome.diverged:
            raise Diverged(
                f"Training diverged after step {outcome.steps} (its loss or weights are not finite): give a lower "
                f"learning rate, such as learning_rate={self.config.learning_rate / 3:.1g} (--set on the command line)."
            )
        return self

    def take_pretrained(
        self,
        images: Input | Sequence[Input],
        axes: str | None = None,
        *,
        say: Callable[[str], None] = lambda line: None,
    ) -> Denoiser:
        """Take the network trained on other pictures as it is, for images like these, and return self (minutes=0)."""
        of_training = ("method", "noise_model", "from_scratch", *methods.METHOD_SETTINGS)
        default = Config(preset=self.config.preset)
        for name in of_training:
            if getattr(self.config, name) != getattr(default, name):
                raise InputError(f"minutes=0 trains nothing, which {name} is for: leave one of them out.")
        opened = io.open_images(images, axes)
        self._adopt(opened, resume=False)
        network = self.new_network()
        if not starter.begin(network):
            raise InputError(
                f"{opened[0].name}: networks trained beforehand are there for 2D images with 1 or 3 channels and the "
                f"default network, not for {len(ax.spatial(self.axes))}D ones with {self.channels} channel(s) and "
                "these settings; leave out minutes=0 to train one."
            )
        say(f"Not training: a network trained on other pictures, on {describe(pick())}.")
        self.network, self._prepared = network.eval(), None
        self.normalization = Normalization((0.0,) * self.channels, (1.0,) * self.channels)
        self.blend = (1.0,)
        self.config = self.config.model_copy(update={"normalization": "image"})
        self.summary = {"steps": 0, "seconds": 0.0, "interrupted": False, "images": len(opened), "warm": True}
        return self

    def denoise(
        self,
        image: Input,
        axes: str | None = None,
        *,
        output: str | os.PathLike[str] | None = None,
        dtype: str = "same",
        augment: bool | None = None,
        advance: Callable[[float], None] = lambda share: None,
    ) -> Any:
        """Denoise one image in overlapping tiles.

        Parameters
        ----------
        image : path or array
            What to denoise; from a file it is read piece by piece where the format allows.
        axes : str, optional
            Its axes, where it does not say itself.
        output : path, optional
            File to write, in the format of its suffix, with the axes and pixel size of the input. Appears complete or
            not at all.
        dtype : str
            "same" as the input (integers rounded and clipped), or the name of another, such as "float32".
        augment : bool, optional
            Average over eight rotations and flips: slightly better, eight times slower. By default small images are.
        advance : callable
            Told which share of the work has been done since the last time.

        Returns
        -------
        array or Path
            The denoised array, or the path of the file when `output` is given.
        """
        if self.network is None and self.method.trained:
            raise InputError("This denoiser is not trained yet: call fit or load a model first.")
        opened, *more = io.open_images(image, axes, fallback=self.axes)
        if more:
            raise InputError(f"There are {len(more) + 1} images: denoise them one by one.")
        if self.network is not None:
            self.check_fits(opened)
        elif augment:
            raise InputError(f"{self.config.method} is not a network, which augment is for: leave that out.")
        target = opened.dtype if dtype == "same" else io.dtype_of(dtype)
        sink: AbstractContextManager[Any]
        if output is None:
            sink = nullcontext(np.empty(opened.shape, target))
        else:
            if opened.path is not None:
                io.check_output(output, [opened.path])
            sink = io.create(output, opened, target)
        with sink as out:
            bad = self._predict(opened, out, augment, advance)
        if bad:
            warnings.warn(f"{opened.name}: {bad} NaN or infinite pixels were passed through.", stacklevel=2)
        if opened.others:
            warnings.warn(f"{opened.name} holds {opened.others + 1} images; only the first was denoised.", stacklevel=2)
        return out if output is None else Path(output)

    def report(
        self,
        path: str | os.PathLike[str],
        image: Input,
        axes: str | None = None,
        *,
        truth: Input | None = None,
    ) -> Verdict:
        """Denoise an image, write a page (.html) or picture (.png) about the result, and return the verdict on it.

        Of a large image, its middle is shown and judged.

        Parameters
        ----------
        path : path
            File to write.
        image, axes
            As for `denoise`.
        truth : path or array, optional
            The clean image, for PSNR and SSIM.
        """
        from noise2same.quality.assess import look_at, write_report

        noisy, *_ = io.open_images(image, axes, fallback=self.axes)
        known = None if truth is None else io.open_images(truth, axes, fallback=self.axes)[0]
        io.check_apart(path, [one.path for one in (noisy, known) if one is not None and one.path is not None])
        result = look_at(noisy, None, self)
        write_report(path, result, self, known)
        return result.verdict

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one `.safetensors` file: weights, and in its header everything else."""
        if self.network is None:
            raise InputError("This denoiser is not trained yet: there is nothing to save.")
        path = Path(path)
        header = {
            "config": self.config.model_dump(mode="json"),
            "axes": self.axes,
            "channels": self.channels,
            "normalization": dataclasses.asdict(self.normalization),
            "blend": self.blend,
            "summary": self.summary,
        }
        write_model(path, header, self.network.state_dict())
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Denoiser:
        """Read a model written by `save`. Nothing in the file is executed, and no file that it names is opened."""
        header, weights = read_model(Path(path))
        try:
            stored = Header(**header)
            kind = methods.every().get(stored.config.get("method", ""), Method)
            unused = set(methods.METHOD_SETTINGS) - kind.settings  # whose defaults may have been others
            config = {name: value for name, value in stored.config.items() if name not in unused}
            model = cls(Config.from_header(config))
            model.axes, model.channels, model.summary = stored.axes, stored.channels, stored.summary
            model.normalization = Normalization(stored.normalization.mean, stored.normalization.std)
            model.blend = stored.blend
            model.network = model.new_network()
            model.network.load_state_dict(weights)
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
        return self._new_network(self._method())

    def _method(self) -> Method:
        """Its method for images of which no more than their shape is known."""
        return self.method(self.config, Facts(len(ax.spatial(self.axes)), self.channels))

    def _new_network(self, method: Method) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            return method.network()

    def _recipe(self, pretrained: bool, pixels: int, images: int) -> Recipe:
        """How to train a network on images of that many pixels in all."""
        config = self.config.with_budget(0.5 if pretrained and images == 1 else 5.0)
        share = min(1.0, max(0.1, pixels / FULL_LEARNING_RATE_PIXELS)) if pretrained else 1.0
        return Recipe(
            steps=config.steps,
            minutes=config.minutes,
            learning_rate=share * config.learning_rate,
            schedule=config.schedule,
            clip=config.clip,
            ema=config.ema,
            freeze_bn_after=0.0 if pretrained else config.settle,
            early_stopping=config.early_stop,
            pretrained=pretrained,
            seed=config.seed,
        )

    def _predict(self, image: io.Image, out: Any, augment: bool | None, advance: Callable[[float], None]) -> int:
        """Denoise `image` into `out`; how many NaN and infinite pixels were passed through."""
        if self.network is None:
            facts = Facts(len(ax.spatial(image.axes)), ax.channels(image.axes, image.shape))
            method = self.method(self.config, facts)
            return predict_whole(method.denoise, image.data, image.axes, out, advance=advance)
        if self._prepared is None:  # once for any number of images
            self._prepared = ready(self.network, pick(), math.prod(image.shape))
        return predict(
            self._prepared,
            image.data,
            image.axes,
            out,
            normalization=self.normalization if self.config.normalization == "dataset" else None,
            augment=self.turns(image) if augment is None else augment,
            blend=self.blend,
            advance=advance,
        )

    def turns(self, image: io.Image) -> bool:
        """Whether an image is denoised in eight orientations unless told otherwise: by the size of one frame."""
        return math.prod(image.shape[image.axes.index(axis)] for axis in ax.spatial(image.axes)) <= SMALL

    def _adopt(self, images: list[io.Image], resume: bool) -> None:
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
            raise InputError(
                f"{image.name} has {channels} channel(s) but {other} {self.channels}; "
                "use images with the same channels, or the axes that make them so."
            )
        here, there = len(ax.spatial(image.axes)), len(ax.spatial(self.axes))
        if here != there:
            hint = (
                "give its axes with S instead of Z to take it plane by plane"
                if here == 3
                else "give its axes, or use others"
            )
            raise InputError(f"{image.name} is {here}D (axes {image.axes}) but {other} {there}D; {hint}.")


def blend_in_words(blend: Sequence[float]) -> list[str]:
    """A sentence for each channel whose result is in part the noisy image."""
    names = [f"channel {c + 1}" for c in range(len(blend))] if len(blend) > 1 else ["the image"]
    return [
        f"The network takes more than noise from {name}: its result is blended, {1 - weight:.0%} of it is the input. "
        "Train longer for more."
        for name, weight in zip(names, blend, strict=True)
        if weight < 0.95
    ]
