"""The widget *Denoise*: trains on the selected layers, and denoises them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtWidgets import QComboBox, QFileDialog, QFormLayout, QLabel, QPushButton

from noise2same import io
from noise2same.config import Config
from noise2same.errors import InputError
from noise2same.napari import look
from noise2same.napari.layers import is_lazy, view_of
from noise2same.napari.panel import Panel, text_label

if TYPE_CHECKING:
    from noise2same.denoiser import Denoiser
    from noise2same.plan import Plan

PLANNED = 2**23
"""Values of an image up to which the plan that is shown is made from all of it, and not from what is looked at."""
HINTS = {0.0: "seconds, no training", 0.5: "half a minute"}
"""What an effort takes, by its minutes, if not just that many."""


class DenoisePanel(Panel):
    """Trains a network on the selected image layers, and adds a denoised layer for each of them."""

    def _add_rows(self, form: QFormLayout) -> None:
        self.effort = QComboBox()
        self.effort.setAccessibleName("Effort")
        self.effort.currentIndexChanged.connect(self._show_plan)
        self.plan_label: QLabel = text_label()
        self.plan: Plan | None = None
        self.trained: Denoiser | None = None
        form.addRow("Effort", self.effort)
        form.addRow(self.plan_label)

    def _last_buttons(self) -> Sequence[QPushButton]:
        self.save_button = QPushButton("Save model…")
        self.save_button.setToolTip("To use it on more images, with Apply model or on the command line")
        self.save_button.clicked.connect(self._ask_for_model_file)
        return (self.save_button,)

    def _show_state(self) -> None:
        super()._show_state()
        self.save_button.setEnabled(self.trained is not None and "run" not in self._works)

    def _imported(self, _: Any) -> None:
        from noise2same.plan import EFFORTS

        for name, minutes in EFFORTS.items():
            self.effort.addItem(f"{name} ({HINTS.get(minutes, f'{minutes:g} minutes')})", minutes)
        self.effort.setCurrentIndex(self.effort.findData(EFFORTS["Quick"]))
        super()._imported(_)

    @property
    def minutes(self) -> float:
        """The budget that is chosen."""
        return float(self.effort.currentData())

    # the plan

    def _changed(self, *_: Any) -> None:
        self.model, self.plan = None, None
        self.plan_label.setText("")
        super()._changed()

    def _look(self) -> None:
        """Make the plan too, before the preview."""
        if self._ready and self.chosen and self.plan is None and not {"plan", "run"} & set(self._works):
            from noise2same.api import plan

            try:
                planned = self._planned(self.images())
            except InputError as error:
                return self.say(str(error))
            self._start("plan", lambda work: plan(planned()), self._take_plan)
        super()._look()

    def _planned(self, images: list[io.Image]) -> Any:
        """Returns what a plan is made from, in the background: all images, or what is looked at of large ones."""
        small = sum(math.prod(image.shape) for image in images) <= PLANNED
        if small and not any(map(is_lazy, self.chosen)):
            return lambda: images
        first = images[0]
        part = view_of(self.viewer, self.chosen[0], first, look.longest(first, look.LONGEST, flat=True))
        if "Z" in first.axes:  # a plane says little of a volume
            depth = first.axes.index("Z")
            start = max(0, part[depth].start - look.LIVE_DEPTH)
            part = (*part[:depth], slice(start, part[depth].start + look.LIVE_DEPTH + 1), *part[depth + 1 :])
        return lambda: [io.wrap(np.asarray(first.data[part]), first.axes)]

    def _take_plan(self, made: Plan) -> None:
        self.plan = made
        self._show_plan()

    def _show_plan(self, *_: Any) -> None:
        if self.plan is None:
            return
        from noise2same.plan import make_plan

        if self.minutes == 0:
            lines = [self.plan.lines()[0], "No training: the pretrained network as it is."]
        else:
            lines = make_plan(self.plan.fingerprint, Config(minutes=self.minutes)).lines()
        self.plan_label.setText("\n".join(lines))

    # the model

    def denoiser(self) -> Denoiser:
        """A new one, with the budget that is chosen."""
        if self.minutes == 0 and "Z" in self.images()[0].axes:
            raise InputError(
                "Instant is for pictures: choose Quick for a volume, or give its axes with S instead of Z, which "
                "takes it plane by plane."
            )
        from noise2same.denoiser import Denoiser

        return Denoiser(Config(minutes=self.minutes))

    def _finished(self, denoiser: Denoiser) -> None:
        self.trained = denoiser
        if self.chosen == self._trained_on:
            self.model = denoiser
        super()._finished(denoiser)

    def _ask_for_model_file(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save the model", "model.safetensors", "Models (*.safetensors)")
        if path:
            self.save_model(path)

    def save_model(self, path: str) -> None:
        """Write the model that was trained last to a file."""
        assert self.trained is not None, "the button is enabled with a model only"
        try:
            self.say(f"The model is in {self.trained.save(path)}.")
        except (InputError, OSError) as error:
            self._failed(error)
