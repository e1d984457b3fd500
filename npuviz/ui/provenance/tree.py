"""The model of the provenance tree: below each step its sources or its users, found when it is unfolded."""

from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from npuviz.base.units import format_count
from npuviz.debug.provenance import Provenance, Step

Index = QModelIndex | QPersistentModelIndex
TITLES = ("Step", "Cycle", "Unit", "Operator", "Through")
CYCLE, THROUGH = 1, 4
MOST_CHILDREN = 200
"""Most lines below one step; the others are only counted."""
_NOWHERE = QModelIndex()


@dataclass
class Item:
    """A line of the tree.

    is_source  its children are what it was made from; else its users
    """

    texts: tuple[str, str, str, str, str]
    parent: "Item | None" = None
    step: Step | None = None
    is_source: bool = True
    children: "list[Item] | None" = None
    row: int = 0
    tip: str = field(default="", compare=False)


def _step_item(step: Step, through: str, *, is_source: bool) -> Item:
    found = step.instruction
    title = f"#{format_count(found.index)} {found.opcode}"
    operator = step.line or step.operator
    texts = (title, format_count(step.cycle), step.unit, operator, through)
    return Item(texts, step=step, is_source=is_source, tip=found.text)


def _plain(text: str, through: str = "") -> Item:
    return Item((text, "", "", "", through), children=[])


def _numbered(parent: Item, children: list[Item]) -> list[Item]:
    for row, child in enumerate(children):
        child.parent, child.row = parent, row
    return children


class ProvenanceTree(QAbstractItemModel):
    """The tree with two branches: what made the present content of some bytes, and who uses it."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._found: Provenance | None = None
        self._top = _plain("")

    def show(self, found: Provenance | None, writer: Step | None, readers: tuple[Step, ...]) -> None:
        """Show the writer, with its sources below it, and the readers; `found` None: nothing.

        writer  None: nothing has written the bytes
        """
        self.beginResetModel()
        self._found, self._top = found, _plain("")
        if found is not None:
            made, used = _plain("Made by"), _plain("Used by")
            origin = [_step_item(writer, "", is_source=True)] if writer is not None else []
            made.children = _numbered(made, origin or [_plain("nothing has written it up to now")])
            users = [_step_item(step, "", is_source=False) for step in readers[:MOST_CHILDREN]]
            if len(readers) > MOST_CHILDREN:
                users.append(_plain(f"and {format_count(len(readers) - MOST_CHILDREN)} more"))
            nobody = "nobody" if found.is_whole else f"nobody up to cycle {format_count(found.until)}"
            used.children = _numbered(used, users or [_plain(nobody)])
            self._top.children = _numbered(self._top, [made, used])
        self.endResetModel()

    def item(self, index: Index) -> Item:
        """Return the line at an index; the invisible root for an invalid one."""
        return index.internalPointer() if index.isValid() else self._top

    # ---- Qt

    def index(self, row: int, column: int, parent: Index = _NOWHERE) -> QModelIndex:
        children = self.item(parent).children or []
        if not 0 <= row < len(children) or not 0 <= column < len(TITLES):
            return QModelIndex()
        return self.createIndex(row, column, children[row])

    def parent(self, index: Index) -> QModelIndex:  # pyright: ignore[reportIncompatibleMethodOverride]
        above = self.item(index).parent
        if above is None or above is self._top:
            return QModelIndex()
        return self.createIndex(above.row, 0, above)

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return len(self.item(parent).children or []) if parent.column() <= 0 else 0

    def columnCount(self, parent: Index = _NOWHERE) -> int:
        return len(TITLES)

    def hasChildren(self, parent: Index = _NOWHERE) -> bool:
        children = self.item(parent).children
        return parent.column() <= 0 and (children is None or bool(children))

    def canFetchMore(self, parent: Index) -> bool:
        return self.item(parent).children is None

    def fetchMore(self, parent: Index) -> None:
        item = self.item(parent)
        if item.children is not None:
            return
        children = _numbered(item, self._below(item))
        if children:
            self.beginInsertRows(parent, 0, len(children) - 1)
            item.children = children
            self.endInsertRows()
        else:
            item.children = children

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return TITLES[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and section == CYCLE:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        item = self.item(index)
        if role == Qt.ItemDataRole.DisplayRole:
            return item.texts[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole and index.column() == 0:
            return item.tip or None
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() == CYCLE:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return None

    # ---- inside

    def _below(self, item: Item) -> list[Item]:
        if self._found is None or item.step is None:
            return []
        if not item.is_source:
            users = self._found.users(item.step.place)
            return self._cut(
                [_step_item(step, "", is_source=False) for step in users[:MOST_CHILDREN]], len(users)
            )
        origins = self._found.origins(item.step.place)
        below = [
            _plain(each.name, each.through)
            if each.step is None
            else _step_item(each.step, each.through, is_source=True)
            for each in origins[:MOST_CHILDREN]
        ]
        return self._cut(below, len(origins))

    def _cut(self, items: list[Item], count: int) -> list[Item]:
        return (
            [*items, _plain(f"and {format_count(count - len(items))} more")] if count > len(items) else items
        )
