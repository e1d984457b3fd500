"""The search panel, with real keys: what is typed is found, what is found is selected everywhere."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from npuviz.ui.search.panel import SORT, SearchPanel
from tests.ui.driver import Driver


@pytest.fixture
def panel(toy: Driver) -> SearchPanel:
    toy.window.activateWindow()
    QTest.keySequence(toy.window, "Ctrl+Shift+F")
    found = toy.window.docks.panel("search")
    assert isinstance(found, SearchPanel)
    assert found.field.hasFocus()
    return found


def search(toy: Driver, panel: SearchPanel, text: str) -> list[str]:
    panel.field.selectAll()
    QTest.keyClicks(panel.field, text)
    QTest.keyClick(panel.field, Qt.Key.Key_Return)
    toy.qtbot.waitUntil(lambda: panel.is_settled)
    return [row.sort for row in panel.table.rows]


def test_a_find_is_selected_with_the_keys_and_with_the_mouse(toy: Driver, panel: SearchPanel) -> None:
    node = toy.session.program.graph.nodes[0]
    sorts = search(toy, panel, node.name)
    assert "operator" in sorts
    QTest.keyClick(panel.field, Qt.Key.Key_Return)
    assert panel.view.hasFocus()
    first = panel.table.rows[0]
    assert toy.window.selection.current == first.selection
    last = len(panel.table.rows) - 1
    panel.view.scrollToBottom()
    spot = panel.view.visualRect(panel.table.index(last, SORT)).center()
    QTest.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(spot))
    assert toy.window.selection.current == panel.table.rows[last].selection


def test_lines_of_the_log_are_found_and_lead_to_their_cycle(toy: Driver, panel: SearchPanel) -> None:
    toy.session.breakpoints.add("instr 20")
    toy.do("debug.run")
    stopped = toy.session.cycle
    toy.do("debug.restart")
    assert "log" in search(toy, panel, "instr 20")
    row = next(n for n, found in enumerate(panel.table.rows) if found.sort == "log")
    spot = panel.view.visualRect(panel.table.index(row, SORT)).center()
    QTest.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    QTest.mouseDClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    toy.idle()
    assert toy.session.cycle == stopped


def test_nothing_found_is_said_and_another_model_begins_afresh(toy: Driver, panel: SearchPanel) -> None:
    assert search(toy, panel, "surely nowhere") == []
    assert panel.status.text() == "0 found"
    toy.do("file.close")
    assert panel.is_empty
    assert panel.table.rows == []


def test_escape_leads_out_step_by_step(toy: Driver) -> None:
    toy.window.activateWindow()
    toy.window.docks.show_panel("program")
    before = toy.window.focusWidget()
    QTest.keySequence(toy.window, "Ctrl+Shift+F")
    panel = toy.window.docks.panel("search")
    assert isinstance(panel, SearchPanel)
    node = toy.session.program.graph.nodes[0]
    search(toy, panel, node.name)
    QTest.keyClick(panel.field, Qt.Key.Key_Return)
    assert panel.view.hasFocus()
    QTest.keyClick(panel.view, Qt.Key.Key_Escape)
    assert panel.field.hasFocus()
    assert panel.field.text() == node.name
    QTest.keyClick(panel.field, Qt.Key.Key_Escape)
    toy.qtbot.waitUntil(lambda: panel.is_settled)
    assert panel.field.text() == ""
    QTest.keyClick(panel.field, Qt.Key.Key_Escape)
    assert toy.window.focusWidget() is before
