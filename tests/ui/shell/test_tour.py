"""Tours, led with real keys and clicks."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from npuviz.ui.shell.commands import tour as tour_commands
from npuviz.ui.shell.commands.tour import OFFERED
from npuviz.ui.shell.tour import TourCard
from npuviz.workbench.samples import sample_entries
from npuviz.workbench.tours import TourStep, tour_of
from tests.ui.driver import Driver
from tests.workbench.toy_registry import toy_file

STEPS = (
    TourStep("timeline", "The whole run.", do=("debug.run_to_end",)),
    TourStep("fabric", "The toy has none: this step is left out."),
    TourStep("inspector", "Work under way.", share=0.5, selects=True),
    TourStep("toolbar.search", "Finds everything."),
)


@pytest.fixture
def led(driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A window at 1280x800 whose toy has a tour and is a sample."""
    monkeypatch.setattr(tour_commands, "tour_of", lambda target: STEPS if target == "toy" else ())
    monkeypatch.setattr(tour_commands, "sample_models_path", lambda: tmp_path)
    driver.window.resize(1280, 800)
    driver.window.activateWindow()
    driver.open(toy_file(tmp_path))
    driver.qtbot.wait(20)
    return driver


def part(driver: Driver, name: str) -> QWidget:
    found = driver.window.findChild(QWidget, name)
    assert found is not None, name
    return found


def card_of(driver: Driver) -> TourCard:
    found = driver.window.findChild(TourCard)
    assert found is not None
    return found


def told(driver: Driver) -> str:
    text = part(driver, "tour.text")
    assert isinstance(text, QLabel)
    return text.text() if text.isVisible() else ""


def press(driver: Driver, key: Qt.Key) -> None:
    """A key goes to whatever has the focus."""
    widget = QApplication.focusWidget()
    assert widget is not None
    QTest.keyClick(widget, key)
    driver.idle()
    driver.qtbot.wait(20)


def test_a_sample_offers_its_tour_once(led: Driver, tmp_path: Path) -> None:
    bar = led.window.error_bar
    assert bar.isVisible()
    offer = next(each for each in bar.findChildren(QPushButton) if each.text() == "Tour")
    QTest.mouseClick(offer, Qt.MouseButton.LeftButton)
    led.idle()
    assert told(led) == "The whole run."
    assert led.window.settings.get(OFFERED) == ["toy"]
    led.open(toy_file(tmp_path))
    led.qtbot.wait(20)
    assert not bar.isVisible()
    assert told(led) == "", "another file ends the tour"


def test_keys_lead_through_the_tour_and_back(led: Driver) -> None:
    led.do("help.tour")
    led.qtbot.wait(20)
    assert told(led) == "The whole run."
    end = led.model.cycle
    assert end > 0
    press(led, Qt.Key.Key_Return)
    assert told(led) == "Work under way."
    assert led.model.cycle == round(end * 0.5)
    assert led.window.selection.current.instruction is not None
    press(led, Qt.Key.Key_Right)
    assert told(led) == "Finds everything."
    press(led, Qt.Key.Key_Left)
    assert told(led) == "Work under way."
    press(led, Qt.Key.Key_Escape)
    assert told(led) == ""
    assert not part(led, "tour.ring").isVisible()


def test_the_card_lies_in_the_window_beside_what_it_is_about(led: Driver) -> None:
    led.do("help.tour")
    for _ in range(len(STEPS) - 1):
        led.qtbot.wait(20)
        card, ring = card_of(led), part(led, "tour.ring")
        assert led.window.rect().contains(card.geometry())
        assert led.window.rect().contains(ring.geometry())
        text = part(led, "tour.text")
        assert text.height() >= text.heightForWidth(text.width()), "no text is cut"
        QTest.mouseClick(part(led, "tour.next"), Qt.MouseButton.LeftButton)
        led.idle()
    assert told(led) == "", "Done ends it"


def test_a_tour_never_replaces_what_is_open(driver: Driver, tmp_path: Path) -> None:
    driver.qtbot.wait(20)
    assert driver.action("help.tour").isEnabled(), "with nothing open it opens a sample"
    driver.open(toy_file(tmp_path))
    driver.qtbot.wait(20)
    assert not driver.action("help.tour").isEnabled(), "the toy has no tour"


def test_every_sample_has_a_tour_of_two_minutes(led: Driver) -> None:
    controls = {each.objectName() for each in led.window.findChildren(QWidget)}
    for entry in sample_entries():
        if entry.options.target == "toy":
            continue
        steps = tour_of(entry.options.target)
        assert 6 <= len(steps) <= 10, entry.machine
        words = sum(len(step.text.split()) for step in steps)
        assert words <= 300, f"{entry.machine}: {words} words are more than two minutes"
        for step in steps:
            assert step.show in led.window.docks.all or step.show in controls, step
            assert step.share <= 1
            for command in step.do:
                assert led.window.commands.get(command).id == command
