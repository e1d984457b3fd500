"""Table models: the differences of two runs, and the runs to compare with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from npuviz.base.units import format_count
from npuviz.ui.kit.row_model import Index, RowModel
from npuviz.ui.theme.theme import Theme

NAME, HERE, THERE, CHANGE, BAR, WAITS_HERE, WAITS_THERE = range(7)
BAR_ROLE = Qt.ItemDataRole.UserRole + 1
BAR_WIDTH = 72
MINUS = "\u2212"
WAITS_MEANS = "Time that the unit waited, summed over its tracks"


@dataclass(frozen=True, slots=True)
class Difference:
    """The cost of one cause, operator, line or unit in both runs, in cycles or nanoseconds.

    waits  waiting time in both runs, None if the row is no unit
    name_there  of a source line in the other run, "" if it is the same
    """

    name: str
    here: float
    there: float
    change: float
    waits: tuple[float, float] | None = None
    name_there: str = ""

    @property
    def label(self) -> str:
        """The names in both runs."""
        return f"{self.name} \u2192 {self.name_there}" if self.name_there else self.name


def rows_of(found: Mapping[str, Any], what: str) -> list[Difference]:
    """Return the rows of a table of `compare_runs`, in its order: the largest change first."""
    name = what[:-1]
    if what == "units":
        return [
            Difference(
                row[name], row["busy_a"], row["busy_b"], row["change"], (row["waiting_a"], row["waiting_b"])
            )
            for row in found[what]
        ]
    return [
        Difference(row[name], row["a"], row["b"], row["change"], name_there=row.get("there", ""))
        for row in found[what]
    ]


def signed(value: float) -> str:
    """Return a change as text with its sign: -1204.4 -> '\u22121 204'."""
    whole = round(value)
    return f"{'+' if whole > 0 else MINUS if whole < 0 else ''}{format_count(abs(whole))}"


class DifferenceTable(RowModel[Difference]):
    """The differences, the largest change first, until the user sorts by another column."""

    titles = ("", "Here", "There", "Change", "", "Waits here", "Waits there")
    numbers = (HERE, THERE, CHANGE, WAITS_HERE, WAITS_THERE)

    def text(self, row: Difference, column: int) -> str:
        waits = row.waits or (0.0, 0.0)
        return (
            row.label,
            format_count(round(row.here)),
            format_count(round(row.there)),
            signed(row.change),
            "",
            format_count(round(waits[0])),
            format_count(round(waits[1])),
        )[column]

    def tooltip(self, row: Difference, column: int) -> str:
        if column in (WAITS_HERE, WAITS_THERE):
            return WAITS_MEANS
        share = f" ({row.there / row.here - 1:+.1%})" if row.here else ""
        return f"{row.label}\n{self.text(row, HERE)} here, {self.text(row, THERE)} there{share}"

    def other(self, row: Difference, column: int, role: int) -> Any:
        if role == BAR_ROLE:
            most = max((abs(each.change) for each in self.rows), default=0.0)
            return row.change / most if most else 0.0
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        def key(row: Difference) -> Any:
            waits = row.waits or (0.0, 0.0)
            return (
                row.name, row.here, row.there, abs(row.change), abs(row.change), waits[0], waits[1],
            )[column]  # fmt: skip

        self.reset(sorted(self.rows, key=key, reverse=order == Qt.SortOrder.DescendingOrder))


class ChangeBar(QStyledItemDelegate):
    """Draws a bar from the middle: to the left if the other run is faster, to the right if slower."""

    def __init__(self, theme: Theme, parent: Any) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(BAR_WIDTH, super().sizeHint(option, index).height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        share = index.data(BAR_ROLE)
        if not isinstance(share, float):
            return
        area = QRectF(option.rect).adjusted(4, 6, -4, -6)
        middle, half = area.center().x(), area.width() / 2
        painter.save()
        if share:
            left = middle if share > 0 else middle + share * half
            color = self._theme.color("warning" if share > 0 else "ok")
            painter.fillRect(QRectF(left, area.top(), max(abs(share) * half, 1.0), area.height()), color)
        painter.fillRect(
            QRectF(middle, area.top() - 4, 1, area.height() + 8), self._theme.color("text-disabled")
        )
        painter.restore()


@dataclass(frozen=True, slots=True)
class Offer:
    """A run to compare with: its title, a sentence about it."""

    title: str
    text: str


class OfferTable(RowModel[Offer]):
    """The runs to compare with."""

    titles = ("Compare with", "")

    def text(self, row: Offer, column: int) -> str:
        return row.text if column else row.title

    def tooltip(self, row: Offer, column: int) -> str:
        return f"{row.title}\n{row.text}"
