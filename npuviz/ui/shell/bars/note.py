"""A banner over the panels that says what of a program is not simulated, or only estimated."""

from collections.abc import Sequence

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QMainWindow, QToolBar, QWidget

from npuviz.program.program import Note
from npuviz.ui.kit.parts import line, text_button
from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.kit.strip import Strip
from npuviz.ui.theme.theme import Theme

CODES = ("not-simulated", "estimated")
"""Codes of the notes that the banner shows, the most important first."""
HEIGHT = 28
LINE_HEIGHT = 18
MAX_LINES = 2
MARK = "\u2248"


def banner_notes(notes: Sequence[Note]) -> list[Note]:
    """Return the notes for the banner, those about no single node; what is not simulated comes first."""
    found = [note for note in notes if note.code in CODES and note.node < 0]
    return sorted(found, key=lambda note: CODES.index(note.code))


class NoteBanner(Strip):
    """One or two lines of text, shortened to the room there is, and two buttons.

    shown, closed  the banner has something to show, or is dismissed or empty
    details_asked  the user wants to see all notes
    """

    shown = Signal()
    closed = Signal()
    details_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Limits of what is shown", parent)
        self.setObjectName("note_banner")
        self.lines: list[str] = []
        self.lines_height = HEIGHT
        self._buttons = [
            text_button(self, "All notes", self.details_asked.emit),
            text_button(self, "Dismiss", self.dismiss),
        ]
        self.setLayout(line(1, *self._buttons, margins=(0, 0, 8, 0), spacing=4))
        theme.changed.connect(self.update)

    def show_notes(self, notes: Sequence[Note]) -> None:
        """Show the notes of a program; without any that concern the banner, close it."""
        found = banner_notes(notes)
        self.lines = [note.text for note in found[:MAX_LINES]]
        self.setToolTip(plain_tip("\n\n".join(note.text for note in found)))
        self.setAccessibleDescription("; ".join(self.lines))
        self.lines_height = HEIGHT + LINE_HEIGHT * max(len(self.lines) - 1, 0)
        self.updateGeometry()
        (self.shown if found else self.closed).emit()
        self.update()

    def dismiss(self) -> None:
        """Close the banner."""
        self.closed.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._theme
        painter.fillRect(self.rect(), theme.color("raised"))
        pen = QPen(theme.color("estimated"), 2)
        pen.setDashPattern([1.5, 1.5])
        painter.setPen(pen)
        painter.drawLine(1, 2, 1, self.height() - 2)
        top = (self.height() - LINE_HEIGHT * len(self.lines)) // 2
        for number, text in enumerate(self.lines):
            area = QRect(12, top + number * LINE_HEIGHT, self._buttons[0].x() - 20, LINE_HEIGHT)
            painter.setFont(theme.font_ui(12, bold=True))
            painter.setPen(theme.color("estimated"))
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, MARK)
            area.setLeft(area.left() + 18)
            painter.setFont(theme.font_ui(12))
            painter.setPen(theme.color("text"))
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, shown)
        painter.end()


def add_bar(window: QMainWindow, title: str, name: str, content: NoteBanner) -> None:
    """Add the banner to the window as a separate tool bar below the others."""
    window.addToolBarBreak(Qt.ToolBarArea.TopToolBarArea)
    bar = QToolBar(title, window, movable=False)
    bar.setObjectName(name)
    bar.addWidget(content)
    bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
    content.shown.connect(bar.show)
    content.closed.connect(bar.hide)
    bar.hide()
    window.addToolBar(Qt.ToolBarArea.TopToolBarArea, bar)
