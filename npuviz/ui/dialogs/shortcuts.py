"""The dialog that lists all keys, made from the commands."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QScrollArea, QWidget

from npuviz.ui.kit.parts import fill, muted_label
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.commands import Command

MENU_ORDER = ("Run", "File", "View", "Trace", "Help")
CANVAS_KEYS: tuple[tuple[str, str], ...] = (
    ("W / S", "Zoom in / out"),
    ("A / D", "Pan left / right"),
    ("Ctrl+wheel", "Zoom at the pointer"),
    ("Shift+wheel", "Pan"),
    ("F", "Zoom to the selection, or fit the run"),
    (". / ,", "Next / previous interval on the track"),
    ("Home / End", "First / last cycle"),
    ("Esc", "Cancel long work; clear the selection"),
)
"""Keys of the timeline canvas; they act only while it has the focus."""


class ShortcutSheet(QDialog):
    """A table of keys by menu, closed by Esc."""

    def __init__(self, commands: Sequence[Command], theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("shortcut_sheet")
        self.setWindowTitle("Keys")
        self.resize(720, 560)
        body = QWidget(self)
        grid = QGridLayout(body)
        grid.setContentsMargins(24, 16, 24, 24)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        row = 0
        for menu, rows in _sections(commands):
            heading = QLabel(menu, body)
            heading.setFont(theme.font_ui(12, bold=True))
            heading.setContentsMargins(0, 12 if row else 0, 0, 4)
            grid.addWidget(heading, row, 0, 1, 2)
            row += 1
            for keys, title in rows:
                cap = muted_label(body, text=keys)
                cap.setFont(theme.font_mono(11))
                cap.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                grid.addWidget(cap, row, 0)
                grid.addWidget(QLabel(title, body), row, 1)
                row += 1
        area = QScrollArea(self, widgetResizable=True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setWidget(body)
        fill(self, area)


def _sections(commands: Sequence[Command]) -> list[tuple[str, list[tuple[str, str]]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    for command in commands:
        if command.shortcuts:
            menu = command.menu.partition("/")[0] or "Elsewhere"
            sections.setdefault(menu, []).append((", ".join(command.shortcuts), command.title))
    order = [name for name in MENU_ORDER if name in sections]
    order += [name for name in sections if name not in MENU_ORDER]
    return [*((name, sections[name]) for name in order), ("Timeline", list(CANVAS_KEYS))]
