"""The list of futures that writes replaced, driven with keys."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabWidget

from npuviz.ui.breakpoints.panel import BreakpointsPanel
from tests.toy.program import DRAM
from tests.ui.panel_bench import Bench, bench

__all__ = ["bench"]


def test_a_write_keeps_the_old_future_and_keys_lead_back(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    told: list[tuple[str, str]] = []
    bench.context.requests.told.connect(lambda text, details, _title, _show: told.append((text, details)))
    session = bench.open_toy()
    panel.findChild(QTabWidget, "breakpoints.tabs").setCurrentWidget(panel.branches)  # pyright: ignore[reportOptionalMemberAccess]
    bench.do(bench.model.run)
    end = session.cycle
    before = session.machine.digest()
    bench.do(lambda: bench.model.go_to(300))
    assert not panel.branches.table.rows
    bench.do(lambda: bench.model.write_memory(DRAM, 0x10, b"\xff"))
    assert [text for text, _ in told] == ["The future before that write is kept as branch 1."]
    (row,) = panel.branches.table.rows
    assert (row.id, row.writes, row.parts_at, row.known_to) == (1, "nothing written", 300, end)
    bench.do(bench.model.run)
    view = panel.branches.view
    view.setFocus()
    view.selectRow(0)
    bench.qtbot.keyClick(view, Qt.Key.Key_C)
    bench.do(lambda: None)
    assert told[-1][0].startswith("The present takes")
    assert "branch: 1" in told[-1][1]
    assert session.cycle == end
    bench.qtbot.keyClick(view, Qt.Key.Key_Return)
    bench.do(lambda: None)
    assert session.cycle == 300
    (row,) = panel.branches.table.rows
    assert row.writes == "DRAM 0x10, 1 B at 300"
    bench.do(bench.model.run)
    assert session.machine.digest() == before


def test_without_a_session_there_are_none(bench: Bench) -> None:
    panel = bench.make(BreakpointsPanel)
    bench.open_toy()
    bench.model.show_opened(None)
    bench.settle()
    assert not panel.branches.table.rows
    assert not panel.branches.view.isVisible()
