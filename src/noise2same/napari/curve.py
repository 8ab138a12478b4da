"""The loss while a network learns, as a line."""

from __future__ import annotations

from itertools import pairwise

from qtpy.QtCore import QPointF, Qt
from qtpy.QtGui import QPainter, QPaintEvent, QPen
from qtpy.QtWidgets import QSizePolicy, QWidget

HEIGHT = 80
"""Of the widget in pixels."""
MARGIN = 4
"""Pixels around the line."""


class LossCurve(QWidget):
    """A line through the points that `add` is given; from left to right is the whole training."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[float, float]] = []
        self.setMinimumHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Loss while training")
        self.setToolTip("The loss, from the first step on the left to the end of the budget on the right")

    def add(self, share: float, loss: float) -> None:
        """Add a point: how far the training is, from 0 to 1, and the loss there."""
        self.points.append((share, loss))
        self.update()

    def clear(self) -> None:
        """Begin anew."""
        self.points.clear()
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the frame and the line; called by Qt."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        color = self.palette().text().color()
        faint = QPen(color, 1, Qt.PenStyle.DotLine)
        painter.setPen(faint)
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        if len(self.points) < 2:
            return
        losses = [loss for _, loss in self.points]
        low, span = min(losses), (max(losses) - min(losses)) or 1.0
        width, height = self.width() - 2 * MARGIN, self.height() - 2 * MARGIN
        places = [
            QPointF(MARGIN + share * width, MARGIN + (1 - (loss - low) / span) * height) for share, loss in self.points
        ]
        painter.setPen(QPen(color, 1.5))
        for one, other in pairwise(places):
            painter.drawLine(one, other)
