"""Base of scrollable texts that are painted by hand, line by line: hovering, tooltips, keys, resizing."""

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import Theme


class LineArea(QAbstractScrollArea):
    """A scroll area of text lines; a spot is a position in its viewport, in pixels.

    Listing and source text override the methods that raise NotImplementedError (not an abc: Qt's widgets have
    another metaclass).

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
        """Return the number of the line at a height in pixels, None if there is none."""
        raise NotImplementedError

    def current_text(self) -> str:
        """Return the text of the current line, which keys move; "" while there is none."""
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
        """Return the tooltip of a spot, "" for none."""
        raise NotImplementedError

    def update_range(self) -> None:
        """Fit the scroll bars to the text and to the room."""
        raise NotImplementedError

    def step_of(self, event: QKeyEvent, page: int, count: int) -> int | None:
        """Return how many lines a key moves down (negative: up), None for a key that does not move.

        page, count  lines that fit on the screen, lines of the text
        """
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
