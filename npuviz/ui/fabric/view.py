"""The canvas of the fabric panel: paints the fabric; pan, zoom, select elements and words."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from npuviz.sim.fabric import Area, FabricShape
from npuviz.ui.fabric.camera import FabricCamera, fitted
from npuviz.ui.fabric.cells import TEXT_FROM, CellLayer, CellLook
from npuviz.ui.fabric.chrome import (
    RULER_LEFT,
    RULER_TOP,
    map_rectangle,
    paint_map,
    paint_rulers,
    place_on_map,
)
from npuviz.ui.fabric.frame import FabricFrame, FabricWants, word_places
from npuviz.ui.fabric.overlay import FabricMarks, FabricOverlay, WordMarks
from npuviz.ui.fabric.raster import FabricRaster, draws_links
from npuviz.ui.fabric.style import FabricStyle
from npuviz.ui.kit.gestures import WHEEL_STEP, ZOOM_STEP, CameraCanvas, notches
from npuviz.ui.theme.theme import Theme

PAN_PIXELS = 64
PICK_PIXELS = 8.0
MAX_PICKED = 20_000
"""With more visible words than this, single words cannot be selected."""
READABLE_SCALE = 96.0
_MOVES = {
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
}
_PANS = {
    Qt.Key.Key_A: (1, 0),
    Qt.Key.Key_D: (-1, 0),
    Qt.Key.Key_PageUp: (0, 4),
    Qt.Key.Key_PageDown: (0, -4),
}
Ask = Callable[[Area, FabricWants], FabricFrame | None]
Tell = Callable[[int, int, np.void | None], str]


class FabricView(CameraCanvas):
    """Shows a fabric; asks the machine for the visible part when it is painted.

    element_chosen  (column, row) of the element that the user picked
    word_chosen     (id, column, row) of the word that the user picked
    cleared         the user clicked the background
    menu_requested  (column, row) or None, and global position
    frame_changed   another frame is shown
    shape  the fabric that is shown
    frame  the frame that is shown
    """

    keys_text = "Arrow keys choose an element, plus and minus zoom, F shows it, Home all"
    element_chosen = Signal(int, int)
    word_chosen = Signal(object, int, int)
    cleared = Signal()
    menu_requested = Signal(object, QPoint)
    frame_changed = Signal()

    def __init__(self, theme: Theme, ask: Ask, tell: Tell, parent: QWidget | None = None) -> None:
        super().__init__(theme, "fabric.view", "Fabric", parent)
        self._ask = ask
        self._tell = tell
        self.shape: FabricShape | None = None
        self._style: FabricStyle | None = None
        self._raster = FabricRaster()
        self._texts = CellLayer(theme)
        self._word_marks = WordMarks()
        self.camera = FabricCamera()
        self.wants = FabricWants()
        self.marks = FabricMarks()
        self.frame: FabricFrame | None = None
        self._asked: tuple[Area, FabricWants] | None = None
        self._is_news = False
        self._is_moved = False

    def summary(self) -> str:
        shape, selected = self.shape, self.marks.selected
        if shape is None:
            return "No fabric"
        told = f"{shape.columns} by {shape.rows} {shape.element}s"
        if selected is None:
            return told
        return f"{told}; selected: {', '.join(self._tell(*selected, None).splitlines())}"

    def sizeHint(self) -> QSize:
        return QSize(640, 480)

    # -- contents ---------------------------------------------------------------------------------

    @property
    def largest(self) -> int:
        """The largest load or fill level that is shown, -1 while states are."""
        return self._raster.largest

    @property
    def style_colors(self) -> FabricStyle | None:
        """Colours in use."""
        return self._style

    def set_shape(self, shape: FabricShape | None) -> None:
        """Show another fabric, or none."""
        is_same = shape == self.shape
        self.shape = shape
        self._take_style()
        self.marks = FabricMarks()
        if not is_same:
            self._is_moved = False
            self._place()
        self.refresh()
        self.update()

    def refresh(self) -> None:
        """Ask the machine again at the next paint, because its state has changed."""
        self._asked = None
        self._update_canvas()

    def forget(self) -> None:
        """Drop the frame, because its machine is closed."""
        self.frame = None
        self.refresh()

    def restyle(self) -> None:
        """Use the colours of another theme."""
        self._take_style()
        self.update()

    def _take_style(self) -> None:
        self._style = FabricStyle(self._theme, self.shape) if self.shape is not None else None
        self._word_marks = WordMarks()

    def set_wants(self, wants: FabricWants) -> None:
        """Choose what is shown."""
        if wants != self.wants:
            self.wants = wants
            self.update()

    def set_marks(self, marks: FabricMarks) -> None:
        """Mark other elements or another word, whose path is asked for at the next paint."""
        if marks != self.marks:
            self.marks = marks
            self._update_canvas()

    def _update_canvas(self) -> None:
        """Paint the canvas again, without the rulers, which have not changed."""
        self.update(self.canvas.toRect())

    # -- camera -----------------------------------------------------------------------------------

    @property
    def canvas(self) -> QRectF:
        """The rectangle in which the grid is drawn, in pixels of the widget."""
        return QRectF(
            RULER_LEFT, RULER_TOP, max(self.width() - RULER_LEFT, 1), max(self.height() - RULER_TOP, 1)
        )

    def fit_all(self) -> None:
        """Show the program's part of the fabric; if it is shown like that already, the whole fabric."""
        if self.shape is None:
            return
        size = self.canvas.size()
        program = fitted(self.shape.program, size.width(), size.height())
        whole = fitted(self.shape.whole, size.width(), size.height())
        self._is_moved = False
        self.set_camera(whole if self.camera == program else program)

    def fit_selected(self) -> None:
        """Show the selected element, large enough to be read; the program if none is selected."""
        if self.shape is None or self.marks.selected is None:
            self.fit_all()
            return
        size = self.canvas.size()
        camera = FabricCamera(max(self.camera.scale, READABLE_SCALE))
        column, row = self.marks.selected
        self._is_moved = True
        self.set_camera(camera.centred_on(column + 0.5, row + 0.5, size.width(), size.height()))

    def reveal(self, column: int, row: int) -> None:
        """Centre an element, unless it is visible already."""
        if self.shape is None:
            return
        size = self.canvas.size()
        x, y = self.camera.to_screen(column + 0.5, row + 0.5)
        room = min(self.camera.scale / 2, size.width() / 3, size.height() / 3)
        if not (room <= x <= size.width() - room and room <= y <= size.height() - room):
            self._is_moved = True
            self.set_camera(self.camera.centred_on(column + 0.5, row + 0.5, size.width(), size.height()))

    def zoom(self, factor: float, at: QPointF | None = None) -> None:
        spot = at if at is not None else self.canvas.center()
        self._is_moved = True
        self.set_camera(self.camera.zoomed(factor, spot.x() - RULER_LEFT, spot.y() - RULER_TOP))

    def set_camera(self, camera: FabricCamera) -> None:
        if self.shape is not None:
            camera = camera.clamped(self.shape, self.canvas.width(), self.canvas.height())
        if camera != self.camera:
            self.camera = camera
            self.update()

    def _place(self) -> None:
        if self.shape is not None and self.width() > RULER_LEFT + 20 and not self._is_moved:
            self.camera = fitted(self.shape.program, self.canvas.width(), self.canvas.height())

    # -- painting ---------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("canvas"))
        if self.shape is None or self._style is None:
            painter.end()
            return
        canvas = self.canvas
        frame = self._current()
        if frame is not None:
            self._paint_frame(painter, frame, self.shape, self._style)
        painter.resetTransform()
        painter.setClipping(False)
        if not canvas.contains(QRectF(event.rect())):
            paint_rulers(painter, self._theme, self.camera, self.shape, self.width(), self.height())
            if self.hasFocus():
                painter.setPen(self._theme.color("accent"))
                painter.drawLine(0, 0, self.width(), 0)
        painter.end()

    def _paint_frame(
        self, painter: QPainter, frame: FabricFrame, shape: FabricShape, style: FabricStyle
    ) -> None:
        canvas, ratio = self.canvas, self.devicePixelRatioF()
        width, height = (max(round(side * ratio), 1) for side in (canvas.width(), canvas.height()))
        image = self._raster.paint(self.camera, frame, self.wants.shade, style, width, height, ratio)
        if self._is_news:
            self._is_news = False
            self.frame_changed.emit()
        painter.setClipRect(canvas)
        painter.drawImage(canvas.topLeft(), image)
        painter.translate(canvas.topLeft())
        overlay = FabricOverlay(painter, self.camera, shape, style, ratio, self._word_marks)
        if frame.routes is not None:
            overlay.paint_routes(frame.routes, frame.color)
        if frame.glances:
            look = CellLook(self.camera, shape, style, QSize(width, height), ratio)
            texts = self._texts.picture(look, frame.glances, self.wants.shade == "state")
            painter.drawImage(0, 0, texts)
        overlay.paint(frame, self.marks)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        size = (canvas.width(), canvas.height())
        paint_map(painter, self._theme, self.camera, shape, size, self.marks.selected)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _current(self) -> FabricFrame | None:
        """Return the frame of the visible part; the last one while the machine cannot be asked."""
        assert self.shape is not None
        area = self.camera.visible(self.shape, self.canvas.width(), self.canvas.height())
        scale = self.camera.scale
        wants = replace(
            self.wants,
            links=self.wants.links and draws_links(scale * self.devicePixelRatioF()),
            glances=scale >= TEXT_FROM,
            word=self.marks.word,
        )
        if self._asked != (area, wants):
            found = self._ask(area, wants)
            if found is not None:
                self.frame, self._asked, self._is_news = found, (area, wants), True
        return self.frame

    # -- pointing ---------------------------------------------------------------------------------

    def element_at(self, spot: QPointF) -> tuple[int, int] | None:
        """Return the element under a pixel of the widget, or None."""
        if self.shape is None or not self.canvas.contains(spot):
            return None
        x, y = self.camera.to_grid(spot.x() - RULER_LEFT, spot.y() - RULER_TOP)
        column, row = math.floor(x), math.floor(y)
        return (column, row) if 0 <= column < self.shape.columns and 0 <= row < self.shape.rows else None

    def word_at(self, spot: QPointF) -> np.void | None:
        """Return the word, a row of WORD_DTYPE, next to a pixel of the widget, or None."""
        frame = self.frame
        if frame is None or frame.words is None or not 0 < len(frame.words) <= MAX_PICKED:
            return None
        columns, rows = word_places(frame.words, frame.cycle)
        x, y = self.camera.to_grid(spot.x() - RULER_LEFT, spot.y() - RULER_TOP)
        away = np.hypot(columns - x, rows - y) * self.camera.scale
        nearest = int(away.argmin())
        return frame.words[nearest] if away[nearest] <= PICK_PIXELS else None

    def _on_map(self, spot: QPointF) -> tuple[float, float] | None:
        if self.shape is None:
            return None
        inside = spot - self.canvas.topLeft()
        box = map_rectangle(self.camera, self.shape, self.canvas.width(), self.canvas.height())
        return place_on_map(box, self.shape, inside) if box is not None and box.contains(inside) else None

    def click(self, spot: QPointF) -> None:
        place = self._on_map(spot)
        if place is None:
            self.pick(spot)
            return
        self._is_moved = True
        self.set_camera(self.camera.centred_on(*place, self.canvas.width(), self.canvas.height()))

    def pick(self, spot: QPointF) -> None:
        word, element = self.word_at(spot), self.element_at(spot)
        if word is not None:
            self.word_chosen.emit(int(word["id"]), int(word["column"]), int(word["row"]))
        elif element is not None:
            self.element_chosen.emit(*element)
        else:
            self.cleared.emit()

    # -- events -----------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._is_moved = True
            self.set_camera(self.camera.moved(notches(event) * WHEEL_STEP / 2, 0))
            event.accept()
        else:
            super().wheelEvent(event)

    def drag(self, before: QPointF, spot: QPointF) -> None:
        self._is_moved = True
        super().drag(before, spot)

    def hover(self, spot: QPointF | None) -> None:
        self.set_marks(replace(self.marks, hovered=None if spot is None else self.element_at(spot)))

    def has_thing_at(self, spot: QPointF) -> bool:
        return self.element_at(spot) is not None

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_requested.emit(self.element_at(QPointF(event.pos())), event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        modifiers = event.modifiers()
        held = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
        if modifiers & held or self.shape is None:
            super().keyPressEvent(event)
        elif (key in _MOVES and modifiers & Qt.KeyboardModifier.ShiftModifier) or key in _PANS:
            dx, dy = _PANS[key] if key in _PANS else (-_MOVES[key][0], -_MOVES[key][1])
            self._is_moved = True
            self.set_camera(self.camera.moved(dx * PAN_PIXELS, dy * PAN_PIXELS))
        elif key in _MOVES:
            self._move_choice(*_MOVES[key])
        elif key in (Qt.Key.Key_W, Qt.Key.Key_S):
            self.zoom(ZOOM_STEP if key == Qt.Key.Key_W else 1 / ZOOM_STEP)
        else:
            super().keyPressEvent(event)

    def _move_choice(self, columns: int, rows: int) -> None:
        """Select the neighbour of the selected element; without one, the element in the middle."""
        assert self.shape is not None
        shape = self.shape
        if self.marks.selected is None:
            middle = self.camera.to_grid(self.canvas.width() / 2, self.canvas.height() / 2)
            column, row = math.floor(middle[0]), math.floor(middle[1])
        else:
            column, row = self.marks.selected[0] + columns, self.marks.selected[1] + rows
        column, row = min(max(column, 0), shape.columns - 1), min(max(row, 0), shape.rows - 1)
        self.element_chosen.emit(column, row)
        self.reveal(column, row)

    def tip_at(self, spot: QPointF) -> str:
        element = self.element_at(spot)
        return "" if element is None else self._tell(*element, self.word_at(spot))
