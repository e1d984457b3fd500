"""The widget inside a dock that holds the panel, or its place until the panel is created."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from npuviz.ui.kit.panel import Panel

MIN_PANEL = (160, 72)
"""Smallest width and height of a panel in pixels."""


class PanelPlace(QWidget):
    """Holds a panel, or its place while the panel is not created yet.

    missed  the place was painted without a panel in it
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
        """Whether the place is on the screen, and not behind another tab, where Qt calls it visible too."""
        return self.isVisible() and not self.visibleRegion().isEmpty()

    def put(self, panel: Panel) -> None:
        """Put the panel into its place, which owns it from now on."""
        panel.setMinimumSize(*MIN_PANEL)
        self._room.addWidget(panel)
        self._room.activate()
        panel.show()
        self.setFocusProxy(panel)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._room.isEmpty():
            self.missed.emit()
        super().paintEvent(event)
