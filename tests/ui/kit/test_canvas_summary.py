"""What canvases tell those who cannot see them, asked through Qt's accessibility interface."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from npuviz.ui.program.listing import ProgramListing
from npuviz.workbench.selection import Selection
from tests.ui.driver import Driver


def told(widget: QWidget) -> str:
    """The description that a screen reader gets."""
    found = QAccessible.queryAccessibleInterface(widget)
    assert found is not None, widget
    assert found.text(QAccessible.Text.Name), widget
    return found.text(QAccessible.Text.Description)


def canvas(driver: Driver, name: str, panel: str) -> QWidget:
    """A canvas that has just got the keys by a click."""
    driver.window.docks.show_panel(panel)
    driver.qtbot.wait(50)
    found = driver.window.findChild(QWidget, name)
    assert found is not None, name
    other = driver.window.run_bar
    other.setFocus()
    QTest.mouseClick(found, Qt.MouseButton.LeftButton, pos=QPoint(3, found.height() - 3))
    found.setFocus(Qt.FocusReason.TabFocusReason)
    return found


@pytest.mark.parametrize(
    ("name", "panel", "words"),
    [
        ("timeline.view", "timeline", ("6 tracks, cycles 0 to ", "machine is at cycle 300", "arrows")),
        ("memory.map", "memory", ("regions hold",)),
        ("graph.view", "graph", ("operators", "Arrow keys")),
        ("floorplan.view", "floorplan", ("holds", " of ")),
    ],
)
def test_a_canvas_says_what_it_shows(toy: Driver, name: str, panel: str, words: tuple[str, ...]) -> None:
    toy.window.activateWindow()
    toy.do("debug.run")
    toy.model.go_to(300)
    toy.idle()
    text = told(canvas(toy, name, panel))
    for word in words:
        assert word in text, text


def test_the_selection_is_told_when_it_changes(toy: Driver) -> None:
    toy.window.activateWindow()
    toy.do("debug.run")
    view = canvas(toy, "graph.view", "graph")
    QAccessible.setActive(True)
    try:
        toy.window.selection.set(Selection(node=1))
        toy.qtbot.waitUntil(lambda: "selected" in told(view))
        first = told(view)
        toy.window.selection.set(Selection(node=2))
        toy.qtbot.waitUntil(lambda: "selected" in told(view) and told(view) != first)
    finally:
        QAccessible.setActive(False)


def test_arrows_in_the_listing_tell_the_line_they_come_to(toy: Driver) -> None:
    toy.window.activateWindow()
    toy.window.docks.show_panel("program")
    toy.qtbot.wait(20)
    listing = toy.window.findChild(ProgramListing)
    assert listing is not None
    listing.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(listing, Qt.Key.Key_Home)
    toy.qtbot.wait(80)
    assert told(listing).startswith("0: ")
    QTest.keyClick(listing, Qt.Key.Key_Down)
    toy.qtbot.wait(80)
    assert told(listing).startswith("1: ")
