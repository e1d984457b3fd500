"""One quiet bar for what went wrong: text, an optional action, details behind a fold."""

from collections.abc import Callable
from typing import Literal

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QLabel, QPlainTextEdit, QWidget

from npuviz.ui.kit.parts import fill, line, text_button
from npuviz.ui.theme.theme import Theme

Severity = Literal["error", "notice"]
DETAILS_HEIGHT = 160


class ErrorBar(QFrame):
    """Shows the latest message until it is dismissed; whoever holds it follows `shown` and `closed`."""

    shown = Signal()
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("error_bar")
        self._action: Callable[[], object] | None = None
        self._is_shown = False
        self._text = QLabel(self, wordWrap=True)
        self._text.setObjectName("error_bar.text")
        self._text.setTextInteractionFlags(self._text.textInteractionFlags().TextSelectableByMouse)
        self._fold = text_button(self, "Details", self._toggle_details)
        self._act = text_button(self, "", self._run_action)
        self._copy = text_button(self, "Copy", self._copy_all)
        self._close = text_button(self, "Dismiss", self.dismiss)
        self._details = QPlainTextEdit(self, readOnly=True)
        self._details.setFont(theme.font_mono(11))
        tools = (self._act, self._fold, self._copy, self._close)
        upper = line((self._text, 1), *tools, margins=(0, 0, 0, 0), spacing=4)
        fill(self, upper, self._details, margins=(12, 4, 8, 4), spacing=4)

    @property
    def text(self) -> str:
        """The message shown now, "" while hidden."""
        return self._text.text() if self._is_shown else ""

    def show_message(
        self,
        text: str,
        details: str = "",
        severity: Severity = "error",
        action: tuple[str, Callable[[], object]] | None = None,
    ) -> None:
        """Replace the message; `action` is a title and what it does."""
        self.setProperty("severity", severity)
        self.style().unpolish(self)
        self.style().polish(self)
        self._text.setText(text)
        self._text.setAccessibleName(f"{severity}: {text}")
        self._details.setPlainText(details)
        lines = self._details.fontMetrics().lineSpacing() * (details.count("\n") + 1) + 24
        self._details.setFixedHeight(min(DETAILS_HEIGHT, lines))
        self._details.hide()
        self._fold.setText("Details")
        self._fold.setVisible(bool(details))
        self._copy.setVisible(severity == "error")
        self._action = action[1] if action else None
        self._act.setText(action[0] if action else "")
        self._act.setVisible(action is not None)
        self._is_shown = True
        self.shown.emit()

    def show_answer(self, text: str, details: str, title: str, act: Callable[[], object] | None) -> None:
        """Show the answer to a question of the user; `act`, if any, is what the button `title` does."""
        self.show_message(text, details, "notice", (title, act) if act is not None else None)

    def dismiss(self) -> None:
        """The message is done with."""
        self._is_shown = False
        self.closed.emit()

    def _toggle_details(self) -> None:
        shown = self._details.isHidden()
        self._details.setVisible(shown)
        self._fold.setText("Hide details" if shown else "Details")

    def _run_action(self) -> None:
        action = self._action
        self.dismiss()
        if action is not None:
            action()

    def _copy_all(self) -> None:
        details = self._details.toPlainText()
        QGuiApplication.clipboard().setText(self._text.text() + (f"\n\n{details}" if details else ""))
