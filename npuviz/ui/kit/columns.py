"""Columns of tables: as many as there is room for are seen whole, the others by scrolling."""

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
"""Property of tables: columns that are hidden for want of room."""
MIN_NAME_WIDTH = 112


def fit_columns(view: QTableView, first: int, spare: Sequence[int] = (), most: int = 0) -> "Fitting":
    """Give all columns but the first what they need, and the first one `first` pixels where there is room.

    Where there is not, the first column ends where a column at the right edge is seen whole: it shrinks to
    MIN_NAME_WIDTH to make room for one more, and takes `first` while all are seen, or while MIN_NAME_WIDTH
    of a wider one are. With room left it is as wide as its texts. A width that the user gives it with the
    mouse stays.

    spare  columns that are hidden one after the other while the rest does not fit; copies have them
    most   pixels that columns of text take at most, 0: all that they need
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
    """Give a column the room that the others leave; with less than `least` pixels for it, hide `spare`."""
    view.horizontalHeader().setStretchLastSection(False)
    _Roomy(view, column, least, spare)


def abbreviate_names(view: QAbstractItemView, *columns: int) -> None:
    """Show names in these columns that are paths, and longer than their cells, by their last parts."""
    delegate = _Names(view)
    for column in columns:
        view.setItemDelegateForColumn(column, delegate)


def is_spared(view: QTableView, column: int) -> bool:
    """Whether a column is hidden only because there is no room for it."""
    return column in (view.property(SPARED) or ())


def hide_without_room(view: QTableView, column: int, least: int) -> None:
    """Hide a column that takes the room which the others leave, while that is less than `least` pixels.

    Where the others do not fit either, the first one shrinks, down to MIN_NAME_WIDTH.
    """
    _Hiding(view, column, least)


def name_width(room: int, others: list[int], first: int) -> int:
    """Pixels of the first column when `room` is to be shared with columns of these widths, in their order."""
    if first + sum(others) <= room:
        return first
    taken = 0
    for width in others:
        if MIN_NAME_WIDTH + taken + width > room:
            break
        taken += width
    if room - first - taken >= MIN_NAME_WIDTH:
        # Of a long text the beginning is worth more than an empty first column.
        return first
    return max(room - taken, MIN_NAME_WIDTH)


class _Hiding(QObject):
    """Hides and shows a column while the room changes; belongs to the table."""

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
    """Fits one column to the room while that changes; belongs to the table."""

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
    """Texts that ask for no more than so many pixels; what is longer ends in an ellipsis."""

    def __init__(self, most: int, parent: QTableView) -> None:
        super().__init__(parent)
        self._most = most

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        found = super().sizeHint(option, index)
        return QSize(min(found.width(), self._most), found.height()) if index.column() else found


class _Names(QStyledItemDelegate):
    """Names of operators and tensors: of a path the end is worth more than the beginning."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        # A cell that is asked for its size has no room yet.
        if option.rect.width() <= 0:
            return
        style = option.widget.style()
        inner = style.subElementRect(QStyle.SubElement.SE_ItemViewItemText, option, option.widget)
        margin = style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin, None, option.widget) + 1
        option.text = elided(option.fontMetrics, option.text, inner.width() - 2 * margin)


class Fitting(QObject):
    """Fits the first column while room and contents change.

    It belongs to the table: with a header that nobody else holds in Python it would be collected.
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
        # A header that is being destroyed tells that its columns go.
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
        """Pixels that a column takes, or would take if it was not hidden."""
        header = self._view.horizontalHeader()
        # Of a hidden column Qt tells less than it takes when it is shown: what it took counts as well.
        known = self._widths.get(column, 0) if self._view.isColumnHidden(column) else 0
        if header.sectionResizeMode(column) == QHeaderView.ResizeMode.ResizeToContents:
            # What Qt will give it: it does so later than now.
            return max(self._view.sizeHintForColumn(column), header.sectionSizeHint(column), known)
        return known or header.sectionSize(column)

    def _spare_columns(self) -> list[int]:
        """Hide what there is no room for, show the rest; returns the widths of the others in their order."""
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
