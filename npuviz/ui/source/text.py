"""The widget that draws a program text: breakpoints, current lines of calls, numbers, costs, coloured
words.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygon,
)
from PySide6.QtWidgets import QWidget

from npuviz.base.units import format_share
from npuviz.ui.kit.line_area import LineArea
from npuviz.ui.source.lexer import Lexer, PieceKind
from npuviz.ui.theme.theme import Theme

GUTTER = 20
ARROW = 16
LINE_HEIGHT = 19
TAB = "    "
_ROLES: Mapping[PieceKind, str] = {
    "keyword": "accent",
    "type": "dependency-accumulate",
    "builtin": "dependency-output",
    "number": "dependency-anti",
    "string": "ok",
    "comment": "text-muted",
}


@dataclass(frozen=True)
class SourceMarks:
    """Marks on the lines, by line number from 1.

    current      the line of the innermost call, 0 for none
    callers      lines of outer calls
    breakpoints  line -> (enabled, for the shown element or for all)
    code         lines that instructions come from
    chosen       the line that is selected, 0 for none
    heat         line -> its share of the run, 0..1
    called       line -> the share of the lines of functions that it calls, 0..1
    tips         line -> text that explains its share
    """

    current: int = 0
    callers: frozenset[int] = frozenset()
    breakpoints: Mapping[int, tuple[bool, bool]] = field(default_factory=dict[int, tuple[bool, bool]])
    code: frozenset[int] = frozenset()
    chosen: int = 0
    heat: Mapping[int, float] = field(default_factory=dict[int, float])
    called: Mapping[int, float] = field(default_factory=dict[int, float])
    tips: Mapping[int, str] = field(default_factory=dict[int, str])


class SourceText(LineArea):
    """Shows one text; only visible lines are drawn.

    chosen              a line was picked
    breakpoint_toggled  the gutter of a line was clicked, or F9 pressed on it
    menu_requested      line and global position
    marks  the marks that are shown
    """

    chosen = Signal(int)
    breakpoint_toggled = Signal(int)
    menu_requested = Signal(int, QPoint)

    def __init__(self, theme: Theme, tell: Callable[[str], str], parent: QWidget | None = None) -> None:
        super().__init__(theme, "Program text", "Arrow keys move, F9 sets a breakpoint on the line", parent)
        self._tell = tell
        self._lines: list[str] = []
        self._lexer = Lexer("")
        self.marks = SourceMarks()
        self.setObjectName("source.text")

    @property
    def num_lines(self) -> int:
        """Lines of the text."""
        return len(self._lines)

    def show_text(self, text: str, lexer: Lexer) -> None:
        """Show another text from its beginning."""
        self._lines = [line.expandtabs(len(TAB)) for line in text.splitlines()]
        self._lexer = lexer
        self.marks = SourceMarks()
        self.update_range()
        self.verticalScrollBar().setValue(0)
        self.horizontalScrollBar().setValue(0)
        self.viewport().update()

    def set_marks(self, marks: SourceMarks) -> None:
        """Set the marks."""
        if marks != self.marks:
            moves = bool(marks.heat) != bool(self.marks.heat)
            self.marks = marks
            if moves:
                self.update_range()
            if self.hasFocus():
                self.tell_line()
            self.viewport().update()

    def reveal(self, line: int) -> None:
        """Scroll to a line, with some lines around it, unless it is visible like that already."""
        first, count = self.verticalScrollBar().value() + 1, self._num_visible
        margin = min(3, count // 4)
        if not first + (margin if first > 1 else 0) <= line < first + count - margin:
            self.verticalScrollBar().setValue(max(0, line - 1 - count // 3))

    def text_of(self, line: int) -> str:
        """Return the text of a line, "" outside the text."""
        return self._lines[line - 1] if 1 <= line <= len(self._lines) else ""

    # -- geometry -----------------------------------------------------------------------------------

    @property
    def _num_visible(self) -> int:
        return max(self.viewport().height() // LINE_HEIGHT, 1)

    def _metrics(self) -> QFontMetricsF:
        return QFontMetricsF(self._theme.font_mono())

    def _text_left(self) -> int:
        digits = max(len(str(len(self._lines))), 2)
        share = self._share_width() if self.marks.heat else 0
        return GUTTER + ARROW + round(self._metrics().horizontalAdvance("0") * digits) + 12 + share

    def _share_width(self) -> int:
        """Return the width of the column with the lines' shares in pixels."""
        return round(self._metrics().horizontalAdvance("100%")) + 12

    def line_at(self, y: float) -> int | None:
        line = self.verticalScrollBar().value() + int(y) // LINE_HEIGHT + 1
        return line if line <= len(self._lines) else None

    def line_box(self, line: int) -> QRect:
        """Return the rectangle of a line, in pixels of the viewport."""
        top = (line - 1 - self.verticalScrollBar().value()) * LINE_HEIGHT
        return QRect(0, top, self.viewport().width(), LINE_HEIGHT)

    def update_range(self) -> None:
        bar = self.verticalScrollBar()
        bar.setPageStep(self._num_visible)
        bar.setRange(0, max(0, len(self._lines) - self._num_visible))
        wide = max((len(line) for line in self._lines), default=0) * self._metrics().horizontalAdvance("0")
        room = self.viewport().width() - self._text_left() - 8
        self.horizontalScrollBar().setPageStep(max(room, 1))
        self.horizontalScrollBar().setRange(0, max(0, round(wide) - room))

    # -- painting -----------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), self._theme.color("surface"))
        painter.fillRect(QRect(0, 0, GUTTER, self.viewport().height()), self._theme.color("raised"))
        painter.setFont(self._theme.font_mono())
        first = self.verticalScrollBar().value() + 1
        last = min(first + self._num_visible + 1, len(self._lines))
        left, shift = self._text_left(), self.horizontalScrollBar().value()
        for line in range(first, last + 1):
            box = self.line_box(line)
            self._background(painter, line, box)
            painter.setClipRect(QRect(left, 0, self.viewport().width() - left, self.viewport().height()))
            self._words(painter, line, box, left - shift)
            painter.setClipping(False)
            self._margin(painter, line, box, left)
        painter.end()

    def _background(self, painter: QPainter, line: int, box: QRect) -> None:
        marks, rest = self.marks, box.adjusted(GUTTER, 0, 0, 0)
        if line == marks.current or line in marks.callers:
            tint = self._theme.color("cursor")
            tint.setAlphaF(0.18 if line == marks.current else 0.07)
            painter.fillRect(rest, tint)
        if line == marks.chosen:
            painter.setPen(QPen(self._theme.color("accent"), 1))
            painter.drawLine(rest.bottomLeft(), rest.bottomRight())

    def _margin(self, painter: QPainter, line: int, box: QRect, left: int) -> None:
        """Draw breakpoint, arrow and number of a line."""
        marks = self.marks
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        point = marks.breakpoints.get(line)
        if point is not None:
            self._breakpoint(painter, box, *point)
        elif line == self.hovered and line in marks.code:
            color = self._theme.color("breakpoint")
            color.setAlphaF(0.25)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawEllipse(QRectF(0, box.top(), GUTTER, LINE_HEIGHT).center(), 4.5, 4.5)
        if line == marks.current or line in marks.callers:
            color = self._theme.color("cursor")
            painter.setPen(QPen(color, 1.3))
            painter.setBrush(color if line == marks.current else Qt.BrushStyle.NoBrush)
            x, y = GUTTER + 3, box.center().y()
            painter.drawPolygon(QPolygon([QPoint(x, y - 5), QPoint(x + 8, y), QPoint(x, y + 5)]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        left -= self._share(painter, line, box, left)
        role = "text" if line == marks.current else "text-muted" if line in marks.code else "text-disabled"
        painter.setPen(self._theme.color(role))
        area = QRect(GUTTER, box.top(), left - GUTTER - 10, LINE_HEIGHT)
        painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, str(line))

    def _share(self, painter: QPainter, line: int, box: QRect, left: int) -> int:
        """Draw the share of a line, tinted more the larger it is; return the width of the column.

        A line that calls has the share of what it calls too, in a frame: that is part of other lines' shares.
        """
        if not self.marks.heat:
            return 0
        width, share = self._share_width(), self.marks.heat.get(line, 0.0)
        called = self.marks.called.get(line, 0.0)
        if share + called > 0:
            area = QRect(left - width, box.top() + 1, width - 6, LINE_HEIGHT - 2)
            tint = self._theme.color("dependency-anti")
            if share > 0:
                tint.setAlphaF(0.08 + 0.5 * (share / max(self.marks.heat.values())) ** 0.5)
                painter.fillRect(area, tint)
            if called > 0:
                tint.setAlphaF(0.6)
                painter.setPen(tint)
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(area.adjusted(0, 0, -1, -1))
            painter.setPen(self._theme.color("text" if share > 0 else "text-muted"))
            text = share_text(share + called)
            painter.drawText(
                area.adjusted(0, 0, -3, 0), Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text
            )
        return width

    def _breakpoint(self, painter: QPainter, box: QRect, is_enabled: bool, is_here: bool) -> None:
        color = self._theme.color("breakpoint")
        if not is_here:
            color.setAlphaF(0.45)
        painter.setPen(QPen(color, 1.5))
        painter.setBrush(color if is_enabled else Qt.BrushStyle.NoBrush)
        painter.drawEllipse(QRectF(0, box.top(), GUTTER, LINE_HEIGHT).center(), 4.5, 4.5)

    def _words(self, painter: QPainter, line: int, box: QRect, left: float) -> None:
        text = self._lines[line - 1]
        wide = self._metrics().horizontalAdvance("0")
        plain: QColor = self._theme.color("text")
        at = 0
        flags = Qt.AlignmentFlag.AlignVCenter

        def write(start: int, end: int, color: QColor) -> None:
            part = text[start:end]
            if part.strip():
                painter.setPen(color)
                area = QRectF(left + start * wide, box.top(), (end - start) * wide + 4, LINE_HEIGHT)
                painter.drawText(area, flags, part)

        for piece in self._lexer.pieces(text):
            role = _ROLES.get(piece.kind)
            if role is None:
                continue
            write(at, piece.start, plain)
            write(piece.start, piece.end, self._theme.color(role))
            at = piece.end
        write(at, len(text), plain)

    # -- mouse and keys -----------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        line = self.line_at(event.position().y())
        if line and event.button() == Qt.MouseButton.LeftButton:
            signal = self.breakpoint_toggled if event.position().x() < GUTTER else self.chosen
            signal.emit(line)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        line = self.line_at(event.pos().y())
        if line:
            self.menu_requested.emit(line, event.globalPos())

    def event(self, event: QEvent) -> bool:
        # The window's F9 means the selected instruction; here it means the line.
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_F9
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        line = self.marks.chosen or self.marks.current or 1
        move = self.step_of(event, self._num_visible - 1, len(self._lines))
        if event.key() == Qt.Key.Key_F9 and self._lines:
            self.breakpoint_toggled.emit(line)
        elif move is None or not self._lines:
            super().keyPressEvent(event)
        else:
            goal = min(max(line + move, 1), len(self._lines))
            self.chosen.emit(goal)
            self.reveal(goal)

    def current_text(self) -> str:
        line = self.marks.chosen or self.marks.current
        return f"line {line}: {self.text_of(line).strip()}" if line else ""

    def tip_at(self, spot: QPoint) -> str:
        line = self.line_at(spot.y())
        if not line or spot.x() < self._text_left():
            return self.marks.tips.get(line or 0, "")
        wide = self._metrics().horizontalAdvance("0")
        column = int((spot.x() - self._text_left() + self.horizontalScrollBar().value()) / wide)
        name = self._lexer.name_at(self._lines[line - 1], column)
        return self._tell(name) if name else ""


def share_text(share: float) -> str:
    """Return a line's share of the run as its margin shows it: whole percents, "<1" below that."""
    return format_share(share, 0) if round(100 * share) >= 1 else "<1"
