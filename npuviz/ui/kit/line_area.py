"""Texts of any number of lines, painted by hand: what pointing, keys and resizing mean for all of them."""

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import Theme


class LineArea(QAbstractScrollArea):
    """A scroll area of lines; spots are pixels of its viewport.

    Listing and source text say where their lines are in the methods that raise here; no abc, because the
    metaclass of Qt's widgets is another one.

    hovered  the line under the pointer, None for none
    """

    def __init__(self, theme: Theme, title: str, keys: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.hovered: int | None = None
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(title)
        self._keys = keys
        self.setAccessibleDescription(keys)
        self.viewport().setMouseTracking(True)

    def line_at(self, y: float) -> int | None:
        """Number of the line at a height, None beside all of them."""
        raise NotImplementedError

    def current_text(self) -> str:
        """The line that keys move, "" while there is none."""
        raise NotImplementedError

    def tell_line(self) -> None:
        """Give the current line to screen readers."""
        told = ". ".join(part for part in (self.current_text(), self._keys) if part)
        if told != self.accessibleDescription():
            self.setAccessibleDescription(told)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.tell_line()

    def tip_at(self, spot: QPoint) -> str:
        """What is here, "" for nothing."""
        raise NotImplementedError

    def update_range(self) -> None:
        """Fit the scroll bars to the text and to the room."""
        raise NotImplementedError

    def step_of(self, event: QKeyEvent, page: int, count: int) -> int | None:
        """How many of `count` lines a key moves down; None for a key that means something else."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            return None
        key = Qt.Key
        steps = {
            key.Key_Up: -1, key.Key_Down: 1, key.Key_PageUp: -page, key.Key_PageDown: page,
            key.Key_Home: -count, key.Key_End: count,
        }  # fmt: skip
        return steps.get(key(event.key()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.update_range()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self.line_at(event.position().y()))

    def leaveEvent(self, event: QEvent) -> None:
        self._hover(None)
        super().leaveEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tip(self.tip_at(event.pos())), self.viewport())
            return True
        return super().viewportEvent(event)

    def _hover(self, line: int | None) -> None:
        if line != self.hovered:
            self.hovered = line
            self.viewport().update()
