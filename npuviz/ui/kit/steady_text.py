"""Labels and buttons whose texts change with every step without a new layout of the window."""

from PySide6.QtCore import QEvent, QSize
from PySide6.QtWidgets import QLabel, QPushButton

STEP = 16
"""Widths are whole multiples of this, so that most texts are as wide as the one before them."""


class SteadyLabel(QLabel):
    """A line of text whose width changes only in multiples of STEP pixels.

    Qt lays out the whole window when the text of a label changes, which takes longer than most panels need to
    update; it does not do so for a label of fixed size.
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
    """A button whose width changes only in multiples of STEP pixels, for the reason given in SteadyLabel."""

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
    """Round a width up to a multiple of STEP, and a height up to an even number, to be centred exactly."""
    return QSize(-(-size.width() // STEP) * STEP, -(-size.height() // 2) * 2)
