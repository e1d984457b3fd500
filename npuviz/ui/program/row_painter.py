"""Draw one row of a listing, and the heading over the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen, QPolygon

from npuviz.base.names import elide_end
from npuviz.base.units import format_count
from npuviz.program.graph import Node
from npuviz.program.instruction import Instruction
from npuviz.ui.kit.elided_label import elided
from npuviz.ui.theme.theme import SIZE_NOTE, Theme

GUTTER_WIDTH = 20
COUNTER_WIDTH = 14
STRIPE_WIDTH = 3
MIN_NAME = 28


@dataclass(frozen=True)
class RowLook:
    """Names and colours of the rows.

    nodes        nodes of the graph
    unit_names   unit id -> name
    roles        lower-case opcode -> colour role
    short_names  unit id -> name in the rows, for units that have instructions
    """

    nodes: Sequence[Node] = ()
    unit_names: Mapping[int, str] = field(default_factory=dict[int, str])
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    shows_units: bool = False
    index_digits: int = 4
    short_names: Mapping[int, str] = field(default_factory=dict[int, str])


class RowPainter:
    """Paints rows with the columns and colours of a listing."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._look = RowLook()
        self._mono = theme.font_mono()
        self._note = theme.font_ui(SIZE_NOTE)
        self._mono_metrics = QFontMetrics(self._mono)
        self._note_metrics = QFontMetrics(self._note)
        self._number_width = self._unit_width = 0
        self.set_look(self._look)

    def set_look(self, look: RowLook) -> None:
        """Use other names and colours."""
        self._look = look
        # These widths are the same for every row.
        self._number_width = self._mono_metrics.horizontalAdvance(number_sample(look.index_digits))
        names = (look.short_names or look.unit_names).values()
        self._unit_width = max((self._note_metrics.horizontalAdvance(name) for name in names), default=0)

    def paint_row(
        self,
        painter: QPainter,
        rect: QRect,
        instruction: Instruction,
        *,
        is_selected: bool,
        is_related: bool,
        is_hovered: bool,
        starts_group: bool,
        counter: str | None,
        breakpoint_enabled: bool | None,
    ) -> None:
        """Draw background, gutter, counter, number, stripe and text of one row."""
        theme = self._theme
        self._paint_background(painter, rect, is_selected, is_related, is_hovered, counter is not None)
        if starts_group:
            painter.setPen(theme.color("border"))
            painter.drawLine(rect.left(), rect.top(), rect.right(), rect.top())
        self._paint_gutter(painter, rect, breakpoint_enabled, is_hovered)
        if counter is not None:
            self._paint_counter(painter, rect)
        painter.setFont(self._mono)
        text_color = theme.color("selection-text" if is_selected else "text")
        muted = theme.color("selection-text" if is_selected else "text-muted")
        left = GUTTER_WIDTH + COUNTER_WIDTH
        number = format_count(instruction.index)
        number_width = self._number_width
        painter.setPen(muted)
        painter.drawText(QRect(left, rect.top(), number_width, rect.height()), _RIGHT, number)
        left += number_width + 8
        painter.fillRect(left, rect.top(), STRIPE_WIDTH, rect.height(), self._node_color(instruction.node))
        left += STRIPE_WIDTH + 8
        right = rect.right() - 6
        if starts_group:
            right = self._paint_group_name(painter, rect, instruction, right, left)
        if self._look.shows_units:
            left = self._paint_unit(painter, rect, instruction, left, muted)
            painter.setFont(self._mono)
        room = QRect(left, rect.top(), right - left, rect.height())
        self._paint_text(painter, room, instruction, text_color, is_selected)

    def paint_heading(self, painter: QPainter, rect: QRect, instruction: Instruction) -> None:
        """Draw the heading, which names the operator of the first visible row."""
        theme = self._theme
        painter.fillRect(rect, theme.color("raised"))
        painter.setPen(theme.color("border"))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        painter.fillRect(
            QRect(rect.left() + 8, rect.top() + 6, STRIPE_WIDTH, rect.height() - 12),
            self._node_color(instruction.node),
        )
        inner = rect.adjusted(8 + STRIPE_WIDTH + 6, 0, -8, 0)
        node = self._node(instruction.node)
        title = node.op_type if node else "no operator"
        painter.setFont(theme.font_ui(bold=True))
        painter.setPen(theme.color("text"))
        painter.drawText(inner, _LEFT, title)
        used = painter.fontMetrics().horizontalAdvance(title) + 8
        tile = f"tile {format_count(instruction.tile)}" if instruction.tile >= 0 else ""
        painter.setFont(self._note)
        painter.setPen(theme.color("text-muted"))
        painter.drawText(inner, _RIGHT, tile)
        room = inner.width() - used - painter.fontMetrics().horizontalAdvance(tile) - 8
        if node and room > 24:
            painter.drawText(inner.adjusted(used, 0, 0, 0), _LEFT, _fit(painter, node.name, room))

    def tooltip(self, instruction: Instruction) -> str:
        """Describe an instruction in a few lines."""
        lines = [f"{format_count(instruction.index)}  {instruction.text}"]
        lines.append(f"unit: {self._look.unit_names.get(instruction.unit, 'unknown')}")
        if (node := self._node(instruction.node)) is not None:
            lines.append(f"operator: {node.op_type} {elide_end(node.name, 60)}")
        if instruction.tile >= 0:
            lines.append(f"tile: {format_count(instruction.tile)}")
        return "\n".join(lines)

    def _paint_background(
        self, painter: QPainter, rect: QRect, selected: bool, related: bool, hovered: bool, has_counter: bool
    ) -> None:
        theme = self._theme
        if selected:
            painter.fillRect(rect, theme.color("selection"))
        elif has_counter or related:
            tint = theme.color("cursor" if has_counter else "selection")
            tint.setAlphaF(0.16 if has_counter else 0.45)
            painter.fillRect(rect, tint)
        elif hovered:
            painter.fillRect(rect, theme.color("hover"))

    def _paint_gutter(self, painter: QPainter, rect: QRect, enabled: bool | None, hovered: bool) -> None:
        gutter = QRect(rect.left(), rect.top(), GUTTER_WIDTH, rect.height())
        painter.fillRect(gutter, self._theme.color("raised"))
        if enabled is None and not hovered:
            return
        color = self._theme.color("breakpoint")
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        if enabled is None:
            color.setAlphaF(0.25)
        painter.setPen(QPen(color, 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush if enabled is False else color)
        painter.drawEllipse(QRectF(gutter).center(), 4.5, 4.5)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_counter(self, painter: QPainter, rect: QRect) -> None:
        middle = rect.top() + rect.height() // 2
        left = GUTTER_WIDTH + 2
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("cursor"))
        painter.drawPolygon(
            QPolygon([QPoint(left, middle - 5), QPoint(left + 9, middle), QPoint(left, middle + 5)])
        )
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_group_name(
        self, painter: QPainter, rect: QRect, instruction: Instruction, right: int, left: int
    ) -> int:
        """Draw an operator's name at the right of its first row; return the right end of the room that is
        left.
        """
        node = self._node(instruction.node)
        if node is None:
            return right
        painter.setFont(self._note)
        painter.setPen(self._theme.color("text-muted"))
        # The name of the operator only gets the room that the operands leave.
        head = self._mono_metrics.horizontalAdvance(instruction.text)
        unit = min(self._unit_width, max(40, rect.width() // 4)) + 8 if self._look.shows_units else 0
        room = max(0, min((right - left) // 3, right - left - unit - head - 12))
        if room < MIN_NAME:
            return right
        label = _fit(painter, node.name or node.op_type, room)
        painter.drawText(QRect(right - room, rect.top(), room, rect.height()), _RIGHT, label)
        painter.setFont(self._mono)
        return right - painter.fontMetrics().horizontalAdvance(label) - 12

    def _paint_unit(
        self, painter: QPainter, rect: QRect, instruction: Instruction, left: int, color: QColor
    ) -> int:
        look = self._look
        name = look.short_names.get(instruction.unit) or look.unit_names.get(instruction.unit, "")
        painter.setFont(self._note)
        painter.setPen(color)
        width = min(self._unit_width, max(36, rect.width() // 8))
        if width < self._unit_width:
            name = _fit(painter, name, width)
        painter.drawText(QRect(left, rect.top(), width, rect.height()), _LEFT, name)
        return left + width + 8

    def _paint_text(
        self, painter: QPainter, rect: QRect, instruction: Instruction, color: QColor, is_selected: bool
    ) -> None:
        head, _, rest = instruction.text.partition(" ")
        role = self._look.roles.get(instruction.opcode.casefold())
        painter.setPen(self._opcode_color(role) if role and not is_selected else color)
        shown = self._mono_metrics.elidedText(head, Qt.TextElideMode.ElideRight, rect.width())
        painter.drawText(rect, _LEFT, shown)
        used = self._mono_metrics.horizontalAdvance(head + " ")
        painter.setPen(color)
        inner = rect.adjusted(used, 0, 0, 0)
        if inner.width() > 8:
            text = self._mono_metrics.elidedText(rest, Qt.TextElideMode.ElideRight, inner.width())
            painter.drawText(inner, _LEFT, text)

    def _opcode_color(self, role: str) -> QColor:
        # Data colours are chosen for areas; text needs more contrast.
        color = self._theme.color(role)
        return color.lighter(130) if self._theme.is_dark else color.darker(140)

    def _node(self, node: int) -> Node | None:
        return self._look.nodes[node] if 0 <= node < len(self._look.nodes) else None

    def _node_color(self, node: int) -> QColor:
        found = self._node(node)
        return self._theme.operator_color(found.op_type) if found else self._theme.color("border")


def number_sample(digits: int) -> str:
    """Return a text as wide as the widest instruction number of so many digits."""
    return format_count(10 ** max(0, digits - 1)).replace("1", "0")


_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def _fit(painter: QPainter, text: str, width: int) -> str:
    return elided(painter.fontMetrics(), text, width)
