"""A line for breakpoint conditions: completes words, and marks errors where they are."""

from collections.abc import Callable
from html import escape

from PySide6.QtCore import QModelIndex, QStringListModel, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QCompleter, QLabel, QLineEdit, QListView, QWidget

from npuviz.base.errors import ConditionError
from npuviz.ui.breakpoints.condition_words import ConditionWords
from npuviz.ui.kit.parts import fill
from npuviz.ui.theme.theme import Theme

CHECK_MS = 250


class _CompletingLine(QLineEdit):
    """Completes the word at the end of the text: Tab takes the first proposal, Enter the chosen one."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.words = ConditionWords()
        self._start = 0
        self._offered = QStringListModel(self)
        self._completer = QCompleter(self._offered, self)
        self._completer.setWidget(self)
        self._completer.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        self._popup = QListView()
        self._completer.setPopup(self._popup)
        self._completer.activated.connect(self._take)
        self.textEdited.connect(self._offer)

    def _offer(self, text: str) -> None:
        if self.cursorPosition() < len(text):
            self._popup.hide()
            return
        self._start, found = self.words.offers(text)
        self._offered.setStringList(found)
        if found:
            self._completer.complete()
            # Qt chooses the first word, and Enter would take it even if the condition is already complete.
            self._popup.setCurrentIndex(QModelIndex())
        else:
            self._popup.hide()

    def _take(self, word: str) -> None:
        self.setText(f"{self.text()[: self._start]}{word} ")
        self.textEdited.emit(self.text())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        popup = self._popup
        taking = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab)
        if popup.isVisible() and event.key() in taking and popup.currentIndex().isValid():
            event.ignore()  # the completer takes the word
            return
        if popup.isVisible() and event.key() == Qt.Key.Key_Tab:
            popup.hide()
            self._take(self._offered.stringList()[0])
            return
        if event.key() == Qt.Key.Key_Down and not popup.isVisible():
            self._offer(self.text())
            return
        if event.key() in taking:
            popup.hide()
        super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if not self._popup.isVisible():
            self._popup.hide()


class ConditionLine(QWidget):
    """A line with an error message below it.

    accepted  a text for which `check` did not raise
    check     raises ConditionError for a text that is no condition
    """

    accepted = Signal(str)

    def __init__(self, theme: Theme, check: Callable[[str], object], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._check = check
        self.line = _CompletingLine(self)
        self.line.setPlaceholderText("Add a breakpoint: cycle == 1000, op conv1, queue \u2026")
        self.line.setAccessibleName("New breakpoint condition")
        self.line.setClearButtonEnabled(True)
        self.line.returnPressed.connect(self._accept)
        self.line.textChanged.connect(self._schedule)
        self.message = QLabel(self, wordWrap=True, textFormat=Qt.TextFormat.RichText)
        self.message.hide()
        self._timer = QTimer(self, singleShot=True, interval=CHECK_MS)
        self._timer.timeout.connect(self.validate)
        fill(self, self.line, self.message, margins=(4, 2, 4, 2), spacing=2)

    def set_words(self, words: ConditionWords) -> None:
        """Use other words for completion."""
        self.line.words = words

    def set_text(self, text: str) -> None:
        """Put a text into the line, focus it and check the text."""
        self.line.setText(text)
        self.line.setFocus(Qt.FocusReason.OtherFocusReason)
        self.validate()

    def validate(self) -> bool:
        """Check the text and show the error, if any; return whether it can be accepted."""
        text = self.line.text().strip()
        if not text:
            self.message.hide()
            return False
        try:
            self._check(text)
        except ConditionError as error:
            self.message.setText(self._explain(error))
            self.message.show()
            return False
        self.message.hide()
        return True

    def _explain(self, error: ConditionError) -> str:
        """Return, as HTML, the condition with its wrong part marked, and the reason."""
        start, end = error.span
        color = self._theme.color("error").name()
        bad = escape(error.text[start:end]) or "\u2038"
        marked = (
            f'{escape(error.text[:start])}<span style="color:{color};text-decoration:underline">{bad}</span>'
            f"{escape(error.text[end:])}"
        )
        return f'<code>{marked}</code><br><span style="color:{color}">{escape(error.reason)}</span>'

    def _schedule(self, text: str) -> None:
        self._timer.start()
        if not text.strip():
            self.message.hide()

    def _accept(self) -> None:
        self._timer.stop()
        text = self.line.text().strip()
        if self.validate():
            self.line.clear()
            self.accepted.emit(text)
