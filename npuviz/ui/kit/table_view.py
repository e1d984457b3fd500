"""Make the tables of all panels: selection by rows, no grid, one row height; copy them as CSV."""

import csv
import io
from collections.abc import Callable, Sequence

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPoint, QRect, Qt
from PySide6.QtGui import QKeySequence, QPainter
from PySide6.QtWidgets import QAbstractItemView, QApplication, QMenu, QTableView, QWidget

from npuviz.base.units import NARROW_NO_BREAK, THIN_SPACE
from npuviz.ui.kit.columns import is_spared
from npuviz.ui.kit.parts import add_keys, pop_up
from npuviz.ui.kit.picture import add_save_actions
from npuviz.ui.theme.theme import Theme

MAX_CELLS = 1_000_000
CHANGED_WIDTH = 2

_SPACES = str.maketrans({THIN_SPACE: None, NARROW_NO_BREAK: None})
"""Thin spaces, which group digits on the screen, are removed: programs that read the CSV want none."""


def make_table(
    model: QAbstractItemModel,
    theme: Theme,
    accessible_name: str,
    parent: QWidget | None = None,
    *,
    object_name: str = "",
    widths: Sequence[int] = (),
    is_single: bool = False,
    show_menu: Callable[[QPoint], None] | None = None,
) -> QTableView:
    """Make a view in which whole rows are selected; the last column takes the room that is left.

    widths     pixels of the first columns
    is_single  only one row at a time can be chosen
    show_menu  called with a point of the viewport for which a context menu is wanted
    """
    view = QTableView(parent, showGrid=False, wordWrap=False)
    view.setObjectName(object_name)
    view.setAccessibleName(accessible_name)
    view.setModel(model)
    # Arrows walk inside of a table, Tab leaves it.
    view.setTabKeyNavigation(False)
    view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    if is_single:
        view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.verticalHeader().hide()
    view.verticalHeader().setDefaultSectionSize(theme.row_height)
    header = view.horizontalHeader()
    header.setHighlightSections(False)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setStretchLastSection(True)
    for column, width in enumerate(widths):
        header.resizeSection(column, width)
    if show_menu is not None:
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(show_menu)
    return view


def paint_changed(painter: QPainter, row: QRect, theme: Theme) -> None:
    """Mark a row that the last step changed by a thin bar at its left edge."""
    painter.fillRect(row.left(), row.top() + 2, CHANGED_WIDTH, row.height() - 4, theme.color("changed"))


def on_key(
    view: QTableView, key: QKeySequence | QKeySequence.StandardKey | Qt.Key, run: Callable[[], object]
) -> None:
    """Call something when a key is pressed while the table itself has the focus."""
    add_keys(view, [(key, run)], with_children=False)


def csv_of(view: QTableView, selected_only: bool = False) -> str:
    """Return a table as CSV with titles: the columns that are shown, or hidden only for want of room.

    selected_only  only selected rows. Stops after MAX_CELLS cells and says so in a last line.
    """
    model = view.model()
    rows = list(range(model.rowCount(QModelIndex())))
    if selected_only:
        rows = sorted({index.row() for index in view.selectionModel().selectedIndexes()})
    count = model.columnCount(QModelIndex())
    columns = [c for c in range(count) if not view.isColumnHidden(c) or is_spared(view, c)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    horizontal, display = Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole
    writer.writerow([model.headerData(column, horizontal, display) for column in columns])
    for number, row in enumerate(rows):
        if number * len(columns) > MAX_CELLS:
            writer.writerow([f"cut after {number} of {len(rows)} rows"])
            break
        cells = [model.index(row, column).data() for column in columns]
        writer.writerow(["" if cell is None else str(cell).translate(_SPACES) for cell in cells])
    return out.getvalue()


def add_copy_actions(menu: QMenu, view: QTableView) -> None:
    """Add "Copy selection as CSV" and "Copy table as CSV" to a context menu."""

    def copy(selected_only: bool) -> None:
        QApplication.clipboard().setText(csv_of(view, selected_only))

    if view.selectionModel().hasSelection():
        menu.addAction("Copy selection as CSV", lambda: copy(True))
    menu.addAction("Copy table as CSV", lambda: copy(False))


def add_copying(
    view: QTableView,
    picture: tuple[QWidget, str] | None = None,
    own: Callable[[QMenu, QModelIndex], None] | None = None,
) -> None:
    """Let the usual key and a context menu copy a table as CSV: the selected rows, or all if none is.

    picture  a widget and its name, which the menu offers to save
    own      adds further entries to the menu, before the others, for the index that was clicked
    """

    def copy() -> None:
        QApplication.clipboard().setText(csv_of(view, view.selectionModel().hasSelection()))

    def show(point: QPoint) -> None:
        menu = QMenu(view)
        if own is not None:
            own(menu, view.indexAt(point))
        add_copy_actions(menu, view)
        if picture is not None:
            add_save_actions(menu, *picture)
        pop_up(menu, point, view.viewport())

    on_key(view, QKeySequence.StandardKey.Copy, copy)
    view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    view.customContextMenuRequested.connect(show)
