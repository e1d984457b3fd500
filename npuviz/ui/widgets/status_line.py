"""The status bar: where the machine is, why it stopped, how fast it went, what was recorded."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QStatusBar, QWidget

from npuviz.ui.theme.theme import Theme
from npuviz.ui.widgets.progress_bar import WorkProgress


class StatusLine(QStatusBar):
    """Labels by name, so that scripts and tests find them: status.cycle, status.stop, ..."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self.cycle = self._label("status.cycle", "Cycle the machine is at", theme, mono=True)
        self.time = self._label("status.time", "The same as a time", theme, mono=True)
        self.stop = self._label("status.stop", "Why it stopped", theme)
        self.work = WorkProgress(self)
        self.addWidget(self.work)
        self.speed = self._label("status.speed", "Simulated cycles a second", theme, at_right=True)
        self.events = self._label("status.events", "Recorded events", theme, at_right=True)
        self.faults = self._label("status.faults", "Faults of the simulated chip", theme, at_right=True)

    def clear_all(self) -> None:
        """Nothing is open."""
        for label in (self.cycle, self.time, self.stop, self.speed, self.events, self.faults):
            label.clear()

    def _label(
        self, name: str, meaning: str, theme: Theme, mono: bool = False, at_right: bool = False
    ) -> QLabel:
        label = QLabel(self)
        label.setObjectName(name)
        label.setToolTip(meaning)
        label.setAccessibleDescription(meaning)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        if mono:
            label.setFont(theme.font_mono(11))
        if at_right:
            self.addPermanentWidget(label)
        else:
            self.addWidget(label)
        return label
