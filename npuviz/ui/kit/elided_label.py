"""A line of text that may be longer than its place."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy

from npuviz.ui.kit.plain_text import plain_tip


class ElidedLabel(QLabel):
    """Ends in an ellipsis where its place ends, and then says all of it as its tooltip. Asks for no width."""

    def __init__(self) -> None:
        super().__init__(textFormat=Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def is_cut(self) -> bool:
        return self.fontMetrics().horizontalAdvance(self.text()) > self.contentsRect().width()

    def event(self, event: QEvent) -> bool:
        """As Qt has it; the tooltip is made when it is asked for."""
        if event.type() == QEvent.Type.ToolTip:
            self.setToolTip(plain_tip(self.text()) if self.is_cut else "")
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what there is place for."""
        if not self.is_cut:
            super().paintEvent(event)
            return
        place = self.contentsRect()
        shown = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, place.width())
        self.style().drawItemText(
            QPainter(self), place, int(self.alignment()), self.palette(), self.isEnabled(), shown,
            self.foregroundRole(),
        )  # fmt: skip
