import base64
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QTabBar, QTableView

from npuviz.debug.session import Session
from npuviz.program.program import Program
from npuviz.ui.kit.table_view import csv_of
from npuviz.ui.shell.application import Application
from npuviz.ui.shell.arrangement import KEY
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.layouts import LAYOUTS, Cell, Layout, Row
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.settings import Settings
from tests.sweeps import quick
from tests.toy.machine import ToyMachine
from tests.toy.program import ToySpec, make_program
from tests.ui.driver import Driver
from tests.workbench.toy_registry import toy_file


def visible(driver: Driver) -> set[str]:
    docks = driver.window.findChildren(QDockWidget)
    return {dock.objectName() for dock in docks if not dock.isHidden()}


def test_layouts_show_their_panels(toy: Driver) -> None:
    stepping = visible(toy)
    assert {"panel.program", "panel.timeline", "panel.inspector", "panel.graph"} <= stepping
    toy.do("view.layout.profiling")
    assert "panel.program" not in visible(toy)
    assert toy.action("view.layout.profiling").isChecked()
    assert not toy.action("view.layout.stepping").isChecked()
    toy.do("view.layout.stepping")
    assert visible(toy) == stepping


def test_no_layout_is_offered_for_features_the_machine_lacks(toy: Driver) -> None:
    assert not toy.action("view.layout.fabric").isEnabled()
    assert toy.action("view.layout.memory").isEnabled()


def test_cells_of_a_row_stand_side_by_side(toy: Driver) -> None:
    program, timeline, inspector = (
        toy.dock(name).geometry() for name in ("panel.program", "panel.timeline", "panel.inspector")
    )
    assert program.right() < timeline.left() < timeline.right() < inspector.left()
    assert timeline.width() > program.width()
    graph, queues = toy.dock("panel.graph").geometry(), toy.dock("panel.queues").geometry()
    assert graph.top() >= timeline.bottom()
    assert graph.right() < queues.left(), "the cells of the second row must not end up as tabs of one"


def test_reset_brings_closed_panels_back(toy: Driver) -> None:
    before = visible(toy)
    toy.dock("panel.timeline").close()
    toy.dock("panel.graph").setFloating(True)
    toy.do("view.reset_layout")
    assert visible(toy) == before
    assert not toy.dock("panel.graph").isFloating()


def test_a_closed_panel_is_listed_under_view(toy: Driver) -> None:
    toy.dock("panel.timeline").close()
    toy.qtbot.wait(1)
    action = toy.action("view.panel.timeline")
    assert not action.isChecked()
    assert action in toy.window.actions_by_id.menu("View/Panels").actions()
    action.trigger()
    assert toy.dock("panel.timeline").isVisible()


def test_layout_survives_closing_the_file_and_the_window(
    toy: Driver, application: Application, settings: Settings
) -> None:
    toy.do("view.layout.memory")
    toy.dock("panel.inspector").close()
    kept = visible(toy)
    path = toy.model.opened.path if toy.model.opened else None
    assert path is not None
    toy.window.close()
    other = Driver(toy.qtbot, application.new_window())
    other.window.show()
    other.idle()
    other.open(path)
    assert visible(other) == kept
    assert other.action("view.layout.memory").isChecked()


@quick(first=2)
@pytest.mark.parametrize(
    "stored",
    [
        {"layout": "stepping", "docks": "not base64!"},
        {"layout": "stepping", "docks": base64.b64encode(b"garbage" * 20).decode()},
        {"layout": "no such layout", "docks": ""},
        ["a", "list"],
        {"layout": "stepping", "docks": "", "panels": {"timeline": {"row_height": "tall"}}},
    ],
)
def test_damaged_state_is_ignored(toy: Driver, settings: Settings, stored: object) -> None:
    path = toy.model.opened.path if toy.model.opened else None
    assert path is not None
    before = visible(toy)
    for kept in (stored, {"stepping": stored}):
        toy.do("file.close")
        settings.set(KEY, kept)
        toy.open(path)
        assert visible(toy) == before


def test_a_stored_layout_may_name_panels_that_nobody_has(toy: Driver, settings: Settings) -> None:
    path = toy.model.opened.path if toy.model.opened else None
    assert path is not None
    # A dock that a later version, or a plug-in that is gone, had in front of others.
    stranger = QDockWidget("Stranger", toy.window)
    stranger.setObjectName("panel.stranger")
    toy.window.addDockWidget(Qt.DockWidgetArea.TopDockWidgetArea, stranger)
    toy.window.tabifyDockWidget(toy.dock("panel.timeline"), stranger)
    toy.dock("panel.graph").close()
    stored = toy.window.docks.save()
    toy.window.removeDockWidget(stranger)
    stranger.deleteLater()
    wanted = visible(toy) - {"panel.stranger"}
    toy.do("file.close")
    stored["panels"] |= {"stranger": {"a": 1}, "timeline": "tall"}
    stored["offered"] = [*stored["offered"], "stranger", 3]
    settings.set(KEY, {"stepping": stored})
    toy.open(path)
    assert visible(toy) == wanted
    assert "panel.timeline" in wanted
    assert not toy.dock("panel.timeline").widget().visibleRegion().isEmpty()


def test_a_layout_that_names_an_unknown_panel_shows_the_others(toy: Driver) -> None:
    cells = (Cell(("stranger", "timeline"), 60), Cell(("stranger",), 20), Cell(("inspector",), 20))
    toy.window.docks.apply(Layout("own", "Own", "", (Row(cells, 100),)))
    assert visible(toy) == {"panel.timeline", "panel.inspector"}
    described = {"name": "stepping", "shown": ["stranger", "timeline"], "panels": {"stranger": {}}}
    toy.window.docks.follow_description(described)
    assert visible(toy) == {"panel.timeline"}


def test_a_panel_is_made_when_it_comes_to_the_screen(toy: Driver) -> None:
    docks = toy.window.docks
    toy.qtbot.wait(1)
    assert {"program", "timeline", "inspector", "graph", "queues", "memory"} <= docks.panels.keys()
    assert {"log", "costs", "compare"} <= docks.panels.keys(), "these hear of things while they are hidden"
    assert docks.panels.keys().isdisjoint({"source", "breakpoints", "semaphores", "causes", "search"})
    toy.do("debug.run")
    toy.dock("panel.semaphores").raise_()
    toy.qtbot.waitUntil(lambda: "semaphores" in docks.panels)
    panel = docks.panels["semaphores"]
    view = panel.findChild(QTableView)
    assert view is not None
    toy.qtbot.waitUntil(lambda: "stored" in csv_of(view))
    shown = csv_of(view)
    panel.on_cycle_changed()
    assert csv_of(view) == shown, "it shows the cycle that it came at"
    toy.do("view.panel.causes")
    assert docks.focused_panel() == "causes"


def test_the_state_of_a_panel_that_nobody_looked_at_is_kept(toy: Driver, settings: Settings) -> None:
    docks = toy.window.docks
    assert "accuracy" not in docks.panels
    path = toy.model.opened.path if toy.model.opened else None
    assert path is not None
    states = {name: panel.save_state() for name, panel in docks.panels.items()}
    toy.do("file.close")
    stored = settings.get(KEY)
    assert isinstance(stored, dict)
    stored["stepping"]["panels"] = states | {"semaphores": {"kept": 7}}
    settings.set(KEY, stored)
    toy.open(path)
    toy.do("file.close")
    kept = settings.get(KEY)
    assert isinstance(kept, dict)
    assert kept["stepping"]["panels"]["semaphores"] == {"kept": 7}


def test_side_bar_toggles(toy: Driver) -> None:
    toy.do("view.side_bar")
    assert not toy.dock("panel.program").isVisible()
    toy.do("view.side_bar")
    assert toy.dock("panel.program").isVisible()


def test_theme_switches_everything_and_is_remembered(toy: Driver, settings: Settings) -> None:
    theme: Theme = toy.window.theme
    dark = theme.color("background")
    toy.do("view.theme")
    assert not theme.is_dark
    assert theme.color("background").lightness() > dark.lightness()
    assert settings.get("theme") == "light"
    assert toy.window.palette().window().color() == theme.color("background")
    toy.do("view.theme")
    assert theme.is_dark


def test_tabbed_docks_have_no_second_title(toy: Driver) -> None:
    toy.qtbot.wait(1)
    tabbed = toy.dock("panel.graph").titleBarWidget()
    alone = toy.dock("panel.program").titleBarWidget()
    assert tabbed.height() == 0
    assert alone.height() > 0


class Narrow(ToyMachine):
    """A machine without semaphores and hazards, whose only queue has another name."""

    semaphores: Any = None
    hazards: Any = None

    def __init__(self, spec: ToySpec, program: Program) -> None:
        super().__init__(spec, program)
        queue = replace(self._description.queues[0], name="Only", probe="Only.occupancy")
        self._description = replace(self._description, features={}, queues=(queue,))

    def read(self, probe: str) -> Any:
        return super().read({"Only.occupancy": "Core[0].ALU.occupancy"}[probe])


def show_narrow(driver: Driver) -> None:
    spec = ToySpec()
    session = Session(Narrow(spec, make_program(spec, {}, "toy")))
    driver.model.show_opened(Opened(Path("narrow.toy"), "narrow", OpenOptions(), session=session))
    driver.idle()


def test_docks_follow_what_the_machine_has(toy: Driver, tmp_path: Path) -> None:
    special = {"panel.semaphores", "panel.hazards"}
    assert special <= visible(toy)
    show_narrow(toy)
    assert not special & visible(toy)
    assert not toy.action("view.panel.semaphores").isEnabled()
    toy.open(toy_file(tmp_path))
    assert special <= visible(toy), "another machine has them again"
    toy.dock("panel.semaphores").close()
    toy.open(toy_file(tmp_path, name="other.toy"))
    assert "panel.semaphores" not in visible(toy), "what the user closed stays closed"


def test_a_panel_behind_a_tab_never_sees_the_next_machine_too_soon(toy: Driver) -> None:
    toy.window.docks.show_panel("semaphores")
    toy.do("debug.step")
    toy.do("debug.step")
    # The queues lie behind the semaphores and have missed these steps; now they come to the front.
    show_narrow(toy)
    toy.window.docks.show_panel("queues")
    toy.do("debug.step")
    assert toy.session.cycle == 1


def test_a_panel_that_the_layout_does_not_name_comes_as_a_tab(toy: Driver) -> None:
    toy.window.resize(1280, 800)
    toy.qtbot.wait(20)
    widths = {name: toy.dock(f"panel.{name}").width() for name in ("graph", "queues", "memory")}
    toy.do("view.panel.costs")
    toy.qtbot.wait(20)
    costs = toy.dock("panel.costs")
    assert not costs.isHidden()
    assert costs.width() == widths["memory"], "the widest of the lower places"
    assert toy.dock("panel.graph").width() == widths["graph"], "others keep their room"


@quick("stepping")
@pytest.mark.parametrize("layout", [one.name for one in LAYOUTS if not one.features])
def test_all_tabs_can_be_seen_on_a_small_screen(toy: Driver, layout: str) -> None:
    toy.window.resize(1280, 800)
    toy.do(f"view.layout.{layout}")
    toy.qtbot.wait(20)
    bars = [bar for bar in toy.window.findChildren(QTabBar) if bar.isVisible() and bar.count() > 1]
    assert bars
    for bar in bars:
        names = [bar.tabText(number) for number in range(bar.count())]
        assert bar.tabRect(bar.count() - 1).right() <= bar.width(), f"{names} scroll"


def fits(view: QTableView) -> bool:
    """Whether all columns of a table are in sight."""
    return view.horizontalScrollBar().maximum() == 0


@quick("memory")
@pytest.mark.parametrize("layout", ["stepping", "profiling", "memory"])
def test_no_table_but_contents_scrolls_sideways_on_a_small_screen(toy: Driver, layout: str) -> None:
    toy.window.resize(1280, 800)
    toy.do("debug.run")
    toy.do(f"view.layout.{layout}")
    for name, dock in toy.window.docks.all.items():
        if not dock.isVisible():
            continue
        toy.window.docks.show_panel(name)
        panel = toy.window.docks.panel(name)
        toy.qtbot.waitUntil(lambda panel=panel: panel.is_settled)
        for view in panel.findChildren(QTableView):
            if view.isVisible() and view.objectName() != "memory.contents":
                # Columns are fitted when the table has got its size.
                toy.qtbot.waitUntil(partial(fits, view))
