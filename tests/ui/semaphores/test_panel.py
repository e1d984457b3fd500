"""The semaphores panel on the toy machine."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QModelIndex
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from npuviz.sim.machine import HasSemaphores, SemaphoreState, Wait
from npuviz.ui.kit.table_view import csv_of
from npuviz.ui.semaphores.panel import SPEC, SemaphoresPanel
from npuviz.ui.semaphores.table import NAME, NEEDED, UNIT, SemaphoreRow, SemaphoreTable, rows_of
from npuviz.workbench.selection import NOTHING, Selection
from tests.ui.panel_bench import Bench, bench
from tests.ui.panel_stage import Stage

__all__ = ["bench"]


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> SemaphoresPanel:
    assert isinstance(stage.panel, SemaphoresPanel)
    return stage.panel


def semaphore(number: int, value: int, *waits: Wait, group: str = "") -> SemaphoreState:
    return SemaphoreState(number, f"s{number}", group, value, "LD", waits)


def rows(*states: SemaphoreState) -> list[SemaphoreRow]:
    return rows_of(states, lambda unit: f"U{unit}", lambda index: f"#{index}" if index >= 0 else "")


def wait(comparison: str, needed: int) -> Wait:
    return Wait(1, 5, comparison, needed)


def test_those_waited_for_come_first_one_row_a_waiting_unit() -> None:
    made = rows(semaphore(0, 1), semaphore(3, 2, Wait(1, 5, ">=", 4), Wait(2, 6, ">=", 3)), semaphore(1, 0))
    assert [(row.name, row.unit) for row in made] == [("s3", "U1"), ("s3", "U2"), ("s0", ""), ("s1", "")]
    assert [row.to_go for row in made] == [2, 1, 0, 0]
    assert [row.instruction for row in made[:2]] == ["#5", "#6"]


@pytest.mark.parametrize(
    ("comparison", "needed", "value", "to_go"),
    [(">=", 5, 3, 2), (">=", 5, 5, 0), (">", 5, 5, 1), ("==", 5, 7, 2), ("<=", 5, 7, 2), ("<", 5, 5, 1),
     ("!=", 5, 5, 0)],
)  # fmt: skip
def test_how_far_a_wait_is(comparison: str, needed: int, value: int, to_go: int) -> None:
    row = rows(semaphore(0, value, wait(comparison, needed)))[0]
    assert row.to_go == to_go
    assert (f"{to_go} to go" in row.needed) == (to_go > 0)


def test_groups_are_named_when_there_are_several() -> None:
    made = rows(semaphore(0, 1, group="Core[0]"), semaphore(1, 1, group="Core[1]"))
    assert [row.name for row in made] == ["Core[0].s0", "Core[1].s1"]
    assert rows(semaphore(0, 1, group="Core[0]"))[0].name == "s0"


def test_only_what_changed_is_announced(qtbot: QtBot) -> None:
    table = SemaphoreTable()
    ModelTester(_Config()).check(table)
    changed: list[int] = []
    resets: list[int] = []
    table.dataChanged.connect(lambda first, _last: changed.append(first.row()))
    table.modelReset.connect(lambda: resets.append(1))
    table.set_rows(rows(semaphore(0, 1, wait(">=", 9)), semaphore(1, 2)))
    resets.clear()
    table.set_rows(rows(semaphore(0, 1, wait(">=", 9)), semaphore(1, 3)))
    assert (changed, resets) == ([1], [])
    table.set_rows(rows(semaphore(0, 1), semaphore(1, 3)))
    assert resets == [1], "the order may be another one"
    assert table.rowCount(QModelIndex()) == 2


class _Config:
    def getini(self, _name: str) -> str:
        return ""


def test_rows_are_what_the_machine_says(stage: Stage) -> None:
    session = stage.open_toy(run_to=1)
    panel = panel_of(stage)
    machine = session.machine
    assert isinstance(machine, HasSemaphores)
    units = [unit.name for unit in session.description.units]
    waits = 0
    for _ in range(200):
        session.step()
        stage.stepped()
        expected = {
            (state.name, state.value, units[w.unit].removeprefix("Core[0]."), w.needed)
            for state in machine.semaphores()
            for w in state.waiting
        }
        shown = {
            (row.state.name, row.state.value, row.unit, row.wait.needed)
            for row in panel.table.rows
            if row.wait is not None
        }
        assert shown == expected
        assert [row.wait is None for row in panel.table.rows] == sorted(
            row.wait is None for row in panel.table.rows
        )
        waits += len(expected)
    assert waits > 50


def test_what_the_last_step_changed_is_marked(stage: Stage) -> None:
    session = stage.open_toy(run_to=50)
    panel = panel_of(stage)
    seen: set[bool] = set()
    before = {row.state.id: row.state for row in panel.table.rows}
    for _ in range(40):
        session.step()
        stage.stepped()
        for row in panel.table.rows:
            old = before[row.state.id]
            assert row.is_changed == ((old.value, old.waiting) != (row.state.value, row.state.waiting))
            seen.add(row.is_changed)
        kept = [row.is_changed for row in panel.table.rows]
        stage.moved()
        assert [row.is_changed for row in panel.table.rows] == kept, "the step is still the last one"
        before = {row.state.id: row.state for row in panel.table.rows}
    assert seen == {True, False}


def test_a_panel_that_missed_a_step_marks_nothing(stage: Stage) -> None:
    session = stage.open_toy(run_to=50)
    panel = panel_of(stage)
    for missed in range(1, 4):
        before = {row.state.id: (row.state.value, row.state.waiting) for row in panel.table.rows}
        session.step(20)
        # Verbs that ended while the panel was behind another one.
        stage.context.model.num_verbs += missed
        stage.stepped()
        after = {row.state.id: (row.state.value, row.state.waiting) for row in panel.table.rows}
        assert before != after
        assert not any(row.is_changed for row in panel.table.rows)


def test_a_click_selects_the_waiting_instruction(stage: Stage) -> None:
    stage.open_toy(run_to=20)
    panel = panel_of(stage)
    row = panel.table.rows[0]
    assert row.wait is not None
    panel.view.clicked.emit(panel.table.index(0, NAME))
    chosen = stage.context.selection.current
    assert (chosen.instruction, chosen.unit) == (row.wait.instruction, row.wait.unit)
    last = len(panel.table.rows) - 1
    panel.view.clicked.emit(panel.table.index(last, NAME))
    updater = panel.table.rows[last].state.updater
    assert stage.context.selection.current.instruction == (updater if updater >= 0 else chosen.instruction)


def test_selecting_a_unit_elsewhere_marks_its_wait(stage: Stage) -> None:
    stage.open_toy(run_to=20)
    panel = panel_of(stage)
    waiting = panel.table.rows[1]
    assert waiting.wait is not None
    panel.on_selection_changed(Selection(unit=waiting.wait.unit))
    assert [index.row() for index in panel.view.selectionModel().selectedRows()] == [1]
    panel.on_selection_changed(NOTHING)
    assert not panel.view.selectionModel().selectedRows()


def test_the_filter_keeps_rows_by_any_name(stage: Stage) -> None:
    stage.open_toy(run_to=20)
    panel = panel_of(stage)
    panel.filter.setText("store")
    assert {row.state.name for row in panel.table.rows} == {"stored", "computed"}, "STORE waits for computed"
    panel.filter.setText("nothing has this name")
    assert not panel.table.rows


def test_a_deadlock_is_said(bench: Bench) -> None:
    panel = bench.make(SemaphoresPanel)
    bench.open_toy(8, stuck_at=9)
    bench.do(bench.model.run)
    assert panel.summary.text().startswith("deadlock: 2 of 3")
    assert [panel.table.index(place, UNIT).data() for place in range(2)] == ["ST", "LD"]
    bench.do(bench.model.step_back)
    assert "deadlock" not in panel.summary.text()


def test_csv_and_picture(stage: Stage) -> None:
    stage.panel.grab()
    stage.open_toy(run_to=20)
    panel = panel_of(stage)
    lines = csv_of(panel.view).splitlines()
    assert lines[0].startswith("Semaphore,Value,Waited for,Who waits")
    assert len(lines) == 1 + len(panel.table.rows)
    assert panel.table.index(0, NEEDED).data() in lines[1].replace('"', "")
    picture = stage.panel.grab().toImage()
    colors = {picture.pixelColor(x, y).rgb() for x in range(0, 500, 3) for y in range(0, 100, 3)}
    assert len(colors) > 4


def test_while_running_the_machine_is_not_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    session = stage.open_toy(run_to=50)
    panel = panel_of(stage)
    before = panel.table.rows
    session.step(30)
    monkeypatch.setattr(type(stage.context.model), "is_running", property(lambda _self: True))
    stage.moved()
    assert panel.table.rows == before
