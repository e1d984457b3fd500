"""What the window shows before anything is open: recent files, sample models, three keys to know."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from npuviz.ui.theme.icons import icon
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.choosing import read_head, targets
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.settings import Settings

WIDTH = 760
MAX_SHOWN = 6


@dataclass(frozen=True)
class StartItem:
    """A file to offer: what it is called, a muted second part, where it is."""

    title: str
    detail: str
    path: Path


class StartPage(QWidget):
    """Emits `file_chosen` with a path, `open_asked` for the file dialog."""

    file_chosen = Signal(Path)
    open_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("start_page")
        self._theme = theme
        self._recent_items: list[StartItem] = []
        self._sample_items: list[StartItem] = []
        self._recent = QVBoxLayout()
        self._samples = QVBoxLayout()
        body = QWidget(self)
        body.setMaximumWidth(WIDTH)
        grid = QGridLayout(body)
        grid.setContentsMargins(24, 24, 24, 24)
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(0, 1)
        grid.setColumnStretch(1, 1)
        title = QLabel("npuviz", body)
        title.setObjectName("title")
        note = QLabel("Open a model and watch a neural processing unit run it, cycle by cycle.", body)
        note.setObjectName("muted")
        grid.addWidget(title, 0, 0, 1, 2)
        grid.addWidget(note, 1, 0, 1, 2)
        grid.addLayout(self._actions(body), 2, 0, 1, 2)
        grid.addWidget(self._heading("Recent files", body), 3, 0)
        grid.addWidget(self._heading("Sample models", body), 3, 1)
        grid.addLayout(self._recent, 4, 0, Qt.AlignmentFlag.AlignTop)
        grid.addLayout(self._samples, 4, 1, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(self._heading("Keys to know", body), 5, 0, 1, 2)
        grid.addLayout(self._keys(body), 6, 0, 1, 2)
        outer = QHBoxLayout(self)
        outer.addStretch(1)
        column = QVBoxLayout()
        column.addStretch(2)
        column.addWidget(body)
        column.addStretch(3)
        outer.addLayout(column, 8)
        outer.addStretch(1)
        for layout in (self._recent, self._samples):
            layout.setSpacing(0)

    def show_recent(self, items: Sequence[StartItem]) -> None:
        """Fill the list of recent files."""
        self._recent_items = list(items)
        self._fill(self._recent, items[:MAX_SHOWN], "Files you open are listed here.")

    def show_samples(self, items: Sequence[StartItem]) -> None:
        """Fill the list of sample models."""
        self._sample_items = list(items)
        self._fill(self._samples, items[:MAX_SHOWN], "No sample models are installed.")

    def refresh(self) -> None:
        """Draw the lists again, in the colours of the theme in use."""
        self.show_recent(self._recent_items)
        self.show_samples(self._sample_items)

    def _actions(self, parent: QWidget) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(0, 12, 0, 0)
        button = QPushButton("Open a model ...", parent)
        button.setObjectName("start_page.open")
        button.setDefault(True)
        button.clicked.connect(lambda: self.open_asked.emit())
        hint = QLabel("or drop a file on this window", parent)
        hint.setObjectName("muted")
        row.addWidget(button)
        row.addSpacing(8)
        row.addWidget(hint)
        row.addStretch(1)
        return row

    def _keys(self, parent: QWidget) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        for keys, meaning in (
            ("F11", "one cycle forward"),
            ("F4", "one cycle back"),
            ("Ctrl+Shift+P", "every command by name"),
        ):
            cap = QLabel(keys, parent)
            cap.setObjectName("key_cap")
            row.addWidget(cap)
            row.addWidget(QLabel(meaning, parent))
            row.addSpacing(16)
        row.addStretch(1)
        return row

    def _heading(self, text: str, parent: QWidget) -> QLabel:
        label = QLabel(text, parent)
        label.setFont(self._theme.font_ui(12, bold=True))
        label.setContentsMargins(0, 16, 0, 0)
        return label

    def _fill(self, layout: QVBoxLayout, items: Sequence[StartItem], nothing: str) -> None:
        while (taken := layout.takeAt(0)) is not None:
            widget = taken.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        if not items:
            label = QLabel(nothing, self)
            label.setObjectName("muted")
            label.setContentsMargins(0, 4, 0, 4)
            layout.addWidget(label)
        for item in items:
            layout.addWidget(self._item(item))

    def _item(self, item: StartItem) -> QPushButton:
        metrics = self.fontMetrics()
        text = metrics.elidedText(item.title, Qt.TextElideMode.ElideMiddle, WIDTH // 2 - 96)
        button = QPushButton(icon("mdi6.file-outline", self._theme, "text-muted"), f"{text}", self)
        button.setIconSize(QSize(16, 16))
        button.setFlat(True)
        button.setStyleSheet("text-align: left; padding-left: 0;")
        button.setToolTip(f"{item.path}\n{item.detail}" if item.detail else str(item.path))
        button.setAccessibleName(f"Open {item.title}")
        button.clicked.connect(lambda: self.file_chosen.emit(item.path))
        return button


def recent_items(settings: Settings) -> list[StartItem]:
    """The files opened lately."""
    return [StartItem(path.name, str(path.parent), path) for path in settings.recent_files()]


def sample_items() -> list[StartItem]:
    """Sample models, each with the machine that runs it."""
    folder = sample_models_path()
    if not folder.is_dir():
        return []
    known = targets()
    found: list[StartItem] = []
    for path in sorted(folder.rglob("*")):
        head = read_head(path)
        takers = [target.title for target in known.values() if head and target.accepts(path, head)]
        if takers:
            found.append(StartItem(path.stem, takers[0], path))
    return found
