"""Keys as a person presses them: real events to whatever has the focus, with several panels on show."""

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QTabBar,
    QWidget,
)

from benchmarks.keys import press_keys
from npuviz.ui.breakpoints.panel import BreakpointsPanel
from npuviz.ui.console.panel import ConsolePanel
from npuviz.ui.program.panel import ProgramPanel
from npuviz.workbench.advice import Failure
from npuviz.workbench.layouts import LAYOUTS
from tests.sweeps import quick
from tests.ui.driver import Driver

CTRL = Qt.KeyboardModifier.ControlModifier


class Keyboard:
    """Sends keys to the widget that has the focus."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        driver.window.activateWindow()
        driver.qtbot.waitUntil(lambda: QApplication.activeWindow() is driver.window)

    def focus(self, widget: QWidget) -> None:
        widget.setFocus(Qt.FocusReason.MouseFocusReason)
        self.driver.qtbot.waitUntil(widget.hasFocus)

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        focused = QApplication.focusWidget()
        assert focused is not None
        QTest.keyClick(focused, key, modifier)

    def type(self, text: str) -> None:
        focused = QApplication.focusWidget()
        assert focused is not None
        QTest.keyClicks(focused, text)


@pytest.fixture
def keyboard(toy: Driver) -> Keyboard:
    return Keyboard(toy)


def breakpoints(driver: Driver) -> list[str]:
    return [item.text for item in driver.session.breakpoints.all]


@pytest.mark.parametrize("typed", ["cycle == 3", "cycle == 3 "], ids=["nothing offered", "words offered"])
def test_enter_sets_a_breakpoint(toy: Driver, keyboard: Keyboard, typed: str) -> None:
    toy.do("view.panel.breakpoints")
    panel = toy.window.docks.panel("breakpoints")
    assert isinstance(panel, BreakpointsPanel)
    keyboard.focus(panel.line.line)
    keyboard.type(typed)
    keyboard.press(Qt.Key.Key_Return)
    assert breakpoints(toy) == ["cycle == 3"]


def test_enter_gives_the_console_its_command(toy: Driver, keyboard: Keyboard) -> None:
    toy.do("view.panel.console")
    panel = toy.window.docks.panel("console")
    assert isinstance(panel, ConsolePanel)
    keyboard.focus(panel.line)
    keyboard.type("step 3")
    keyboard.press(Qt.Key.Key_Return)
    toy.idle()
    assert toy.session.cycle == 3


@quick("counters", "log")
@pytest.mark.parametrize("name", ["timeline", "costs", "log", "counters"])
def test_ctrl_f_leads_to_the_filter_and_esc_back(toy: Driver, keyboard: Keyboard, name: str) -> None:
    toy.do("debug.run")
    toy.window.docks.show_panel(name)
    panel, cycle = toy.window.docks.panel(name), toy.model.cycle
    toy.qtbot.waitUntil(lambda: toy.window.docks.focused_panel() == name and panel.is_settled)
    before = QApplication.focusWidget()
    keyboard.press(Qt.Key.Key_F, CTRL)
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    assert panel.isAncestorOf(field)
    keyboard.type("ld")
    assert field.text() == "ld"
    keyboard.press(Qt.Key.Key_F, CTRL)
    assert field.selectedText() == "ld"
    keyboard.press(Qt.Key.Key_Escape)
    assert (field.text(), QApplication.focusWidget()) == ("", field)
    keyboard.press(Qt.Key.Key_Escape)
    assert QApplication.focusWidget() is before
    assert toy.model.cycle == cycle, "no letter was a command"


def test_keys_of_the_program_stay_in_the_program(toy: Driver, keyboard: Keyboard) -> None:
    toy.do("view.panel.breakpoints")
    toy.model.add_breakpoint("cycle == 5")
    marks = toy.window.docks.panel("breakpoints")
    assert isinstance(marks, BreakpointsPanel)
    marks.refresh()
    marks.view.selectRow(0)
    program = toy.window.docks.panel("program")
    assert isinstance(program, ProgramPanel)
    program.listing.select(0)
    keyboard.focus(program.listing)
    keyboard.press(Qt.Key.Key_Delete)
    assert breakpoints(toy) == ["cycle == 5"]
    QGuiApplication.clipboard().setText("before")
    keyboard.press(Qt.Key.Key_C, CTRL)
    assert QGuiApplication.clipboard().text() not in ("", "before")
    assert program.find_bar.isHidden()
    keyboard.press(Qt.Key.Key_F, CTRL)
    assert program.find_bar.isVisible()
    assert program.find_bar.line.hasFocus()


def test_delete_in_the_breakpoints_can_be_taken_back(toy: Driver, keyboard: Keyboard) -> None:
    toy.do("view.panel.breakpoints")
    for text in ("cycle == 5", "cycle == 9"):
        toy.model.add_breakpoint(text)
    toy.qtbot.wait(1)
    panel = toy.window.docks.panel("breakpoints")
    assert isinstance(panel, BreakpointsPanel)
    panel.view.selectRow(0)
    keyboard.focus(panel.view)
    keyboard.press(Qt.Key.Key_Delete)
    toy.qtbot.wait(1)
    assert breakpoints(toy) == ["cycle == 9"]
    keyboard.press(Qt.Key.Key_Z, CTRL)
    assert breakpoints(toy) == ["cycle == 5", "cycle == 9"]
    toy.qtbot.wait(1)
    keyboard.press(Qt.Key.Key_Y, CTRL)
    assert breakpoints(toy) == ["cycle == 9"]


def test_no_key_pressed_while_busy_is_lost(toy: Driver, keyboard: Keyboard) -> None:
    for _ in range(20):
        keyboard.press(Qt.Key.Key_F11)
    toy.idle()
    assert toy.session.cycle == 20
    for _ in range(3):
        keyboard.press(Qt.Key.Key_F11)
        keyboard.press(Qt.Key.Key_F4)
    keyboard.press(Qt.Key.Key_F4)
    toy.idle()
    assert toy.session.cycle == 19


def test_no_key_of_many_random_ones_is_lost(toy: Driver) -> None:
    toy.model.go_to(200)
    toy.idle()
    assert press_keys(toy.window, 150, seed=3) == 0


def test_pause_forgets_the_keys_that_wait(toy: Driver) -> None:
    toy.model.step(3)
    toy.model.step(1000)
    toy.model.pause()
    toy.idle()
    assert toy.session.cycle <= 3


def test_a_panel_keeps_the_keys_when_the_layout_changes(toy: Driver, keyboard: Keyboard) -> None:
    for layout in ("profiling", "memory", "stepping"):
        toy.do(f"view.layout.{layout}")
        assert toy.window.docks.focused_panel(), layout


def test_no_layout_takes_the_key_that_closes_windows() -> None:
    assert "Alt+F4" not in [layout.shortcut for layout in LAYOUTS]


@quick("profiling")
@pytest.mark.parametrize("layout", ["stepping", "profiling", "memory"])
def test_every_layout_comes_back_at_the_next_start(toy: Driver, layout: str) -> None:
    toy.do(f"view.layout.{layout}")
    toy.window.error_bar.show_failure(Failure("something failed", ""))
    path = toy.model.opened.path if toy.model.opened else None
    assert path is not None
    toy.do("file.close")
    toy.open(path)
    shown = [name for name, dock in toy.window.docks.all.items() if not dock.isHidden()]
    assert len(shown) >= 3
    assert not toy.window.error_bar.isVisible()


def test_the_first_window_fits_the_screen(toy: Driver) -> None:
    screen = toy.window.screen().availableSize()
    assert toy.window.width() <= screen.width()
    assert toy.window.height() <= screen.height()


def test_a_step_lays_out_no_window(toy: Driver, keyboard: Keyboard) -> None:
    class Layouts(QObject):
        count = 0

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            self.count += watched is toy.window and event.type() == QEvent.Type.LayoutRequest
            return False

    for _ in range(3):
        keyboard.press(Qt.Key.Key_F11)
    toy.idle()
    toy.qtbot.wait(200)
    layouts = Layouts()
    toy.window.installEventFilter(layouts)
    for _ in range(4):
        keyboard.press(Qt.Key.Key_F11)
        toy.idle()
    toy.qtbot.wait(50)
    assert toy.label("status.cycle") == "cycle 7"
    assert layouts.count == 0


def test_a_longer_number_gets_its_place(toy: Driver, keyboard: Keyboard) -> None:
    keyboard.press(Qt.Key.Key_F11)
    toy.do("debug.run_to_end")
    toy.qtbot.wait(50)
    for name in ("status.cycle", "status.time", "status.events"):
        label = toy.window.findChild(QLabel, name)
        assert label is not None
        assert label.fontMetrics().horizontalAdvance(label.text()) <= label.contentsRect().width(), name


PRESSED = (
    (Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier),
    (Qt.Key.Key_Delete, Qt.KeyboardModifier.NoModifier),
    (Qt.Key.Key_F3, Qt.KeyboardModifier.NoModifier),
    (Qt.Key.Key_C, CTRL),
    (Qt.Key.Key_F, CTRL),
)


def fields_of(panel: QWidget) -> list[QWidget]:
    """What takes keys in a panel: fields, tables, canvases; buttons are for Space."""
    inside = [panel, *panel.findChildren(QWidget)]
    return [
        each
        for each in inside
        if each.focusPolicy() & Qt.FocusPolicy.TabFocus
        and each.isVisible()
        and each.isEnabled()
        and not isinstance(each, QAbstractButton | QComboBox | QTabBar)
    ]


@quick("memory")
@pytest.mark.parametrize("layout", ["stepping", "profiling", "memory"])
def test_keys_belong_to_the_field_that_has_them(toy: Driver, keyboard: Keyboard, layout: str) -> None:
    toy.do("debug.run")
    toy.model.go_to(60)
    toy.idle()
    toy.do(f"view.layout.{layout}")
    wanted = ["cycle == 900", "cycle == 950"]
    for text in wanted:
        toy.model.add_breakpoint(text)
    marks = toy.window.docks.panel("breakpoints")
    assert isinstance(marks, BreakpointsPanel)
    marks.refresh()
    marks.view.selectRow(0)
    tried = 0
    for name, dock in toy.window.docks.all.items():
        if dock.isHidden():
            continue
        toy.window.docks.show_panel(name)
        panel = toy.window.docks.panel(name)
        toy.qtbot.waitUntil(lambda panel=panel: panel.is_settled)
        for field in fields_of(panel):
            for key, modifier in PRESSED:
                field.setFocus(Qt.FocusReason.TabFocusReason)
                if not field.hasFocus() or (key == Qt.Key.Key_Delete and field is marks.view):
                    continue
                where = f"{key.name} in {field.metaObject().className()} {field.objectName()} of {name}"
                keyboard.press(key, modifier)
                toy.idle()
                tried += 1
                assert breakpoints(toy) == wanted, where
                assert toy.window.isActiveWindow(), where
                assert QApplication.activeModalWidget() is None, where
                assert not toy.window.error_bar.isVisible() or toy.window.error_bar.text, where
                if key == Qt.Key.Key_F:
                    focused = QApplication.focusWidget()
                    assert (focused is not None and panel.isAncestorOf(focused)) or focused is panel, where
    assert tried > 60
