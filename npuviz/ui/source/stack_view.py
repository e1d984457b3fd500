"""The lower part of the source panel: functions under way, and variables or tiles with their values."""

from html import escape

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtWidgets import QLabel, QMenu, QWidget

from npuviz.sim.frames import FrameVariable
from npuviz.sim.machine import Machine
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.kit.columns import give_room
from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.kit.parts import column, fill, filter_line, line
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.ui.kit.thing_menu import ThingMenu
from npuviz.ui.source.state import ElementPlace
from npuviz.ui.source.tiles import request_of, with_tiles
from npuviz.ui.source.variables import ADDRESS, NAME, VALUE, VALUE_WIDTH, VariableTable
from npuviz.workbench.selection import MemoryRange, Selection

PATIENCE = 0.02
"""Seconds to wait for the values of tiles before they come later."""

TILE_WIDTHS = (156, VALUE_WIDTH, 128, 100)
"""Widths of the columns for tiles, whose types and places are longer than those of an element's variables."""


class StackView(QWidget):
    """Shows the calls and variables of a place.

    line_chosen  (Place) the user asked for the line that a function on the stack is at
    """

    line_chosen = Signal(object)

    def __init__(self, context: PanelContext, parent: QWidget) -> None:
        super().__init__(parent)
        self._context = context
        self._place: ElementPlace | None = None
        self._marks_changes = True
        self._is_wide = False
        self._tiles = LatestJob(self)
        self._tiles.finished.connect(self._tiles_found)
        self.variables = VariableTable(context.theme)
        self.table = make_table(
            self.variables, context.theme, "Variables", object_name="source.variables",
            widths=(116, VALUE_WIDTH, 72, 84),
        )  # fmt: skip
        give_room(self.table, VALUE, VALUE_WIDTH, spare=ADDRESS)
        add_copying(self.table, own=self._add_variable_actions)
        self.table.doubleClicked.connect(self._row_opened)
        self.variables.modelReset.connect(self._span_titles)
        self.where = QLabel(self, textFormat=Qt.TextFormat.RichText)
        self.where.setObjectName("source.where")
        self.filter = filter_line(self, "Filter variables", self._filter_changed, width=150)
        head = line((self.where, 1), self.filter, margins=(8, 2, 8, 2))
        fill(self, column(head, (self.table, 1), parent=self))

    @property
    def is_waiting(self) -> bool:
        """Whether the values of tiles are still to come."""
        return self._tiles.is_waiting

    @property
    def place(self) -> ElementPlace | None:
        """The place that is shown, with its tiles once their values are known."""
        return self._place

    def clear(self) -> None:
        """Show nothing."""
        self._tiles.drop()
        self._place = None
        self.where.clear()
        self.variables.show_place(None, 0)

    def show_place(self, machine: Machine, place: ElementPlace | None, marks_changes: bool) -> None:
        """Show a place of a machine at rest; tiles come later if values must be computed first."""
        self._tiles.drop()
        self._place, self._marks_changes = place, marks_changes
        if place is None:
            return
        doing = f"in {place.frames[0][0].name}" if place.frames else "runs nothing now"
        self.where.setText(f"<b>{escape(place.label)}</b> {escape(doing)}")
        request = request_of(machine, place)
        if request is not None and not self._is_wide:
            self._is_wide = True
            for number, width in enumerate(TILE_WIDTHS):
                self.table.setColumnWidth(number, width)
        if request is None:
            self._show_rows()
        elif self._tiles.ask(lambda: with_tiles(request), PATIENCE):
            self._tiles_found()

    def _tiles_found(self) -> None:
        self._place = self._tiles.answer()
        self._show_rows()

    def _show_rows(self) -> None:
        self.variables.show_place(self._place, self._context.model.cycle, self._marks_changes)

    def _filter_changed(self, text: str) -> None:
        self.variables.set_filter(text)
        self._show_rows()

    def _span_titles(self) -> None:
        """Let titles of scopes span all columns of the table."""
        self.table.clearSpans()
        for number, row in enumerate(self.variables.rows):
            if row.variable is None:
                self.table.setSpan(number, NAME, 1, self.variables.columnCount())

    def _add_variable_actions(self, menu: QMenu, index: QModelIndex) -> None:
        variable = self.variables.rows[index.row()].variable if index.isValid() else None
        wanted = self._bytes_of(variable) if variable is not None else None
        if wanted is not None:
            ThingMenu(self._context, menu).add_memory(wanted)
            menu.addAction(
                "Show its bytes", lambda: self._context.selection.set(Selection().with_fields(memory=wanted))
            )
            menu.addSeparator()

    def _bytes_of(self, variable: FrameVariable) -> MemoryRange | None:
        """Return the bytes of a variable; None if it is in a register, or the element has not exactly one
        memory.
        """
        description, place = self._context.model.description, self._place
        if description is None or place is None or variable.address < 0:
            return None
        if variable.memory >= 0:
            return MemoryRange(variable.memory, variable.address, max(variable.size_bytes, 1), variable.banks)
        own = [m.id for m in description.memories if m.name.rpartition(".")[0] == place.label]
        return MemoryRange(own[0], variable.address, max(variable.size_bytes, 1)) if len(own) == 1 else None

    def _row_opened(self, index: QModelIndex) -> None:
        """Show the bytes of a variable, or the line that a function on the stack is at."""
        row, place = self.variables.rows[index.row()], self._place
        wanted = self._bytes_of(row.variable) if row.variable is not None else None
        if wanted is not None:
            self._context.selection.set(Selection().with_fields(memory=wanted))
        elif place is not None and 0 <= row.depth < len(place.frames):
            at = place.frames[row.depth][1]
            if at is not None:
                self.line_chosen.emit(at)
