"""What happened and what was assumed, as rows of a table."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)

from npuviz.base.units import format_count

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
HEADERS = ("", "Cycle", "What", "Message")
SEVERITY, CYCLE, CODE, MESSAGE = range(4)
SEVERITIES: dict[str, tuple[str, str, str]] = {
    "error": ("\u2716", "error", "Errors"),
    "warning": ("\u25b2", "warning", "Warnings"),
    "stop": ("\u25a0", "cursor", "Stops"),
    "info": ("\u25cf", "text-muted", "Notes"),
    "timing": ("\u25f7", "text-muted", "Timing"),
}
"""Severity -> (glyph, colour role, title of its filter). The glyph repeats what the colour says."""
MAX_ENTRIES = 5000


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line. cycle and node are -1 where it is about none; details can be copied from its menu."""

    severity: str
    code: str
    text: str
    cycle: int = -1
    node: int = -1
    details: str = ""


def entries_as_text(entries: list[LogEntry]) -> str:
    """Lines for other programs, fields separated by tabs."""
    return "".join(f"{e.severity}\t{e.cycle if e.cycle >= 0 else ''}\t{e.code}\t{e.text}\n" for e in entries)


class LogTable(QAbstractTableModel):
    """Entries in the order they came; the oldest go when there are too many.

    colors  colour role -> anything Qt takes as foreground; set by the panel for each theme
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: list[LogEntry] = []
        self.colors: dict[str, Any] = {}

    @property
    def entries(self) -> list[LogEntry]:
        """All entries."""
        return self._entries

    def add(self, entries: list[LogEntry]) -> None:
        """Append entries."""
        if not entries:
            return
        excess = len(self._entries) + len(entries) - MAX_ENTRIES
        if excess > 0 and self._entries:
            last = min(excess, len(self._entries)) - 1
            self.beginRemoveRows(NOWHERE, 0, last)
            del self._entries[: last + 1]
            self.endRemoveRows()
        entries = entries[-MAX_ENTRIES:]
        self.beginInsertRows(NOWHERE, len(self._entries), len(self._entries) + len(entries) - 1)
        self._entries.extend(entries)
        self.endInsertRows()

    def clear(self) -> None:
        """Forget all entries."""
        self.beginResetModel()
        self._entries.clear()
        self.endResetModel()

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(HEADERS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return HEADERS[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry, column = self._entries[index.row()], index.column()
        glyph, color, _ = SEVERITIES[entry.severity]
        if role == Qt.ItemDataRole.DisplayRole:
            cycle = format_count(entry.cycle) if entry.cycle >= 0 else ""
            return (glyph, cycle, entry.code, entry.text)[column]
        if role == Qt.ItemDataRole.ForegroundRole:
            return self.colors.get(
                color if column == SEVERITY else "text-muted" if column != MESSAGE else "text"
            )
        if role == Qt.ItemDataRole.TextAlignmentRole and column in (SEVERITY, CYCLE):
            side = Qt.AlignmentFlag.AlignRight if column == CYCLE else Qt.AlignmentFlag.AlignHCenter
            return side | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{entry.severity}: {entry.text}" + (
                "\nClick to select the operator" if entry.node >= 0 else ""
            )
        if role == Qt.ItemDataRole.AccessibleTextRole and column == SEVERITY:
            return entry.severity
        return None


class LogFilter(QSortFilterProxyModel):
    """Rows of the chosen severities that contain a text."""

    def __init__(self, table: LogTable, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._table = table
        self._hidden: set[str] = set()
        self._text = ""
        self.setSourceModel(table)

    def show_severity(self, severity: str, shown: bool) -> None:
        """Show or hide entries of a severity."""
        self.beginFilterChange()
        (self._hidden.discard if shown else self._hidden.add)(severity)
        self.endFilterChange()

    def show_text(self, text: str) -> None:
        """Show only entries that contain a text; letter case does not count."""
        self.beginFilterChange()
        self._text = text.casefold().strip()
        self.endFilterChange()

    def entry(self, index: Index) -> LogEntry:
        """The entry of a row of this model."""
        return self._table.entries[self.mapToSource(index).row()]

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        entry = self._table.entries[source_row]
        if entry.severity in self._hidden:
            return False
        return not self._text or self._text in f"{entry.code} {entry.text}".casefold()
