"""Texts that change with every step and move nothing when they do."""

from PySide6.QtCore import QEvent, QSize
from PySide6.QtWidgets import QLabel, QPushButton

STEP = 16
"""Widths are whole multiples of this, so that most texts are as wide as the one before them."""


class SteadyLabel(QLabel):
    """A line of text whose place changes in steps.

    Qt lays out the whole window when the text of a label changes, which costs more than most panels do; it
    does not where the size of the label is fixed.
    """

    def setText(self, text: str) -> None:
        super().setText(text)
        self._fit()

    def clear(self) -> None:
        """Show nothing, and take no room."""
        self.setText("")

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()

    def _fit(self) -> None:
        size = steady_size(self.sizeHint()) if self.text() else QSize(0, self.sizeHint().height())
        if size != self.maximumSize():
            self.setFixedSize(size)


class SteadyButton(QPushButton):
    """A button whose place changes in steps, for the same reason."""

    def setText(self, text: str) -> None:
        super().setText(text)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()

    def _fit(self) -> None:
        size = steady_size(self.sizeHint())
        if size != self.maximumSize():
            self.setFixedSize(size)


def steady_size(size: QSize) -> QSize:
    """A size whose width is rounded up; an even height is in the middle of a bar to the pixel."""
    return QSize(-(-size.width() // STEP) * STEP, -(-size.height() // 2) * 2)
