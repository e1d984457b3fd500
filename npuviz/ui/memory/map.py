"""The map of what a memory holds now, coloured by tensor."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from npuviz.base.names import fitting
from npuviz.base.units import format_bytes, format_count
from npuviz.program.instruction import Touched
from npuviz.sim.description import Memory
from npuviz.sim.machine import Region
from npuviz.ui.kit.colors import blended, image_of, pixel, translucent
from npuviz.ui.kit.gestures import Canvas, notches
from npuviz.ui.memory.colors import TensorColors
from npuviz.ui.memory.layout import BankView, MapLayout, Painted, fit, joined, paint_map, view_of
from npuviz.ui.memory.partitions import PartitionLayout, paint_partitions
from npuviz.ui.theme.theme import Theme

GUTTER = 76
MARGIN = 6
AXIS = 16
ROW_PIXELS = 24
COLUMN_PIXELS = 72
FEWEST_LETTERS = 4
MIN_LABEL_WIDTH = 40
FREE_SHARE = 0.3
MAX_TOLD = 8
"""Most regions that the text for screen readers names."""


class MemoryMap(Canvas):
    """Shows the regions of one memory.

    region_chosen  the clicked Region; None if the click hit none
    range_chosen   (address, size_bytes, banks) that the user dragged over
    view_changed   other bytes are shown, see `view`
    regions        the regions that are shown
    touched        what the selected instruction reads and writes
    view           the bytes of each bank that are shown
    """

    region_chosen = Signal(object)
    view_changed = Signal()
    range_chosen = Signal("qlonglong", "qlonglong", int)  # pyright: ignore[reportArgumentType]

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "memory.map", "Memory map", parent)
        self._memory: Memory | None = None
        self._extent = 0
        self.regions: tuple[Region, ...] = ()
        self._colors = TensorColors(theme, None)
        self._image: QImage | None = None
        self._layout: MapLayout | PartitionLayout | None = None
        self.view: BankView | None = None
        self._is_zoomed = False
        self._had_regions = False
        self._chosen: tuple[int, int, int] | None = None
        self.touched: tuple[Touched, ...] = ()
        self.value_of: Callable[[int, Region], str] | None = None
        theme.changed.connect(self.refresh)

    def sizeHint(self) -> QSize:
        return QSize(480, 220)

    def summary(self) -> str:
        memory = self._memory
        if memory is None:
            return "No memory"
        used = sum(region.size_bytes * region.banks for region in self.regions)
        told = [f"{memory.name}: {len(self.regions)} regions hold {format_bytes(used)}"]
        if self._chosen is not None:
            address, size, _banks = self._chosen
            inside = (r.label for r in self.regions if r.address <= address < r.address + r.size_bytes)
            told.append(f"selected: {next(inside, '')} {address:#x}, {format_bytes(size)}")
        elif self.regions:
            told.append(", ".join(region.label for region in self.regions[:MAX_TOLD] if region.label))
        return "; ".join(told)

    def set_colors(self, colors: TensorColors) -> None:
        """Set the colours of the program's tensors."""
        self._colors = colors
        self.refresh()

    def set_memory(self, memory: Memory | None, extent: int = 0) -> None:
        """Show another memory; only its first `extent` bytes if that is not 0."""
        self._memory = memory
        self._extent = extent or (memory.size_bytes if memory else 0)
        self.regions = ()
        self._chosen = None
        self._is_zoomed = self._had_regions = False
        self.view = view_of(self._extent, self._num_banks()) if memory else None
        self.refresh()

    def set_regions(self, regions: Sequence[Region]) -> None:
        """Show what the memory holds now; unless the user has zoomed, extend the map to all bytes ever
        used.
        """
        fresh = tuple(regions)
        if fresh == self.regions:
            return
        self.regions = fresh
        if not self._is_zoomed and self.view is not None:
            ranges = [(r.address, r.size_bytes) for r in fresh]
            if self._had_regions:
                # Keep the bytes shown so far in view, so that the map does not jump.
                ranges.append((self.view.offset, self.view.shown_bytes))
            self._had_regions = self._had_regions or bool(fresh)
            self._set_view(view_of(self._extent, self._num_banks(), ranges))
        self.refresh()

    def show_whole(self) -> None:
        """Show every byte."""
        self._is_zoomed = True
        self._set_view(view_of(self._extent, self._num_banks()))

    def _num_banks(self) -> int:
        memory = self._memory
        return memory.num_banks if memory is not None and self._extent == memory.size_bytes else 1

    def _set_view(self, view: BankView) -> None:
        if view != self.view:
            self.view = view
            self.refresh()
            self.view_changed.emit()

    def set_chosen(self, address: int, size_bytes: int, banks: int = 1) -> None:
        """Outline a byte range; size 0 for none."""
        self._chosen = (address, size_bytes, banks) if size_bytes > 0 else None
        self.update()

    def set_touched(self, touched: Sequence[Touched]) -> None:
        """Outline the bytes that an instruction reads, dashed, and those that it writes."""
        if tuple(touched) != self.touched:
            self.touched = tuple(touched)
            self.update()

    def refresh(self) -> None:
        """Paint the map again."""
        self._image = None
        self.update()

    def region_at(self, address: int) -> Region | None:
        """Return the last region that holds an address, or None."""
        found = None
        bank_bytes = self.view.bank_bytes if self.view is not None else 1
        for region in self.regions:
            if region.address > address:
                break
            if region.holds(address, bank_bytes):
                found = region
        return found

    # -- painting ---------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._image = None

    def _area(self) -> QRectF:
        below = AXIS if self.view is not None and self.view.is_partitioned else 0
        width, height = self.width() - GUTTER - MARGIN, self.height() - 2 * MARGIN - below
        return QRectF(GUTTER, MARGIN, max(width, 1), max(height, 1))

    def _painted(self) -> tuple[MapLayout | PartitionLayout, QImage]:
        assert self.view is not None
        ratio = self.devicePixelRatioF()
        if self._image is None or self._layout is None or self._image.devicePixelRatio() != ratio:
            area = self._area()
            width, height = max(int(area.width() * ratio), 1), max(int(area.height() * ratio), 1)
            surface = self._theme.color("surface")
            items = [
                Painted(
                    region.address,
                    region.size_bytes,
                    pixel(self._color_of(region)),
                    not region.is_valid,
                    region.banks,
                )
                for region in self.regions
            ]
            hatch = pixel(self._theme.color("text-muted"))
            free = pixel(blended(surface, self._theme.color("border"), FREE_SHARE))
            if self.view.is_partitioned:
                layout = PartitionLayout(self.view, width, height)
                pixels = paint_partitions(layout, items, pixel(surface), free, hatch)
            else:
                layout = fit(self.view, width, height, ratio)
                pixels = paint_map(layout, items, pixel(surface), free, hatch)
            image = image_of(pixels, ratio).copy()
            # Texts are painted into the picture, because painting them in every frame would be slow.
            painter = QPainter(image)
            for region in self.regions:
                self._paint_label(painter, layout, region)
            painter.end()
            self._layout, self._image = layout, image
        return self._layout, self._image

    def _color_of(self, region: Region) -> QColor:
        color = self._colors.of_bytes(region.tensor, region.instruction)
        return color if region.is_valid else blended(self._theme.color("canvas"), color, 0.45)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("surface"))
        if self.view is None:
            painter.end()
            return
        layout, image = self._painted()
        area = self._area()
        painter.drawImage(area.topLeft(), image)
        self._paint_gutter(painter, layout)
        painter.translate(area.topLeft())
        if self._chosen is not None:
            self._paint_chosen(painter, layout, *self._chosen)
        self._paint_touched(painter, layout)
        painter.end()

    def _paint_gutter(self, painter: QPainter, layout: MapLayout | PartitionLayout) -> None:
        """Paint addresses or partitions at the left, and offsets in a partition below."""
        theme = self._theme
        ratio = self.devicePixelRatioF()
        painter.setFont(theme.font_mono(11))
        for mark in layout.rows(ROW_PIXELS * ratio):
            painter.setPen(theme.color("text" if mark.is_main else "text-muted"))
            high = max(mark.height / ratio + 2, 12)
            area = QRectF(0, MARGIN + mark.place / ratio - 1, GUTTER - 8, high)
            painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, mark.text)
        if not isinstance(layout, PartitionLayout):
            return
        top = MARGIN + layout.height / ratio
        for mark in layout.columns(COLUMN_PIXELS * ratio):
            x = GUTTER + mark.place / ratio
            painter.setPen(theme.color("text-disabled"))
            painter.drawLine(QPointF(x, top), QPointF(x, top + 4))
            # A number that the edge would cut is left out, since it could be misread.
            if x + 4 + painter.fontMetrics().horizontalAdvance(mark.text) <= self.width():
                painter.setPen(theme.color("text-muted"))
                painter.drawText(QPointF(x + 4, top + 13), mark.text)

    def _paint_label(self, painter: QPainter, layout: MapLayout | PartitionLayout, region: Region) -> None:
        pieces = layout.pieces(region.address, region.size_bytes, region.banks)
        if not pieces:
            return
        ratio = self.devicePixelRatioF()
        best = max(pieces, key=lambda p: (p.right - p.left) * (p.bottom - p.top))
        width, height = (best.right - best.left) / ratio, (best.bottom - best.top) / ratio
        if width < MIN_LABEL_WIDTH or height < 11:
            return
        painter.setFont(self._theme.font_ui(11))
        top, high = layout.label_band(best)
        area = QRectF(best.left / ratio + 5, top / ratio, width - 10, high / ratio)
        measure = painter.fontMetrics().horizontalAdvance
        text = fitting(region.label, lambda each: measure(each) <= area.width(), FEWEST_LETTERS)
        color = self._color_of(region)
        painter.setPen(self._theme.text_on(color) if region.is_valid else self._theme.color("text"))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_chosen(
        self,
        painter: QPainter,
        layout: MapLayout | PartitionLayout,
        address: int,
        size_bytes: int,
        banks: int,
    ) -> None:
        ratio = self.devicePixelRatioF()
        painter.setBrush(translucent(self._theme.color("accent"), 40))
        painter.setPen(QPen(self._theme.color("text"), 1.5))
        for piece in layout.pieces(address, size_bytes, banks):
            box = QRectF(
                piece.left / ratio,
                piece.top / ratio,
                max((piece.right - piece.left) / ratio, 3.0),
                max((piece.bottom - piece.top) / ratio, 3.0),
            )
            painter.drawRect(box)

    def _paint_touched(self, painter: QPainter, layout: MapLayout | PartitionLayout) -> None:
        """Outline what is read with dashes, what is written with a line; pieces less than a pixel apart as
        one."""
        ratio = self.devicePixelRatioF()
        dashed = QPen(self._theme.color("text"), 1.0, Qt.PenStyle.DashLine)
        for is_written, pen in ((False, dashed), (True, QPen(self._theme.color("accent"), 1.5))):
            painter.setPen(pen)
            painter.setBrush(translucent(self._theme.color("accent"), 70 if is_written else 0))
            mine = (each for each in self.touched if each.is_written == is_written)
            pieces = [p for each in mine for p in layout.pieces(each.address, each.size_bytes, each.banks)]
            for piece in joined(pieces):
                width, height = piece.right - piece.left, piece.bottom - piece.top
                box = QRectF(piece.left / ratio, piece.top / ratio, width / ratio, height / ratio)
                painter.drawRect(box)

    # -- pointing ---------------------------------------------------------------------------------------

    def address_at(self, point: QPointF) -> int | None:
        """Return the address at a point of the widget, None beside the map."""
        if self.view is None:
            return None
        layout, _image = self._painted()
        ratio = self.devicePixelRatioF()
        area = self._area()
        x, y = (point.x() - area.left()) * ratio, (point.y() - area.top()) * ratio
        return layout.address_at(int(x), int(y)) if x >= 0 and y >= 0 else None

    def click(self, spot: QPointF) -> None:
        address = self.address_at(self.pressed_at)
        if address is not None:
            self.region_chosen.emit(self.region_at(address))

    def drag(self, before: QPointF, spot: QPointF) -> None:
        chosen = self._dragged(spot)
        if chosen is not None:
            self.set_chosen(*chosen)

    def drop(self, spot: QPointF) -> None:
        chosen = self._dragged(spot) or self._chosen
        if chosen is not None and self.address_at(self.pressed_at) is not None:
            self.range_chosen.emit(*chosen)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Show the used part again after zooming; if not zoomed, show the whole memory."""
        if self._is_zoomed and self.view is not None:
            self._is_zoomed = self._had_regions = False
            regions, self.regions = self.regions, ()
            self.set_regions(regions)
        else:
            self.show_whole()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the pointer; with Shift move along the addresses."""
        address = self.address_at(event.position())
        if self.view is None:
            return
        self._is_zoomed = True
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._set_view(self.view.panned(-notches(event) / 4))
        elif address is not None:
            self._set_view(self.view.zoomed(2.0 ** -notches(event), address % self.view.bank_bytes))
        event.accept()

    def _dragged(self, point: QPointF) -> tuple[int, int, int] | None:
        here, anchor = self.address_at(point), self.address_at(self.pressed_at)
        if here is None or anchor is None or self._layout is None:
            return None
        if isinstance(self._layout, PartitionLayout):
            # A rectangle: bytes from left to right, partitions from top to bottom.
            size = self._layout.view.bank_bytes
            (low, high), (top, bottom) = (
                sorted(pair) for pair in ((here % size, anchor % size), (here // size, anchor // size))
            )
            length = min(high + self._layout.bytes_per_pixel, size) - low
            return top * size + low, length, bottom - top + 1
        first, last = sorted((here, anchor))
        return first, min(last + self._layout.bytes_per_pixel, self._extent) - first, 1

    def tip_at(self, spot: QPointF) -> str:
        address = self.address_at(spot)
        return "" if address is None else self.tooltip(address)

    def tooltip(self, address: int) -> str:
        """Describe what is at an address in lines of text."""
        region, view = self.region_at(address), self.view
        here = f"{address:#x}"
        if view is not None and view.is_partitioned:
            bank, inside = divmod(address, view.bank_bytes)
            here = f"partition {bank}, {inside:#x}"
        if region is None:
            return "\n".join(line for line in (here, "free", self._acts_on(address)) if line)
        value = self.value_of(address, region) if self.value_of is not None else ""
        first, place = region.address, "at"
        if view is not None and view.is_partitioned:
            bank, first = divmod(region.address, view.bank_bytes)
            place = (
                f"partitions {bank} \u2013 {bank + region.banks - 1}," if region.banks > 1 else f"p{bank},"
            )
        shape = " x ".join(str(dim) for dim in region.shape) or "scalar"
        lines = [
            region.label or "unnamed",
            f"{here}" + (f" = {value}" if value else ""),
            f"{place} {first:#x} \u2013 {first + region.size_bytes:#x}",
            f"{shape} {region.dtype}, {format_bytes(region.total_bytes)}",
            f"since cycle {format_count(region.since)}",
        ]
        if not region.is_valid:
            lines.append("bytes are still on their way")
        if acts := self._acts_on(address):
            lines.insert(3, acts)
        if region.instruction >= 0:
            lines.append(f"written by instruction {format_count(region.instruction)}")
        return "\n".join(lines[:6])

    def _acts_on(self, address: int) -> str:
        """Say whether the selected instruction reads or writes a byte, "" if it does neither."""
        bank_bytes = self.view.bank_bytes if self.view is not None else 1
        bank, inside = divmod(address, bank_bytes)
        acts: set[str] = set()
        for each in self.touched:
            first, low = divmod(each.address, bank_bytes)
            if first <= bank < first + each.banks and low <= inside < low + each.size_bytes:
                acts.add("writes" if each.is_written else "reads")
        return f"the selected instruction {' and '.join(sorted(acts))} this" if acts else ""
