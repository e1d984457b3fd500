import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLabel, QPushButton

from npuviz.debug.condition.tokens import quoted
from npuviz.ui.breakpoints.condition_words import ConditionWords, examples, words_of
from npuviz.ui.breakpoints.panel import BreakpointsPanel
from npuviz.ui.breakpoints.table import BreakpointRow, BreakpointTable
from tests.ui.panel_bench import Bench, bench, pixels

__all__ = ["bench"]


@pytest.mark.parametrize(
    ("text", "start", "offered"),
    [
        ("", 0, {"cycle", "instr", "op", "queue", "read", "write", "unit", "not", "Core[0].LD.latency"}),
        ("o", 0, {"op"}),
        ("op ", 3, {'"final square"', "scale"}),
        ('op "fin', 3, {'"final square"'}),
        ("op scale ", 9, {"ends", "or", "and"}),
        ("queue ", 6, {"Core[0].ALU"}),
        ("write d", 6, {"DRAM", "Core[0].SPAD"}),
        ("cycle == 3 or rea", 14, {"read"}),
        ("op scale", 3, set()),
    ],
)
def test_offers_what_can_come_next(bench: Bench, text: str, start: int, offered: set[str]) -> None:
    session = bench.open_toy()
    words = words_of(session.program, session.description, session.machine.probes, session.fabric)
    found_start, found = words.offers(text)
    assert found_start == start
    assert offered <= set(found)
    assert bool(found) == bool(offered)
    assert ConditionWords().offers(text)[1] == []


def test_names_are_quoted_when_they_must_be() -> None:
    assert quoted("conv1") == "conv1"
    assert quoted("final square") == '"final square"'
    assert quoted("a>=b") == '"a>=b"'


def test_examples_can_be_set_as_they_are(bench: Bench) -> None:
    session = bench.open_toy()
    words = words_of(session.program, session.description, session.machine.probes)
    assert len(examples(words)) == 5
    for text in examples(words):
        session.breakpoints.add(text)
    for name in words.operators:
        session.breakpoints.add(f"op {name}")


def test_examples_are_readable_in_a_low_panel(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel, 300, 120)
    bench.open_toy()
    bench.settle()
    buttons = [b for b in panel._examples.findChildren(QPushButton) if not b.isHidden()]
    assert len(buttons) == 5
    assert min(button.height() for button in buttons) >= buttons[0].fontMetrics().height()
    (told,) = panel._examples.findChildren(QLabel)
    assert told.height() >= told.heightForWidth(told.width()), "all of its lines are seen"
    assert panel._examples.height() > panel._examples_area.viewport().height(), "the rest by scrolling"


def test_table_announces_exact_changes(qtbot: object) -> None:
    table = BreakpointTable()
    tester = QAbstractItemModelTester(table, QAbstractItemModelTester.FailureReportingMode.Fatal)
    resets: list[int] = []
    table.modelReset.connect(lambda: resets.append(1))
    rows = [BreakpointRow(i, f"cycle == {i}", True, 0, -1, False) for i in range(1, 5)]
    table.update_rows(rows)
    table.update_rows([rows[0], rows[2], rows[3]])
    table.update_rows([rows[0], rows[3], BreakpointRow(9, "instr 1", False, 2, 7, True)])
    assert [row.id for row in table.rows] == [1, 4, 9]
    assert not resets
    assert table.data(table.index(2, 0)) == "instr 1   (slow)"
    assert table.data(table.index(2, 0), Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Unchecked
    del tester


def test_empty_states(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    assert not panel.line.isVisible()
    session = bench.open_toy()
    assert panel.line.isVisible()
    assert not panel.view.isVisible()
    texts = [b.text() for b in panel.findChildren(QPushButton) if b.isVisible()]
    assert "cycle == 1000" in texts
    bench.open_bundle_of(session)
    assert not panel.line.isVisible()
    bench.model.close()
    pixels(panel)


def test_example_goes_into_the_line(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    session = bench.open_toy()
    button = next(b for b in panel.findChildren(QPushButton) if b.text() == "op shift")
    bench.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert panel.line.line.text() == "op shift"
    assert not session.breakpoints.all, "an example is offered, not set"
    bench.qtbot.keyClick(panel.line.line, Qt.Key.Key_Return)
    assert [b.text for b in session.breakpoints.all] == ["op shift"]
    assert panel.view.isVisible()


def test_wrong_condition_is_explained_and_kept(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    session = bench.open_toy()
    panel.line.line.setFocus()
    panel.line.line.setText("queue Core[7].ALU >= 2")
    bench.qtbot.keyClick(panel.line.line, Qt.Key.Key_Return)
    assert not session.breakpoints.all
    assert panel.line.line.text() == "queue Core[7].ALU >= 2"
    assert panel.line.message.isVisible()
    assert ">Core[7].ALU</span>" in panel.line.message.text(), "the bad part is marked"
    panel.line.line.setText("queue Core[0].ALU >= 2")
    assert panel.line.validate()
    assert not panel.line.message.isVisible()


def test_hits_last_hit_and_going_there(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    session = bench.open_toy()
    panel.add("cycle == 120")
    panel.add("Core[0].LD.latency > 100")
    bench.do(bench.model.run)
    assert session.cycle == 120
    first, second = panel.table.rows
    assert (first.hits, first.last_hit, first.is_slow) == (1, 120, False)
    assert (second.hits, second.last_hit, second.is_slow) == (0, -1, True)
    bench.do(bench.model.run)
    assert session.is_finished
    bench.do(lambda: panel.view.doubleClicked.emit(panel.table.index(0, 0)))
    assert session.cycle == 120


def test_box_switches_and_delete_deletes(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    session = bench.open_toy()
    for text in ("cycle == 10", "cycle == 20", "cycle == 30"):
        panel.add(text)
    index = panel.table.index(1, 0)
    assert panel.table.setData(index, Qt.CheckState.Unchecked.value, Qt.ItemDataRole.CheckStateRole)
    assert [b.enabled for b in session.breakpoints.all] == [True, False, True]
    panel.toggle_all()
    assert all(b.enabled for b in session.breakpoints.all)
    panel.toggle_all()
    assert not any(b.enabled for b in session.breakpoints.all)
    panel.view.selectRow(1)
    panel.delete_selected()
    assert [b.text for b in session.breakpoints.all] == ["cycle == 10", "cycle == 30"]
    assert panel.table.rowCount() == 2


def test_locked_while_the_machine_runs(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    session = bench.open_toy()
    panel.add("cycle == 10")
    panel.on_running_changed(True)
    buttons = (panel._all, panel._delete)
    assert not any(each.isEnabled() for each in (panel.line, *buttons))
    assert not panel.table.setData(panel.table.index(0, 0), 0, Qt.ItemDataRole.CheckStateRole)
    panel.on_running_changed(False)
    assert all(each.isEnabled() for each in (panel.line, *buttons))
    assert session.breakpoints.all[0].enabled
