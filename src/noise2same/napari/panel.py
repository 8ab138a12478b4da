"""What the widgets have in common: layers, axes, a preview, work in the background, results and their strength.

PyTorch is imported in the background, so that a widget is there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from napari.layers import Image as ImageLayer
from napari.utils.notifications import ErrorNotification, notification_manager, show_error
from numpy.typing import NDArray
from qtpy.QtCore import QEvent, Qt, QTimer
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from noise2same import io
from noise2same.errors import InputError
from noise2same.napari import look
from noise2same.napari.curve import LossCurve
from noise2same.napari.layers import MARK, READINGS, Part, guess_axes, image_of, is_lazy, like, place_of, view_of
from noise2same.napari.results import Made, read_result
from noise2same.napari.work import Work

if TYPE_CHECKING:
    from napari import Viewer

    from noise2same.denoiser import Denoiser
    from noise2same.pipeline import Result
    from noise2same.training.state import TrainingState

SETTLED = 300
"""Milliseconds without a change after which a preview or a plan is made."""
WIDTH = 300
"""Least width in pixels, for lines that can be read."""
LIVE_SECONDS = 2.0
"""Between two pictures of what is being learned, at least."""
TOLD_SECONDS = 0.2
"""Between two points of the curve."""


@dataclass(frozen=True)
class Progress:
    """How far the work is."""

    text: str
    share: float
    loss: float | None = None


@dataclass(frozen=True)
class Looked:
    """A part of a layer, denoised."""

    layer: ImageLayer
    part: Part
    pixels: NDArray[Any]


class Panel(QWidget):
    """A dock widget that denoises the selected image layers.

    Parameters
    ----------
    napari_viewer : Viewer
        Whose layers it works on.
    """

    verb = "Denoise"

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self.viewer = napari_viewer
        self.chosen: list[ImageLayer] = []
        self.made: list[Made] = []
        self.model: Denoiser | None = None
        self.preview_layer: ImageLayer | None = None
        self._works: dict[str, Work] = {}
        self._seen: tuple[Any, ...] = ()
        self._adding = self._ready = False
        self._trained_on: list[ImageLayer] = []
        self._looker = look.Looker()
        self._build()
        self._view_timer, self._strength_timer = self._timer(self._look, SETTLED), self._timer(self._blend, 100)
        self._follow()
        self._timer(self._import, SETTLED).start()
        self._select()

    def _import(self) -> None:
        self._start("import", lambda work: import_module("noise2same.api"), self._imported)

    def _imported(self, _: Any) -> None:
        """All that takes long to import is there."""
        self._ready = True
        self._refresh()

    # what is on the panel

    def _build(self) -> None:
        self.layer_label, self.axes = text_label(), QComboBox()
        self.axes.setEditable(True)
        self.axes.setToolTip("A letter for each dimension: S samples, T time, C channels, Z planes, Y and X")
        self.axes.setAccessibleName("Axes")
        self.axes.currentTextChanged.connect(self._changed)
        self.follow = QCheckBox("Preview what I look at")
        self.follow.setChecked(True)
        self.follow.toggled.connect(self._refresh)
        self.status, self.verdict, self.curve, self.bar = text_label(), text_label(), LossCurve(), QProgressBar()
        self.start_button, self.cancel_button = QPushButton(self.verb), QPushButton("Cancel")
        self.stop_button, self.all_button = QPushButton("Stop here"), QPushButton("Denoise all to a file…")
        self.stop_button.setToolTip("End the training now, and denoise with what was learned")
        self.all_button.setToolTip("Of a layer that is read piece by piece, only what you look at is denoised at once")
        self.start_button.clicked.connect(self.start)
        self.cancel_button.clicked.connect(self.cancel)
        self.stop_button.clicked.connect(self.stop)
        self.all_button.clicked.connect(self._ask_for_file)
        self.strength, self.strength_label = QSlider(Qt.Orientation.Horizontal), QLabel("100 %")
        self.strength.setRange(0, 100)
        self.strength.setValue(100)
        self.strength.setAccessibleName("Strength")
        self.strength.setToolTip("How much of the noise is taken away; nothing is trained again")
        self.strength.valueChanged.connect(self._strength_moved)
        self._lay_out()
        self._show_state()

    def _lay_out(self) -> None:
        self.setMinimumWidth(WIDTH)
        form, column = QFormLayout(), QVBoxLayout(self)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("Layer", self.layer_label)
        form.addRow("Axes", self.axes)
        self._add_rows(form)
        column.addLayout(form)
        column.addWidget(self.follow)
        column.addLayout(_row(self.start_button, self.stop_button, self.cancel_button))
        for widget in (self.all_button, self.bar, self.curve, self.status):
            column.addWidget(widget)
        dial = QFormLayout()
        dial.addRow("Strength", _row(self.strength, self.strength_label))
        column.addLayout(dial)
        column.addWidget(self.verdict)
        column.addLayout(_row(*self._last_buttons()))
        column.addStretch()

    def _add_rows(self, form: QFormLayout) -> None:
        """Rows of the one widget that the other has not."""

    def _last_buttons(self) -> Sequence[QPushButton]:
        """Buttons below the result."""
        return ()

    def _show_state(self) -> None:
        """Enable what can be used now, and show what belongs to it."""
        busy = "run" in self._works
        self.start_button.setEnabled(not busy and self._ready)
        self.cancel_button.setEnabled(busy)
        self.stop_button.setEnabled(busy)
        self.stop_button.setVisible(busy and bool(self.curve.points))
        self.bar.setVisible(busy)
        self.curve.setVisible(bool(self.curve.points))
        self.all_button.setVisible(self.model is not None and len(self.chosen) == 1 and is_lazy(self.chosen[0]))
        self.all_button.setEnabled(not busy)
        self.strength.setEnabled(bool(self.made))

    # what napari tells

    def _follow(self) -> None:
        viewer, works = self.viewer, self._works
        camera = getattr(viewer, "scene", viewer).camera  # since 0.9, and before
        self._followed = (
            (viewer.layers.selection.events.changed, self._select),
            (viewer.layers.events.removed, self._select),
            (viewer.dims.events.current_step, self._moved),
            (viewer.dims.events.ndisplay, self._moved),
            (camera.events.center, self._moved),
            (camera.events.zoom, self._moved),
        )
        for emitter, callback in self._followed:
            emitter.connect(callback)
        self.destroyed.connect(lambda: _cancel_all(works))

    def event(self, event: QEvent | None) -> bool:
        """Forget all when the dock is closed, which takes the panel out of it; called by Qt."""
        if event is not None and event.type() == QEvent.Type.ParentChange and self.parent() is None:
            for emitter, callback in self._followed:
                emitter.disconnect(callback)
            _cancel_all(self._works)
            self.deleteLater()
        return bool(super().event(event))

    def _moved(self, event: Any = None) -> None:
        if self.follow.isChecked():
            self._view_timer.start()

    def _select(self, event: Any = None) -> None:
        """Take the selected image layers. To select none, or those that this plugin made, changes nothing."""
        layers = self.viewer.layers
        selected = [layer for layer in layers if layer in layers.selection]
        others = [layer for layer in selected if MARK not in layer.metadata]
        if self._adding or (not others and self.chosen and all(layer in layers for layer in self.chosen)):
            return
        chosen = [layer for layer in others if isinstance(layer, ImageLayer)]
        if chosen == self.chosen and chosen:
            return
        self.chosen = chosen
        self.layer_label.setText(", ".join(layer.name for layer in chosen) or self._nothing(selected))
        guessed = guess_axes(chosen[0]) if chosen else ""
        self.axes.blockSignals(True)
        self.axes.clear()
        self.axes.addItems([axes for axes in READINGS.get(len(guessed), ()) if axes != guessed])
        self.axes.setEditText(guessed)
        self.axes.blockSignals(False)
        self._changed()
        self._show_state()

    def _nothing(self, selected: Sequence[Any]) -> str:
        other = [layer for layer in selected if not isinstance(layer, ImageLayer)]
        if not other:
            return "Select an image layer."
        return f"{other[0].name} is a {other[0]._type_string} layer: select an image layer."

    def _changed(self, *_: Any) -> None:
        """Another layer, or other axes."""
        self._refresh()

    def _refresh(self, *_: Any) -> None:
        """Make the preview anew: it is not true any more."""
        self._seen = ()
        self._remove_preview()
        self._view_timer.start()

    def images(self) -> list[io.Image]:
        """The chosen layers as images with the axes that the panel shows."""
        if not self.chosen:
            raise InputError(self._nothing(list(self.viewer.layers.selection)))
        return [image_of(layer, self.axes.currentText().strip().upper()) for layer in self.chosen]

    # what is looked at

    def _look(self) -> None:
        """Denoise what is looked at in the background, unless it was denoised last."""
        if not (self._ready and self.chosen and self.follow.isChecked() and self._may_look()) or "run" in self._works:
            return
        try:
            image, layer, model = self.images()[0], self.chosen[0], self.model
            part = view_of(self.viewer, layer, image, look.longest(image, look.LONGEST, flat=model is None))
        except InputError as error:
            return self.say(str(error))
        if "look" in self._works:  # comes back when that is done
            return
        if (layer, image.axes, part, model) != self._seen:
            self._seen = (layer, image.axes, part, model)
            denoise = self._looker.denoise
            self._start("look", lambda work: Looked(layer, part, denoise(model, image, part)), self._show_preview)

    def _may_look(self) -> bool:
        """Whether there is something to make a preview with, and no result of the layer, which says more."""
        return not any(made.source in self.chosen and made.layer in self.viewer.layers for made in self.made)

    def _show_preview(self, looked: Looked) -> None:
        if looked.layer not in self.chosen or not self.follow.isChecked():
            return
        old = self.preview_layer
        if old is not None and old in self.viewer.layers and old.data.ndim == looked.pixels.ndim:
            old.data, old.translate = looked.pixels, place_of(looked.layer, looked.part)
        else:
            self.preview_layer = like(looked.layer, looked.pixels, f"{looked.layer.name} preview", looked.part)
            self._add(self.preview_layer)
        self._moved()  # to where one has gone meanwhile

    def _remove_preview(self) -> None:
        if self.preview_layer is not None and self.preview_layer in self.viewer.layers:
            self.viewer.layers.remove(self.preview_layer)
        self.preview_layer = None

    def _add(self, layer: ImageLayer) -> None:
        """Add a layer above the others, and leave those selected that were."""
        selected, self._adding = set(self.viewer.layers.selection), True
        self.viewer.add_layer(layer)
        self.viewer.layers.selection = selected
        self._adding = False

    # work

    def _start(self, kind: str, function: Callable[[Work], Any], done: Callable[[Any], None]) -> None:
        """Run a function in the background; what was under way of its kind is forgotten."""
        if kind in self._works:
            self._works.pop(kind).cancel()
        work = self._works[kind] = Work(function)

        def ended(then: Callable[[Any], None], what: Any) -> None:
            if self._works.get(kind) is work:
                del self._works[kind]
                then(what)
                self._show_state()

        quiet = kind != "run"
        work.told.connect(lambda what: None if work.cancelled else self._told(what))
        work.done.connect(lambda what: ended(done, what))
        work.failed.connect(lambda error: ended(lambda raised: self._failed(raised, quiet), error))
        if kind == "look":  # what was asked for meanwhile
            work.failed.connect(self._moved)
        work.start()
        self._show_state()

    def start(self) -> None:
        """Denoise the chosen layers."""
        try:
            images, denoiser = self.images(), self.denoiser()
            lazy = any(map(is_lazy, self.chosen))
            part = view_of(self.viewer, self.chosen[0], images[0], look.longest(images[0], look.LIVE))
        except InputError as error:
            return self._failed(error)
        layers = list(self.chosen)
        self._forget_last()
        self._trained_on = layers
        self._begin("Reading", lambda work: self._run(work, denoiser, layers, images, part, lazy), self._finished)

    def _forget_last(self) -> None:
        self.made = []
        self.strength.setValue(100)
        self.verdict.setText("")

    def _begin(self, text: str, function: Callable[[Work], Any], done: Callable[[Any], None]) -> None:
        self.curve.clear()
        self.bar.setRange(0, 0)
        self.say(text)
        self._start("run", function, done)

    def denoiser(self) -> Denoiser:
        """What to denoise with: trained already, or to be trained."""
        raise NotImplementedError

    def _run(
        self, work: Work, denoiser: Denoiser, layers: list[ImageLayer], images: list[io.Image], part: Part, lazy: bool
    ) -> Denoiser:
        """In the background: train if need be and denoise; of lazy layers, training is all that is done."""
        from noise2same import pipeline

        order = iter(layers)
        listener = pipeline.Listener(
            say=work.tell,
            on_step=_watcher(work, layers[0], images[0], part),
            on_block=_teller(work),
            on_result=lambda result: work.tell((next(order), result)),
        )
        if not lazy:
            pipeline.run(pipeline.check(images, [None] * len(images), denoiser=denoiser), denoiser, listener=listener)
        elif denoiser.network is None and denoiser.config.minutes == 0:
            denoiser.use_pretrained(images, say=listener.say)
        elif denoiser.network is None:
            pipeline.train(denoiser, images, listener=listener)
        return denoiser

    def _told(self, what: Any) -> None:
        if isinstance(what, Progress):
            self.bar.setRange(0, 1000)
            self.bar.setValue(int(1000 * what.share))
            self.status.setText(what.text)
            if what.loss is not None:
                self.curve.add(what.share, what.loss)
            self._show_state()
        elif isinstance(what, Looked):
            self._show_preview(what)
        elif isinstance(what, tuple):
            self._add_result(*what)
        else:
            self.say(what)

    def _add_result(self, layer: ImageLayer, result: Result) -> None:
        if result.error:
            return show_error(result.error)
        self._remove_preview()
        assessment = result.assessment
        marks = {} if assessment is None else {"verdict": assessment.verdict.word}
        self._add_made(layer, result.denoised, marks)
        if assessment is not None:
            verdict = assessment.verdict
            name = f"{layer.name}: " if len(self._trained_on) > 1 else ""
            told = f"{name}{verdict.word.capitalize()}. {verdict.reason} {verdict.advice}".strip()
            self.verdict.setText("\n".join(filter(None, (self.verdict.text(), told))))

    def _add_made(self, layer: ImageLayer, clean: Any, marks: dict[str, Any]) -> None:
        made = Made(layer, like(layer, clean, f"{layer.name} denoised", **marks), clean)
        self._add(made.layer)
        self.made.append(made)

    def _finished(self, denoiser: Denoiser) -> None:
        steps = denoiser.summary.get("steps", 0)
        self.say(f"Done, after {steps} steps of training." if steps else "Done.")
        if any(map(is_lazy, self.chosen)):
            self.follow.setChecked(True)
            self._refresh()

    def _failed(self, error: Exception, quiet: bool = False) -> None:
        """Say what went wrong: as a notification, or for what nobody asked for, on the panel."""
        self.say(str(error))
        if isinstance(error, InputError | OSError):
            if not quiet:
                show_error(str(error))
        else:
            notification_manager.dispatch(ErrorNotification(error))

    def stop(self) -> None:
        """End the training, and denoise with what was learned."""
        if "run" in self._works:
            self._works["run"].stopped = True

    def cancel(self) -> None:
        """Forget what is under way at once."""
        if "run" in self._works:
            self._works.pop("run").cancel()
            self.curve.clear()
            self.say("Cancelled.")
            self._refresh()
            self._show_state()

    def say(self, text: str) -> None:
        """Show a line on the panel."""
        self.status.setText(text)

    # results

    def _strength_moved(self, value: int) -> None:
        self.strength_label.setText(f"{value} %")
        self._strength_timer.start()

    def _blend(self) -> None:
        for made in self.made:
            made.set_strength(self.strength.value() / 100)

    def _ask_for_file(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Denoise all to a file", "", "Zarr (*.zarr);;TIFF (*.tif)")
        if path:
            self.denoise_to(path)

    def denoise_to(self, path: str) -> None:
        """Denoise all of the chosen layer into a file, piece by piece, and show that."""
        from noise2same import pipeline

        try:
            (image,), (layer,), model = self.images(), self.chosen, self.model
            assert model is not None, "the button is there with a model only"
            job = pipeline.check([image], [path], verdict=False, denoiser=model)
        except (InputError, OSError) as error:
            return self._failed(error)

        def run(work: Work) -> Any:
            pipeline.run(job, model, listener=pipeline.Listener(on_block=_teller(work)))
            return read_result(path, image.axes)

        self._forget_last()
        self._begin("Denoising", run, lambda clean: self._wrote(layer, clean, path))

    def _wrote(self, layer: ImageLayer, clean: Any, path: str) -> None:
        self._remove_preview()
        self._add_made(layer, clean, {"path": path})
        self.say(f"Written to {path}.")

    def _timer(self, call: Callable[[], None], milliseconds: int) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(milliseconds)
        timer.timeout.connect(call)
        return timer


def _watcher(work: Work, layer: ImageLayer, image: io.Image, part: Part) -> Callable[[TrainingState], bool]:
    """A listener that tells the window how a training goes, now and then with a picture."""
    from noise2same.training.pace import Occasionally

    told, shown = Occasionally(TOLD_SECONDS), Occasionally(LIVE_SECONDS)

    def on_step(state: TrainingState) -> bool:
        def tell() -> None:
            left = "" if state.seconds_left is None else f", {state.seconds_left:.0f} s left"
            loss = sum(state.terms.values())
            work.tell(Progress(f"Learning: step {state.step}, loss {loss:.4f}{left}", state.share, loss))

        work.check()
        told(tell)
        shown(lambda: work.tell(Looked(layer, part, look.live(state, image, part))))
        return work.stopped

    return on_step


def _teller(work: Work) -> Callable[[io.Image, int, int], None]:
    """A listener that tells the window how many blocks are done."""
    return lambda image, done, total: work.tell(Progress(f"Denoising {image.title}", done / total))


def _cancel_all(works: dict[str, Work]) -> None:
    for work in works.values():
        work.cancel()


def text_label(text: str = "") -> QLabel:
    """Text that wraps, and can be copied."""
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def _row(*widgets: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    for widget in widgets:
        row.addWidget(widget)
    return row
