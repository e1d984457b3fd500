"""What is estimated or not simulated is marked wherever it is shown."""

import json
from pathlib import Path
from typing import cast

import pytest
from PySide6.QtWidgets import QToolBar

from npuviz.program.program import Note
from npuviz.ui.floorplan.panel import FloorplanPanel
from npuviz.ui.log.panel import LogPanel
from npuviz.ui.queues.panel import QueuesPanel
from npuviz.ui.queues.table import NAME
from npuviz.ui.shell.bars.note import banner_notes
from npuviz.ui.timeline.panel import TimelinePanel
from npuviz.ui.timeline.rows import Place
from npuviz.ui.timeline.tooltip import tooltip_text
from tests.ui.driver import Driver
from tests.ui.panel_bench import Bench, bench, pixels
from tests.workbench.toy_registry import toy_file

__all__ = ["bench"]
ALU = 1


def limits_bar(driver: Driver) -> QToolBar:
    found = driver.window.findChild(QToolBar, "limits")
    assert found is not None
    return found


def test_only_notes_about_the_whole_program_are_in_the_banner() -> None:
    notes = [
        Note("warning", "estimated", "b"),
        Note("info", "assumed", "x"),
        Note("warning", "not-simulated", "a"),
        Note("warning", "estimated", "of one operator", node=3),
    ]
    assert [note.text for note in banner_notes(notes)] == ["a", "b"]


def test_the_banner_says_it_until_it_is_dismissed(driver: Driver, tmp_path: Path) -> None:
    driver.open(toy_file(tmp_path, json.dumps({"estimated": 1})))
    banner = driver.window.note_banner
    assert limits_bar(driver).isVisible()
    assert banner.lines == ["what the ALU does is not known", "the schedule is estimated"]
    banner.details_asked.emit()
    log = driver.window.docks.panel("log")
    assert isinstance(log, LogPanel)
    assert not driver.dock("panel.log").isHidden()
    banner.dismiss()
    assert not limits_bar(driver).isVisible()
    driver.open(toy_file(tmp_path, json.dumps({"estimated": 1}), "other.toy"))
    assert limits_bar(driver).isVisible(), "another program says it again"
    driver.open(toy_file(tmp_path, name="certain.toy"))
    assert not limits_bar(driver).isVisible()


def test_units_carry_the_mark_in_timeline_and_queues(bench: Bench) -> None:
    timeline, queues = bench.make(TimelinePanel), bench.make(QueuesPanel)
    bench.open_toy(estimated=1)
    bench.do(lambda: bench.model.go_to(200))
    assert ALU in timeline.view.state.estimated
    row = timeline.view.state.layout.of_track(ALU)
    assert row is not None
    text = tooltip_text(timeline.view.state, timeline.view.tracks, Place("header", 0, row.top, row))
    assert "estimated" in text
    names = [queues.table.index(place, NAME).data() for place in range(2)]
    assert names == ["\u2248 Core[0].ALU", "Core[0].ST"]


@pytest.mark.parametrize("panel", [FloorplanPanel, TimelinePanel])
def test_the_mark_can_be_seen(bench: Bench, panel: type[FloorplanPanel | TimelinePanel]) -> None:
    made = bench.make(panel)
    bench.open_toy(estimated=0)
    bench.do(lambda: bench.model.go_to(200))
    certain = pixels(made)
    bench.open_toy(estimated=1)
    bench.do(lambda: bench.model.go_to(200))
    assert (pixels(made) != certain).any()


def test_work_of_an_estimated_machine_is_named_by_its_instruction(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = bench.make(TimelinePanel, 900, 400)
    session = bench.open_toy(blocks=1)
    bench.do(bench.model.run)
    by_kind = pixels(timeline)
    monkeypatch.setitem(cast(dict[str, object], session.description.features), "estimated", True)
    timeline.on_session_changed()
    bench.settle()
    assert (pixels(timeline) != by_kind).any(), "the labels are others"
    listing = session.program.listing
    first = listing.describe(0)
    assert timeline.name_of(0) == (first.opcode, first.text.partition("  ")[0])
    assert timeline.name_of(len(listing)) == ("", "")
