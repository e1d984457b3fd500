"""The list of branches (futures that writes replaced): their writes, where they part, their known length."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtWidgets import QHeaderView, QMenu, QWidget

from npuviz.base.units import format_count
from npuviz.debug.console.branches import edits_text
from npuviz.debug.session import Session
from npuviz.ui.kit.parts import fill, muted_label, pop_up
from npuviz.ui.kit.row_model import RowModel
from npuviz.ui.kit.table_view import add_copy_actions, make_table, on_key
from npuviz.ui.theme.theme import Theme

NUMBER, WRITES, PARTS, KNOWN = range(4)
NO_BRANCHES = (
    "No other future yet. Writing a value or a byte where the run has already gone on keeps the old future "
    "here: Return goes to it, C compares it with the present."
)


@dataclass(frozen=True, slots=True)
class BranchRow:
    """The shown facts of a branch: cycles at which it parts from the present and up to which it is known."""

    id: int
    writes: str
    parts_at: int
    known_to: int


class BranchTable(RowModel[BranchRow]):
    """One row for each branch."""

    titles = ("Branch", "Written", "Parts at", "Known to")
    numbers = (NUMBER, PARTS, KNOWN)

    def text(self, row: BranchRow, column: int) -> str:
        return (str(row.id), row.writes, format_count(row.parts_at), format_count(row.known_to))[column]

    def tooltip(self, row: BranchRow, column: int) -> str:
        return row.writes if column == WRITES else "Return goes there; C compares it with the present"


class BranchPage(QWidget):
    """Shows the branches of a session.


    switch, compare  called with the number of a branch to go to, or to compare with the present
    """

    def __init__(
        self, theme: Theme, switch: Callable[[int], object], compare: Callable[[int], object], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._switch, self._compare = switch, compare
        self.table = BranchTable(self)
        self.view = make_table(
            self.table, theme, "Branches", self, object_name="branches.table", is_single=True,
            show_menu=self._show_menu,
        )  # fmt: skip
        header = self.view.horizontalHeader()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(WRITES, QHeaderView.ResizeMode.Stretch)
        self.view.doubleClicked.connect(lambda index: self._do(index, self._switch))
        on_key(self.view, Qt.Key.Key_Return, lambda: self._do(self.view.currentIndex(), self._switch))
        on_key(self.view, Qt.Key.Key_C, lambda: self._do(self.view.currentIndex(), self._compare))
        self._hint = muted_label(self, "branches.hint", NO_BRANCHES)
        self._hint.setWordWrap(True)
        self._hint.setContentsMargins(12, 8, 12, 8)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignTop)
        fill(self, (self.view, 1), (self._hint, 1))
        self.show_branches(None)

    def show_branches(self, session: Session | None) -> None:
        """Show the present branches of a session; none without session."""
        rows = [
            BranchRow(
                each.id,
                edits_text(each.edits, session.machine),
                each.parts_at(session.edits) or 0,
                each.known_to,
            )
            for each in (session.branches if session is not None else ())
            if session is not None
        ]
        self.table.show_rows(rows, lambda row: row.id)
        self.view.setVisible(bool(rows))
        self._hint.setVisible(not rows)

    def _do(self, index: QModelIndex, what: Callable[[int], object]) -> None:
        if index.isValid():
            what(self.table.rows[index.row()].id)

    def _show_menu(self, point: QPoint) -> None:
        index = self.view.indexAt(point)
        menu = QMenu(self)
        if index.isValid():
            menu.addAction("Go there", lambda: self._do(index, self._switch))
            menu.addAction("Compare with the present", lambda: self._do(index, self._compare))
            menu.addSeparator()
        add_copy_actions(menu, self.view)
        pop_up(menu, point, self.view.viewport())
