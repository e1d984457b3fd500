"""The table model of the log."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, QSortFilterProxyModel, Qt

from npuviz.base.units import format_count
from npuviz.ui.kit.row_model import NOWHERE, Index, RowModel

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
    """One line of the log. cycle and node are -1 for none; details can be copied from its menu."""

    severity: str
    code: str
    text: str
    cycle: int = -1
    node: int = -1
    details: str = ""


def entries_as_text(entries: list[LogEntry]) -> str:
    """Return entries as lines of text, with fields separated by tabs."""
    return "".join(f"{e.severity}\t{e.cycle if e.cycle >= 0 else ''}\t{e.code}\t{e.text}\n" for e in entries)


class LogTable(RowModel[LogEntry]):
    """Entries in the order they came; the oldest are dropped beyond MAX_ENTRIES.

    colors  colour role -> foreground for Qt; set by the panel for each theme
    """

    titles = ("", "Cycle", "What", "Message")
    numbers = (CYCLE,)
    aligns_titles = False

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colors: dict[str, Any] = {}

    def add(self, entries: list[LogEntry]) -> None:
        """Append entries."""
        if not entries:
            return
        excess = len(self.rows) + len(entries) - MAX_ENTRIES
        if excess > 0 and self.rows:
            last = min(excess, len(self.rows)) - 1
            self.beginRemoveRows(NOWHERE, 0, last)
            self.rows = self.rows[last + 1 :]
            self.endRemoveRows()
        self.show_rows([*self.rows, *entries[-MAX_ENTRIES:]])

    def text(self, row: LogEntry, column: int) -> str:
        cycle = format_count(row.cycle) if row.cycle >= 0 else ""
        return (SEVERITIES[row.severity][0], cycle, row.code, row.text)[column]

    def tooltip(self, row: LogEntry, column: int) -> str:
        return f"{row.severity}: {row.text}" + ("\nClick to select the operator" if row.node >= 0 else "")

    def other(self, row: LogEntry, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.ForegroundRole:
            quiet = "text-muted" if column != MESSAGE else "text"
            return self.colors.get(SEVERITIES[row.severity][1] if column == SEVERITY else quiet)
        if role == Qt.ItemDataRole.TextAlignmentRole and column == SEVERITY:
            return Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.AccessibleTextRole and column == SEVERITY:
            return row.severity
        return None


class LogFilter(QSortFilterProxyModel):
    """Filters the log by severity and text."""

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
        """Show only entries that contain a text, ignoring case."""
        self.beginFilterChange()
        self._text = text.casefold().strip()
        self.endFilterChange()

    def entry(self, index: Index) -> LogEntry:
        """Return the entry of a row of this model."""
        return self._table.rows[self.mapToSource(index).row()]

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        entry = self._table.rows[source_row]
        if entry.severity in self._hidden:
            return False
        return not self._text or self._text in f"{entry.code} {entry.text}".casefold()
