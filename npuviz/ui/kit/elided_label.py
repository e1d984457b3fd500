"""A line of text that is shortened, and completed by a tooltip, where it is longer than its place."""

import re

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy

from npuviz.base.names import fitting, path_ends
from npuviz.ui.kit.plain_text import plain_tip

LEAST_LETTERS = 5
"""A shortened text of at most this many letters, ellipsis included, is not shown at all."""


def elided(metrics: QFontMetrics, text: str, width: int) -> str:
    """Shorten a text to `width` pixels: names that are paths keep their end, others their beginning."""
    if metrics.horizontalAdvance(text) <= width:
        return text
    if path_ends(text):
        return fitting(text, lambda each: metrics.horizontalAdvance(each) <= width)
    return metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)


class ElidedLabel(QLabel):
    """A label that shortens its text to its place and shows all of it as a tooltip. It asks for no width.

    Parts of the text have two spaces or more between them: each but the first is shown whole or not at all.
    """

    def __init__(self) -> None:
        super().__init__(textFormat=Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def is_cut(self) -> bool:
        return self.fontMetrics().horizontalAdvance(self.text()) > self.contentsRect().width()

    @property
    def shown(self) -> str:
        """The part of the text that is painted, "" if too little of it would fit."""
        if not self.is_cut:
            return self.text()
        room, metrics = self.contentsRect().width(), self.fontMetrics()
        for gap in reversed(list(re.finditer(r" {2,}", self.text()))):
            parts = f"{self.text()[: gap.start()]} \u2026"
            if metrics.horizontalAdvance(parts) <= room:
                return parts
        shown = elided(metrics, self.text(), room)
        # So few letters are not understood; the tooltip has the full text.
        return shown if len(shown) > LEAST_LETTERS else ""

    def event(self, event: QEvent) -> bool:
        """Set the tooltip when Qt asks for it: the whole text if it is cut, else none."""
        if event.type() == QEvent.Type.ToolTip:
            self.setToolTip(plain_tip(self.text()) if self.is_cut else "")
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the text, shortened to the room of the label."""
        if not self.is_cut:
            super().paintEvent(event)
            return
        self.style().drawItemText(
            QPainter(self), self.contentsRect(), int(self.alignment()), self.palette(), self.isEnabled(),
            self.shown, self.foregroundRole(),
        )  # fmt: skip
