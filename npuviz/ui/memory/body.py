"""The widgets of the memory panel and where they are: pictures above, numbers below."""

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QComboBox,
    QHBoxLayout,
    QSplitter,
    QStackedWidget,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from npuviz.ui.kit.elided_label import ElidedLabel
from npuviz.ui.memory.lifetimes import MemoryLifetimes
from npuviz.ui.memory.map import MemoryMap
from npuviz.ui.theme.theme import Theme

VIEWS = (("now", "What lies where now"), ("lifetime", "What lay where, over cycles"))


class MemoryBody(QWidget):
    """Makes and places; whoever holds it connects.

    chooser, dtype, buttons  which memory, how to read its bytes, which of `pictures` (map, lifetimes)
    usage, numbers           a line of text each, about the memory and about what is shown of it
    """

    def __init__(self, theme: Theme, table: QAbstractItemModel, dtypes: Sequence[str]) -> None:
        super().__init__()
        self.chooser = _combo("memory.chooser", "Memory")
        self.dtype = _combo("memory.dtype", "How to read the bytes")
        self.dtype.addItems(list(dtypes))
        # The name of the memory is worth more than how full it is.
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
        self.splitter = QSplitter(Qt.Orientation.Vertical)
        self.splitter.addWidget(self.pictures)
        self.splitter.addWidget(self._lower())
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 2)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addLayout(self._bar())
        whole.addWidget(self.splitter, 1)

    def _bar(self) -> QHBoxLayout:
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 4, 8, 4)
        bar.setSpacing(8)
        bar.addWidget(self.chooser)
        for number, (text, tip) in enumerate(VIEWS):
            button = QToolButton()
            button.setText(text)
            button.setToolTip(tip)
            button.setObjectName(f"memory.view.{text}")
            button.setCheckable(True)
            button.setAutoRaise(True)
            self.buttons.addButton(button, number)
            bar.addWidget(button)
        self.buttons.button(0).setChecked(True)
        bar.addWidget(self.usage, 1)
        return bar

    def _lower(self) -> QWidget:
        lower = QWidget()
        inside = QVBoxLayout(lower)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(0)
        line = QHBoxLayout()
        line.setContentsMargins(8, 4, 8, 4)
        line.addWidget(self.numbers, 1)
        line.addWidget(self.dtype)
        inside.addLayout(line)
        inside.addWidget(self.view, 1)
        return lower


class ContentsView(QTableView):
    """A table of millions of rows."""

    def keyboardSearch(self, search: str) -> None:
        """Letters find nothing: looking for them would read every row of the memory."""

    def selectAll(self) -> None:
        """Nothing: a selection of millions of rows costs seconds at every paint of the headers."""


def _combo(name: str, title: str) -> QComboBox:
    combo = QComboBox()
    combo.setObjectName(name)
    combo.setAccessibleName(title)
    return combo


def _contents_view(theme: Theme, table: QAbstractItemModel) -> QTableView:
    """Cells of equal width that can be chosen by blocks."""
    view = ContentsView()
    view.setObjectName("memory.contents")
    view.setAccessibleName("Contents of the memory")
    view.setModel(table)
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
