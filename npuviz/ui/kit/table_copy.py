"""Copies what a table shows as CSV."""

import csv
import io

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QTableView

from npuviz.base.units import THIN_SPACE
from npuviz.ui.kit.table_view import on_key

MAX_CELLS = 1_000_000


def csv_of(view: QTableView, selected_only: bool = False) -> str:
    """CSV of the visible columns, with their titles; numbers without thin spaces.

    selected_only  only selected rows. Stops after MAX_CELLS cells and says so in a last line.
    """
    model = view.model()
    rows = list(range(model.rowCount(QModelIndex())))
    if selected_only:
        rows = sorted({index.row() for index in view.selectionModel().selectedIndexes()})
    columns = [c for c in range(model.columnCount(QModelIndex())) if not view.isColumnHidden(c)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    horizontal, display = Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole
    writer.writerow([model.headerData(column, horizontal, display) for column in columns])
    for number, row in enumerate(rows):
        if number * len(columns) > MAX_CELLS:
            writer.writerow([f"cut after {number} of {len(rows)} rows"])
            break
        cells = [model.index(row, column).data() for column in columns]
        writer.writerow(["" if cell is None else str(cell).replace(THIN_SPACE, "") for cell in cells])
    return out.getvalue()


def add_copy_actions(menu: QMenu, view: QTableView) -> None:
    """Add "Copy selection as CSV" and "Copy table as CSV" to a context menu."""

    def copy(selected_only: bool) -> None:
        QApplication.clipboard().setText(csv_of(view, selected_only))

    if view.selectionModel().hasSelection():
        menu.addAction("Copy selection as CSV", lambda: copy(True))
    menu.addAction("Copy table as CSV", lambda: copy(False))


def add_copy_key(view: QTableView) -> None:
    """Let the usual key copy the selected rows as CSV, or the whole table if none is."""
    on_key(
        view,
        QKeySequence.StandardKey.Copy,
        lambda: QApplication.clipboard().setText(csv_of(view, view.selectionModel().hasSelection())),
    )
