"""A card in the middle of the window: which file is being opened, and how long that took the last time."""

import time
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFrame, QProgressBar, QPushButton, QWidget

from npuviz.base.names import printable
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.kit.elided_label import ElidedLabel
from npuviz.ui.kit.parts import fill, line, muted_label
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.sessions.last_times import last_seconds
from npuviz.workbench.settings import Settings

DELAY_MS = 300
"""Milliseconds of opening before the card appears."""
TICK_MS = 200
WIDTH = 460
STEPS = 1000


class OpeningCard(QFrame):
    """An overlay of the window while a file is being opened; Cancel or Esc stops the opening."""

    def __init__(self, theme: Theme, model: SessionModel, settings: Settings, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("palette_box")
        self._model, self._settings = model, settings
        self._begin, self._usual = 0.0, 0.0
        self.title = ElidedLabel()
        self.title.setFont(theme.font_ui(14, bold=True))
        self.text = muted_label(self, "opening.text")
        self.time = muted_label(self, "opening.time")
        self._bar = QProgressBar(self, textVisible=False)
        cancel = QPushButton("Cancel", self)
        cancel.setObjectName("opening.cancel")
        cancel.setToolTip("Stop opening (Esc)")
        cancel.clicked.connect(model.cancel)
        lower = line(self.time, 1, cancel, margins=(0, 0, 0, 0))
        fill(self, self.title, self.text, self._bar, lower, margins=(16, 12, 16, 12), spacing=8)
        self.setFixedWidth(WIDTH)
        self._tick = QTimer(self, interval=TICK_MS)
        self._tick.timeout.connect(self._count)
        model.progress.connect(self._report)
        self.hide()

    def place(self) -> None:
        """Move to the middle of the window; the window calls this when its size changes."""
        room = self.window().size()
        self.adjustSize()
        self.move((room.width() - self.width()) // 2, (room.height() - self.height()) // 3)

    def _report(self, fraction: float, text: str) -> None:
        opening = self._model.opening
        if not text or opening is None:
            self._tick.stop()
            self.hide()
            return
        if not self._tick.isActive():
            path, options = opening
            self._begin = time.perf_counter()
            self._usual = last_seconds(self._settings, path, options) or 0.0
            self.title.setText(f"Opening {printable(Path(path.name))}")
            self._tick.start()
        self.text.setText(text.partition(": ")[2] or "reading")
        self._show_share(fraction)
        self._count()

    def _count(self) -> None:
        seconds = time.perf_counter() - self._begin
        told = f"; the last time {self._usual:.1f} s" if self._usual else ""
        self.time.setText(f"{seconds:.0f} s{told}")
        if seconds * 1000 >= DELAY_MS and self.isHidden():
            self.place()
            self.show()
            self.raise_()

    def _show_share(self, fraction: float) -> None:
        self._bar.setRange(0, 0 if fraction < 0 else STEPS)
        if fraction >= 0:
            self._bar.setValue(round(min(fraction, 1.0) * STEPS))
