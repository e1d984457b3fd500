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
    assert panel.save_state() == {"history": ["step 2", "step 3"], "language": "Debugger"}
    panel.restore_state({"history": 3, "language": "Cobol"})
    assert panel.save_state() == {"history": [], "language": "Debugger"}


def test_empty_states(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    assert not panel.line.isVisible()
    session = bench.open_toy()
    assert panel.line.isVisible()
    bench.open_bundle_of(session)
    assert not panel.line.isVisible()
    bench.model.close()
    pixels(panel)


def test_python_runs_on_the_session_of_the_window(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    session = bench.open_toy()
    panel.language.setCurrentText("Python")
    assert "42" in type_line(bench, panel, "6 * 7")
    assert "StopReason" in type_line(bench, panel, "s.goto(120)")
    assert session.cycle == 120
    assert "unit" in type_line(bench, panel, "s.units")  # an answer, as the debugger shows it
    type_line(bench, panel, "for i in range(3):")
    assert panel._prompt.text() == "..."
    type_line(bench, panel, "    print(i, s.step().cycle)")
    assert type_line(bench, panel, "").splitlines()[-3:] == ["0 121", "1 122", "2 123"]
    assert panel._prompt.text() == ">>>"
    assert session.cycle == 123


def test_mistakes_in_python_are_told_and_the_window_stays(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    session = bench.open_toy()
    panel.language.setCurrentText("Python")
    assert "ZeroDivisionError" in type_line(bench, panel, "1 / 0")
    assert "no unit 'nobody'" in type_line(bench, panel, "s.why('nobody')").replace("\n", " ")
    assert "SyntaxError" in type_line(bench, panel, "1 +* 2")
    assert "the window goes on" in type_line(bench, panel, "exit()")
    assert "Ctrl+W" in type_line(bench, panel, "s.close()")
    assert "EOFError" in type_line(bench, panel, "input()")
    assert bench.model.session is session
    type_line(bench, panel, "if True:")
    panel.language.setCurrentText("Debugger")
    assert "cycle: 1" in type_line(bench, panel, "step")


def test_python_without_an_end_is_stopped(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    bench.open_toy()
    panel.language.setCurrentText("Python")
    type_line(bench, panel, "n = 0")
    type_line(bench, panel, "while True: n += 1")
    bench.qtbot.keyClick(panel.line, Qt.Key.Key_Return)
    bench.qtbot.waitUntil(lambda: bench.model.is_running)
    bench.do(bench.model.pause)
    bench.qtbot.waitUntil(lambda: panel.output.toPlainText().endswith("stopped"))
    assert int(type_line(bench, panel, "n").splitlines()[-1]) > 0


def test_names_of_python_are_completed(bench: Bench) -> None:
    panel = bench.make(ConsolePanel)
    bench.open_toy()
    panel.language.setCurrentText("Python")
    panel.line.setFocus()
    bench.qtbot.keyClicks(panel.line, "x = s.resta")
    bench.qtbot.keyClick(panel.line, Qt.Key.Key_Tab)
    assert panel.line.text().startswith("x = s.restart")
    panel.line.setText("s.step")
    bench.qtbot.keyClick(panel.line, Qt.Key.Key_Tab)
    panel.line.setText("s.b")
    bench.qtbot.keyClick(panel.line, Qt.Key.Key_Tab)
    assert "back" in panel.output.toPlainText()
    assert "branches" in panel.output.toPlainText()
    assert panel.focusWidget() is panel.line
