"""The status bar: cycle, reason of the stop, speed, recorded events, hazards, faults."""

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QStatusBar, QWidget

from npuviz.ui.kit.progress import WorkProgress
from npuviz.ui.kit.steady_text import SteadyLabel
from npuviz.ui.theme.theme import Theme

COMPILING_MEANS = (
    "A process of lower priority compiles what simulates or draws fast. "
    "Until then the same is done more slowly, with the same results"
)

GAP = 8
"""Pixels that are reckoned at each side of a label."""
LEAST_STOP = 80
"""Pixels kept for the reason of a stop; other labels are hidden rather than take them."""


class ClickLabel(QLabel):
    """A label that acts as a button.

    clicked  by the left button, Return or Space
    """

    clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, textFormat=Qt.TextFormat.PlainText)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.clicked.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.clicked.emit()
        else:
            super().keyPressEvent(event)


class StatusLine(QStatusBar):
    """A status bar whose labels have object names for scripts and tests: status.cycle, status.stop, ..."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self._dropped: list[QLabel] = []
        self.cycle = self._label("status.cycle", "Cycle the machine is at", theme, mono=True)
        self.time = self._label("status.time", "The same as a time", theme, mono=True)
        self.stop = self._label("status.stop", "Why it stopped", theme)
        # The reason may be long: it takes the room there is, and never widens the window.
        self.stop.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.removeWidget(self.stop)
        self.addWidget(self.stop, 1)
        self.stop.show()
        self.work = WorkProgress(self)
        self.addWidget(self.work)
        self.compiling = self._label("status.compiling", COMPILING_MEANS, theme, at_right=True)
        self.speed = self._label("status.speed", "Simulated cycles a second", theme, at_right=True)
        self.events = self._label("status.events", "Recorded events", theme, at_right=True)
        self.hazards = ClickLabel(self)
        self._add(
            "status.hazards", "Hazards up to this cycle; click for the list", self.hazards, at_right=True
        )
        self.faults = self._label("status.faults", "Faults of the simulated chip", theme, at_right=True)

    def minimumSizeHint(self) -> QSize:
        """Return a size of no width, so that long texts never widen the window."""
        return QSize(0, super().minimumSizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Hide labels without room, or show them again, before a layout or resize is handled."""
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self._make_room()
        return super().event(event)

    def _make_room(self) -> None:
        """Hide the least important labels where the rest would be cut; show them again when there is room."""
        needed = [self.cycle, self.faults, self.hazards, self.time, self.events, self.speed, self.compiling]
        room = self.width() - LEAST_STOP
        if not self.work.isHidden():
            room -= self.work.sizeHint().width() + GAP
        for label in needed:
            if not label.text():
                continue
            # A label that other code has hidden stays hidden.
            if label.isHidden() and label not in self._dropped:
                continue
            room -= label.sizeHint().width() + 2 * GAP
            if room < 0:
                if label not in self._dropped:
                    self._dropped.append(label)
                label.hide()
            elif label in self._dropped:
                self._dropped.remove(label)
                label.show()

    def clear_all(self) -> None:
        """Clear all labels, because nothing is open."""
        for label in (self.cycle, self.time, self.stop, self.speed, self.events, self.hazards, self.faults):
            label.clear()

    def _label(
        self, name: str, meaning: str, theme: Theme, mono: bool = False, at_right: bool = False
    ) -> QLabel:
        label = (QLabel if name == "status.stop" else SteadyLabel)(self, textFormat=Qt.TextFormat.PlainText)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        if mono:
            label.setFont(theme.font_mono(11))
        self._add(name, meaning, label, at_right)
        return label

    def _add(self, name: str, meaning: str, label: QLabel, at_right: bool) -> None:
        label.setObjectName(name)
        label.setToolTip(meaning)
        label.setAccessibleDescription(meaning)
        if at_right:
            self.addPermanentWidget(label)
        else:
            self.addWidget(label)
