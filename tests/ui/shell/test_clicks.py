"""How many clicks an answer takes, with real mouse events: two at most, in the layout a machine opens in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QTabBar, QTableView, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from npuviz.ui.inspector.panel import InspectorPanel
from npuviz.ui.memory.map import GUTTER, MARGIN, MemoryMap
from npuviz.ui.shell.application import Application
from npuviz.ui.source.variables import VariableTable
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.canvas import TOP, TimelineCanvas
from npuviz.workbench.samples import sample_entries
from npuviz.workbench.settings import Settings
from tests.ui.driver import Driver
from tests.ui.menus import choose, entries, right_click

MOST = 2
STEP = 6
"""Pixels between the places of the timeline that are tried."""
SAMPLES = {entry.options.target: entry for entry in sample_entries() if entry.options.target != "toy"}
"""Each real machine in `make check-all`; `make check` asks the same of the toy."""


@dataclass
class Person:
    """Somebody with a mouse in front of a window, who counts."""

    driver: Driver
    clicks: int = 0

    def click(self, widget: QWidget, point: QPoint | None = None) -> None:
        self.clicks += 1
        place = point if point is not None else widget.rect().center()
        assert widget.rect().contains(place), "what is clicked can be seen"
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=place)
        self.driver.idle()
        self.driver.qtbot.wait(60)

    def ask(self, widget: QWidget, point: QPoint, question: str) -> str:
        """A right click and an entry of the menu: the answer of the window."""
        menu = right_click(widget, point)
        self.clicks += 2
        choose(menu, question)
        self.driver.idle()
        bar = self.driver.window.error_bar
        self.driver.qtbot.waitUntil(bar.isVisible)
        assert bar.property("severity") == "notice", bar.text
        return bar.text

    def tab(self, title: str) -> None:
        """A panel by its tab."""
        for bar in self.driver.window.findChildren(QTabBar):
            for place in range(bar.count()):
                if bar.tabText(place) == title and bar.isVisible():
                    self.click(bar, bar.tabRect(place).center())
                    return
        raise AssertionError(f"no tab {title}")

    def part(self, kind: type[QWidget], name: str) -> QWidget | None:
        found = self.driver.window.findChild(kind, name)
        seen = found is not None and found.isVisible() and not found.visibleRegion().isEmpty()
        return found if seen else None


def why_idle(person: Person) -> str:
    """Where a track waits or does nothing, its menu tells why."""
    view = person.part(TimelineCanvas, "timeline.view")
    assert isinstance(view, TimelineCanvas)
    for row in view.state.layout.rows:
        y = TOP + row.top - view.state.scroll + row.height // 2
        if row.kind != "interval" or y >= view.height():
            continue
        for x in range(view.state.header_width + STEP, view.tracks_rect().right() - STEP, STEP):
            menu = right_click(view, QPoint(x, y))
            is_offered = "Why it waits" in entries(menu)
            menu.close()
            if is_offered:
                return person.ask(view, QPoint(x, y), "Why it waits")
    raise AssertionError("nothing waits")


def who_wrote(person: Person) -> str:
    """The menu of a variable, or of something in the map of the memory."""
    table = person.part(QTableView, "source.variables")
    if isinstance(table, QTableView):
        model = table.model()
        assert isinstance(model, VariableTable)
        for place, row in enumerate(model.rows):
            box = table.visualRect(model.index(place, 0))
            if row.variable is not None and row.variable.address >= 0 and box.bottom() < table.height() - 30:
                return person.ask(table.viewport(), box.center(), "Who wrote this")
    shown = person.part(MemoryMap, "memory.map")
    assert isinstance(shown, MemoryMap)
    for y in range(MARGIN + 2, shown.height() - MARGIN, STEP):
        for x in range(GUTTER + 4, shown.width() - 4, STEP):
            menu = right_click(shown, QPoint(x, y))
            is_offered = "Who wrote this" in entries(menu)
            menu.close()
            if is_offered:
                return person.ask(shown, QPoint(x, y), "Who wrote this")
    raise AssertionError("nothing is in the memory")


def costliest(person: Person) -> str:
    """The first row of the costs; the inspector tells why."""
    person.tab("Costs")
    table = person.part(QTableView, "costs.table")
    assert isinstance(table, QTableView)
    model = table.model()
    rows = [row for row in range(model.rowCount(QModelIndex())) if model.index(row, 3).data()]
    person.click(table.viewport(), table.visualRect(model.index(rows[0], 0)).center())
    panel = person.driver.window.docks.panel("inspector")
    assert isinstance(panel, InspectorPanel)
    assert panel.isVisible()
    title, text = str(model.index(rows[0], 0).data()), panel.view.toPlainText()
    assert title.split()[-1] in text, text
    return text


def bound_where(person: Person) -> str:
    """The unit that is busiest during each operator stands in the costs."""
    person.tab("Costs")
    table = person.part(QTableView, "costs.table")
    assert isinstance(table, QTableView)
    model = table.model()
    found = [str(model.index(row, 3).data()) for row in range(model.rowCount(QModelIndex()))]
    return ", ".join(name for name in found if name)


def compare_presets(person: Person) -> str:
    """The button "Run on ..." and, in its dialog, the one that measures all presets."""
    button = person.part(QToolButton, "toolbar.file.run_on")
    assert button is not None
    person.click(button)
    dialog = QApplication.activeModalWidget() or QApplication.activeWindow()
    assert isinstance(dialog, QDialog)
    measure = dialog.findChild(QWidget, "run_on.measure_all")
    assert measure is not None
    assert measure.isEnabled()
    # Measuring all presets takes minutes: that they are asked for is enough here.
    costs = dialog.findChild(QWidget, "run_on.costs")
    assert costs is not None
    person.click(measure)
    dialog.reject()
    return "measuring"


def compare_by_cause(person: Person) -> str:
    """The tab Compare and a preset: what the other run wins and loses by cause and operator."""
    person.tab("Compare")
    table = person.part(QTableView, "compare.offers")
    assert isinstance(table, QTableView)
    presets = [row for row in range(table.model().rowCount(QModelIndex())) if not _is_asking(table, row)]
    person.click(table.viewport(), table.visualRect(table.model().index(presets[-1], 0)).center())
    panel = person.driver.window.docks.panel("compare")
    # Refused presets and the figures themselves: tests/ui/compare.
    person.driver.qtbot.waitUntil(lambda: panel.is_settled, timeout=60_000)
    shown = person.part(QTableView, "compare.table")
    assert isinstance(shown, QTableView)
    return str(shown.model().index(0, 0).data())


def _is_asking(table: QTableView, row: int) -> bool:
    return str(table.model().index(row, 0).data()).endswith("\u2026")


QUESTIONS: tuple[Callable[[Person], str], ...] = (
    why_idle, who_wrote, costliest, bound_where, compare_presets, compare_by_cause,
)  # fmt: skip


def ask_all(driver: Driver) -> dict[str, int]:
    """Clicks for each question."""
    driver.window.resize(1280, 800)
    driver.window.activateWindow()
    driver.model.run_through()
    driver.idle()
    driver.model.go_to(round(driver.model.cycle * 0.5))
    driver.idle()
    driver.qtbot.wait(150)
    taken: dict[str, int] = {}
    for question in QUESTIONS:
        driver.do("view.reset_layout")
        driver.window.error_bar.dismiss()
        driver.qtbot.wait(60)
        person = Person(driver)
        assert question(person)
        taken[question.__name__] = person.clicks
    return taken


def test_answers_take_two_clicks(toy: Driver) -> None:
    assert max(ask_all(toy).values()) <= MOST


@pytest.fixture
def own(qtbot: QtBot, tmp_path: Path) -> Iterator[Driver]:
    """A window that knows the real machines."""
    application = Application(Settings(tmp_path / "settings.json"), Theme("dark"))
    window = application.new_window()
    window.show()
    found = Driver(qtbot, window)
    found.idle()
    yield found
    application.close()


@pytest.mark.slow
@pytest.mark.parametrize("target", SAMPLES)
def test_answers_take_two_clicks_on_every_machine(own: Driver, target: str) -> None:
    """The quicker test of the same rule: `test_answers_take_two_clicks`."""
    own.model.open(SAMPLES[target].path, SAMPLES[target].options)
    own.idle()
    taken = ask_all(own)
    print(target, taken)
    assert max(taken.values()) <= MOST, taken
