"""The source panel of a kernel: the stack through helpers, tiles with their values, marks of breakpoints."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from npuviz.debug.session import Session
from npuviz.program.source import HasSource, LoopTurn, Place
from npuviz.ui.source.loops import LoopBar
from npuviz.ui.source.panel import ROOM_FOR_STACK, SPEC, SourcePanel
from npuviz.ui.source.state import line_marks, unit_place
from npuviz.ui.source.text import share_text
from npuviz.ui.source.variables import VALUE
from npuviz.workbench.opening import OpenOptions, open_file
from npuviz.workbench.selection import Selection
from tests.targets.neuroncore.nki.running import SECOND
from tests.targets.neuroncore.nki.test_watching import ADD, DATA, KERNEL, POWER
from tests.ui.panel_stage import Stage

CALL = ADD - 1


@pytest.fixture
def stage(qtbot: QtBot, tmp_path: Path) -> Iterator[Stage]:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    opened = open_file(path, OpenOptions(inputs={"x": DATA}))
    made = Stage(SPEC)
    made.panel.resize(700, 900)
    made.context.model.show_opened(opened)
    made.panel.on_session_changed()
    made.panel.grab()
    yield made
    made.close()


def panel_of(stage: Stage) -> SourcePanel:
    assert isinstance(stage.panel, SourcePanel)
    return stage.panel


def stop_at(stage: Stage, qtbot: QtBot, condition: str) -> SourcePanel:
    session, panel = stage.session, panel_of(stage)
    session.run_to(condition)
    unit = session.program.listing.describe(session.stop.instruction).unit
    stage.context.selection.set(Selection(unit=unit))
    panel.on_selection_changed(stage.context.selection.current)
    stage.moved()
    qtbot.waitUntil(lambda: panel.is_filled, timeout=20_000)
    return panel


def open_row(panel: SourcePanel, qtbot: QtBot, number: int) -> None:
    view = panel.stack.table
    place = view.visualRect(panel.variables.index(number, 0)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_functions_under_way_and_the_tiles_of_the_line_are_listed(stage: Stage, qtbot: QtBot) -> None:
    panel = stop_at(stage, qtbot, f"line {POWER} if c == 2 and i == 1")
    rows = panel.variables.rows
    titles = [row.scope for row in rows if row.variable is None]
    assert titles == ["squares", "kernel (caller): c = 2 (3 of 4), i = 1 (2 of 3)", "other tiles now"]
    used = {row.variable.name: row.variable for row in rows if row.variable and row.scope == "squares"}
    assert list(used) == ["powered, sq (c 2, i 1)", "tile (c 2)"]
    tile = used["tile (c 2)"]
    assert (tile.type, tile.where.split()[0]) == ("float32 128x8", "SBUF")
    shown = [float(word) for word in tile.value.removesuffix(" ...").split()]
    np.testing.assert_allclose(shown, DATA[256, :4], rtol=1e-3)
    assert panel.stack.where.text().endswith("in squares")
    # A helper calls it `i`.
    assert {row.variable.name for row in rows if row.variable} >= {"acc, i (c 0)", "acc, i (c 3)"}
    marks = panel.text.marks
    assert (marks.current, set(marks.callers)) == (POWER, {CALL})


def test_a_double_click_shows_the_bytes_of_a_tile_or_the_line_of_a_caller(stage: Stage, qtbot: QtBot) -> None:
    panel = stop_at(stage, qtbot, f"line {POWER} if c == 2 and i == 1")
    rows = panel.variables.rows
    number = next(n for n, row in enumerate(rows) if row.variable and row.variable.name == "tile (c 2)")
    wanted = rows[number].variable
    assert wanted is not None
    open_row(panel, qtbot, next(n for n, row in enumerate(rows) if row.depth == 1))
    assert panel.text.marks.chosen == CALL
    open_row(panel, qtbot, number)
    memory = stage.context.selection.current.memory
    assert memory is not None
    assert (memory.address, memory.size_bytes, memory.banks) == (wanted.address, 32, 128)


def test_values_that_a_step_changes_are_marked(stage: Stage, qtbot: QtBot) -> None:
    panel = stop_at(stage, qtbot, f"line {ADD} if c == 1 and i == 1")
    before = {row.key: row.variable.value for row in panel.variables.rows if row.variable}
    stage.session.step(400)
    stage.moved()
    qtbot.waitUntil(lambda: panel.is_filled, timeout=20_000)
    after = {row.key: row.variable.value for row in panel.variables.rows if row.variable}
    changed = {key for key in after if key in before and after[key] != before[key]}
    assert changed <= panel.variables.changed
    assert panel.variables.text(panel.variables.rows[1], VALUE)


def test_the_text_keeps_its_room_in_a_small_panel_and_a_button_shows_the_stack(
    stage: Stage, qtbot: QtBot
) -> None:
    panel = panel_of(stage)
    assert panel.stack.isVisibleTo(panel)
    assert not panel._steps[-1].isVisibleTo(panel), "kernels have no tasks"
    panel.resize(400, ROOM_FOR_STACK - 60)
    assert not panel.stack.isVisibleTo(panel)
    qtbot.mouseClick(panel._stack, Qt.MouseButton.LeftButton)
    assert panel.stack.isVisibleTo(panel)
    assert panel.save_state()["stack"] is True
    qtbot.mouseClick(panel._stack, Qt.MouseButton.LeftButton)
    panel.resize(700, 900)
    assert not panel.stack.isVisibleTo(panel), "as the user wants it"
    panel.restore_state({"stack": None})
    assert panel.stack.isVisibleTo(panel)


@pytest.mark.parametrize("shows_stack", [True, False])
def test_a_tiles_name_in_the_text_tells_its_value(stage: Stage, qtbot: QtBot, shows_stack: bool) -> None:
    panel_of(stage).restore_state({"stack": shows_stack})
    panel = stop_at(stage, qtbot, f"line {POWER} if c == 2 and i == 1")
    assert panel.stack.isHidden() is not shows_stack

    def tip(word: str) -> str:
        panel.text.reveal(POWER)
        column = panel.text.text_of(POWER).index(word) + 1
        box = panel.text.line_box(POWER)
        left = panel.text._text_left()
        wide = panel.text._metrics().horizontalAdvance("0")
        return panel.text.tip_at(QPoint(round(left + column * wide), box.center().y()))

    tip("tile")
    qtbot.waitUntil(lambda: panel.is_filled, timeout=20_000)
    told = tip("tile")
    assert told.startswith("tile (c 2): float32 128x8, SBUF 0x")
    shown = [float(word) for word in told.partition(" = ")[2].removesuffix(" ...").split()]
    np.testing.assert_allclose(shown, DATA[256, :4], rtol=1e-3)
    assert tip("powered").startswith("powered, sq (c 2, i 1): ")
    assert not tip("multiply")


def test_lines_that_call_have_the_share_of_what_they_call_and_keep_their_text(
    stage: Stage, qtbot: QtBot
) -> None:
    panel = panel_of(stage)
    stage.session.run()
    stage.moved()
    qtbot.waitUntil(lambda: panel.is_filled, timeout=20_000)
    marks = panel.text.marks
    assert CALL not in marks.heat
    assert marks.called[CALL] == pytest.approx(marks.heat[POWER])
    assert set(marks.called) == {CALL, ADD + 1}
    assert "what it calls takes" in marks.tips[CALL]
    assert marks.code <= set(marks.heat) | set(marks.called)
    panel.text.reveal(CALL)
    place = QPoint(300, panel.text.line_box(CALL).center().y())
    qtbot.mouseClick(panel.text.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert panel.text.marks.chosen == CALL
    chosen = stage.context.selection.current.instruction
    assert chosen is not None
    listing = stage.session.program.listing
    assert isinstance(listing, HasSource)
    at = listing.place_of(chosen)
    assert at is not None
    assert at.line == POWER


@pytest.mark.parametrize(
    "condition",
    [
        f"line kernel.py:{ADD} if c == 2 and i == 1",
        f"{ADD} if c == 2",
        f"line {ADD}",
        f"log {ADD} show cycle",
        f"kernel.py:{ADD} and cycle > 100",
    ],
)
def test_breakpoints_with_conditions_are_marked_at_their_line_and_removed_there(
    stage: Stage, qtbot: QtBot, condition: str
) -> None:
    panel, session = panel_of(stage), stage.session
    session.breakpoints.add(condition)
    panel._refresh_marks()
    assert ADD in panel.text.marks.breakpoints
    panel.text.reveal(ADD)
    place = QPoint(8, panel.text.line_box(ADD).center().y())
    qtbot.mouseClick(panel.text.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert not session.breakpoints.all


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0001, "<1"), (0.005, "<1"), (0.006, "1\u202f%"), (0.35, "35\u202f%"), (1.0, "100\u202f%")],
)
def test_small_shares_of_lines_are_told_from_none(share: float, text: str) -> None:
    assert share_text(share) == text


def test_the_box_of_files_tells_the_whole_path_which_a_narrow_panel_cuts(stage: Stage) -> None:
    panel = panel_of(stage)
    assert panel._listing is not None
    assert panel._listing.sources[panel.file].path in panel.files.toolTip()


def test_marks_of_other_files_are_not_taken_for_this_one(stage: Stage) -> None:
    listing = stage.session.program.listing
    assert isinstance(listing, HasSource)
    points = [(1, f"line other.py:{ADD}", True), (2, f"line some/kernel.py:{ADD} if c == 1", True)]
    assert [[m.breakpoint for m in marks] for marks in line_marks(listing, points, None).values()] == [[2]]


def test_without_a_selection_a_unit_that_works_is_shown(stage: Stage) -> None:
    session: Session = stage.session
    session.run()
    assert session.end_cycle is not None
    mixed = 0
    for cycle in range(0, session.end_cycle, session.end_cycle // 40):
        session.go_to(cycle)
        busy = {
            state.unit
            for state in session.machine.unit_states()
            if state.instruction >= 0 and not state.role.startswith("wait") and state.role != "idle"
        }
        place = unit_place(session.machine, None)
        if place is None or not busy:
            continue
        shown = next(unit.id for unit in session.description.units if unit.name == place.label)
        mixed += 1
        assert shown in busy
    assert mixed > 5


UNITS_IN_TURN = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in range(4):
        engine = nisa.engine.vector if i % 2 else nisa.engine.scalar
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=engine)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)


def test_an_iteration_without_work_of_the_shown_unit_shows_the_unit_that_has_it(
    qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(UNITS_IN_TURN)
    stage = Stage(SPEC)
    stage.context.model.show_opened(open_file(path, OpenOptions(inputs={"x": DATA[:128]})))
    panel, line = (
        panel_of(stage),
        1
        + UNITS_IN_TURN.splitlines().index(
            "        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=engine)"
        ),
    )
    panel.on_session_changed()
    stop_at(stage, qtbot, f"line {line} if i == 0")
    before = stage.context.selection.current.unit
    box = panel.loops.boxes[0]
    assert (box.value(), box.maximum()) == (1, 4)
    box.setValue(2)
    qtbot.waitUntil(lambda: not stage.context.model.is_busy and box.value() == 2, timeout=20_000)
    assert stage.context.selection.current.unit not in (None, before)
    assert panel.loops.values[0].text() == "of 4, is 1"
    stage.close()


def test_values_of_loops_become_tips_where_there_is_no_room(qtbot: QtBot) -> None:
    bar = LoopBar()
    qtbot.addWidget(bar)
    loops = [LoopTurn(Place(0, 7 + depth), name, 128 * depth, 2, 4) for depth, name in enumerate("mnk")]
    bar.resize(900, 30)
    bar.show()
    bar.show_loops(loops)
    assert [value.text() for value in bar.values[:3]] == ["of 4, is 0", "of 4, is 128", "of 4, is 256"]
    bar.resize(250, 30)
    assert [value.text() for value in bar.values[:3]] == ["of 4"] * 3
    assert [value.toolTip() for value in bar.values[:3]] == ["m is 0", "n is 128", "k is 256"]
    bar.resize(900, 30)
    assert bar.values[2].text() == "of 4, is 256"


def test_a_narrow_panel_gives_its_room_to_the_name_of_the_file(stage: Stage, qtbot: QtBot) -> None:
    panel = panel_of(stage)
    assert panel.follow.text() == "Follow"
    wide = panel.files.width() - panel.width()
    panel.resize(320, 500)
    panel.grab()
    assert panel.follow.text() == ""
    assert panel.follow.accessibleName() == "Follow"
    qtbot.waitUntil(lambda: panel.files.width() - panel.width() > wide)
