"""The widget that draws a listing of any length; only visible rows are decoded."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QPoint, QRect, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QWidget

from npuviz.program.instruction import Instruction
from npuviz.ui.kit.line_area import LineArea
from npuviz.ui.program.row_painter import GUTTER_WIDTH, RowLook, RowPainter
from npuviz.ui.program.rows import Decoder, ListingRows
from npuviz.ui.theme.theme import Theme

MAX_SCROLL = 2_000_000_000
"""Largest value of a scroll bar, which counts in 32 bits; longer listings scroll several rows a step."""


@dataclass(frozen=True)
class ListingMarks:
    """Marks on the rows, by instruction index.

    counters      instruction -> names of the units whose next instruction it is
    breakpoints   instruction -> whether it is enabled
    """

    counters: Mapping[int, str] = field(default_factory=dict[int, str])
    breakpoints: Mapping[int, bool] = field(default_factory=dict[int, bool])


class ProgramListing(LineArea):
    """A listing with gutter, program counters and a heading that names the operator on top.

    chosen             the user picked an instruction
    breakpoint_toggled the gutter of an instruction was clicked
    menu_requested     instruction and global position of a context menu
    rows      the rows that are shown
    selected  instruction of the current row, -1 if none
    """

    chosen = Signal(object)
    breakpoint_toggled = Signal(object)
    menu_requested = Signal(object, QPoint)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        keys = "Arrow keys move, F9 sets a breakpoint, Ctrl+F searches"
        super().__init__(theme, "Instructions", keys, parent)
        self.rows = ListingRows([])
        self._decoder: Decoder | None = None
        self._painter = RowPainter(theme)
        self._has_operators = False
        self._marks = ListingMarks()
        self.selected = -1
        self._selected_node = -1
        self._scale = 1
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    # -- contents ---------------------------------------------------------------------------------

    @property
    def first_row(self) -> int:
        """The topmost row."""
        return min(self.verticalScrollBar().value() * self._scale, max(0, len(self.rows) - 1))

    @property
    def num_visible(self) -> int:
        """Rows that fit completely."""
        return max(1, (self.viewport().height() - self._heading_height()) // self._theme.row_height)

    def show_rows(self, rows: ListingRows, decoder: Decoder | None, look: RowLook) -> None:
        """Show other rows from the first on; keep the selection."""
        self.rows, self._decoder = rows, decoder
        self._painter.set_look(look)
        self._has_operators = bool(look.nodes)
        self.update_range()
        self.verticalScrollBar().setValue(0)
        self.viewport().update()

    def set_marks(self, marks: ListingMarks) -> None:
        """Set program counters and breakpoints, and repaint the rows that changed."""
        if marks == self._marks:
            return
        before, self._marks = self._marks, marks
        for old, new in ((before.counters, marks.counters), (before.breakpoints, marks.breakpoints)):
            for instruction in old.keys() | new.keys():
                if old.get(instruction) != new.get(instruction):
                    self._update_row(instruction)

    def select(self, instruction: int, node: int = -1) -> None:
        """Mark an instruction as current, or all instructions of a node; -1 for neither."""
        self.selected, self._selected_node = instruction, node
        if self.hasFocus():
            self.tell_line()
        self.viewport().update()

    def reveal(self, instruction: int) -> None:
        """Scroll to an instruction, or the next one with a row, unless it is visible already."""
        row = self.rows.row_at_or_after(instruction)
        first, count = self.first_row, self.num_visible
        if not first <= row < first + count:
            self._scroll_to(row - count // 3)
            self.viewport().update()

    def move_by(self, rows: int) -> None:
        """Move the current row by a number of rows."""
        if not len(self.rows):
            return
        row = self.rows.row_of(self.selected)
        if row is None:
            row = self.first_row - (1 if rows > 0 else 0)
        self._choose_row(min(max(0, row + rows), len(self.rows) - 1))

    # -- drawing ----------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        area = self.viewport().rect()
        painter.fillRect(area, self._theme.color("surface"))
        if self._decoder is None or not len(self.rows):
            return
        height, top = self._theme.row_height, self._heading_height()
        first = self.first_row
        indices = self.rows.instructions(first, area.height() // height + 2)
        previous = self._node_before(first)
        top_instruction: Instruction | None = None
        for place, index in enumerate(indices.tolist()):
            instruction = self._decoder.describe(index)
            top_instruction = top_instruction or instruction
            row = QRect(0, top + place * height, area.width(), height)
            starts_group, previous = instruction.node != previous and place > 0, instruction.node
            if not event.region().intersects(row):
                continue
            self._painter.paint_row(
                painter,
                row,
                instruction,
                is_selected=index == self.selected,
                is_related=self.selected < 0 and 0 <= self._selected_node == instruction.node,
                is_hovered=first + place == self.hovered,
                starts_group=starts_group,
                counter=self._marks.counters.get(index),
                breakpoint_enabled=self._marks.breakpoints.get(index),
            )
        if top_instruction is not None and top:
            self._painter.paint_heading(painter, QRect(0, 0, area.width(), top), top_instruction)
        if self.hasFocus():
            painter.setPen(self._theme.color("accent"))
            painter.drawLine(0, 0, area.width(), 0)

    def _update_row(self, instruction: int) -> None:
        """Repaint the row of an instruction if it is visible."""
        row = self.rows.row_of(instruction)
        if row is None or not 0 <= row - self.first_row <= self.num_visible + 1:
            return
        height = self._theme.row_height
        top = self._heading_height() + (row - self.first_row) * height
        self.viewport().update(0, top, self.viewport().width(), height)

    def _heading_height(self) -> int:
        """Return the height of the heading in pixels; 0 for a program without operators, such as a kernel."""
        return self._theme.row_height if self._has_operators else 0

    def _node_before(self, row: int) -> int:
        if row <= 0 or self._decoder is None:
            return -2
        return self._decoder.describe(self.rows.instruction_at(row - 1)).node

    def update_range(self) -> None:
        total = len(self.rows)
        self._scale = max(1, -(-total // MAX_SCROLL))
        bar = self.verticalScrollBar()
        bar.setPageStep(max(1, self.num_visible // self._scale))
        bar.setSingleStep(1)
        bar.setRange(0, max(0, total - self.num_visible + self._scale - 1) // self._scale)

    def _scroll_to(self, row: int) -> None:
        self.verticalScrollBar().setValue(max(0, row) // self._scale)

    # -- mouse and keys -----------------------------------------------------------------------------

    def line_at(self, y: float) -> int | None:
        inside = int(y) - self._heading_height()
        row = self.first_row + inside // self._theme.row_height
        return row if inside >= 0 and row < len(self.rows) else None

    def _choose_row(self, row: int) -> None:
        instruction = self.rows.instruction_at(row)
        self.select(instruction)
        first, count = self.first_row, self.num_visible
        if row < first:
            self._scroll_to(row)
        elif row >= first + count:
            self._scroll_to(row - count + 1)
        self.chosen.emit(instruction)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        row = self.line_at(event.position().y())
        if row is None or event.button() != Qt.MouseButton.LeftButton:
            return
        if event.position().x() < GUTTER_WIDTH:
            self.breakpoint_toggled.emit(self.rows.instruction_at(row))
        else:
            self._choose_row(row)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        row = self.line_at(event.pos().y())
        if row is not None:
            self._choose_row(row)
            self.menu_requested.emit(self.rows.instruction_at(row), event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        move = self.step_of(event, self.num_visible - 1, len(self.rows))
        if move is None:
            super().keyPressEvent(event)
        else:
            self.move_by(move)

    def current_text(self) -> str:
        if self._decoder is None or self.rows.row_of(self.selected) is None:
            return ""
        found = self._decoder.describe(self.selected)
        return f"{self.selected}: {found.text}"

    def tip_at(self, spot: QPoint) -> str:
        row = self.line_at(spot.y())
        if row is None or self._decoder is None:
            return ""
        return self._painter.tooltip(self._decoder.describe(self.rows.instruction_at(row)))
