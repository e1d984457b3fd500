"""The timeline of a kernel by line and by loop: rows, clicks on turns, growth."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from npuviz.program.source import HasCalls
from npuviz.program.source import line_of as line_of_instruction
from npuviz.ui.timeline.canvas import TOP
from npuviz.ui.timeline.panel import SPEC, TimelinePanel
from npuviz.ui.timeline.rows import Row
from npuviz.ui.timeline.view import TimelineView
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.opening import open_file
from npuviz.workbench.selection import Selection
from tests.targets.neuroncore.nki.test_tracks import OPTIONS, kernel_file, line_of
from tests.ui.panel_stage import Stage


@pytest.fixture
def stage(qtbot: QtBot, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(SPEC)
    made.panel.resize(1100, 700)
    made.context.model.show_opened(open_file(kernel_file(tmp_path), OPTIONS))
    made.panel.on_session_changed()
    made.session.run()
    made.moved()
    yield made
    made.close()


def panel_of(stage: Stage) -> TimelinePanel:
    assert isinstance(stage.panel, TimelinePanel)
    return stage.panel


def press(stage: Stage, qtbot: QtBot, name: str) -> TimelineView:
    panel = panel_of(stage)
    toggle = {"line": panel._by["line"], "loop": panel._by["loop"]}[name]
    assert toggle.isVisible()
    qtbot.mouseClick(toggle, Qt.MouseButton.LeftButton)
    return panel.view


def turns_row(view: TimelineView, path: str) -> Row:
    return next(row for row in view.state.layout.rows if row.kind == "interval" and row.name == path)


def click_slice(view: TimelineView, qtbot: QtBot, row: Row, number: int) -> tuple[int, int]:
    found = view.state.slice_numbered(row.track, number)
    assert found is not None
    x = view.state.header_width + view.state.viewport.x_of((found.start + found.end) / 2)
    place = QPoint(round(x), TOP + row.top - view.state.scroll + row.height // 2)
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=place)
    return found.start, found.end


def test_a_click_on_a_turn_goes_there_and_selects_its_instructions(stage: Stage, qtbot: QtBot) -> None:
    view = press(stage, qtbot, "loop")
    labels = [row.label for row in view.state.layout.rows if row.kind == "group"]
    assert labels[:3] == ["Loops", f"for i :{line_of('for i')}", f"for j :{line_of('for j')}"]
    start, end = click_slice(view, qtbot, turns_row(view, f"Loops.for i :{line_of('for i')}.turns 1"), 0)
    qtbot.waitUntil(lambda: not stage.context.model.is_busy and stage.session.cycle == start, timeout=20_000)
    chosen = stage.context.selection.current
    assert chosen.cycles == (start, end)
    assert chosen.track is None
    listing = stage.session.program.listing
    assert isinstance(listing, HasCalls)
    marked = view.state.marked.instructions.tolist()
    assert chosen.instruction in marked
    turns = {
        loop.turn
        for index in marked
        for call in listing.calls_of(index)
        for loop in call.loops
        if loop.variable == "i"
    }
    assert turns == {1}
    # Another choice forgets the marks.
    stage.context.selection.set(Selection(instruction=0))
    stage.panel.on_selection_changed(stage.context.selection.current)
    assert not view.state.marked


def test_lines_select_what_was_recorded(stage: Stage, qtbot: QtBot) -> None:
    view = press(stage, qtbot, "line")
    row = next(row for row in view.state.layout.rows if row.track >= view.num_recorded)
    click_slice(view, qtbot, row, 0)
    chosen = stage.context.selection.current
    assert chosen.track is not None
    assert chosen.track < view.num_recorded
    assert chosen.instruction is not None
    place = line_of_instruction(stage.session.program.listing, chosen.instruction)
    assert place == f"kernel.py:{row.name.split('.')[1].removeprefix('line ')}"


def test_one_grouping_at_a_time_and_none_again(stage: Stage, qtbot: QtBot) -> None:
    view = panel_of(stage).view
    before = view.state.layout.rows
    view.set_viewport(view.state.viewport.zoomed(0.5, 100, view.state.end_cycle))
    viewport = view.state.viewport
    press(stage, qtbot, "line")
    assert {row.name.split(".")[0] for row in view.state.layout.rows[:1]} == {"Lines"}
    press(stage, qtbot, "loop")
    assert {row.name.split(".")[0] for row in view.state.layout.rows[:1]} == {"Loops"}
    assert panel_of(stage).save_state()["grouped_by"] == "loop"
    press(stage, qtbot, "loop")
    assert view.state.layout.rows == before
    assert view.state.viewport == viewport
    assert panel_of(stage).save_state()["grouped_by"] == ""


def test_turns_grow_with_the_run(stage: Stage, qtbot: QtBot, tmp_path: Path) -> None:
    stage.context.model.show_opened(open_file(kernel_file(tmp_path), OPTIONS))
    stage.panel.on_session_changed()
    session = stage.session
    view = press(stage, qtbot, "loop")
    assert len(view.tracks) == view.num_recorded
    session.run()
    stage.moved()
    assert len(view.tracks) > view.num_recorded
    assert view.grab().width() > 0


def test_crowded_loops_begin_folded(stage: Stage, qtbot: QtBot) -> None:
    view = press(stage, qtbot, "loop")
    for row in view.state.layout.rows:
        if row.kind == "group" and row.name.startswith("Loops.") and len(row.members) > 0:
            lanes = [t for t in view.tracks if t.name.rpartition(".")[0] == row.name]
            assert row.is_collapsed == (len(lanes) > 4)
    assert any(row.is_collapsed for row in view.state.layout.rows if row.name.startswith("Loops."))


def test_a_bundle_is_shown_by_line_and_by_loop(stage: Stage, qtbot: QtBot, tmp_path: Path) -> None:
    run_model(kernel_file(tmp_path), RunOptions(replace(OPTIONS, record=tmp_path / "run.npuviz")))
    live = press(stage, qtbot, "loop").state.layout.rows
    press(stage, qtbot, "loop")
    stage.context.model.show_opened(open_file(tmp_path / "run.npuviz"))
    stage.panel.on_session_changed()
    view = press(stage, qtbot, "loop")
    assert [row.name for row in view.state.layout.rows] == [row.name for row in live]
    path = f"Loops.for i :{line_of('for i')}.turns 1"
    start, end = click_slice(view, qtbot, turns_row(view, path), 0)
    assert stage.context.selection.current.cycles == (start, end)
    assert view.state.marked.instructions.tolist()
    view = press(stage, qtbot, "line")
    row = next(row for row in view.state.layout.rows if row.track >= view.num_recorded)
    click_slice(view, qtbot, row, 0)
    assert stage.context.selection.current.track is not None
