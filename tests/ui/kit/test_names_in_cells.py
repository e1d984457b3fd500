"""Long names of operators and tensors keep the end that tells them apart."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetrics, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QTableView
from pytestqt.qtbot import QtBot

from npuviz.ui.kit.columns import abbreviate_names
from npuviz.ui.kit.elided_label import elided

PATH = "/model/encoder/layers.0/attention/MatMul"
TEXT = "nothing here is a path of names"


def test_only_paths_keep_their_end(qapp: object) -> None:
    metrics = QFontMetrics(QFont())
    whole = metrics.horizontalAdvance(PATH)
    assert elided(metrics, PATH, whole) == PATH
    shown = elided(metrics, PATH, whole // 2)
    assert shown.endswith("/MatMul")
    assert shown.startswith("\u2026/")
    assert metrics.horizontalAdvance(shown) <= whole // 2
    room = whole // 3
    assert elided(metrics, TEXT, room) == metrics.elidedText(TEXT, Qt.TextElideMode.ElideRight, room)


def test_cells_of_a_column_of_names_keep_the_end_of_paths(qtbot: QtBot) -> None:
    view = QTableView(wordWrap=False)
    qtbot.addWidget(view)
    model = QStandardItemModel(1, 2)
    for column in (0, 1):
        model.setItem(0, column, QStandardItem(PATH))
    view.setModel(model)
    abbreviate_names(view, 0)
    view.setColumnWidth(0, 150)
    view.show()
    delegate = view.itemDelegateForColumn(0)
    assert isinstance(delegate, QStyledItemDelegate)
    option = QStyleOptionViewItem()
    view.initViewItemOption(option)
    option.rect = view.visualRect(model.index(0, 0))
    delegate.initStyleOption(option, model.index(0, 0))
    assert option.text.endswith("/MatMul")
    assert option.text.startswith("\u2026/")
    view.resizeColumnToContents(0)
    assert view.columnWidth(0) > option.fontMetrics.horizontalAdvance(PATH), "it asks for room for all of it"
