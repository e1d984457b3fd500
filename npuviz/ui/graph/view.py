"""The canvas of the graph panel: paints the graph; pan, zoom, select, move along edges."""

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from npuviz.base.units import format_amount, format_share
from npuviz.ui.graph.camera import GraphCamera, fit
from npuviz.ui.graph.layout import NODE_HEIGHT, NODE_WIDTH
from npuviz.ui.graph.overview import GraphOverview, OverviewMarks, emptiest_corner, overview_of
from npuviz.ui.graph.painter import BOX_SCALE, GraphPainter
from npuviz.ui.graph.picture import GraphOverlay, GraphPicture
from npuviz.ui.kit.gestures import CameraCanvas
from npuviz.ui.theme.theme import Theme

READABLE_SCALE = 0.85
MAX_TOLD = 8
"""Most active operators that the text for screen readers names."""
_ARROWS = {
    Qt.Key.Key_Up: "up",
    Qt.Key.Key_Down: "down",
    Qt.Key.Key_Left: "left",
    Qt.Key.Key_Right: "right",
}


class GraphView(CameraCanvas):
    """Shows one picture.

    node_chosen    an operator was picked (-1: the empty background)
    tensor_chosen  an edge or terminal was picked
    menu_requested box (-1: none) and global position
    picture  the picture that is shown
    """

    keys_text = "Arrow keys follow edges, F shows the selection, plus and minus zoom"
    node_chosen = Signal(int)
    tensor_chosen = Signal(int)
    menu_requested = Signal(int, QPoint)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "graph.view", "Operator graph", parent)
        self.picture: GraphPicture | None = None
        self.overlay = GraphOverlay()
        self.camera = GraphCamera()
        self._is_placed = False
        self._marks: OverviewMarks | None = None
        self._corner = 0

    def summary(self) -> str:
        picture, overlay = self.picture, self.overlay
        if picture is None:
            return "No graph"
        told = [format_amount(picture.layout.num_nodes, "operator")]
        if 0 <= overlay.selected < picture.layout.num_boxes:
            told.append(f"selected: {self._box_text(overlay.selected)}")
        active = sorted(box for box in overlay.active if box < picture.layout.num_nodes)
        if active:
            told.append(f"worked on: {', '.join(self._box_text(box) for box in active[:MAX_TOLD])}")
        return "; ".join(told)

    def _box_text(self, box: int) -> str:
        """Return title, name and progress of a box."""
        assert self.picture is not None
        named = f"{self.picture.titles[box]} {self.picture.subtitles[box]}".strip()
        progress = self.overlay.progress
        if progress is None or box >= len(progress):
            return named
        return f"{named} {format_share(float(progress[box]), 0)}"

    # -- contents ---------------------------------------------------------------------------------

    def show_picture(self, picture: GraphPicture | None) -> None:
        """Show another graph, the whole of it if it is readable so, else its beginning."""
        self.picture = picture
        self._marks = None
        self._is_placed = False
        self._corner = 0
        self._place()
        self._place_overview()
        self.update()

    def fit_all(self) -> None:
        if self.picture is not None:
            self.set_camera(fit(self.picture.layout.bounds(), self.width(), self.height()))

    def fit_selected(self) -> None:
        """Show the selected box in readable size; the whole graph when nothing is selected."""
        if self.picture is None or self.overlay.selected < 0:
            self.fit_all()
            return
        camera = GraphCamera(max(1.0, self.camera.scale))
        self.set_camera(self._centred(camera, self.overlay.selected))

    def reveal(self, box: int) -> None:
        """Centre a box, unless it is visible already."""
        if self.picture is None or not 0 <= box < self.picture.layout.num_boxes:
            return
        layout = self.picture.layout
        x, y = self.camera.to_screen(float(layout.x[box]), float(layout.y[box]))
        room_x, room_y = NODE_WIDTH / 2 * self.camera.scale, NODE_HEIGHT / 2 * self.camera.scale
        is_inside = room_x <= x <= self.width() - room_x and room_y <= y <= self.height() - room_y
        if not is_inside:
            self.set_camera(self._centred(self.camera, box))
        self.update()

    def zoom(self, factor: float, at: QPointF | None = None) -> None:
        spot = at if at is not None else QPointF(self.width() / 2, self.height() / 2)
        self.set_camera(self.camera.zoomed(factor, spot.x(), spot.y()))

    def _centred(self, camera: GraphCamera, box: int) -> GraphCamera:
        assert self.picture is not None
        layout = self.picture.layout
        x, y = float(layout.x[box]), float(layout.y[box])
        centred = camera.centred_on(x, y, self.width(), self.height())
        return centred.within(layout.bounds(), self.width(), self.height())

    def set_camera(self, camera: GraphCamera) -> None:
        if camera != self.camera:
            self.camera = camera
            self._place_overview()
            self.update()

    def _place_overview(self) -> None:
        """Put the map into a corner where it covers no box, if there is one."""
        if self.picture is not None:
            view = self.picture, self.camera, self.width(), self.height()
            self._corner = emptiest_corner(*view, self._corner)

    def _place(self) -> None:
        """Set the first view: the whole graph if it is readable, else its beginning at a readable scale."""
        if self.picture is None or self.width() < 20 or self.height() < 20:
            return
        self._is_placed = True
        layout = self.picture.layout
        left, top, span_x, span_y = layout.bounds()
        whole = fit((left, top, span_x, span_y), self.width(), self.height())
        if whole.scale >= READABLE_SCALE or not layout.num_boxes:
            self.camera = whole
            return
        camera = GraphCamera(READABLE_SCALE)
        along, across = (layout.x, layout.y) if layout.direction == "right" else (layout.y, layout.x)
        first = int(np.lexsort((across, np.round(along)))[0])
        x, y = float(layout.x[first]), float(layout.y[first])
        if layout.direction == "right":
            camera = camera.centred_on(
                x + self.width() / 2 / camera.scale - NODE_WIDTH * 0.7, y, self.width(), self.height()
            )
        else:
            if layout.is_banded:
                # Bands are read from left to right.
                x = left + self.width() / 2 / camera.scale - NODE_WIDTH / 4
            camera = camera.centred_on(
                x, y + self.height() / 2 / camera.scale - NODE_HEIGHT, self.width(), self.height()
            )
        self.camera = camera

    def set_state(self, progress: np.ndarray, active: frozenset[int]) -> None:
        """Set the progress of every node and the active boxes; repaint only boxes that changed."""
        overlay, picture = self.overlay, self.picture
        before, was_active = overlay.progress, overlay.active
        overlay.progress, overlay.active = progress, active
        if picture is None:
            return
        if before is None or len(before) != len(progress) or self.camera.scale < BOX_SCALE:
            self.update()
            return
        painter = GraphPainter(self._theme, picture, overlay)
        reach = 4.0 * max(1.0, self.camera.scale)
        for box in {*np.flatnonzero(before != progress).tolist(), *(active ^ was_active)}:
            spot = painter.box_rect(self.camera, box).adjusted(-reach, -reach, reach, reach)
            self.update(spot.toAlignedRect())

    # -- events -----------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.picture is None:
            painter.fillRect(self.rect(), self._theme.color("canvas"))
            return
        GraphPainter(self._theme, self.picture, self.overlay).paint(
            painter, self.camera, self.width(), self.height(), event.rect()
        )
        self._paint_overview(painter)
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            painter.setPen(self._theme.color("accent"))
            painter.drawLine(0, 0, self.width(), 0)

    def overview(self) -> GraphOverview | None:
        """Return the map in the corner; None while the whole graph is visible."""
        if self.picture is None:
            return None
        return overview_of(self.picture, self.camera, self.width(), self.height(), self._corner)

    def _paint_overview(self, painter: QPainter) -> None:
        overview, picture = self.overview(), self.picture
        if overview is None or picture is None:
            return
        if self._marks is None or self._marks.key != (overview, self._theme.name):
            self._marks = OverviewMarks(self._theme, picture, overview, self.devicePixelRatioF())
        corner = QPointF(*self.camera.to_drawing(0, 0))
        far = QPointF(*self.camera.to_drawing(self.width(), self.height()))
        self._marks.paint(painter, QRectF(corner, far), self.overlay.selected)

    def _is_on_overview(self, spot: QPointF) -> bool:
        overview = self.overview()
        return overview is not None and overview.area.contains(spot)

    def _look_at(self, spot: QPointF) -> None:
        """Centre the view on the point under a pixel of the map."""
        overview = self.overview()
        if overview is not None:
            x, y = overview.to_drawing(spot)
            # The map stays under the pointer.
            self.camera = self.camera.centred_on(x, y, self.width(), self.height())
            self.update()

    def click(self, spot: QPointF) -> None:
        if self._is_on_overview(spot):
            self._look_at(spot)
        else:
            super().click(spot)

    def drag(self, before: QPointF, spot: QPointF) -> None:
        if self._is_on_overview(self.pressed_at):
            self._look_at(spot)
        else:
            super().drag(before, spot)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if not self._is_placed:
            self._place()
        self._place_overview()

    def hover(self, spot: QPointF | None) -> None:
        box = -1 if spot is None else self.box_at(spot)
        if box != self.overlay.hovered:
            self.overlay.hovered = box
            self.update()

    def has_thing_at(self, spot: QPointF) -> bool:
        return self.box_at(spot) >= 0

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_requested.emit(self.box_at(QPointF(event.pos())), event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        held = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
        key = _ARROWS.get(Qt.Key(event.key()), "")
        if key and self.picture is not None and not event.modifiers() & held:
            self._choose(self.picture.neighbor(self.overlay.selected, key))
        else:
            super().keyPressEvent(event)

    # -- picking ------------------------------------------------------------------------------------

    def box_at(self, position: QPointF) -> int:
        """Return the box at a pixel, -1 if there is none or the map covers it."""
        if self.picture is None or self._is_on_overview(position):
            return -1
        return self.picture.box_at(*self.camera.to_drawing(position.x(), position.y()))

    def pick(self, spot: QPointF) -> None:
        if self.picture is None:
            return
        box = self.box_at(spot)
        if box >= 0:
            self._choose(box)
            return
        x, y = self.camera.to_drawing(spot.x(), spot.y())
        edge = self.picture.edge_at(x, y, 5 / self.camera.scale)
        if edge >= 0 and self.picture.layout.tensor[edge] >= 0:
            self.tensor_chosen.emit(int(self.picture.layout.tensor[edge]))
        elif edge >= 0:
            # An edge that is no tensor (a flow) selects its source.
            self.node_chosen.emit(int(self.picture.layout.source[edge]))
        else:
            self.node_chosen.emit(-1)

    def _choose(self, box: int) -> None:
        if self.picture is None or box < 0:
            return
        layout = self.picture.layout
        self.overlay.selected = box
        self.reveal(box)
        if box < layout.num_nodes:
            self.node_chosen.emit(box)
        else:
            self.tensor_chosen.emit(layout.terminals[box - layout.num_nodes].tensor)

    def tip_at(self, spot: QPointF) -> str:
        picture = self.picture
        box = self.box_at(spot)
        if picture is None or box < 0:
            return ""
        lines = [picture.titles[box], picture.subtitles[box]]
        layout = picture.layout
        outputs = {picture.edge_labels[e] for e in (layout.source == box).nonzero()[0].tolist()}
        lines += [f"output {label}" for label in sorted(outputs)[:2]]
        if box in picture.badges:
            suffix = ", cost is an assumption" if box in picture.estimated else ""
            lines.append(f"placed on {picture.badges[box]}{suffix}")
        if box in picture.reasons:
            lines.append(f"on the Host: {picture.reasons[box]}")
        progress = self.overlay.progress
        if progress is not None and box < len(progress) and progress[box] >= 0:
            lines.append(f"{format_share(float(progress[box]), 0)} of its instructions retired")
        return "\n".join(lines)
