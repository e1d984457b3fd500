"""The console panel: commands of the text debugger, or Python, on the session of the window."""

import io
import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QObject, QStringListModel, Signal
from PySide6.QtGui import QKeyEvent, Qt, QTextCursor
from PySide6.QtWidgets import (
    QCompleter,
    QLineEdit,
    QPlainTextEdit,
)

from npuviz.base.errors import Cancelled
from npuviz.base.progress import Progress
from npuviz.debug.console.commands import BY_WORD
from npuviz.debug.console.debugger import QUIT, TextDebugger
from npuviz.debug.session import Session
from npuviz.sim.stop import StopReason
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import choice, column, line, muted_label

if TYPE_CHECKING:
    from npuviz.api.interpreter import PythonPrompt

NO_SESSION = "Open a model to type commands of the text debugger here: step, goto, break, print, who, why."
MAX_BLOCKS = 5000
MAX_HISTORY = 200
DEBUGGER, PYTHON = "Debugger", "Python"
EXAMPLES = {
    DEBUGGER: "step 10, goto 1200, print Core[0].LD.occupancy \u2026",
    PYTHON: 's.units, s.why("Core[0].EX", 900), s.tensor("conv1").max() \u2026',
}
HINTS = {
    DEBUGGER: "help lists the commands",
    PYTHON: "s is the session, as npuviz.open gives it; np is numpy. Tab completes, Esc stops.",
}
NOT_HERE = "error: close the file (Ctrl+W) or the window to end the session"


class ConsolePanel(Panel):
    """A line for commands, and their output. Commands run on the worker thread, one at a time."""

    _answered = Signal(str)

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._history: list[str] = []
        self._place = 0
        self._python: PythonPrompt | None = None
        self.output = QPlainTextEdit(self, readOnly=True, maximumBlockCount=MAX_BLOCKS)
        self.output.setFont(context.theme.font_mono())
        self.output.setFrameShape(QPlainTextEdit.Shape.NoFrame)
        self.output.setStyleSheet("QPlainTextEdit, QPlainTextEdit:focus { border: none; border-radius: 0; }")
        self.output.setAccessibleName("Answers of the console")
        self.line = QLineEdit(self)
        self.line.setFont(context.theme.font_mono())
        self.line.setAccessibleName("Command")
        self.line.installEventFilter(self)
        self._words = QStringListModel(sorted(BY_WORD), self)
        completer = QCompleter(self._words, self)
        completer.setCompletionMode(QCompleter.CompletionMode.InlineCompletion)
        self.line.setCompleter(completer)
        self.line.returnPressed.connect(self._accept)
        self.language = choice(self, "Language of the console", "console.language", self._language_changed)
        self._answered.connect(self._append)
        self._lay_out()
        self.on_session_changed()

    def _lay_out(self) -> None:
        self._prompt = muted_label(self, "console.prompt", "\u203a")
        self._prompt.setFont(self.theme.font_mono())
        row = line(self._prompt, (self.line, 1), self.language, margins=(8, 2, 4, 4))
        self.set_pages(self.invitation(NO_SESSION), column((self.output, 1), row, parent=self))
        self.language.addItems([DEBUGGER, PYTHON])

    # -- hooks --------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self.output.clear()
        self._python = None
        self._show_prompt()
        self.show_page(self.model.session is not None)

    def on_running_changed(self, running: bool) -> None:
        had_focus = self.line.hasFocus()
        self.line.setReadOnly(running)
        if had_focus:
            self.line.setFocus()

    def save_state(self) -> dict[str, Any]:
        return {"history": self._history[-MAX_HISTORY:], "language": self.language.currentText()}

    def restore_state(self, state: dict[str, Any]) -> None:
        kept = state.get("history", [])
        self._history = [line for line in kept if isinstance(line, str)] if isinstance(kept, list) else []
        self._place = len(self._history)
        self.language.setCurrentIndex(max(0, self.language.findText(str(state.get("language")))))

    # -- languages ------------------------------------------------------------------------------------

    @property
    def is_python(self) -> bool:
        """Whether lines are Python, not commands of the text debugger."""
        return self.language.currentText() == PYTHON

    def _language_changed(self) -> None:
        chosen = self.language.currentText()
        self.line.setPlaceholderText(EXAMPLES.get(chosen, ""))
        self.output.setPlaceholderText(HINTS.get(chosen, ""))
        if self._python is not None:
            self._python.drop()
        self._words.setStringList([] if self.is_python else sorted(BY_WORD))
        self._show_prompt()

    def _show_prompt(self) -> None:
        is_continued = self._python is not None and self._python.is_continued
        self._prompt.setText(("..." if is_continued else ">>>") if self.is_python else "\u203a")

    def _prompt_of(self) -> "PythonPrompt | None":
        """Return the Python prompt of the open session, made when first used; None if nothing is open."""
        if self._python is None and self.model.opened is not None:
            from npuviz.api.interpreter import PythonPrompt

            self._python = PythonPrompt(self.model.opened)
        return self._python

    def _complete(self) -> bool:
        """Complete the name before the caret as far as it is unambiguous, else list the completions."""
        text = self.line.text()[: self.line.cursorPosition()]
        prompt, found = self._prompt_of(), re.search(r"[A-Za-z_][\w.]*$", text)
        if prompt is None or found is None or self.model.is_running:
            return False
        name = found.group()
        names = prompt.completions(name)
        # In sorted order, the common beginning of the first and the last is common to all.
        ends = zip(names[0], names[-1], strict=False) if names else ()
        common = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], ends))
        if len(common) > len(name):
            self.line.insert(common[len(name) :])
        elif len(names) > 1:
            self._append("  ".join(each.rpartition(".")[2] for each in names), is_line=True)
        return bool(names)

    def run_python(self, text: str) -> None:
        """Run a line of Python; its output is appended when it has ended."""
        prompt = self._prompt_of()
        if prompt is None:
            return
        self._append(f"{self._prompt.text()} {text}", is_line=True)

        def work(session: Session, progress: Progress) -> StopReason:
            try:
                self._answered.emit(prompt.push(text, lambda: progress.report(-1.0, "Python")))
            except Cancelled:
                self._answered.emit("stopped")
            return session.stop

        self.model.perform("Running Python", work)

    # -- commands -------------------------------------------------------------------------------------

    def execute(self, line: str) -> None:
        """Run one command; its output is appended when it has ended."""
        self._append(f"\u203a {line}")
        if line.split()[0] in QUIT:
            self._append(NOT_HERE)
            return

        def work(session: Session, _progress: Progress) -> StopReason:
            out = io.StringIO()
            TextDebugger(session, out).execute(line)
            self._answered.emit(out.getvalue().rstrip("\n"))
            return session.stop

        self.model.perform(line, work)

    def _accept(self) -> None:
        text = self.line.text().rstrip() if self.is_python else self.line.text().strip()
        is_due = bool(text) or (self._python is not None and self._python.is_continued)
        if not is_due or self.model.is_busy or self.model.session is None:
            return
        if text and (not self._history or self._history[-1] != text):
            self._history = [*self._history, text][-MAX_HISTORY:]
        self._place = len(self._history)
        self.line.clear()
        if self.is_python:
            self.run_python(text)
        else:
            self.execute(text)

    def _append(self, text: str, is_line: bool = False) -> None:
        if not is_line:
            self._show_prompt()
        if text:
            self.output.appendPlainText(text)
            self.output.moveCursor(QTextCursor.MoveOperation.End)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.line and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()))
            if Qt.Key(event.key()) == Qt.Key.Key_Tab and self.is_python and self._complete():
                return True
            if step is not None:
                self._place = min(max(0, self._place + step), len(self._history))
                self.line.setText(self._history[self._place] if self._place < len(self._history) else "")
                return True
        return super().eventFilter(watched, event)


SPEC = PanelSpec("console", "Console", "mdi6.console-line", "bottom", 3, (), ConsolePanel)
