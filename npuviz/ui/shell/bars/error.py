"""A line over the lower edge of the window that shows errors, notices and answers."""

from collections.abc import Callable, Iterable
from typing import Literal

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QFrame, QMainWindow, QPlainTextEdit, QWidget

from npuviz.ui.kit.elided_label import ElidedLabel
from npuviz.ui.kit.parts import fill, line, text_button
from npuviz.ui.theme.theme import GRID, Theme
from npuviz.workbench.advice import Failure

Severity = Literal["error", "notice"]
MAX_LINES = 10
"""Most lines of details that are visible without scrolling."""
PADDING = 2


class ErrorBar(QFrame):
    """Shows the latest message until it is dismissed.

    It covers the last line of the panels, so that nothing moves when it appears; details unfold upwards.
    """

    def __init__(self, theme: Theme, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self.setObjectName("error_bar")
        self._action: Callable[[], object] | None = None
        self._report = ""
        self._is_offer = False
        self._text = ElidedLabel()
        self._text.setObjectName("error_bar.text")
        self._fold = text_button(self, "Details", self._toggle_details)
        self._act = text_button(self, "", self._run_action)
        self._copy = text_button(self, "Copy report", self._copy_report)
        self._close = text_button(self, "Dismiss", self.dismiss)
        self._details = QPlainTextEdit(self, readOnly=True)
        self._details.setAccessibleName("Details of the message")
        self._details.setTabChangesFocus(True)
        self._details.setFont(theme.font_mono())
        tools = (self._act, self._fold, self._copy, self._close)
        lower = line((self._text, 1), *tools, margins=(0, 0, 0, 0), spacing=GRID)
        fill(self, (self._details, 1), lower, margins=(3 * GRID, PADDING, 2 * GRID, PADDING), spacing=GRID)
        self.hide()

    @property
    def text(self) -> str:
        """The message shown now, "" while hidden."""
        return "" if self.isHidden() else self._text.text()

    @property
    def details(self) -> str:
        """The text that the button Details unfolds."""
        return self._details.toPlainText()

    def show_message(
        self,
        text: str,
        details: str = "",
        severity: Severity = "error",
        action: tuple[str, Callable[[], object]] | None = None,
        report: str = "",
        is_offer: bool = False,
    ) -> None:
        """Replace the message; `action` is a button's title and function, `report` what "Copy report" copies.

        is_offer  hide the message when the user does something else: see `end_offer`
        """
        self._is_offer = is_offer
        self.setProperty("severity", severity)
        self.style().unpolish(self)
        self.style().polish(self)
        self._text.setText(text)
        self._text.setAccessibleName(f"{severity}: {text}")
        self._details.setPlainText(f"{text}\n\n{details}" if details else text)
        self._report = report
        self._copy.setVisible(bool(report))
        self._action = action[1] if action else None
        self._act.setText(action[0] if action else "")
        self._act.setVisible(action is not None)
        self._unfold(False)
        self.show()
        self.place()
        self._fold.setVisible(bool(details) or self._text.is_cut)
        self.raise_()

    def tell(
        self,
        text: str,
        action: tuple[str, Callable[[], object]] | None = None,
        details: str = "",
        *,
        is_offer: bool = False,
    ) -> None:
        """Show a notice; `is_offer`: hide it as soon as the machine moves."""
        self.show_message(text, details, "notice", action, is_offer=is_offer)

    def show_failure(self, failure: Failure) -> None:
        """Show an error with foldable details, and with a report if it is a fault of npuviz."""
        self.show_message(failure.text, failure.details, report=failure.report)

    def show_answer(self, text: str, details: str, title: str, act: Callable[[], object] | None) -> None:
        """Show the answer to a question of the user; `act`, if any, is run by a button called `title`."""
        self.show_message(text, details, "notice", (title, act) if act is not None else None)

    def stay_above(self, docks: Iterable[QWidget]) -> None:
        """Keep the bar above these docks when one of them is raised."""
        for dock in docks:
            dock.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ZOrderChange and not self.isHidden():
            self.raise_()
        return super().eventFilter(watched, event)

    def dismiss(self) -> None:
        """Hide the message; if it had the focus, give that to the window."""
        had_focus = self.isAncestorOf(self._window.focusWidget())
        self.hide()
        if had_focus:
            self._window.setFocus()

    def end_offer(self) -> None:
        """Hide the message if it is only an offer, because the user has started something else."""
        if self._is_offer:
            self.dismiss()

    def place(self) -> None:
        """Move to the lowest line above the status bar; the window calls this when its size changes."""
        if self.isHidden():
            return
        window, status = self._window, self._window.statusBar()
        bottom = status.y() if status.isVisible() else window.height()
        height = self._close.sizeHint().height() + 2 * PADDING
        if not self._details.isHidden():
            lines = min(self._details.document().blockCount() + 2, MAX_LINES)
            height += self._details.fontMetrics().lineSpacing() * lines + 4 * GRID
        self.setGeometry(0, max(bottom - height, 0), window.width(), min(height, bottom))
        layout = self.layout()
        if layout is not None:
            layout.activate()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def _toggle_details(self) -> None:
        self._unfold(self._details.isHidden())
        self.place()

    def _unfold(self, is_open: bool) -> None:
        self._details.setVisible(is_open)
        self._fold.setText("Hide details" if is_open else "Details")

    def _run_action(self) -> None:
        action = self._action
        self.dismiss()
        if action is not None:
            action()

    def _copy_report(self) -> None:
        QGuiApplication.clipboard().setText(self._report)
