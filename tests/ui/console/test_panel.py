from PySide6.QtCore import Qt

from npuviz.ui.console.panel import NOT_HERE, ConsolePanel
from tests.ui.panel_bench import Bench, bench, pixels

__all__ = ["bench"]


def type_line(bench: Bench, panel: ConsolePanel, text: str) -> str:
    """Type a command and return what it appended."""
    before = panel.output.toPlainText()
    panel.line.setText(text)
    bench.do(lambda: bench.qtbot.keyClick(panel.line, Qt.Key.Key_Return))
    return panel.output.toPlainText()[len(before) :]


def test_commands_move_the_session_of_the_window(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    session = bench.open_toy()
    answer = type_line(bench, panel, "goto 120")
    assert session.cycle == 120
    assert "120" in answer
    type_line(bench, panel, "break cycle == 150")
    assert [b.text for b in session.breakpoints.all] == ["cycle == 150"]
    type_line(bench, panel, "run")
    assert session.cycle == 150
    assert bench.model.stop is not None
    assert bench.model.stop.cycle == 150


def test_mistakes_are_answered_and_quit_is_refused(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    session = bench.open_toy()
    assert "error" in type_line(bench, panel, "frobnicate")
    assert NOT_HERE in type_line(bench, panel, "quit")
    assert bench.model.session is session
    assert type_line(bench, panel, "   ") == ""


def test_history_comes_back_with_the_arrows(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    bench.open_toy()
    type_line(bench, panel, "step 2")
    type_line(bench, panel, "step 3")
    bench.qtbot.keyClick(panel.line, Qt.Key.Key_Up)
    bench.qtbot.keyClick(panel.line, Qt.Key.Key_Up)
    assert panel.line.text() == "step 2"
    bench.qtbot.keyClick(panel.line, Qt.Key.Key_Down)
    assert panel.line.text() == "step 3"
    assert panel.save_state() == {"history": ["step 2", "step 3"]}
    panel.restore_state({"history": 3})
    assert panel.save_state() == {"history": []}


def test_empty_states(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    assert not panel.line.isVisible()
    session = bench.open_toy()
    assert panel.line.isVisible()
    bench.open_bundle_of(session)
    assert not panel.line.isVisible()
    bench.model.close()
    pixels(panel)
