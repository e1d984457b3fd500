"""What is written around the tracks."""

from typing import Any

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QPainter
from pytestqt.qtbot import QtBot

from npuviz.ui.kit.viewport import Viewport
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.chrome import ChromePainter
from npuviz.ui.timeline.state import TimelineState


class _Writing(QPainter):
    """Keeps the ends of texts that begin at a point."""

    def __init__(self, image: QImage) -> None:
        super().__init__(image)
        self.ends: list[float] = []

    def drawText(self, *given: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(given[0], QPointF):
            self.ends.append(given[0].x() + QFontMetricsF(QFont(self.font())).horizontalAdvance(given[1]))


@pytest.mark.parametrize("span", [20_000.0, 20_288.0, 23_456.0, 9_999_999.0])
def test_no_label_is_cut_by_the_end_of_the_ruler(qtbot: QtBot, span: float) -> None:
    number = 0
    for width in range(300, 900, 7):
        image = QImage(width, 60, QImage.Format.Format_RGB32)
        painter = _Writing(image)
        state = TimelineState(viewport=Viewport(0.0, span, width), end_cycle=int(span), cursor=0)
        ChromePainter(Theme("dark")).paint_ruler(painter, state, width, 1e9)
        painter.end()
        assert painter.ends
        assert max(painter.ends) <= width + 1
        number += len(painter.ends)
    assert number > 200
