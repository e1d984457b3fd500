"""The table model of an element's variables, those of calls first; changes of the last step are marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush

from npuviz.sim.frames import FrameVariable
from npuviz.ui.kit.row_model import RowModel
from npuviz.ui.source.state import ElementPlace
from npuviz.ui.theme.theme import Theme

NAME, VALUE, TYPE, ADDRESS = range(4)
VALUE_WIDTH = 128


@dataclass(frozen=True, slots=True)
class VariableRow:
    """A variable, or (without one) the title of a scope; `depth` of the call that it is, -1 for others."""

    scope: str
    variable: FrameVariable | None = None
    depth: int = -1

    @property
    def key(self) -> tuple[str, str]:
        """Scope and name, which identify the variable at every cycle."""
        variable = self.variable
        return self.scope, f"{variable.name} {variable.where}".strip() if variable is not None else ""


class VariableTable(RowModel[VariableRow]):
    """The variables of one element; `show_place` marks changes since its last call for the same element.

    changed  (scope, name) of the variables whose value differs from that at the cycle shown before
    """

    titles = ("Name", "Value", "Type", "Address")

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.changed: set[tuple[str, str]] = set()
        self._values: dict[tuple[str, str], str] = {}
        self._shown: tuple[int, int] = (-1, -1)
        self._text = ""

    def set_filter(self, text: str) -> None:
        """Show only variables whose names contain a text, from the next `show_place` on."""
        self._text = text.casefold()

    def show_place(self, place: ElementPlace | None, cycle: int, marks_changes: bool = True) -> None:
        """Show the variables of an element at a cycle; None: nothing."""
        marked = self.changed
        rows: list[VariableRow] = []
        if place is not None:
            for depth, (frame, _place) in enumerate(place.frames):
                name = f"{frame.name}{' (caller)' if depth else ''}{f': {frame.note}' if frame.note else ''}"
                rows += self._scope(name, frame.variables, depth)
            rows += self._scope(place.title, place.variables)
        values = {row.key: row.variable.value for row in rows if row.variable is not None}
        element = place.element if place is not None else -1
        if element != self._shown[0]:
            self.changed = set()
        elif cycle != self._shown[1] or values != self._values:
            other = {key for key, value in values.items() if self._values.get(key, value) != value}
            self.changed = other if marks_changes else set()
        self._values, self._shown = values, (element, cycle)
        if [row.key for row in rows] != [row.key for row in self.rows]:
            self.reset(rows)
            return
        before, self.rows = self.rows, rows
        for number, (row, old) in enumerate(zip(rows, before, strict=True)):
            if row != old or (row.key in marked) != (row.key in self.changed):
                self.row_changed(number)

    def _scope(self, name: str, variables: Sequence[FrameVariable], depth: int = -1) -> list[VariableRow]:
        kept = [VariableRow(name, v) for v in variables if self._text in v.name.casefold()]
        return [VariableRow(name, depth=depth), *kept] if kept or depth >= 0 else []

    def text(self, row: VariableRow, column: int) -> str:
        variable = row.variable
        if variable is None:
            return row.scope if column == NAME else ""
        if column == ADDRESS:
            return variable.where or (f"0x{variable.address:x}" if variable.address >= 0 else "")
        return (variable.name, variable.value, variable.type)[column]

    def tooltip(self, row: VariableRow, column: int) -> str:
        return self.text(row, column)

    def other(self, row: VariableRow, column: int, role: int) -> object:
        if role == Qt.ItemDataRole.FontRole:
            return self._theme.font_mono() if row.variable is not None else self._theme.font_ui(11, bold=True)
        if role == Qt.ItemDataRole.ForegroundRole:
            if row.key in self.changed and column == VALUE:
                return QBrush(self._theme.color("changed"))
            is_muted = row.variable is None or column in (TYPE, ADDRESS)
            return QBrush(self._theme.color("text-muted" if is_muted else "text"))
        return None
