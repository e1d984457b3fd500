"""The palette: a line to type in, with a list of matching entries below, best first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QEvent,
    QObject,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from npuviz.base.names import elide_end
from npuviz.ui.kit.parts import fill
from npuviz.ui.kit.row_model import Index, RowModel
from npuviz.ui.theme.theme import Theme

WIDTH = 600
MAX_ROWS = 12
ROW = 28
TOP = 48


@dataclass(frozen=True)
class PaletteEntry:
    """One line of the palette: title, function to run when chosen, muted detail, keys shown at the right."""

    title: str
    run: Callable[[], object]
    detail: str = ""
    keys: str = ""
    is_enabled: bool = True


Provider = Callable[[str], Sequence[PaletteEntry]]


class _Model(RowModel[PaletteEntry]):
    titles = ("",)

    def text(self, row: PaletteEntry, column: int) -> str:
        return row.title

    def other(self, row: PaletteEntry, column: int, role: int) -> str | None:
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(part for part in (row.title, row.detail, row.keys) if part)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        usable = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return usable if self.rows[index.row()].is_enabled else Qt.ItemFlag.ItemIsSelectable


class _Delegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, model: _Model, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme
        self._model = model

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(WIDTH - 16, ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        entry = self._model.rows[index.row()]
        theme = self._theme
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("selection"))
            painter.drawRoundedRect(rect.adjusted(0, 1, 0, -1), 4, 4)
        inner = rect.adjusted(8, 0, -8, 0)
        painter.setFont(theme.font_ui(12))
        metrics = painter.fontMetrics()
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        if entry.keys:
            painter.setPen(theme.color("text-muted"))
            painter.drawText(inner, int(right), entry.keys)
            inner.setRight(inner.right() - metrics.horizontalAdvance(entry.keys) - 16)
        painter.setPen(theme.color("text" if entry.is_enabled else "text-disabled"))
        title = metrics.elidedText(entry.title, Qt.TextElideMode.ElideRight, inner.width())
        painter.drawText(inner, int(left), title)
        used = metrics.horizontalAdvance(title) + 16
        if entry.detail and inner.width() - used > 40:
            painter.setPen(theme.color("text-muted"))
            inner.setLeft(inner.left() + used)
            detail = elide_end(entry.detail, 200)
            painter.drawText(
                inner, int(left), metrics.elidedText(detail, Qt.TextElideMode.ElideRight, inner.width())
            )
        painter.restore()


class Palette(QFrame):
    """An overlay of a window; `open` shows it with a provider that returns the entries for a typed text."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("palette_box")
        self._provider: Provider = lambda _text: ()
        self._before: QWidget | None = None
        self.field = QLineEdit(self)
        self.field.setObjectName("palette.field")
        self.field.setFont(theme.font_ui(14))
        self.field.setFixedHeight(32)
        self.field.textChanged.connect(self._refresh)
        self.field.installEventFilter(self)
        self._model = _Model(self)
        self._list = QListView(self)
        self._list.setObjectName("palette.list")
        self._list.setModel(self._model)
        self._list.setItemDelegate(_Delegate(theme, self._model, self))
        self._list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._list.setMouseTracking(True)
        self._list.clicked.connect(lambda index: self._choose(index.row()))
        fill(self, self.field, self._list, margins=(8, 8, 8, 8), spacing=4)
        self.hide()

    @property
    def entries(self) -> list[PaletteEntry]:
        """The entries in the list."""
        return list(self._model.rows)

    def open(self, provider: Provider, hint: str, text: str = "") -> None:
        """Show the palette; `hint` is shown while nothing is typed."""
        window = self.parentWidget()
        focus = window.window().focusWidget() if window else None
        if focus is not self.field:
            self._before = focus
        self._provider = provider
        self.field.setPlaceholderText(hint)
        self.field.setAccessibleName(hint)
        self.field.setText(text)
        self._refresh()
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def dismiss(self) -> None:
        """Hide the palette and give the focus back."""
        if self.isHidden():
            return
        self.hide()
        if self._before is not None:
            self._before.setFocus()
            self._before = None

    def place(self) -> None:
        """Move to the top middle of the window; the window calls this when its size changes."""
        parent = self.parentWidget()
        if parent is None:
            return
        width = min(WIDTH, parent.width() - 32)
        rows = min(len(self._model.rows), MAX_ROWS)
        self._list.setVisible(rows > 0)
        self._list.setFixedHeight(max(1, rows * ROW))
        height = 16 + 32 + (4 + rows * ROW if rows else 0)
        self.setGeometry((parent.width() - width) // 2, TOP, width, height)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.field:
            if event.type() == QEvent.Type.ShortcutOverride:
                # While the palette is open, Esc closes it, whatever else the window would do with it.
                event.accept()
                return isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
            if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
                return self._key(event)
            if event.type() == QEvent.Type.FocusOut and self.isVisible():
                self.dismiss()
        return super().eventFilter(watched, event)

    def _key(self, event: QKeyEvent) -> bool:
        steps = {
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_PageDown: MAX_ROWS,
            Qt.Key.Key_PageUp: -MAX_ROWS,
        }
        key = Qt.Key(event.key())
        if key in steps:
            self._move(steps[key])
            return True
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self._list.currentIndex().row())
            return True
        if key == Qt.Key.Key_Escape:
            self.dismiss()
            return True
        return False

    def _move(self, step: int) -> None:
        # Entries that cannot be chosen are passed over.
        rows = [row for row, entry in enumerate(self._model.rows) if entry.is_enabled]
        if not rows:
            return
        current = self._list.currentIndex().row()
        place = (rows.index(current) if current in rows else -1) + step
        place = place % len(rows) if abs(step) == 1 else min(max(place, 0), len(rows) - 1)
        self._list.setCurrentIndex(self._model.index(rows[place], 0))

    def _choose(self, row: int) -> None:
        if not 0 <= row < len(self._model.rows):
            return
        entry = self._model.rows[row]
        if not entry.is_enabled:
            return
        self.dismiss()
        entry.run()

    def _refresh(self) -> None:
        self._model.reset(self._provider(self.field.text()))
        first = (row for row, entry in enumerate(self._model.rows) if entry.is_enabled)
        self._list.setCurrentIndex(self._model.index(next(first, 0), 0))
        self.place()
