"""The page of an empty panel: a sentence about what would be here, and a button that fills it."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget


class EmptyState(QWidget):
    """A quiet centred sentence with an optional button.

    text    one sentence, what would be here
    action  title of the button ("" = none); run is called when it is pressed
    """

    def __init__(
        self,
        text: str,
        action: str = "",
        run: Callable[[], object] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("empty_state")
        self._label = QLabel(text, self, alignment=Qt.AlignmentFlag.AlignCenter, wordWrap=True)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setObjectName("empty_state.text")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 16, 16, 16)
        layout.setSpacing(12)
        layout.addStretch(1)
        layout.addWidget(self._label)
        self._button: QPushButton | None = None
        if action and run is not None:
            self._button = QPushButton(action, self)
            self._button.setObjectName("empty_state.action")
            self._button.clicked.connect(lambda: run())
            layout.addWidget(self._button, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(1)

    def set_text(self, text: str) -> None:
        """Replace the sentence."""
        self._label.setText(text)

    def set_action_visible(self, visible: bool) -> None:
        """Show or hide the button of the action."""
        if self._button is not None:
            self._button.setVisible(visible)
