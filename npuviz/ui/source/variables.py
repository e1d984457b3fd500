"""Variables of an element by name and type, calls first; what changed in the last step is marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QBrush

from npuviz.sim.frames import FrameVariable
from npuviz.ui.source.state import ElementPlace
from npuviz.ui.theme.theme import Theme

NAME, VALUE, TYPE, ADDRESS = range(4)
_HEADS = ("Name", "Value", "Type", "Address")
AnyIndex = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class VariableRow:
    """A variable, or (without one) the title of a scope."""

    scope: str
    variable: FrameVariable | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The same for the same variable at another cycle."""
        return self.scope, self.variable.name if self.variable is not None else ""


class VariableTable(QAbstractTableModel):
    """Rows of one element; `show_place` keeps what changed since the last time for the same element."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._rows: list[VariableRow] = []
        self._changed: set[tuple[str, str]] = set()
        self._values: dict[tuple[str, str], str] = {}
        self._shown: tuple[int, int] = (-1, -1)
        self._text = ""

    @property
    def rows(self) -> Sequence[VariableRow]:
        """What is shown."""
        return self._rows

    @property
    def changed(self) -> set[tuple[str, str]]:
        """(scope, name) of variables with another value than at the cycle shown before."""
        return self._changed

    def set_filter(self, text: str) -> None:
        """Show only variables whose names hold a text; takes effect with the next `show_place`."""
        self._text = text.casefold()

    def show_place(self, place: ElementPlace | None, cycle: int) -> None:
        """Show an element as it is at a cycle; None: nothing."""
        rows: list[VariableRow] = []
        if place is not None:
            for depth, (frame, _place) in enumerate(place.frames):
                name = f"{frame.name}{' (caller)' if depth else ''}"
                rows += self._scope(name, frame.variables, is_always=True)
            rows += self._scope("globals", place.variables)
        values = {row.key: row.variable.value for row in rows if row.variable is not None}
        element = place.element if place is not None else -1
        if element != self._shown[0]:
            self._changed = set()
        elif cycle != self._shown[1] or values != self._values:
            self._changed = {key for key, value in values.items() if self._values.get(key, value) != value}
        self._values, self._shown = values, (element, cycle)
        if [row.key for row in rows] == [row.key for row in self._rows]:
            self._rows = rows
            if rows:
                self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, len(_HEADS) - 1))
            return
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def _scope(
        self, name: str, variables: Sequence[FrameVariable], is_always: bool = False
    ) -> list[VariableRow]:
        kept = [VariableRow(name, v) for v in variables if self._text in v.name.casefold()]
        return [VariableRow(name), *kept] if kept or is_always else []

    # -- Qt ---------------------------------------------------------------------------------------

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return len(_HEADS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _HEADS[section]
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self._rows[index.row()]
        variable, column = row.variable, index.column()
        if role == Qt.ItemDataRole.DisplayRole or role == Qt.ItemDataRole.ToolTipRole:
            return _text(row, column)
        if role == Qt.ItemDataRole.FontRole:
            if variable is None:
                return self._theme.font_ui(11, bold=True)
            return self._theme.font_mono()
        if role == Qt.ItemDataRole.ForegroundRole:
            is_muted = variable is None or column in (TYPE, ADDRESS)
            return QBrush(self._theme.color("text-muted" if is_muted else "text"))
        if role == Qt.ItemDataRole.BackgroundRole and row.key in self._changed and column == VALUE:
            return QBrush(self._theme.color("changed"))
        return None

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable


def _text(row: VariableRow, column: int) -> str:
    variable = row.variable
    if variable is None:
        return row.scope if column == NAME else ""
    if column == ADDRESS:
        return f"0x{variable.address:x}" if variable.address >= 0 else ""
    return (variable.name, variable.value, variable.type)[column]
