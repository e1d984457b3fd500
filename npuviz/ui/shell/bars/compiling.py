"""Show in the status bar which kernels are being compiled in the background, and for how long."""

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QLabel

from npuviz.base.kernels.entries import awaited

TICK_MS = 1000


class CompilingDisplay(QObject):
    """Updates the label once a second; it is empty while no kernel is being compiled."""

    def __init__(self, label: QLabel, parent: QObject) -> None:
        super().__init__(parent)
        self._label = label
        self._tick = QTimer(self, interval=TICK_MS)
        self._tick.timeout.connect(self.refresh)
        self._tick.start()
        self.refresh()

    def refresh(self) -> None:
        """Show which kernels are being compiled now, and the seconds of the longest wait."""
        found = awaited()
        seconds = max(found.values(), default=0.0)
        text = f"compiling kernels ({', '.join(sorted(found))}): {seconds:.0f} s" if found else ""
        if text != self._label.text():
            self._label.setText(text)
