from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester

from npuviz.program.program import Note
from npuviz.sim.stop import StopKind, StopReason
from npuviz.ui.log.panel import LogPanel
from npuviz.ui.log.table import CODE, MAX_ENTRIES, MESSAGE, LogEntry, LogFilter, LogTable
from npuviz.ui.shell.commands.run import stop_text
from npuviz.workbench.opening import Opened, OpenOptions
from tests.toy.session import make_session
from tests.ui.panel_bench import Bench, bench, pixels

__all__ = ["bench"]


def texts(panel: LogPanel) -> list[str]:
    return [panel.rows.data(panel.rows.index(row, MESSAGE)) for row in range(panel.rows.rowCount())]


def test_table_is_bounded_and_keeps_the_newest(qtbot: object) -> None:
    table = LogTable()
    table.add([LogEntry("info", "n", str(i)) for i in range(MAX_ENTRIES)])
    table.add([LogEntry("info", "n", "last")])
    assert table.rowCount() == MAX_ENTRIES
    assert (table.rows[0].text, table.rows[-1].text) == ("1", "last")
    table.add([LogEntry("info", "n", str(i)) for i in range(MAX_ENTRIES + 3)])
    assert table.rowCount() == MAX_ENTRIES
    assert table.rows[0].text == "3"


def test_table_keeps_the_rules_of_models(qtbot: object) -> None:
    table = LogTable()
    tester = QAbstractItemModelTester(table, QAbstractItemModelTester.FailureReportingMode.Fatal)
    table.add([LogEntry("info", "n", str(i)) for i in range(5)])
    table.add([])
    table.reset([])
    table.add([LogEntry("error", "n", "x")])
    assert table.rowCount() == 1
    del tester


def test_filter_by_severity_and_text(qtbot: object) -> None:
    table = LogTable()
    table.add(
        [
            LogEntry("info", "assumed", "Alpha"),
            LogEntry("error", "failed", "beta"),
            LogEntry("stop", "x", "gamma"),
        ]
    )
    shown = LogFilter(table)
    shown.show_severity("error", False)
    assert [shown.entry(shown.index(r, 0)).text for r in range(shown.rowCount())] == ["Alpha", "gamma"]
    shown.show_text("ALP")
    assert [shown.entry(shown.index(r, 0)).text for r in range(shown.rowCount())] == ["Alpha"]
    shown.show_text("")
    shown.show_severity("error", True)
    assert shown.rowCount() == 3


def test_notes_of_the_program_come_first(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    assert not panel.view.isVisible()
    bench.open_toy()
    assert panel.view.isVisible()
    assert "every latency of the toy machine is invented" in texts(panel)
    codes = [panel.rows.data(panel.rows.index(row, CODE)) for row in range(panel.rows.rowCount())]
    assert codes == ["open", "assumed"]
    bench.model.close()
    assert not panel.view.isVisible()
    pixels(panel)


def test_collects_while_it_cannot_be_seen(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    panel.hide()
    bench.open_toy()
    bench.do(bench.model.run)
    panel.show()
    assert any(entry.code == "finished" for entry in panel.table.rows)


def test_stops_are_told_steps_are_not(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    session = bench.open_toy()
    before = panel.table.rowCount()
    bench.do(bench.model.step)
    assert panel.table.rowCount() == before
    session.breakpoints.add("cycle == 50")
    bench.do(bench.model.run)
    last = panel.table.rows[-1]
    assert (last.severity, last.code, last.cycle) == ("stop", "breakpoint", 50)
    assert "cycle == 50" in last.text


def test_a_fault_is_an_error(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    bench.open_toy(fault_at=9)
    bench.do(bench.model.run)
    faults = [e for e in panel.table.rows if e.severity == "error"]
    assert len(faults) == 1
    assert faults[0].code == StopKind.FAULT.value


def test_a_hang_is_an_error(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    bench.open_toy()
    bench.model.stop = StopReason(StopKind.HANG, 7, unit="Core[0].LD", detail="task 3 never ends")
    bench.model.running_changed.emit(False)
    last = panel.table.rows[-1]
    assert (last.severity, last.code, last.cycle) == ("error", "hang", 7)
    assert "task 3 never ends" in last.text


@pytest.mark.parametrize("kind", StopKind)
def test_every_stop_has_words(kind: StopKind) -> None:
    assert stop_text(kind, "because") == f"{stop_text(kind, '')}: because"


def test_failures_of_the_model_are_errors(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    bench.do(lambda: bench.model.open(Path("/no/such/file.toy")))
    errors = [e for e in panel.table.rows if e.severity == "error"]
    assert len(errors) == 1
    assert "/no/such/file.toy" in errors[0].text
    assert errors[0].details
    assert panel.view.isVisible()


def test_click_on_a_note_selects_its_operator(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    session = make_session()
    note = Note("warning", "host-operator", "mix runs on the host", node=2)
    noted = replace(session.program, notes=(note,))

    class Noted(type(session)):
        @property
        def program(self):
            return noted

    session.__class__ = Noted
    bench.model.show_opened(Opened(Path("t"), "toy", OpenOptions(), reader=session.trace, session=session))
    row = texts(panel).index("mix runs on the host")
    panel.view.clicked.emit(panel.rows.index(row, MESSAGE))
    assert bench.context.selection.current.node == 2
    assert panel.table.rows[row].severity == "warning"


def test_copies_selected_lines_or_all(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    bench.open_toy()
    panel.copy_selected()
    assert len(QGuiApplication.clipboard().text().splitlines()) == 2
    panel.view.selectRow(1)
    panel.copy_selected()
    assert (
        QGuiApplication.clipboard().text()
        == "info\t\tassumed\tevery latency of the toy machine is invented\n"
    )


def test_remembers_hidden_severities(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    panel.restore_state({"hidden": ["timing"]})
    bench.open_toy()
    assert panel.rows.rowCount() == 1
    assert panel.save_state() == {"hidden": ["timing"]}
    panel.restore_state({"hidden": 5})
    assert panel.rows.rowCount() == 2


def test_an_interrupted_run_says_so(bench: Bench) -> None:
    panel = bench.make(LogPanel)
    bench.open_toy()
    bench.model.stop = StopReason(StopKind.INTERRUPTED, 12)
    panel.on_running_changed(False)
    assert panel.table.rows[-1].code == "interrupted"
