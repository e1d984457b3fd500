"""The search panel: finds a text in operators, tensors, units, log, hazards and instructions."""

from typing import Any, cast

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtGui import QBrush
from PySide6.QtWidgets import QApplication, QHeaderView, QMenu, QWidget
from shiboken6 import isValid

from npuviz.base.units import format_count, format_share
from npuviz.ui.kit.columns import abbreviate_names
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import add_keys, column, filter_line, line, summary_line
from npuviz.ui.kit.row_model import RowModel
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.finding.run_search import Found, RunSearch

SLICE_SECONDS = 0.008
TYPING_MS = 150
"""Milliseconds without typing after which a search begins."""
NOTHING_OPEN = (
    "Finds a text in operators, tensors, units, the log, hazards and instructions. Open a model to begin."
)
HINT = "operators, tensors, units, log, hazards and instructions"
WIDTHS = (76, 64, 200, 120)
FIELD_WIDTH = 240
SORT, CYCLE, NAME, TEXT = range(4)


class FoundTable(RowModel[Found]):
    """One row for each hit, with its cycle if it has one."""

    titles = ("Sort", "Cycle", "Name", "Text")
    numbers = (CYCLE,)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def text(self, row: Found, column: int) -> str:
        cycle = format_count(row.cycle) if row.cycle >= 0 else ""
        return (row.sort, cycle, row.name, row.text)[column]

    def tooltip(self, row: Found, column: int) -> str:
        goes = "\nA double click goes to its cycle" if row.cycle >= 0 else ""
        return f"{row.name}\n{row.text}{goes}".rstrip("\n")

    def other(self, row: Found, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.ForegroundRole and column != NAME:
            return QBrush(self._theme.color("text-muted"))
        return None


class SearchPanel(Panel):
    """Searches while the user types; choosing a hit selects it in all panels."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._search: RunSearch | None = None
        self._before: QWidget | None = None
        self.field = filter_line(
            self,
            "Search the run",
            self._typed,
            name="search.field",
            width=FIELD_WIDTH,
            title="Text to look for in the whole run",
        )
        self.status = summary_line("search.status")
        self.table = FoundTable(context.theme)
        self.view = make_table(
            self.table,
            context.theme,
            "Found",
            self,
            object_name="search.table",
            widths=WIDTHS,
            is_single=True,
        )
        abbreviate_names(self.view, NAME)
        header = self.view.horizontalHeader()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        add_copying(self.view, (self, "search"), self._add_actions)
        self.view.selectionModel().currentChanged.connect(lambda index, _before: self._choose(index))
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)
        self.view.doubleClicked.connect(self._go_to)
        self._soon = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._soon.timeout.connect(self.search)
        self._slice = QTimer(self, interval=0)
        self._slice.timeout.connect(self._advance)
        self.field.returnPressed.connect(self._enter)
        add_keys(self, (("Esc", self._escape),))
        self._application = cast(QApplication, QApplication.instance())
        self._application.focusChanged.connect(self._remember)
        bar = line(self.field, (self.status, 1), margins=(8, 2, 8, 2))
        self.set_pages(self.invitation(NOTHING_OPEN), column(bar, (self.view, 1), parent=self))
        self.setFocusProxy(self.field)
        self.on_session_changed()

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self.stop()
        self._search = None
        self.table.reset([])
        self.show_page(self.model.program is not None)
        self._tell()
        if self.field.text().strip():
            self._soon.start()

    def dispose(self) -> None:
        self._application.focusChanged.disconnect(self._remember)
        super().dispose()

    @property
    def is_filled(self) -> bool:
        return not self._slice.isActive() and not self._soon.isActive()

    # -- searching ------------------------------------------------------------------------------------

    def search(self) -> None:
        """Search for the text of the field now."""
        self._soon.stop()
        log = [found for source in self.context.log_lines for found in source()]
        self._search = RunSearch(
            self.field.text(),
            self.model.program,
            self.model.description,
            self.context.hazards.hazards or (),
            log,
        )
        self.table.reset(list(self._search.found))
        self._slice.start()
        self._tell()

    def stop(self) -> None:
        """Stop searching; the hits so far stay."""
        self._soon.stop()
        self._slice.stop()
        if self._search is not None and not self._search.is_done:
            read = self._search.num_read
            self._search.stop()
            self.status.setText(
                f"{format_count(len(self.table.rows))} found, stopped at {format_count(read)}"
            )

    def _escape(self) -> None:
        """Do the first that applies: stop searching, focus the field, clear it, focus the earlier widget."""
        before = self._before
        if not self.is_filled:
            self.stop()
        elif not self.field.hasFocus():
            self.field.setFocus(Qt.FocusReason.OtherFocusReason)
            self.field.selectAll()
        elif self.field.text():
            self.field.clear()
        elif before is not None and isValid(before) and before.isVisible():
            before.setFocus(Qt.FocusReason.OtherFocusReason)

    def _remember(self, old: QWidget | None, new: QWidget | None) -> None:
        """Remember the widget that had the focus before this panel got it."""
        if old is not None and new is not None and self.isAncestorOf(new) and not self.isAncestorOf(old):
            self._before = old

    def _typed(self, _text: str) -> None:
        self._soon.start()

    def _enter(self) -> None:
        """Search at once, or focus the hits if the search has begun already."""
        if self._soon.isActive() or self._search is None:
            self.search()
        elif self.table.rows:
            self.view.setFocus()
            self.view.selectRow(max(self.view.currentIndex().row(), 0))

    def _advance(self) -> None:
        search = self._search
        if search is None or search.advance(SLICE_SECONDS):
            self._slice.stop()
        if search is not None:
            if len(search.found) > len(self.table.rows):
                self.table.show_rows(list(search.found))
            self._tell()

    def _tell(self) -> None:
        search = self._search
        if search is None or not self.field.text().strip():
            self.status.setText(HINT)
            return
        text = f"{format_count(len(search.found))} found"
        if search.cut:
            text += f", more of {', '.join(search.cut)}"
        if not search.is_done:
            read = format_share(search.num_read / max(search.num_instructions, 1), 0)
            text += f"; {read} of the instructions (Esc)"
        self.status.setText(text)

    # -- what was found ---------------------------------------------------------------------------------

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid() and not self.table.rows[index.row()].selection.is_empty:
            self.context.selection.set(self.table.rows[index.row()].selection)

    def _go_to(self, index: QModelIndex) -> None:
        cycle = self.table.rows[index.row()].cycle if index.isValid() else -1
        if cycle >= 0:
            self.model.go_to(cycle)

    def _add_actions(self, menu: QMenu, index: QModelIndex) -> None:
        cycle = self.table.rows[index.row()].cycle if index.isValid() else -1
        if cycle >= 0 and self.model.session is not None:
            menu.addAction(f"Go to cycle {format_count(cycle)}", lambda: self.model.go_to(cycle))


SPEC = PanelSpec("search", "Search", "mdi6.text-search", "bottom", 90, (), SearchPanel)
