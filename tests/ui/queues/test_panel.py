"""The queues panel on the toy machine."""

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QLabel, QTableView
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from npuviz.sim.machine import QueueEntry
from npuviz.ui.kit.table_view import csv_of
from npuviz.ui.queues.entries import EntryTable
from npuviz.ui.queues.panel import SPEC, QueuesPanel
from npuviz.ui.queues.table import (
    NAME,
    OCCUPANCY,
    PEAK,
    STATE_ROLE,
    History,
    QueueGroup,
    QueueState,
    QueueTable,
)
from tests.ui.panel_stage import Stage


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> QueuesPanel:
    assert isinstance(stage.panel, QueuesPanel)
    return stage.panel


def state(number: int, occupancy: int, *texts: str, changed: bool = False) -> QueueState:
    entries = tuple(QueueEntry(text) for text in texts)
    return QueueState(number, f"Q{number}", occupancy, 4, 3, entries, changed)


def test_numbers_are_those_of_the_machine(stage: Stage) -> None:
    session = stage.open_toy(run_to=200)
    panel = panel_of(stage)
    for _ in range(30):
        session.step()
        stage.stepped()
        for queue, shown in zip(session.description.queues, panel.table.states, strict=True):
            entries = tuple(session.machine.queue_entries(queue.id))
            assert shown.entries == entries
            assert shown.occupancy == session.machine.read(queue.probe) == len(entries)
            assert shown.capacity == queue.capacity
            assert shown.occupancy <= shown.peak


def test_what_the_last_step_changed_is_marked_until_the_next(stage: Stage) -> None:
    session = stage.open_toy(run_to=100)
    panel = panel_of(stage)
    marked = unmarked = 0
    before = [tuple(session.machine.queue_entries(q.id)) for q in session.description.queues]
    for _ in range(60):
        session.step()
        stage.stepped()
        now = [shown.entries for shown in panel.table.states]
        assert [shown.is_changed for shown in panel.table.states] == [
            a != b for a, b in zip(before, now, strict=True)
        ]
        kept = [shown.is_changed for shown in panel.table.states]
        stage.moved()
        assert [shown.is_changed for shown in panel.table.states] == kept, "the step is still the last one"
        marked += sum(kept)
        unmarked += len(kept) - sum(kept)
        before = now
    assert marked
    assert unmarked


def test_only_changed_rows_are_announced(qtbot: QtBot) -> None:
    table = QueueTable(lambda _row: None)
    table.set_states([state(0, 1, "a"), state(1, 2, "b", "c"), state(2, 0)])
    ModelTester(_Config()).check(table)
    changed: list[tuple[int, int]] = []
    resets: list[int] = []
    table.dataChanged.connect(lambda first, last: changed.append((first.row(), last.row())))
    table.modelReset.connect(lambda: resets.append(1))
    table.set_states([state(0, 1, "a"), state(1, 1, "c"), state(2, 0)])
    assert set(changed) == {(1, 1)}
    assert not resets
    table.set_states([state(0, 1, "a")])
    assert resets == [1]
    assert table.data(table.index(0, NAME)) == "Q0"
    assert table.data(table.index(0, OCCUPANCY)) == "1 / 4"
    assert table.data(table.index(0, PEAK)) == "3"


def test_many_queues_are_grouped_and_fold(qtbot: QtBot) -> None:
    table = QueueTable(lambda _place: None)
    ModelTester(_Config()).check(table)
    states = [state(i, i % 3, changed=i == 20) for i in range(32)]
    table.set_groups([f"Core[{i // 16}]" for i in range(32)], ["Core[0]", "Core[1]"])
    table.set_states(states)
    assert table.rowCount(QModelIndex()) == 2
    head = table.index(0, NAME).data(STATE_ROLE)
    assert isinstance(head, QueueGroup)
    assert head.occupancy == sum(s.occupancy for s in states[:16])
    assert head.num_busy == sum(s.occupancy > 0 for s in states[:16])
    assert not head.is_changed
    other = table.index(1, NAME).data(STATE_ROLE)
    assert isinstance(other, QueueGroup)
    assert other.is_changed
    assert table.row_of(17) == 1, "a queue that cannot be seen is where its group is"
    table.toggle(1)
    assert table.rowCount(QModelIndex()) == 18
    assert table.place_at(1) is None
    assert table.place_at(2) == 16
    assert table.row_of(17) == 3
    changed: list[int] = []
    table.dataChanged.connect(lambda first, _last: changed.append(first.row()))
    table.set_states([*states[:17], state(17, 4, "x"), *states[18:]])
    assert set(changed) == {1, 3}, "the queue and the head of its group"


def test_a_group_is_folded_by_a_click(stage: Stage) -> None:
    session = stage.open_toy(run_to=200)
    panel = panel_of(stage)
    panel.table.set_groups(["a", "b"])
    stage.moved()
    assert panel.table.rowCount(QModelIndex()) == 4
    panel.view.clicked.emit(panel.table.index(0, NAME))
    assert panel.table._folded == {"a"}
    assert panel.table.rowCount(QModelIndex()) == 3
    session.step()
    stage.moved()
    assert len(panel.table.states) == 2, "what is folded goes on being watched"
    panel.grab()
    panel.view.clicked.emit(panel.table.index(0, NAME))
    assert panel.table._folded == frozenset()


class _Config:
    def getini(self, _name: str) -> str:
        return ""


def test_entries_come_and_go_at_the_tail(qtbot: QtBot) -> None:
    table = EntryTable()
    ModelTester(_Config()).check(table)
    events: list[str] = []
    table.rowsInserted.connect(lambda _p, first, last: events.append(f"+{first}-{last}"))
    table.rowsRemoved.connect(lambda _p, first, last: events.append(f"-{first}-{last}"))
    table.dataChanged.connect(lambda first, last: events.append(f"~{first.row()}-{last.row()}"))
    a, b, c = QueueEntry("a"), QueueEntry("b", 7, 1), QueueEntry("c")
    table.set_entries([a, b], ["n0", "n1"])
    assert events == ["+0-1"]
    table.set_entries([b, c], ["n0", "n1"])
    assert events == ["+0-1", "~0-0", "~1-1"]
    table.set_entries([b], ["n0", "n1"])
    assert events[3:] == ["-1-1"]
    assert [table.index(0, c).data() for c in range(4)] == ["0", "b", "7", "n1"]
    table.set_entries([], [])
    assert table.rowCount(QModelIndex()) == 0


def test_history_is_that_of_the_counter_around_the_cursor(stage: Stage) -> None:
    session = stage.open_toy(run_to=500)
    session.go_to(300)
    stage.moved()
    from npuviz.ui.queues.table import HISTORY, HISTORY_ROLE

    panel = panel_of(stage)
    found = panel.table.index(0, HISTORY).data(HISTORY_ROLE)
    assert isinstance(found, History)
    assert session.trace is not None
    _c, low, high, _l = session.trace.counter(3, (100, 500), len(found.high))
    assert np.array_equal(found.high, high)
    assert np.array_equal(found.low, low)
    assert found.cursor == pytest.approx(0.5)


def test_entry_selects_its_instruction(stage: Stage, qtbot: QtBot) -> None:
    session = stage.open_toy(run_to=100)
    panel = panel_of(stage)
    while not any(shown.entries for shown in panel.table.states):
        session.step()
        stage.stepped()
    row = next(row for row, shown in enumerate(panel.table.states) if shown.entries)
    panel.view.selectRow(row)
    head = panel.table.states[row].entries[0]
    assert panel.entries.rows[0][1] == head
    panel.activateWindow()
    panel.entry_view.setFocus(Qt.FocusReason.OtherFocusReason)
    qtbot.waitUntil(panel.entry_view.hasFocus)
    panel.entry_view.selectRow(0)
    assert stage.context.selection.current.instruction == (
        head.instruction if head.instruction >= 0 else None
    )
    assert stage.context.selection.current.node == (head.node if head.node >= 0 else None)


def test_a_queue_that_holds_something_is_shown_until_another_is_asked_for(stage: Stage) -> None:
    session = stage.open_toy()
    panel = panel_of(stage)
    note = panel.entry_view.viewport().findChild(QLabel, "queues.none")
    assert isinstance(note, QLabel)
    seen = set[str]()
    for _ in range(200):
        session.step()
        stage.stepped()
        (row,) = panel.view.selectionModel().selectedRows()
        place = panel.table.place_at(row.row())
        assert place is not None
        chosen = panel.table.states[place]
        assert bool(chosen.entries) == any(state.entries for state in panel.table.states)
        assert note.isVisible() == (not chosen.entries)
        assert note.text() == f"{chosen.name} is empty"
        seen.add(chosen.name)
    assert len(seen) > 1
    empty = next(row for row, shown in enumerate(panel.table.states) if not shown.entries)
    panel.activateWindow()
    panel.view.setFocus(Qt.FocusReason.OtherFocusReason)
    panel.view.selectRow(empty)
    for _ in range(50):
        session.step()
        stage.stepped()
        assert [row.row() for row in panel.view.selectionModel().selectedRows()] == [empty]


def test_csv_has_titles_and_plain_numbers(stage: Stage) -> None:
    stage.open_toy(run_to=200)
    panel = panel_of(stage)
    lines = csv_of(panel.view).splitlines()
    assert lines[0].startswith("Queue,Entries / capacity,Peak")
    assert len(lines) == 1 + len(panel.table.states)
    assert "\u2009" not in "".join(lines)


def test_while_running_the_machine_is_not_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    session = stage.open_toy(run_to=50)
    panel = panel_of(stage)
    before = panel.table.states
    session.step(30)
    monkeypatch.setattr(type(stage.context.model), "is_running", property(lambda _self: True))
    stage.moved()
    assert panel.table.states == before


def test_it_paints_in_every_state(stage: Stage) -> None:
    stage.panel.grab()
    stage.open_toy(run_to=200)
    picture = stage.panel.grab().toImage()
    assert isinstance(panel_of(stage).view, QTableView)
    colors = {picture.pixelColor(x, y).rgb() for x in range(0, 500, 3) for y in range(0, 80, 3)}
    assert len(colors) > 3
