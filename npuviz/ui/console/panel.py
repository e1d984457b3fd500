"""The commands of the text debugger, on the session of the window."""

import io
from typing import Any

from PySide6.QtCore import QEvent, QObject, QStringListModel, Signal
from PySide6.QtGui import QKeyEvent, Qt, QTextCursor
from PySide6.QtWidgets import (
    QCompleter,
    QLineEdit,
    QPlainTextEdit,
)

from npuviz.base.progress import Progress
from npuviz.debug.console.commands import BY_WORD
from npuviz.debug.console.debugger import QUIT, TextDebugger
from npuviz.debug.session import Session
from npuviz.sim.stop import StopReason
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import column, line, muted_label

NO_SESSION = "Open a model to type commands of the text debugger here: step, goto, break, print, who, why."
MAX_BLOCKS = 5000
MAX_HISTORY = 200
NOT_HERE = "error: close the file (Ctrl+W) or the window to end the session"


class ConsolePanel(Panel):
    """A line for commands, and what they answered. Commands run on the worker, one at a time."""

    _answered = Signal(str)

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._history: list[str] = []
        self._place = 0
        self.output = QPlainTextEdit(self, readOnly=True, maximumBlockCount=MAX_BLOCKS)
        self.output.setFont(context.theme.font_mono())
        self.output.setFrameShape(QPlainTextEdit.Shape.NoFrame)
        self.output.setStyleSheet("QPlainTextEdit, QPlainTextEdit:focus { border: none; border-radius: 0; }")
        self.output.setAccessibleName("Answers of the console")
        self.output.setPlaceholderText("help lists the commands")
        self.line = QLineEdit(self, placeholderText="step 10, goto 1200, print Core[0].LD.occupancy \u2026")
        self.line.setFont(context.theme.font_mono())
        self.line.setAccessibleName("Command")
        self.line.installEventFilter(self)
        completer = QCompleter(QStringListModel(sorted(BY_WORD), self), self)
        completer.setCompletionMode(QCompleter.CompletionMode.InlineCompletion)
        self.line.setCompleter(completer)
        self.line.returnPressed.connect(self._accept)
        self._answered.connect(self._append)
        self._lay_out()
        self.on_session_changed()

    def _lay_out(self) -> None:
        prompt = muted_label(self, text="\u203a")
        row = line(prompt, (self.line, 1), margins=(8, 2, 4, 4))
        self.set_pages(self.invitation(NO_SESSION), column((self.output, 1), row, parent=self))

    # -- hooks --------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self.output.clear()
        self.show_page(self.model.session is not None)

    def on_running_changed(self, running: bool) -> None:
        had_focus = self.line.hasFocus()
        self.line.setReadOnly(running)
        if had_focus:
            self.line.setFocus()

    def save_state(self) -> dict[str, Any]:
        return {"history": self._history[-MAX_HISTORY:]}

    def restore_state(self, state: dict[str, Any]) -> None:
        kept = state.get("history", [])
        self._history = [line for line in kept if isinstance(line, str)] if isinstance(kept, list) else []
        self._place = len(self._history)

    # -- commands -------------------------------------------------------------------------------------

    def execute(self, line: str) -> None:
        """Do one command; its answer is appended when it has ended."""
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
        text = self.line.text().strip()
        if not text or self.model.is_busy or self.model.session is None:
            return
        if not self._history or self._history[-1] != text:
            self._history = [*self._history, text][-MAX_HISTORY:]
        self._place = len(self._history)
        self.line.clear()
        self.execute(text)

    def _append(self, text: str) -> None:
        if text:
            self.output.appendPlainText(text)
            self.output.moveCursor(QTextCursor.MoveOperation.End)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.line and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()))
            if step is not None:
                self._place = min(max(0, self._place + step), len(self._history))
                self.line.setText(self._history[self._place] if self._place < len(self._history) else "")
                return True
        return super().eventFilter(watched, event)


SPEC = PanelSpec("console", "Console", "mdi6.console-line", "bottom", 3, (), ConsolePanel)
