"""The picture of what a memory held when: addresses over cycles."""

from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QImage, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from npuviz.base.units import format_bytes, format_count
from npuviz.trace.reader import TraceReader
from npuviz.ui.kit.colors import image_of, pixel
from npuviz.ui.kit.gestures import Canvas, is_sideways, notches
from npuviz.ui.kit.raster_kernels import fill_boxes
from npuviz.ui.kit.viewport import Viewport, tick_step, ticks
from npuviz.ui.memory.colors import TensorColors
from npuviz.ui.memory.layout import view_of
from npuviz.ui.theme.theme import Theme

GUTTER = 76
AXIS = 20
MARGIN = 6
MAX_ROWS = 400_000


class MemoryLifetimes(Canvas):
    """Shows lifetimes of one memory.

    lifetime_chosen  the clicked lifetime, a row of LIFETIME_DTYPE; None if the click hit none
    """

    lifetime_chosen = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "memory.lifetimes", "Lifetimes of memory ranges over cycles", parent)
        self._colors = TensorColors(theme, None)
        self._reader: TraceReader | None = None
        self._memory = -1
        self._extent = 0
        self._num_banks = 1
        self._view = view_of(1, 1)
        self._cursor = -1
        self._end_cycle = 0
        self._rows: np.ndarray | None = None
        self._image: QImage | None = None
        self._chosen: np.void | None = None
        self._pressed: QPointF | None = None
        self._is_fitted = True
        self.viewport = Viewport()
        theme.changed.connect(self.refresh)

    def summary(self) -> str:
        if self._reader is None:
            return "Nothing is open"
        rows = len(self.lifetimes())
        first, last = max(round(self.viewport.start), 0), round(self.viewport.end)
        told = f"{rows} lifetimes in cycles {first} to {last} of {self._end_cycle}"
        if self._chosen is not None:
            told += f"; selected: {int(self._chosen['address']):#x}, cycles {int(self._chosen['start'])}"
            told += f" to {int(self._chosen['end'])}"
        return told

    def set_colors(self, colors: TensorColors) -> None:
        """Set the colours of the program's tensors."""
        self._colors = colors
        self.refresh()

    def set_memory(self, reader: TraceReader | None, memory: int, extent: int, num_banks: int = 1) -> None:
        """Show the lifetimes of another memory, of the used part of its first `extent` bytes."""
        self._reader, self._memory = reader, memory
        self._extent, self._num_banks = extent, num_banks
        self._view = view_of(extent, num_banks)
        self._chosen = None
        self._is_fitted = True
        self.refresh_data()

    def set_cursor_cycle(self, cycle: int) -> None:
        """Set the cycle of the machine, -1 for none."""
        self._cursor = cycle
        self.update()

    def refresh_data(self) -> None:
        """Read the trace again."""
        self._end_cycle = self._reader.end_cycle if self._reader else 0
        if self._is_fitted:
            self.viewport = self.viewport.fitted(max(self._end_cycle, 1))
        self._rows = None
        self.refresh()

    def refresh(self) -> None:
        """Paint the picture again."""
        self._image = None
        self.update()

    def _area(self) -> QRectF:
        height = self.height() - MARGIN - AXIS
        return QRectF(GUTTER, MARGIN, max(self.width() - GUTTER - MARGIN, 1), max(height, 1))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.viewport = self.viewport.resized(self._area().width())
        self.refresh()

    # -- painting ---------------------------------------------------------------------------------------

    def lifetimes(self) -> np.ndarray:
        """Return the lifetimes in the visible cycles, at most MAX_ROWS, sampled evenly."""
        if self._rows is None:
            assert self._reader is not None
            window = (max(self.viewport.start, 0.0), max(self.viewport.end, 1.0))
            rows = self._reader.lifetimes(self._memory, window)
            if len(rows) > MAX_ROWS:
                rows = rows[np.arange(MAX_ROWS, dtype=np.int64) * len(rows) // MAX_ROWS]
            self._rows = rows
            ranges = np.unique(np.stack([rows["address"], rows["size_bytes"]], axis=1), axis=0).tolist()
            self._view = view_of(self._extent, self._num_banks, [(int(a), int(size)) for a, size in ranges])
        return self._rows

    @property
    def _height_bytes(self) -> int:
        """Number of bytes that the height of the picture stands for."""
        view = self._view
        return view.shown_bytes * (1 if view.is_partitioned else view.num_banks)

    def _down(self, addresses: np.ndarray) -> np.ndarray:
        """Return the vertical place of addresses, 0..1 from the top: the shown parts of all banks in
        order.
        """
        view = self._view
        bank = addresses // view.bank_bytes
        inside = np.clip(addresses - bank * view.bank_bytes - view.offset, 0, view.shown_bytes)
        if view.is_partitioned:
            # Tiles occupy the same offset of many partitions, so only the offset is shown.
            return inside / view.shown_bytes
        return (bank + inside / view.shown_bytes) / view.num_banks

    def _address_at(self, down: float) -> int:
        """Return the address at a vertical place 0..1; the inverse of `_down`."""
        view = self._view
        if view.is_partitioned:
            return int(down * view.shown_bytes)
        bank, part = divmod(down * view.num_banks, 1.0)
        return int(bank) * view.bank_bytes + view.offset + int(part * view.shown_bytes)

    def _painted(self) -> QImage:
        ratio = self.devicePixelRatioF()
        if self._image is None or self._image.devicePixelRatio() != ratio:
            area = self._area()
            width, height = max(int(area.width() * ratio), 1), max(int(area.height() * ratio), 1)
            pixels = np.full((height, width), pixel(self._theme.color("canvas")), dtype=np.uint32)
            rows = self.lifetimes()
            boxes = np.empty((len(rows), 5), dtype=np.int64)
            step = self.viewport.cycles_per_pixel / ratio
            top = self._down(rows["address"])
            share = rows["size_bytes"] / self._height_bytes
            boxes[:, 0] = np.floor((rows["start"] - self.viewport.start) / step)
            boxes[:, 1] = np.floor(top * height)
            boxes[:, 2] = np.ceil((rows["end"] - self.viewport.start) / step)
            boxes[:, 3] = np.ceil((top + share) * height)
            boxes[:, 4] = self._pixel_colors(rows["tensor"], rows["instruction"])
            fill_boxes(pixels, boxes, pixel(self._theme.color("canvas")))
            self._image = image_of(pixels, ratio).copy()
        return self._image

    def _pixel_colors(self, tensors: np.ndarray, instructions: np.ndarray) -> np.ndarray:
        found = np.zeros(len(tensors), dtype=np.int64)
        loose = tensors < 0
        nodes = self._colors.nodes_of(np.ascontiguousarray(instructions[loose], dtype=np.int64))
        for chosen, ids, color in ((~loose, tensors[~loose], self._colors.color),
                                   (loose, nodes, self._colors.of_node)):  # fmt: skip
            known, place = np.unique(ids, return_inverse=True)
            if len(known):
                found[chosen] = np.array([pixel(color(int(one))) for one in known], dtype=np.int64)[place]
        return found

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._theme
        painter.fillRect(self.rect(), theme.color("surface"))
        if self._reader is None or self._memory < 0:
            painter.end()
            return
        area = self._area()
        painter.drawImage(area.topLeft(), self._painted())
        self._paint_axes(painter, area)
        painter.setClipRect(area)
        if self._chosen is not None:
            painter.setPen(QPen(theme.color("text"), 1.5))
            painter.drawRect(self._box(self._chosen))
        if self._cursor >= 0:
            x = area.left() + self.viewport.x_of(self._cursor)
            painter.fillRect(QRectF(x - 0.5, area.top(), 1.5, area.height()), theme.color("cursor"))
        painter.end()

    def _box(self, row: np.void) -> QRectF:
        area = self._area()
        down = float(self._down(np.array([int(row["address"])], dtype=np.int64))[0])
        share = int(row["size_bytes"]) / self._height_bytes
        left = area.left() + self.viewport.x_of(int(row["start"]))
        right = area.left() + self.viewport.x_of(int(row["end"]))
        top = area.top() + down * area.height()
        return QRectF(left, top, max(right - left, 2.0), max(share * area.height(), 2.0))

    def _paint_axes(self, painter: QPainter, area: QRectF) -> None:
        theme = self._theme
        painter.setFont(theme.font_mono(11))
        painter.setPen(theme.color("text-muted"))
        for y in range(0, max(int(area.height()) - 8, 1), 36):
            address = self._address_at(y / area.height())
            box = QRectF(0, area.top() + y - 3, GUTTER - 8, 14)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight, f"{address:#x}")
        painter.setFont(theme.font_ui(11))
        step = tick_step(self.viewport.span, self.viewport.width, 96)
        for cycle in ticks(self.viewport, step):
            x = area.left() + self.viewport.x_of(cycle)
            painter.setPen(theme.color("text-disabled"))
            painter.drawLine(QPointF(x, area.bottom()), QPointF(x, area.bottom() + 4))
            painter.setPen(theme.color("text-muted"))
            painter.drawText(QPointF(x + 4, area.bottom() + 14), format_count(cycle))

    # -- pointing ---------------------------------------------------------------------------------------

    def lifetime_at(self, point: QPointF) -> Any:
        """Return the topmost lifetime at a point, a row of LIFETIME_DTYPE, or None."""
        area = self._area()
        if self._reader is None or not area.contains(point):
            return None
        cycle = self.viewport.cycle_at(point.x() - area.left())
        address = self._address_at((point.y() - area.top()) / area.height())
        rows = self.lifetimes()
        slack = self.viewport.cycles_per_pixel
        inside = (rows["start"] <= cycle + slack) & (rows["end"] > cycle - slack)
        first = rows["address"] % self._view.bank_bytes if self._view.is_partitioned else rows["address"]
        inside &= (first <= address) & (first + rows["size_bytes"] > address)
        found = np.flatnonzero(inside)
        return rows[found[-1]] if len(found) else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed is not None and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._show(self.viewport.panned(self._pressed.x() - event.position().x(), self._end_cycle))
            self._pressed = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._pressed is not None:
            self._chosen = self.lifetime_at(event.position())
            self.lifetime_chosen.emit(self._chosen)
            self.update()
        self._pressed = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        found = self.lifetime_at(event.position())
        if found is None:
            self._is_fitted = True
            self.refresh_data()
        else:
            self._show(self.viewport.shown(int(found["start"]), int(found["end"]), self._end_cycle, 0.5))

    def wheelEvent(self, event: QWheelEvent) -> None:
        steps = notches(event)
        if is_sideways(event):
            self._show(self.viewport.panned(-steps * self.viewport.width / 8, self._end_cycle))
        else:
            x = max(event.position().x() - self._area().left(), 0.0)
            self._show(self.viewport.zoomed(1.25**-steps, x, self._end_cycle))
        event.accept()

    def _show(self, viewport: Viewport) -> None:
        self._is_fitted = False
        self.viewport = viewport
        self._rows = None
        self.refresh()

    def tip_at(self, spot: QPointF) -> str:
        found = self.lifetime_at(spot)
        return "" if found is None else self.tooltip(found)

    def tooltip(self, row: np.void) -> str:
        """Describe a lifetime in lines of text."""
        assert self._reader is not None
        names = self._reader.schema.tensor_names
        tensor = int(row["tensor"])
        address, size = int(row["address"]), int(row["size_bytes"])
        start, end = int(row["start"]), int(row["end"])
        return "\n".join(
            [
                names[tensor] if 0 <= tensor < len(names) else "no tensor",
                f"{address:#x} \u2013 {address + size:#x}, {format_bytes(size)}",
                f"cycles {format_count(start)} \u2013 {format_count(end)}",
                f"held for {format_count(end - start)} cycles",
                f"written by instruction {format_count(int(row['instruction']))}",
            ]
        )
