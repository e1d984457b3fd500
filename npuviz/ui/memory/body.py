"""The widgets of the memory panel and their arrangement: pictures above, numbers below."""

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QComboBox,
    QStackedWidget,
    QTableView,
    QToolButton,
    QWidget,
)

from npuviz.ui.kit.elided_label import ElidedLabel
from npuviz.ui.kit.parts import button, choice, column, fill, line, restore_sizes, splitter
from npuviz.ui.memory.lifetimes import MemoryLifetimes
from npuviz.ui.memory.map import MemoryMap
from npuviz.ui.theme.theme import GRID, Theme

LEAST_ROWS = 5
"""Rows of numbers that are visible until the user moves the splitter."""
LOWEST_PICTURE = 56
VIEWS = (("now", "What lies where now"), ("lifetime", "What lay where, over cycles"))


class MemoryBody(QWidget):
    """Makes and places the widgets; the panel connects them.

    chooser, dtype, buttons  choose the memory, the type of its numbers, one of `pictures` (map, lifetimes)
    usage, numbers           lines of text about the memory, and about the part that is shown
    """

    def __init__(self, theme: Theme, table: QAbstractItemModel, dtypes: Sequence[str]) -> None:
        super().__init__()
        self.chooser = choice(None, "Memory", "memory.chooser")
        self.dtype = choice(None, "How to read the bytes", "memory.dtype")
        self.dtype.addItems(list(dtypes))
        # The usage is shortened first: the name of the memory is more important.
        self.usage = ElidedLabel()
        self.usage.setObjectName("memory.usage")
        self.chooser.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.numbers = ElidedLabel()
        self.numbers.setObjectName("memory.numbers")
        self.numbers.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.map = MemoryMap(theme)
        self.lifetimes = MemoryLifetimes(theme)
        self.pictures = QStackedWidget()
        self.pictures.addWidget(self.map)
        self.pictures.addWidget(self.lifetimes)
        self.view = _contents_view(theme, table)
        self.buttons = QButtonGroup(self)
        tools = [self._view_button(number, *view) for number, view in enumerate(VIEWS)]
        self.buttons.button(0).setChecked(True)
        bar = line(self.chooser, *tools, (self.usage, 1))
        lower = column(line((self.numbers, 1), self.dtype), (self.view, 1))
        self.splitter = splitter(Qt.Orientation.Vertical, (self.pictures, 3), (lower, 2))
        self.splitter.splitterMoved.connect(self._keep_sizes)
        self._is_placed = False
        fill(self, bar, (self.splitter, 1))

    @property
    def chosen_sizes(self) -> list[int] | None:
        """Heights of picture and numbers, None if the user has not changed them."""
        return self.splitter.sizes() if self._is_placed else None

    def restore_sizes(self, sizes: object) -> None:
        """Restore `chosen_sizes`; ignore anything else."""
        if isinstance(sizes, list):
            restore_sizes(self.splitter, sizes)
            self._is_placed = True

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if not self._is_placed:
            self._share_room()

    def _share_room(self) -> None:
        """Divide the height so that LEAST_ROWS rows of numbers are visible, or at least 40 % are numbers."""
        room = self.splitter.height() - self.splitter.handleWidth()
        around = self.numbers.sizeHint().height(), self.dtype.sizeHint().height()
        rows = LEAST_ROWS * self.view.verticalHeader().defaultSectionSize()
        bars = self.view.horizontalHeader().sizeHint().height(), self.view.horizontalScrollBar().height()
        wanted = max(around) + 4 * GRID + rows + sum(bars)
        lower = max(min(wanted, room - LOWEST_PICTURE), round(room * 0.4))
        self.splitter.setSizes([room - lower, lower])

    def _keep_sizes(self, _position: int, _handle: int) -> None:
        self._is_placed = True

    def _view_button(self, number: int, text: str, tip: str) -> QToolButton:
        made = button(None, text, tip, name=f"memory.view.{text}", is_on=False)
        self.buttons.addButton(made, number)
        return made


class ContentsView(QTableView):
    """A table view for millions of rows, without operations that would read or select all of them."""

    def keyboardSearch(self, search: str) -> None:
        """Do nothing: searching for typed letters would read every row of the memory."""

    def selectAll(self) -> None:
        """Do nothing: with millions of rows selected, every paint of the headers takes seconds."""


def _contents_view(theme: Theme, table: QAbstractItemModel) -> QTableView:
    """Make the table view of the contents: cells of equal width, selected in blocks."""
    view = ContentsView()
    view.setObjectName("memory.contents")
    view.setAccessibleName("Contents of the memory")
    view.setModel(table)
    view.setTabKeyNavigation(False)
    view.setFont(theme.font_mono(12))
    view.setShowGrid(False)
    view.setSelectionMode(QAbstractItemView.SelectionMode.ContiguousSelection)
    view.verticalHeader().setDefaultSectionSize(18)
    view.verticalHeader().setMinimumWidth(86)
    view.verticalHeader().setHighlightSections(False)
    view.horizontalHeader().setDefaultSectionSize(64)
    view.horizontalHeader().setHighlightSections(False)
    # A whole column of a large memory would be such a selection, too.
    view.horizontalHeader().setSectionsClickable(False)
    view.setCornerButtonEnabled(False)
    view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    return view
