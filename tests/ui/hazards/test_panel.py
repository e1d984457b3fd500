"""Hazards in the window: the watch, the panel, the status bar."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from npuviz.debug.session import Session
from npuviz.sim.checks.findings import NO_ORDER
from npuviz.sim.machine import Findings, HasHazards, Hazard
from npuviz.ui.hazards.panel import HazardsPanel
from npuviz.workbench.opening import Opened, OpenOptions
from tests.toy.still import make_still_toy
from tests.ui.driver import Driver
from tests.ui.panel_bench import Bench, bench
from tests.workbench.toy_registry import toy_file

__all__ = ["bench"]
ABOVE = 300


def open_still(bench: Bench, **sizes: int) -> Session:
    session = Session(make_still_toy(**sizes))
    bench.model.show_opened(Opened(Path("toy.toy"), "toy", OpenOptions(), session=session))
    return session


def expected(session: Session) -> list[int]:
    assert isinstance(session.machine, HasHazards)
    return [hazard.instruction for hazard in session.machine.hazards()]


def test_a_machine_that_stands_still_is_asked_after_every_stop(bench: Bench) -> None:
    panel = bench.make(HazardsPanel)
    session = open_still(bench, hazard_above=ABOVE)
    for go in (bench.model.run, bench.model.restart, lambda: bench.model.go_to(600)):
        with bench.qtbot.waitSignal(bench.hazards.changed):
            bench.do(go)
        bench.qtbot.waitUntil(lambda: not bench.hazards.is_looking)
        assert [hazard.instruction for hazard in panel.table.rows] == expected(session)
    assert 0 < len(panel.table.rows) < 4, "at this cycle some of them lie ahead"
    assert panel.note.text() == f"Not checked: {NO_ORDER}."


def test_another_machine_is_asked_only_on_request(bench: Bench) -> None:
    panel = bench.make(HazardsPanel)
    session = bench.open_toy(hazard_above=ABOVE)
    bench.do(bench.model.run)
    assert bench.hazards.hazards is None
    assert not panel.table.rows
    with bench.qtbot.waitSignal(bench.hazards.changed):
        bench.hazards.look()
    bench.qtbot.waitUntil(lambda: not bench.hazards.is_looking)
    assert [hazard.instruction for hazard in panel.table.rows] == expected(session) != []
    bench.do(bench.model.step_back)
    assert bench.hazards.hazards is None, "what was found belongs to another cycle"


def test_a_click_selects_and_a_double_click_travels(bench: Bench) -> None:
    panel = bench.make(HazardsPanel)
    session = open_still(bench, hazard_above=ABOVE)
    with bench.qtbot.waitSignal(bench.hazards.changed):
        bench.do(bench.model.run)
    bench.qtbot.waitUntil(lambda: bool(panel.table.rows))
    first = panel.table.rows[0]
    panel.view.clicked.emit(panel.table.index(0, 0))
    chosen = bench.context.selection.current
    assert (chosen.instruction, chosen.unit) == (first.instruction, 1)
    bench.do(lambda: panel.view.doubleClicked.emit(panel.table.index(0, 0)))
    assert session.cycle == first.cycle


@pytest.mark.parametrize("close_while_looking", [False, True])
def test_nothing_is_left_when_the_session_goes(bench: Bench, close_while_looking: bool) -> None:
    panel = bench.make(HazardsPanel)
    open_still(bench, hazard_above=ABOVE)
    bench.do(bench.model.run)
    if not close_while_looking:
        bench.qtbot.waitUntil(lambda: bool(panel.table.rows))
    bench.model.show_opened(None)
    bench.settle()
    assert not panel.table.rows
    assert not bench.hazards.is_available


def test_status_bar_counts_and_opens_the_list(qtbot: QtBot, driver: Driver, tmp_path: Path) -> None:
    driver.open(toy_file(tmp_path, json.dumps({"hazard_above": ABOVE})))
    label = driver.window.status.hazards
    assert driver.label("status.hazards") == "hazards ?"
    driver.do("debug.run")
    qtbot.mouseClick(label, Qt.MouseButton.LeftButton)
    driver.idle()
    assert driver.label("status.hazards") == f"hazards {len(expected(driver.session))}"
    assert not driver.dock("panel.hazards").isHidden()
    watch, theme = driver.window.hazards, driver.window.theme
    one = Hazard(0, "unit", -1, "kind", "text")
    for found, role in (
        ((), "text-muted"),
        ((replace(one, level="warning"),), "warning"),
        ((one,), "hazard"),
    ):
        watch.findings = Findings(found)
        watch.changed.emit()
        assert theme.color(role).name() in label.styleSheet()
    driver.do("file.close")
    assert not label.isVisible()


def test_a_deadlock_is_in_the_status_bar_with_its_circle(driver: Driver, tmp_path: Path) -> None:
    driver.open(toy_file(tmp_path, json.dumps({"stuck_at": 9})))
    driver.do("debug.run")
    assert driver.label("status.stop").startswith("deadlock: Core[0].ST waits for computed >= 12")
    assert driver.label("status.faults") == "deadlock"
    log = driver.window.docks.panel("log")
    entry = log.table.rows[-1]  # pyright: ignore[reportAttributeAccessIssue]
    assert (entry.severity, entry.code) == ("error", "deadlock")
    assert "Core[0].LD waits for stored >= 10" in entry.text
    driver.do("debug.step_back")
    assert driver.label("status.faults") == ""


def test_the_whole_text_stands_below_with_both_instructions(bench: Bench) -> None:
    panel = bench.make(HazardsPanel)
    session = open_still(bench, hazard_above=ABOVE)
    with bench.qtbot.waitSignal(bench.hazards.changed):
        bench.do(bench.model.run)
    bench.qtbot.waitUntil(lambda: len(panel.table.rows) > 1)
    first, second = panel.table.rows[:2]
    assert panel.detail.text.text() == first.text, "without a choice it is about the first one"
    panel.view.setCurrentIndex(panel.table.index(1, 0))
    assert panel.detail.text.text() == second.text
    both = replace(second, other=first.instruction, mend="wait for it")
    panel.detail.show_hazard(both, session.program.listing)
    assert panel.detail.mend.text() == "To mend it: wait for it"
    here, there = panel.detail.places
    assert [not place.isHidden() for place in (here, there)] == [True, True]
    bench.qtbot.mouseClick(there, Qt.MouseButton.LeftButton)
    chosen = bench.context.selection.current
    assert chosen.instruction == first.instruction
    assert chosen.unit == session.program.listing.describe(first.instruction).unit
    panel.detail.show_hazard(replace(both, other=-1), session.program.listing)
    assert there.isHidden()
    panel.detail.show_hazard(None, None)
    assert panel.detail.isHidden()
