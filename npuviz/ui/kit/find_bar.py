"""A search line that appears over a panel: text, previous, next, and what was found."""

from functools import partial

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit, QWidget

from npuviz.ui.kit.parts import add_keys, button, line, muted_label


class FindBar(QWidget):
    """A search line with two buttons and a status; hidden until `open_bar`.

    searched  (text, is_backward): the user wants the next or previous hit
    edited    the text changed
    closed    Esc: the owner takes the focus back
    """

    searched = Signal(str, bool)
    edited = Signal(str)
    closed = Signal()

    def __init__(self, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.line = QLineEdit(self, placeholderText=placeholder, clearButtonEnabled=True)
        self.line.setAccessibleName(placeholder)
        self.line.installEventFilter(self)
        self.line.textChanged.connect(self.edited.emit)
        self._status = muted_label(self)
        tools = [
            button(self, text, tip, lambda _checked=False, back=backward: self.ask(back))
            for text, tip, backward in (
                ("\u2191", "Previous hit (Shift+F3)", True),
                ("\u2193", "Next hit (F3)", False),
            )
        ]
        self.setLayout(line((self.line, 1), self._status, *tools, margins=(4, 2, 4, 2), spacing=4))
        self.hide()

    def listen(self, panel: QWidget) -> None:
        """Open on the panel's Find key, and search with F3 and Shift+F3 while the panel has the focus."""
        add_keys(
            panel,
            (
                (QKeySequence.StandardKey.Find, self.open_bar),
                ("F3", partial(self.ask, False)),
                ("Shift+F3", partial(self.ask, True)),
            ),
        )

    def open_bar(self) -> None:
        """Show the line and put the caret into it."""
        self.show()
        self.line.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.line.selectAll()

    def ask(self, backward: bool) -> None:
        """Emit `searched` with the text of the line; open the bar instead if the line is empty."""
        if self.line.text().strip():
            self.searched.emit(self.line.text(), backward)
        else:
            self.open_bar()

    def set_status(self, text: str) -> None:
        """Show a few words about what was found."""
        self._status.setText(text)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.line and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Escape:
                self.hide()
                self.closed.emit()
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.ask(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
                return True
        return super().eventFilter(watched, event)
