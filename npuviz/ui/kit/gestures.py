"""Base classes of hand-painted widgets: turn mouse and key events into clicks, drags, zooms and hovering."""

from typing import Any

from PySide6.QtCore import QEvent, QPointF, Qt, QTimer
from PySide6.QtGui import QAccessible, QHelpEvent, QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip, QWidget

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import Theme

DRAG_PIXELS = 4
"""A press that moves at least this many pixels is a drag, not a click."""
ZOOM_STEP = 1.2
WHEEL_STEP = 120
DESCRIBE_MS = 200
"""Milliseconds after the last paint at which screen readers get the summary."""


def notches(event: QWheelEvent) -> float:
    """Return the steps that the wheel was turned, upwards positive."""
    # Qt turns Alt + wheel into a sideways wheel on some platforms.
    return (event.angleDelta().y() or event.angleDelta().x()) / WHEEL_STEP


def is_sideways(event: QWheelEvent) -> bool:
    """Return whether the wheel asks to move to the side: with Shift, or because it turns that way."""
    delta = event.angleDelta()
    return bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier) or abs(delta.x()) > abs(delta.y())


class Canvas(QWidget):
    """A widget that is painted by hand; a spot is a position in it, in pixels.

    click, drag, drop, hover  hooks for the mouse buttons and the pointer; do nothing by default
    tip_at                    lines of text about a spot
    summary                   description of the picture, for screen readers
    pressed_at                where the button went down
    """

    keys_text = ""
    """Description of the keys in this widget, for screen readers, after the summary."""
    drag_buttons: tuple[Qt.MouseButton, ...] = (Qt.MouseButton.LeftButton,)

    def __init__(self, theme: Theme, name: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAccessibleName(title)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._theme = theme
        self.pressed_at = QPointF()
        self._last = QPointF()
        self._is_pressed = self._is_dragging = False
        self._describe_soon = QTimer(self, singleShot=True, interval=DESCRIBE_MS)
        self._describe_soon.timeout.connect(self.describe)

    def summary(self) -> str:
        """Return what can be seen now in a sentence or two; "" while there is nothing."""
        return ""

    def describe(self) -> None:
        """Give the summary to screen readers, unless it is the same as before."""
        told = ". ".join(part for part in (self.summary(), self.keys_text) if part)
        if told != self.accessibleDescription():
            self.setAccessibleDescription(told)

    def click(self, spot: QPointF) -> None:
        """Handle a click: the left button was pressed and released at this spot."""

    def drag(self, before: QPointF, spot: QPointF) -> None:
        """Handle a move of the pointer from one spot to the next with a button pressed."""

    def drop(self, spot: QPointF) -> None:
        """Handle the end of a drag with the left button."""

    def hover(self, spot: QPointF | None) -> None:
        """Handle a move of the pointer with no button pressed; None: it has left the widget."""

    def tip_at(self, spot: QPointF) -> str:
        """Return the tooltip of a spot, "" for none."""
        return ""

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            # An empty text hides the one that is shown.
            QToolTip.showText(event.globalPos(), plain_tip(self.tip_at(QPointF(event.pos()))), self)
            return True
        if event.type() == QEvent.Type.FocusIn:
            self.describe()
        elif event.type() == QEvent.Type.Paint and QAccessible.isActive():
            # Only with a screen reader, because a text for every frame costs time.
            self._describe_soon.start()
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() in self.drag_buttons:
            self.pressed_at = self._last = event.position()
            self._is_pressed, self._is_dragging = True, False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        spot = event.position()
        if not self._is_pressed:
            self.hover(spot)
            return
        if (spot - self.pressed_at).manhattanLength() >= DRAG_PIXELS:
            self._is_dragging = True
        if self._is_dragging:
            self.drag(self._last, spot)
        self._last = spot

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        was_pressed, self._is_pressed = self._is_pressed, False
        if was_pressed and event.button() == Qt.MouseButton.LeftButton:
            (self.drop if self._is_dragging else self.click)(event.position())

    def leaveEvent(self, event: QEvent) -> None:
        self.hover(None)
        super().leaveEvent(event)


class CameraCanvas(Canvas):
    """A canvas that shows a part of a picture: dragging moves it, wheel and keys zoom, F and Home fit it.

    Subclasses must override the methods that raise NotImplementedError (not an abc: Qt's widgets have another
    metaclass).
    camera  what is shown: has `moved` by pixels, and `zoomed` at a pixel
    """

    camera: Any
    drag_buttons = (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)

    def set_camera(self, camera: Any) -> None:
        """Show another part of the picture."""
        raise NotImplementedError  # overridden by every view

    def zoom(self, factor: float, at: QPointF | None = None) -> None:
        """Zoom at a pixel of the widget, or at the middle."""
        raise NotImplementedError  # overridden by every view

    def fit_all(self) -> None:
        """Show everything."""
        raise NotImplementedError  # overridden by every view

    def fit_selected(self) -> None:
        """Show what is selected, large enough to be read."""
        raise NotImplementedError  # overridden by every view

    def fit(self, is_all: bool) -> None:
        """Show everything, or what is selected."""
        (self.fit_all if is_all else self.fit_selected)()

    def pick(self, spot: QPointF) -> None:
        """Select what is at a spot."""
        raise NotImplementedError  # overridden by every view

    def has_thing_at(self, spot: QPointF) -> bool:
        """Return whether there is something to pick at a spot."""
        raise NotImplementedError  # overridden by every view

    def click(self, spot: QPointF) -> None:
        self.pick(spot)

    def drag(self, before: QPointF, spot: QPointF) -> None:
        self.set_camera(self.camera.moved(spot.x() - before.x(), spot.y() - before.y()))

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y():
            self.zoom(ZOOM_STEP ** (event.angleDelta().y() / WHEEL_STEP), event.position())
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if self.has_thing_at(event.position()):
            self.pick(event.position())
            self.fit_selected()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, held = event.key(), Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
        if event.modifiers() & held:
            super().keyPressEvent(event)
        elif key == Qt.Key.Key_F:
            self.fit_selected()
        elif key == Qt.Key.Key_Home:
            self.fit_all()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom(ZOOM_STEP)
        elif key == Qt.Key.Key_Minus:
            self.zoom(1 / ZOOM_STEP)
        else:
            super().keyPressEvent(event)
