"""The bar for errors, in a window with several panels on show."""

from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget, QPushButton

from npuviz.base.progress import Progress
from npuviz.workbench.advice import Failure
from tests.ui.driver import Driver
from tests.workbench.toy_registry import toy_file


def press(driver: Driver, text: str) -> None:
    buttons = driver.window.error_bar.findChildren(QPushButton)
    button = next(button for button in buttons if button.text() == text and button.isVisible())
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def places(driver: Driver) -> list[tuple[QPoint, int, int]]:
    docks = driver.window.findChildren(QDockWidget)
    return [(dock.pos(), dock.width(), dock.height()) for dock in docks if dock.isVisible()]


def test_an_error_moves_nothing_and_is_as_high_as_its_line(toy: Driver, tmp_path: Path) -> None:
    before = places(toy)
    toy.window.open(toy_file(tmp_path, "[]", "bad.toy"))
    toy.idle()
    bar = toy.window.error_bar
    assert bar.isVisible()
    toy.qtbot.wait(20)
    assert places(toy) == before
    assert bar.height() <= 2 * bar.fontMetrics().lineSpacing() + 4
    assert bar.geometry().bottom() < toy.window.statusBar().y()
    toy.window.resize(900, 700)
    assert bar.width() == 900


def test_a_panel_that_comes_to_the_front_does_not_cover_it(toy: Driver) -> None:
    bar = toy.window.error_bar
    bar.show_message("nothing to see", severity="notice")
    middle = bar.geometry().center()
    for command in ("view.layout.memory", "view.layout.profiling", "view.layout.stepping"):
        toy.do(command)
        toy.window.docks.show_panel("memory")
        toy.qtbot.wait(20)
        found = toy.window.childAt(middle)
        assert found is not None
        assert found is bar or bar.isAncestorOf(found), command


def test_an_offer_goes_when_the_machine_moves_and_an_answer_stays(toy: Driver) -> None:
    bar = toy.window.error_bar
    toy.window.tell("a tour?", ("Tour", lambda: None), is_offer=True)
    toy.window.setFocus()
    assert bar.isVisible()
    QTest.keyClick(toy.window, Qt.Key.Key_F11)
    toy.idle()
    assert not bar.isVisible()
    toy.window.tell("it waits for data")
    QTest.keyClick(toy.window, Qt.Key.Key_F11)
    toy.idle()
    assert bar.text == "it waits for data"


def test_details_say_what_to_do_without_a_traceback(toy: Driver, tmp_path: Path) -> None:
    toy.window.open(tmp_path / "nowhere.toy")
    toy.idle()
    bar = toy.window.error_bar
    low = bar.height()
    press(toy, "Details")
    assert bar.height() > low
    assert bar.geometry().bottom() < toy.window.statusBar().y()
    assert "Traceback" not in bar.details
    assert not [
        button
        for button in bar.findChildren(QPushButton)
        if button.text() == "Copy report" and button.isVisible()
    ]
    press(toy, "Hide details")
    assert bar.height() == low


def test_a_fault_of_npuviz_can_be_reported(toy: Driver) -> None:
    def work(_progress: Progress) -> None:
        raise KeyError("counters")

    toy.model.submit("Working", work)
    toy.idle()
    bar = toy.window.error_bar
    toy.qtbot.waitUntil(bar.isVisible)
    assert bar.text.startswith("internal error: KeyError")
    assert "Traceback" in bar.details
    press(toy, "Copy report")
    assert "KeyError" in QApplication.clipboard().text()
    assert QApplication.clipboard().text().startswith("npuviz ")


def test_a_long_message_ends_in_an_ellipsis_and_is_whole_in_the_details(toy: Driver) -> None:
    text = "a long story " * 60
    toy.window.error_bar.show_failure(Failure(text.strip(), ""))
    bar = toy.window.error_bar
    assert bar.width() == toy.window.width()
    press(toy, "Details")
    assert text.strip() in bar.details


def test_escape_dismisses_it_before_anything_else(toy: Driver) -> None:
    toy.window.error_bar.show_failure(Failure("no", "Try again."))
    toy.window.setFocus()
    QTest.keyClick(toy.window, Qt.Key.Key_Escape)
    assert toy.window.error_bar.text == ""
