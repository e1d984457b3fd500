"""What the window says while a file is being opened, and the documentation in it."""

import threading
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton

from npuviz.base.kernels.helper import Helper
from npuviz.base.progress import Progress
from npuviz.sim.target import LoadRequest
from npuviz.ui.dialogs.manual import ManualDialog
from npuviz.workbench.manual import pages
from tests.toy.target import ToyTarget
from tests.ui.driver import Driver
from tests.workbench.toy_registry import toy_file


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Opening waits for this, telling every now and then that it compiles."""
    opened = threading.Event()
    load = ToyTarget.load

    def slow(self: ToyTarget, request: LoadRequest, progress: Progress) -> Any:
        while not opened.wait(0.01):
            progress.report(0.25, "compiling conv1")
        return load(self, request, progress)

    monkeypatch.setattr(ToyTarget, "load", slow)
    return opened


def test_the_card_says_what_is_compiled_and_how_long_it_took(
    driver: Driver, tmp_path: Path, gate: threading.Event
) -> None:
    card, path = driver.window.opening_card, toy_file(tmp_path)
    gate.set()
    driver.open(path)
    driver.window.settings.set("last_times", dict.fromkeys(driver.window.settings.get("last_times"), 12.34))
    assert card.isHidden()
    gate.clear()
    driver.action("file.reload").trigger()
    driver.qtbot.waitUntil(card.isVisible)
    driver.qtbot.waitUntil(lambda: card.text.text() == "compiling conv1")
    assert card.title.text() == "Opening small.toy"
    assert card.time.text().endswith("; the last time 12.3 s")
    assert driver.window.rect().contains(card.geometry())
    gate.set()
    driver.qtbot.waitUntil(card.isHidden)
    driver.idle()
    assert driver.model.opened is not None


@pytest.mark.parametrize("way", ["button", "escape"])
def test_opening_can_be_stopped_where_one_looks(
    driver: Driver, tmp_path: Path, gate: threading.Event, way: str
) -> None:
    card = driver.window.opening_card
    driver.window.open(toy_file(tmp_path))
    driver.qtbot.waitUntil(card.isVisible)
    assert "last time" not in card.time.text()
    button = card.findChild(QPushButton, "opening.cancel")
    assert button is not None
    if way == "button":
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    else:
        driver.window.activateWindow()
        driver.qtbot.waitUntil(driver.action("view.cancel").isEnabled)
        QTest.keyClick(driver.window, Qt.Key.Key_Escape)
    driver.qtbot.waitUntil(card.isHidden)
    driver.idle()
    assert driver.model.opened is None
    assert driver.window.error_bar.text == ""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_helpers_begin_when_the_picture_is_there(
    driver: Driver, tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    starts: list[bool] = []
    monkeypatch.setattr(
        "npuviz.base.kernels.helper._start", lambda: starts.append(driver.model.opening is None)
    )
    driver.window.open(toy_file(tmp_path))
    driver.qtbot.waitUntil(driver.window.opening_card.isVisible)
    assert Helper("nobody").ask("module", "kernel", ())
    assert starts == []
    if is_stopped:
        driver.model.cancel()
    else:
        gate.set()
    driver.qtbot.waitUntil(lambda: bool(starts))
    assert starts == [True]
    assert (driver.model.opened is None) is is_stopped


def test_the_documentation_is_read_searched_and_followed(driver: Driver) -> None:
    QTest.keyClick(driver.window, Qt.Key.Key_F1, Qt.KeyboardModifier.ShiftModifier)
    manual = driver.window.findChild(ManualDialog)
    assert manual is not None
    assert manual.isVisible()
    assert "Session files" in manual.page.toPlainText()
    assert manual.list.count() == len(pages()) > 20
    QTest.keyClicks(manual.search, "hysteresis-that-nobody-wrote")
    assert manual.list.count() == 0
    manual.search.clear()
    QTest.keyClicks(manual.search, "frontier seat")
    titles = [manual.list.item(row).text() for row in range(manual.list.count())]
    assert "Glossary" in titles
    # A page leads to another; an address of the network leads nowhere.
    assert manual.show_page("glossary.md")
    manual.page.anchorClicked.emit(QUrl("trace-format.md"))
    assert manual.page.toPlainText().startswith("Trace format")
    manual.page.anchorClicked.emit(QUrl("https://example.org/x.html"))
    assert manual.page.toPlainText().startswith("Trace format")
    manual.close()


@pytest.mark.parametrize("name", ["window.md", "neuroncore.md", "sweeps.md"])
def test_pages_with_pictures_and_code_fit_the_manual(driver: Driver, name: str) -> None:
    QTest.keyClick(driver.window, Qt.Key.Key_F1, Qt.KeyboardModifier.ShiftModifier)
    manual = driver.window.findChild(ManualDialog)
    assert manual is not None
    assert manual.show_page(name)
    driver.qtbot.wait(1)
    assert manual.page.horizontalScrollBar().maximum() == 0
    manual.close()
