"""The widget *Apply model*: denoises the selected layers with a model that was trained before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtGui import QDragEnterEvent, QDropEvent
from qtpy.QtWidgets import QFileDialog, QFormLayout, QPushButton

from noise2same.errors import InputError
from noise2same.napari.panel import Panel, text_label

if TYPE_CHECKING:
    from napari import Viewer

    from noise2same.denoiser import Denoiser

SUFFIX = ".safetensors"


class ApplyPanel(Panel):
    """Denoises the selected image layers with a model from a file."""

    verb = "Apply"

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self.setAcceptDrops(True)

    def _add_rows(self, form: QFormLayout) -> None:
        self.model_label, button = text_label("Open a model, or drop its file here."), QPushButton("Open model…")
        button.clicked.connect(self._ask_for_model)
        form.addRow("Model", button)
        form.addRow("", self.model_label)

    def _show_state(self) -> None:
        super()._show_state()
        self.start_button.setEnabled(self.start_button.isEnabled() and self.model is not None)

    def _may_look(self) -> bool:
        return self.model is not None and super()._may_look()

    def denoiser(self) -> Denoiser:
        """The one that was opened."""
        if self.model is None:
            raise InputError("Open a model first: a .safetensors file that Denoise or the command line saved.")
        return self.model

    def _ask_for_model(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open a model", "", f"Models (*{SUFFIX})")
        if path:
            self.open_model(path)

    def open_model(self, path: str) -> None:
        """Use the model in a file from now on; one that cannot be read changes nothing."""
        from noise2same.denoiser import Denoiser

        try:
            self.model = Denoiser.load(path)
        except (InputError, OSError) as error:
            return self._failed(error)
        model = self.model
        steps = model.summary.get("steps", 0)
        self.model_label.setText(
            f"{path}\n{model.method.name}, {steps} steps, for images like {model.axes} with {model.channels} channel(s)"
        )
        self._refresh()
        self._show_state()

    def dragEnterEvent(self, event: QDragEnterEvent | None) -> None:
        """Take files of models; called by Qt."""
        if event is not None and _models(event):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent | None) -> None:
        """Open the model that was dropped; called by Qt."""
        if event is not None:
            self.open_model(_models(event)[0])


def _models(event: QDropEvent) -> list[str]:
    data = event.mimeData()
    urls = [] if data is None else data.urls()
    return [url.toLocalFile() for url in urls if url.toLocalFile().endswith(SUFFIX)]
