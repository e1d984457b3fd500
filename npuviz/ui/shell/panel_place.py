"""Where a panel goes inside its dock."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from npuviz.ui.kit.panel import Panel

MIN_PANEL = (160, 72)
"""Pixels below which no panel shrinks."""


class PanelPlace(QWidget):
    """Keeps the room of a panel that may not have been made yet.

    missed  the room is being drawn, and there is no panel in it
    """

    missed = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        # Explicit, because one long label would otherwise push its neighbours, or the window, around.
        self.setMinimumSize(*MIN_PANEL)
        self._room = QVBoxLayout(self)
        self._room.setContentsMargins(0, 0, 0, 0)

    @property
    def is_seen(self) -> bool:
        """Whether it is on the screen. Behind a tab it is "visible" for Qt, but nothing of it is seen."""
        return self.isVisible() and not self.visibleRegion().isEmpty()

    def put(self, panel: Panel) -> None:
        """Fill it with its panel, which belongs to it from now on."""
        panel.setMinimumSize(*MIN_PANEL)
        self._room.addWidget(panel)
        self._room.activate()
        panel.show()
        self.setFocusProxy(panel)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._room.isEmpty():
            self.missed.emit()
        super().paintEvent(event)
