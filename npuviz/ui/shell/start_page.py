"""The page shown before a file is open: one sample for each machine, recent files, three keys."""

import math
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPixmap, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from npuviz.ui.kit.parts import fill, muted_label
from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.icons import icon
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.recent import RecentFile
from npuviz.workbench.samples import SampleEntry

WIDTH = 980
MAX_RECENT_SHOWN = 6
MARGIN, SPACING = 24, 12
PICTURE = QSize(208, 117)
CARD_MARGIN = 8
CARD_WIDTH = PICTURE.width() + 2 * CARD_MARGIN


class StartPage(QWidget):
    """Emits `chosen` with a path and how to open it, `open_asked` for the file dialog."""

    chosen = Signal(Path, object)
    open_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("start_page")
        self._theme = theme
        self._recent_files: list[RecentFile] = []
        self._entries: list[SampleEntry] = []
        self._recent = QVBoxLayout()
        self._recent.setSpacing(0)
        self._samples = QGridLayout()
        self._samples.setSpacing(SPACING)
        self._cards: list[SampleCard] = []
        body = QWidget(self, maximumWidth=WIDTH)
        column = QVBoxLayout(body)
        column.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        column.setSpacing(8)
        title = QLabel("npuviz", body)
        title.setObjectName("title")
        note = QLabel("Open a model and watch a neural processing unit run it, cycle by cycle.", body)
        note.setObjectName("muted")
        column.addWidget(title)
        column.addWidget(note)
        for part in (self._actions(body), self._heading("Machines to try", body), self._samples):
            _add(column, part)
        for part in (self._heading("Recent files", body), self._recent):
            _add(column, part)
        for part in (self._heading("Keys to know", body), self._keys(body)):
            _add(column, part)
        self._put_in_the_middle(body)

    def show_recent(self, files: Sequence[RecentFile]) -> None:
        """Fill the list of recent files."""
        self._recent_files = list(files)
        _empty(self._recent)
        if not files:
            self._recent.addWidget(muted_label(self, text="Files you open are listed here."))
        for recent in files[:MAX_RECENT_SHOWN]:
            self._recent.addWidget(self._recent_button(recent))

    def show_samples(self, entries: Sequence[SampleEntry]) -> None:
        """Offer one sample for each machine."""
        self._entries = list(entries)
        _empty(self._samples)
        self._cards = [SampleCard(entry, self._theme, self) for entry in entries]
        for card, entry in zip(self._cards, entries, strict=True):
            card.clicked.connect(lambda _checked=False, e=entry: self.chosen.emit(e.path, e.options))
        self._place_cards()

    def refresh(self) -> None:
        """Draw lists and pictures again, in the colours of the theme in use."""
        self.show_recent(self._recent_files)
        self.show_samples(self._entries)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_cards()

    def _place_cards(self) -> None:
        """Lay the cards out in as few rows as the width allows, all of about equal length."""
        if not self._cards:
            return
        room = min(self.width(), WIDTH) - 2 * MARGIN + SPACING
        fitting = min(max(room // (CARD_WIDTH + SPACING), 1), len(self._cards))
        in_a_row = math.ceil(len(self._cards) / math.ceil(len(self._cards) / fitting))
        for place, card in enumerate(self._cards):
            self._samples.addWidget(card, place // in_a_row, place % in_a_row)
        self._samples.setColumnStretch(len(self._cards), 1)

    def _put_in_the_middle(self, body: QWidget) -> None:
        room = QWidget(self)
        across = QHBoxLayout(room)
        across.setContentsMargins(0, 0, 0, 0)
        across.addStretch(1)
        column = QVBoxLayout()
        column.addStretch(2)
        column.addWidget(body)
        column.addStretch(3)
        across.addLayout(column, 8)
        across.addStretch(1)
        # A low screen scrolls instead of cutting the last lines off.
        scroll = QScrollArea(self, widgetResizable=True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(room)
        fill(self, scroll)

    def _actions(self, parent: QWidget) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(0, 12, 0, 0)
        button = QPushButton("Open a model ...", parent, default=True)
        button.setObjectName("start_page.open")
        button.clicked.connect(lambda: self.open_asked.emit())
        row.addWidget(button)
        row.addSpacing(8)
        row.addWidget(muted_label(parent, text="or drop a file on this window"))
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

    def _recent_button(self, recent: RecentFile) -> QPushButton:
        path = recent.path
        name = f"{path.parent.name}/{path.name}" if path.is_dir() else path.name
        text = "   ".join(part for part in (name, recent.detail) if part)
        shown = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, WIDTH - 96)
        button = QPushButton(icon("mdi6.file-outline", self._theme, "text-muted"), shown, self, flat=True)
        button.setIconSize(QSize(16, 16))
        button.setStyleSheet("text-align: left; padding-left: 0;")
        button.setToolTip(plain_tip(f"{path}\n{recent.detail}" if recent.detail else str(path)))
        button.setAccessibleName(f"Open {text}")
        button.clicked.connect(lambda: self.chosen.emit(path, recent.options))
        return button


class SampleCard(QPushButton):
    """A button that opens the sample of a machine: picture, name, and a text on what there is to see."""

    def __init__(self, entry: SampleEntry, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("sample_card")
        self.setToolTip(str(entry.path))
        self.setAccessibleName(f"Open the sample of {entry.machine}")
        self.setAccessibleDescription(entry.text)
        picture = self._label("")
        found = QPixmap(str(entry.picture / f"{'dark' if theme.is_dark else 'light'}.png"))
        picture.setFixedHeight(PICTURE.height())
        if not found.isNull():
            scale = self.devicePixelRatioF()
            fitted = found.scaled(
                PICTURE * scale,
                Qt.AspectRatioMode.KeepAspectRatioByExpanding,
                Qt.TransformationMode.SmoothTransformation,
            )
            fitted.setDevicePixelRatio(scale)
            picture.setPixmap(fitted)
        name = self._label(entry.machine)
        name.setFont(theme.font_ui(12, bold=True))
        text = self._label(entry.text)
        text.setObjectName("muted")
        fill(
            self,
            picture,
            name,
            text,
            1,
            margins=(CARD_MARGIN, CARD_MARGIN, CARD_MARGIN, CARD_MARGIN),
            spacing=4,
        )
        self.setFixedWidth(CARD_WIDTH)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.MinimumExpanding)

    def sizeHint(self) -> QSize:
        # By default, a button's size is that of its text, without the widgets on it.
        layout = self.layout()
        height = layout.heightForWidth(self.width()) if layout is not None else 0
        return QSize(self.width(), height)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def _label(self, text: str) -> QLabel:
        label = QLabel(text, self, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        return label


def _add(column: QVBoxLayout, part: QWidget | QLayout) -> None:
    if isinstance(part, QWidget):
        column.addWidget(part)
    else:
        column.addLayout(part)


def _empty(layout: QLayout) -> None:
    while (taken := layout.takeAt(0)) is not None:
        widget = taken.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
