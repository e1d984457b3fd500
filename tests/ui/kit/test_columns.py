"""Columns at the right edge of a table are seen whole, whatever room there is."""

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QStandardItemModel
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QHeaderView, QTableView
from pytestqt.qtbot import QtBot

from npuviz.ui.costs.panel import NAME_WIDTH, CostsPanel
from npuviz.ui.counters.panel import CountersPanel
from npuviz.ui.kit.columns import MIN_NAME_WIDTH, SPARED, Fitting, fit_columns, hide_without_room, name_width
from npuviz.ui.kit.table_view import csv_of
from npuviz.ui.shell.headless import HeadlessWindow
from npuviz.workbench.opening import OpenOptions

SAMPLE = Path(__file__).resolve().parents[3] / "sample_models" / "tiny_cnn.onnx"


@pytest.mark.parametrize(
    ("room", "width"),
    [
        (1000, 180),  # all fit
        (380, 180),
        (379, 179),  # it shrinks
        (312, 112),
        (311, 211),  # one column less, and none cut
        (90, MIN_NAME_WIDTH),  # room for nothing else
    ],
)
def test_the_first_column_ends_where_others_are_whole(room: int, width: int) -> None:
    assert name_width(room, [100, 100], 180) == width


@pytest.mark.parametrize(("width", "is_seen"), [(300, True), (262, True), (255, False)])
def test_a_column_without_room_is_hidden(width: int, is_seen: bool, qtbot) -> None:
    view = QTableView()
    qtbot.addWidget(view)
    view.setModel(QStandardItemModel(2, 3))
    view.verticalHeader().hide()
    header = view.horizontalHeader()
    header.setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
    for column in (0, 1):
        header.resizeSection(column, 100)
    hide_without_room(view, 2, 56)
    view.show()
    for size in (400, 240, width):
        view.resize(size + 2 * view.frameWidth(), 200)
    assert view.isColumnHidden(2) != is_seen
    assert not view.horizontalScrollBar().isVisible()


def test_names_give_way_where_the_others_do_not_fit(qtbot: QtBot) -> None:
    view = QTableView()
    qtbot.addWidget(view)
    view.setModel(QStandardItemModel(2, 3))
    view.verticalHeader().hide()
    header = view.horizontalHeader()
    header.setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
    hide_without_room(view, 2, 56)
    for column, width in ((0, 180), (1, 100)):
        header.resizeSection(column, width)
    view.show()
    for size, name in ((400, 180), (250, 150), (150, MIN_NAME_WIDTH), (290, 180)):
        view.resize(size + 2 * view.frameWidth(), 200)
        assert header.sectionSize(0) == name, size
    header.resizeSection(0, 120)
    view.resize(500, 200)
    assert header.sectionSize(0) == 120, "what it was given last"


@pytest.mark.parametrize("width", [900, 500, 390])
def test_names_take_the_room_that_is_left(width: int, qtbot: QtBot) -> None:
    view = QTableView()
    qtbot.addWidget(view)
    model = QStandardItemModel(1, 2)
    view.setModel(model)
    view.verticalHeader().hide()
    fit_columns(view, 180)
    view.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.Interactive)
    view.horizontalHeader().resizeSection(1, 200)
    model.setData(model.index(0, 0), "a long name of an operator " * 2)
    view.show()
    view.resize(width, 100)
    # What is left for the name: all it needs, what is there, or what its panel asks for.
    room = view.viewport().width() - 200
    wanted = max(180, min(view.sizeHintForColumn(0), room))
    qtbot.waitUntil(lambda: view.horizontalHeader().sectionSize(0) == wanted)


def _tables(window: HeadlessWindow) -> tuple[QTableView, QTableView]:
    costs, counters = (window.widget.docks.panel(name) for name in ("costs", "counters"))
    assert isinstance(costs, CostsPanel)
    assert isinstance(counters, CountersPanel)
    return costs.view, counters.view


def test_no_column_is_cut_at_1280_by_800(qapp: object, qtbot: QtBot) -> None:
    window = HeadlessWindow("dark", (1280, 800))
    try:
        window.open(SAMPLE, OpenOptions("systolic"))
        window.run()
        window.arrange("profiling")
        for view in _tables(window):
            qtbot.waitUntil(lambda view=view: view.horizontalScrollBar().maximum() == 0)
            hidden = [column for column in range(view.model().columnCount()) if view.isColumnHidden(column)]
            assert sorted(view.property(SPARED) or []) == hidden
            titles = csv_of(view).splitlines()[0].split(",")
            assert len(titles) == view.model().columnCount(), "and copied all the same"

        # Another program while the tables are seen: Qt crashed when columns changed amid its own layout.
        window.open(SAMPLE, OpenOptions("neuroncore"))
        window.run()
        window.settle()
        costs, counters = _tables(window)
        for view in (costs, counters):
            qtbot.waitUntil(lambda view=view: view.horizontalScrollBar().maximum() == 0)

        # What the user chooses with the mouse stays, also when the window grows.
        header = costs.horizontalHeader()
        edge = QPoint(header.sectionSize(0) - 2, header.height() // 2)
        QTest.mousePress(header.viewport(), Qt.MouseButton.LeftButton, pos=edge)
        QTest.mouseMove(header.viewport(), edge + QPoint(40, 0))
        QTest.mouseRelease(header.viewport(), Qt.MouseButton.LeftButton, pos=edge + QPoint(40, 0))
        chosen = header.sectionSize(0)
        window.widget.resize(2400, 1200)
        window.settle()
        assert header.sectionSize(0) == chosen != NAME_WIDTH
        assert not any(costs.isColumnHidden(column) for column in range(header.count()))
        window.arrange("profiling", ["counters"])
        window.settle()
        # All fit, and the one that nobody has touched is as wide as its texts.
        assert counters.horizontalHeader().sectionSize(0) == max(150, counters.sizeHintForColumn(0))
        assert counters.horizontalScrollBar().maximum() == 0
    finally:
        window.close()


def test_a_long_text_at_the_edge_is_seen_from_its_beginning() -> None:
    others = [150, 100, 60, 60, 60]
    assert name_width(900, [*others, 600], 220) == 220
    seen_too_little = 220 + sum(others) + MIN_NAME_WIDTH - 1
    assert name_width(seen_too_little, [*others, 600], 220) == seen_too_little - sum(others)


def test_columns_that_give_way_come_to_rest(qtbot: QtBot) -> None:
    """Columns that came and went in turn kept the window busy for ever."""
    window = HeadlessWindow("dark", (1280, 800))
    try:
        window.open(SAMPLE, OpenOptions("neuroncore"))
        window.run()
        for width in (1280, 1000, 1600):
            window.widget.resize(width, 800)
            for name in ("causes", "counters", "costs", "semaphores"):
                window.arrange("profiling")
                window.widget.docks.show_panel(name)
                window.settle()
                panel = window.widget.docks.panel(name)
                view = panel.view  # pyright: ignore[reportAttributeAccessIssue]
                fitting = next(each for each in view.children() if isinstance(each, Fitting))
                qtbot.waitUntil(lambda fitting=fitting: not fitting._later.isActive())
                hidden = view.property(SPARED)
                qtbot.wait(20)
                assert view.property(SPARED) == hidden
                assert not fitting._later.isActive(), (name, width)
    finally:
        window.close()
