"""Makes the tables of all panels alike: rows, no grid, one row height, header at the left."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QAbstractItemModel, QPoint, QRect, Qt
from PySide6.QtGui import QKeySequence, QPainter
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from npuviz.ui.kit.parts import add_keys
from npuviz.ui.theme.theme import Theme

CHANGED_WIDTH = 2


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
    """A view whose rows are chosen as wholes; the last column takes the room that is left.

    widths     pixels of the first columns
    is_single  only one row at a time can be chosen
    show_menu  called with a point of the viewport for which a context menu is wanted
    """
    view = QTableView(parent, showGrid=False, wordWrap=False)
    view.setObjectName(object_name)
    view.setAccessibleName(accessible_name)
    view.setModel(model)
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


def fit_columns(view: QTableView, first: int) -> None:
    """Give the first column `first` pixels, to change with the mouse, and all others what they need."""
    header = view.horizontalHeader()
    header.setStretchLastSection(False)
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
    header.resizeSection(0, first)


def paint_changed(painter: QPainter, row: QRect, theme: Theme) -> None:
    """Mark a row that the last step changed by a thin bar at its left edge."""
    painter.fillRect(row.left(), row.top() + 2, CHANGED_WIDTH, row.height() - 4, theme.color("changed"))


def on_key(
    view: QTableView, key: QKeySequence | QKeySequence.StandardKey | Qt.Key, run: Callable[[], object]
) -> None:
    """Call something when a key is pressed while the table itself has the focus."""
    add_keys(view, [(key, run)], with_children=False)
