"""A quiet search line that appears over a panel: text, previous, next, what was found."""

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QToolButton, QWidget


class FindBar(QWidget):
    """Hidden until `open_bar`.

    searched  (text, is_backward): the user wants the next or previous hit
    edited    the text changed
    closed    Esc: the owner takes the focus back
    """

    searched = Signal(str, bool)
    edited = Signal(str)
    closed = Signal()

    def __init__(self, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.line = QLineEdit(self)
        self.line.setPlaceholderText(placeholder)
        self.line.setAccessibleName(placeholder)
        self.line.setClearButtonEnabled(True)
        self.line.installEventFilter(self)
        self.line.textChanged.connect(self.edited.emit)
        self._status = QLabel(self)
        self._status.setProperty("role", "muted")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(4, 2, 4, 2)
        layout.setSpacing(4)
        layout.addWidget(self.line, 1)
        layout.addWidget(self._status)
        for text, tip, backward in (
            ("\u2191", "Previous hit (Shift+F3)", True),
            ("\u2193", "Next hit (F3)", False),
        ):
            button = QToolButton(self)
            button.setText(text)
            button.setToolTip(tip)
            button.setAccessibleName(tip)
            button.setAutoRaise(True)
            button.clicked.connect(lambda _checked=False, back=backward: self.ask(back))
            layout.addWidget(button)
        self.hide()

    def open_bar(self) -> None:
        """Show the line and put the caret into it."""
        self.show()
        self.line.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.line.selectAll()

    def ask(self, backward: bool) -> None:
        """Ask for a hit of the text that stands there; opens the line when it is empty."""
        if self.line.text().strip():
            self.searched.emit(self.line.text(), backward)
        else:
            self.open_bar()

    def set_status(self, text: str) -> None:
        """Say what was found, in a few words."""
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
