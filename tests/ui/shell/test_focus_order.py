"""Tab from panel to panel, with real keys."""

from itertools import pairwise

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from npuviz.ui.inspector.panel import InspectorPanel
from npuviz.workbench.selection import Selection
from tests.sweeps import quick
from tests.ui.driver import Driver


def stops(driver: Driver, start: QWidget) -> list[QWidget]:
    """Where Tab leads until it comes back."""
    driver.window.activateWindow()
    start.setFocus(Qt.FocusReason.TabFocusReason)
    driver.qtbot.waitUntil(start.hasFocus)
    found: list[QWidget] = []
    for _ in range(200):
        now = QApplication.focusWidget()
        assert now is not None
        found.append(now)
        QTest.keyClick(now, Qt.Key.Key_Tab)
        if QApplication.focusWidget() is start:
            return found
    raise AssertionError(f"Tab does not come round: {found[-8:]}")


def test_a_table_and_a_page_are_one_stop_each(toy: Driver) -> None:
    toy.do("debug.run")
    toy.model.go_to(300)
    toy.idle()
    toy.window.selection.set(Selection(instruction=34))
    toy.qtbot.wait(80)
    inspector = toy.window.docks.panel("inspector")
    assert isinstance(inspector, InspectorPanel)
    found = stops(toy, inspector.view)
    assert len(found) == len(set(found)), "each stop once"
    assert len(found) < 60
    assert found.count(inspector.view) == 1
    for name, panel in toy.window.docks.panels.items():
        if panel.isVisible() and not panel.visibleRegion().isEmpty() and name != "inspector":
            assert any(panel is stop or panel.isAncestorOf(stop) for stop in found), name


def test_links_are_walked_with_arrows_and_followed_with_enter(toy: Driver) -> None:
    toy.do("debug.run")
    toy.window.selection.set(Selection(instruction=34))
    toy.qtbot.wait(80)
    inspector = toy.window.docks.panel("inspector")
    assert isinstance(inspector, InspectorPanel)
    view = inspector.view
    toy.window.activateWindow()
    view.setFocus()
    toy.qtbot.waitUntil(view.hasFocus)
    before = toy.window.selection.current
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.textCursor().hasSelection(), "the link is marked"
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert toy.window.selection.current != before


@quick("profiling")
@pytest.mark.parametrize("layout", ["stepping", "profiling", "memory"])
def test_all_stops_have_names(toy: Driver, layout: str) -> None:
    from PySide6.QtGui import QAccessible

    toy.do("debug.run")
    toy.do(f"view.layout.{layout}")
    toy.qtbot.wait(50)
    inspector = toy.window.docks.panel("inspector")
    assert isinstance(inspector, InspectorPanel)
    for stop in stops(toy, inspector.view):
        found = QAccessible.queryAccessibleInterface(stop)
        assert found is not None, stop
        name = found.text(QAccessible.Text.Name)
        assert name, f"{stop.metaObject().className()} {stop.objectName()} in {stop.parent()}"


def owner(driver: Driver, stop: QWidget) -> str:
    """The panel that a stop is in, "" outside of panels."""
    docks = driver.window.docks.panels
    return next((name for name, panel in docks.items() if panel is stop or panel.isAncestorOf(stop)), "")


@quick("stepping")
@pytest.mark.parametrize("layout", ["stepping", "profiling", "memory"])
def test_tab_leaves_a_panel_once_and_shift_tab_goes_the_same_way_back(toy: Driver, layout: str) -> None:
    toy.do("debug.run")
    toy.do(f"view.layout.{layout}")
    toy.qtbot.wait(50)
    timeline = toy.window.docks.panel("timeline")
    start = next(child for child in timeline.findChildren(QWidget) if child.objectName() == "timeline.view")
    found = stops(toy, start)
    names = [owner(toy, stop) for stop in found]
    runs = [name for place, name in enumerate(names) if place == 0 or name != names[place - 1]]
    inside = [name for name in runs[:-1] if name]
    assert len(inside) == len(set(inside)), f"a panel is left and entered again: {runs}"
    back: list[QWidget] = []
    for _ in found:
        now = QApplication.focusWidget()
        assert now is not None
        back.append(now)
        QTest.keyClick(now, Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    assert back == [found[0], *reversed(found[1:])]


def test_tab_reads_a_panel_from_top_to_bottom(toy: Driver) -> None:
    toy.do("debug.run")
    toy.qtbot.wait(50)
    timeline = toy.window.docks.panel("timeline")
    start = next(child for child in timeline.findChildren(QWidget) if child.objectName() == "timeline.view")
    found = stops(toy, start)
    for name in toy.window.docks.panels:
        inside = [stop for stop in found if owner(toy, stop) == name]
        # Timeline is where the walk began: its first stops came last.
        inside = inside[1:] + inside[:1] if start in inside else inside
        for before, after in pairwise(inside):
            above, below = (each.mapTo(toy.window, each.rect().center()) for each in (before, after))
            is_row = abs(above.y() - below.y()) <= 14
            assert above.x() < below.x() if is_row else above.y() < below.y(), (name, before, after)
