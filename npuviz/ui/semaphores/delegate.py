"""Draw the progress of waits in the table of semaphores."""

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from npuviz.ui.kit.colors import translucent
from npuviz.ui.kit.row_model import Index
from npuviz.ui.kit.table_view import paint_changed
from npuviz.ui.semaphores.table import NEEDED, ROW_ROLE, SemaphoreRow
from npuviz.ui.theme.theme import Theme

BAR_HEIGHT = 2


class SemaphoreDelegate(QStyledItemDelegate):
    """Draws a bar under the condition, and a thin bar before changed rows; mutes rows without a wait."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(super().sizeHint(option, index).width(), self._theme.row_height)

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        row = index.data(ROW_ROLE)
        if isinstance(row, SemaphoreRow) and row.wait is None and not row.is_changed:
            option.palette.setColor(option.palette.ColorRole.Text, self._theme.color("text-muted"))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row = index.data(ROW_ROLE)
        super().paint(painter, option, index)
        if isinstance(row, SemaphoreRow) and row.is_changed and index.column() == 0:
            paint_changed(painter, option.rect, self._theme)
        if not isinstance(row, SemaphoreRow) or index.column() != NEEDED or row.fraction < 0:
            return
        area = QRectF(option.rect).adjusted(4, 0, -8, -1)
        bar = QRectF(area.left(), area.bottom() - BAR_HEIGHT, area.width(), BAR_HEIGHT)
        is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
        done = self._theme.color(
            "selection-text" if is_selected else "wait-dependency" if row.to_go else "ok"
        )
        painter.fillRect(bar, translucent(done, 60))
        painter.fillRect(QRectF(bar.left(), bar.top(), bar.width() * row.fraction, BAR_HEIGHT), done)
