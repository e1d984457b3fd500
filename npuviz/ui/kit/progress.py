"""Progress of long work: text, a thin bar and a way to stop it; invisible for the first 300 ms."""

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QProgressBar, QWidget

from npuviz.ui.kit.elided_label import ElidedLabel
from npuviz.ui.kit.parts import line, text_button

DELAY_MS = 300
STEPS = 1000
WIDTH = 160
MOST_TEXT = 360
"""Largest width of the text in pixels; a longer one is cut."""


class WorkProgress(QWidget):
    """Shows what `report` is told; emits `cancelled` when the user wants the work to stop."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("progress")
        self._text = ElidedLabel()
        self._text.setObjectName("progress.text")
        self._bar = QProgressBar(self, textVisible=False)
        self._bar.setFixedWidth(WIDTH)
        self._bar.setRange(0, 0)
        stop = text_button(self, "Cancel", self.cancelled.emit)
        stop.setObjectName("progress.cancel")
        stop.setToolTip("Stop this work (Esc)")
        layout = line(self._text, self._bar, stop, margins=(0, 0, 4, 0))
        layout.setAlignment(self._bar, Qt.AlignmentFlag.AlignVCenter)
        self.setLayout(layout)
        self._delay = QTimer(self, singleShot=True, interval=DELAY_MS)
        self._delay.timeout.connect(self.show)
        self.hide()

    @property
    def text(self) -> str:
        """The text of the last report."""
        return self._text.text()

    def report(self, fraction: float, text: str) -> None:
        """Show how much of the work is done, 0..1; a negative fraction means unknown."""
        if self.isHidden() and not self._delay.isActive():
            self._delay.start()
        self._text.setText(text)
        self._text.setFixedWidth(min(self._text.sizeHint().width() + 1, MOST_TEXT))
        if fraction < 0:
            self._bar.setRange(0, 0)
        else:
            self._bar.setRange(0, STEPS)
            self._bar.setValue(round(min(1.0, fraction) * STEPS))

    def end(self) -> None:
        """Hide the progress: the work is over."""
        self._delay.stop()
        self.hide()
