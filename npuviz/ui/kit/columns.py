"""Fit the widths of table columns to the room: show as many as possible whole, the others by scrolling."""

from collections.abc import Collection, Sequence

from PySide6.QtCore import QEvent, QObject, QSize, QTimer
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)  # fmt: skip
from shiboken6 import isValid

from npuviz.ui.kit.elided_label import elided
from npuviz.ui.kit.row_model import Index

SPARED = "spared_columns"
"""Name of the Qt property in which a table keeps the columns that are hidden for want of room."""
MIN_NAME_WIDTH = 112


def fit_columns(view: QTableView, first: int, spare: Sequence[int] = (), most: int = 0) -> "Fitting":
    """Give all columns but the first the width they need, and the first `first` pixels where there is room.

    Without enough room the first column shrinks, down to MIN_NAME_WIDTH, so that the last visible column is
    seen whole (`name_width`). With room left it grows to the width of its texts. A width that the user gives
    it with the mouse stays.

    spare  columns that are hidden one after the other while the rest does not fit; CSV copies still have them
    most   largest width in pixels that the other columns ask for, 0: no limit
    """
    header = view.horizontalHeader()
    header.setStretchLastSection(False)
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
    header.resizeSection(0, first)
    if most:
        view.setItemDelegate(_Bounded(most, view))
    return Fitting(view, first, spare)


def give_room(view: QTableView, column: int, least: int, spare: int) -> None:
    """Give a column the room that the others leave; hide column `spare` if that is below `least` pixels."""
    view.horizontalHeader().setStretchLastSection(False)
    _Roomy(view, column, least, spare)


def abbreviate_names(view: QAbstractItemView, *columns: int) -> None:
    """Shorten names in these columns to fit their cells; names that are paths keep their last parts."""
    delegate = _Names(view)
    for column in columns:
        view.setItemDelegateForColumn(column, delegate)


def is_spared(view: QTableView, column: int) -> bool:
    """Return whether a column is hidden only because there is no room for it."""
    return column in (view.property(SPARED) or ())


def hide_without_room(view: QTableView, column: int, least: int) -> None:
    """Hide a column while the room that the other columns leave for it is less than `least` pixels.

    If the others do not fit either, shrink the first one, down to MIN_NAME_WIDTH.
    """
    _Hiding(view, column, least)


def name_width(room: int, others: list[int], first: int) -> int:
    """Return the width of the first column when it shares `room` pixels with columns of these widths.

    first  wanted width, given while all columns fit, or while whole ones leave it at least MIN_NAME_WIDTH
    """
    if first + sum(others) <= room:
        return first
    taken = 0
    for width in others:
        if MIN_NAME_WIDTH + taken + width > room:
            break
        taken += width
    if room - first - taken >= MIN_NAME_WIDTH:
        # Show the beginning of a long text rather than an empty first column.
        return first
    return max(room - taken, MIN_NAME_WIDTH)


class _Hiding(QObject):
    """Hides and shows a column as the table is resized; owned by the table."""

    def __init__(self, view: QTableView, column: int, least: int) -> None:
        super().__init__(view)
        self._view, self._column, self._least = view, column, least
        self._given, self._is_fitting = -1, False
        view.viewport().installEventFilter(self)
        view.horizontalHeader().sectionResized.connect(self._resized)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and isValid(self._view):
            self._fit()
        return super().eventFilter(watched, event)

    def _resized(self, column: int, _before: int, after: int) -> None:
        if column == 0 and not self._is_fitting and isValid(self._view):
            self._given = after
            self._fit()

    def _fit(self) -> None:
        header = self._view.horizontalHeader()
        first = self._given if self._given >= 0 else header.sectionSize(0)
        others = (place for place in range(1, header.count()) if place != self._column)
        taken = sum(header.sectionSize(place) for place in others if not header.isSectionHidden(place))
        room = self._view.viewport().width() - taken
        self._view.setColumnHidden(self._column, room - first < self._least)
        self._given, self._is_fitting = first, True
        header.resizeSection(0, first if first <= room else max(room, min(first, MIN_NAME_WIDTH)))
        self._is_fitting = False


class _Roomy(QObject):
    """Fits one column to the room as the table is resized; owned by the table."""

    def __init__(self, view: QTableView, column: int, least: int, spare: int) -> None:
        super().__init__(view)
        self._view, self._column, self._least, self._spare = view, column, least, spare
        self._spared_width = view.horizontalHeader().sectionSize(spare)
        view.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and isValid(self._view):
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        header = self._view.horizontalHeader()
        others = [each for each in range(header.count()) if each not in (self._column, self._spare)]
        room = self._view.viewport().width() - sum(map(header.sectionSize, others))
        is_spared = room - self._spared_width < self._least
        self._view.setColumnHidden(self._spare, is_spared)
        room -= 0 if is_spared else self._spared_width
        header.resizeSection(self._column, max(room, self._least))


class _Bounded(QStyledItemDelegate):
    """Draws cells that ask for at most `most` pixels; a longer text ends in an ellipsis."""

    def __init__(self, most: int, parent: QTableView) -> None:
        super().__init__(parent)
        self._most = most

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        found = super().sizeHint(option, index)
        return QSize(min(found.width(), self._most), found.height()) if index.column() else found


class _Names(QStyledItemDelegate):
    """Draws names of operators and tensors; a path that is too long keeps its end."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        # The rectangle is empty while Qt measures the cell.
        if option.rect.width() <= 0:
            return
        style = option.widget.style()
        inner = style.subElementRect(QStyle.SubElement.SE_ItemViewItemText, option, option.widget)
        margin = style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin, None, option.widget) + 1
        option.text = elided(option.fontMetrics, option.text, inner.width() - 2 * margin)


class Fitting(QObject):
    """Fits the first column as the room and the contents change.

    Owned by the table: as a child of the header it would be collected, because no Python code keeps that.
    """

    def __init__(self, view: QTableView, first: int, spare: Sequence[int]) -> None:
        header = view.horizontalHeader()
        super().__init__(view)
        self._view, self._first, self._spare = view, first, tuple(spare)
        self._left_out: frozenset[int] = frozenset()
        self._widths: dict[int, int] = {}
        self._is_fitting = self._is_chosen = False
        # Qt crashes when a column changes while it lays out the others: afterwards, once.
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._fit)
        header.sectionResized.connect(self._resized)
        view.viewport().installEventFilter(self)

    def leave_out(self, columns: Collection[int]) -> None:
        """Hide these columns, whatever room there is, and no others."""
        for column in self._left_out | frozenset(columns):
            self._view.setColumnHidden(column, column in columns)
        self._left_out = frozenset(columns)
        self._later.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and isValid(self._later):
            self._later.start()
        return super().eventFilter(watched, event)

    def _resized(self, column: int, _before: int, _after: int) -> None:
        # A header that is being destroyed emits this for each column.
        if self._is_fitting and column in self._spare:
            return  # it came or went because of this
        if column and isValid(self._later):
            self._later.start()
        elif not column and not self._is_fitting:
            self._is_chosen = True

    def _fit(self) -> None:
        if not isValid(self._view):
            return
        self._is_fitting = True
        room, sizes = self._view.viewport().width(), self._spare_columns()
        if not self._is_chosen:
            first = self._first
            if first + sum(sizes) < room:
                # Room that is left goes to names that would be cut.
                first = max(first, min(self._view.sizeHintForColumn(0), room - sum(sizes)))
            self._view.horizontalHeader().resizeSection(0, name_width(room, sizes, first))
        self._is_fitting = False

    def _width(self, column: int) -> int:
        """Return the pixels that a column takes, or would take if it was not hidden."""
        header = self._view.horizontalHeader()
        # Qt reports less for a hidden column than it takes when shown, so use its last known width too.
        known = self._widths.get(column, 0) if self._view.isColumnHidden(column) else 0
        if header.sectionResizeMode(column) == QHeaderView.ResizeMode.ResizeToContents:
            # The width that Qt will set later.
            return max(self._view.sizeHintForColumn(column), header.sectionSizeHint(column), known)
        return known or header.sectionSize(column)

    def _spare_columns(self) -> list[int]:
        """Hide spare columns that do not fit, show the others; return the shown widths in order."""
        view, header = self._view, self._view.horizontalHeader()
        order = [header.logicalIndex(place) for place in range(1, header.count())]
        sizes: dict[int, int] = {}
        for column in order:
            if column not in self._left_out and (column in self._spare or not view.isColumnHidden(column)):
                sizes[column] = self._width(column)
        name = header.sectionSize(0) if self._is_chosen else MIN_NAME_WIDTH
        spared: list[int] = []
        for column in self._spare:
            if name + sum(sizes.values()) <= view.viewport().width():
                break
            if sizes.pop(column, 0):
                spared.append(column)
        for column in self._spare:
            if column not in self._left_out:
                if not view.isColumnHidden(column):
                    self._widths[column] = header.sectionSize(column)
                view.setColumnHidden(column, column in spared)
        view.setProperty(SPARED, spared)
        return list(sizes.values())
