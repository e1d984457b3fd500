"""The table of a machine's settings, in which they can be edited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import QComboBox, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from npuviz.sim.target import Setting
from npuviz.ui.kit.row_model import Index, RowModel
from npuviz.ui.theme.theme import Theme

NAME, VALUE, SOURCE = range(3)
DIMENSION = "dimension of the model; 1 where nobody says"
NEEDED = "needed"
ESTIMATE_MARK = "\u2248 "


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting, the user's value for it ("" for none), and whether it is a dimension of the model."""

    setting: Setting
    wanted: str = ""
    is_dimension: bool = False

    @property
    def value(self) -> str:
        """The value that will be used."""
        return self.wanted or self.setting.value


class SettingsTable(RowModel[SettingRow]):
    """One row for each setting; its value can be edited, an empty text restores the default.

    edited  (name, wanted text) after the user edited a row
    """

    edited = Signal(str, str)
    titles = ("Setting", "Value", "Where it is from")
    numbers = (VALUE,)

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def text(self, row: SettingRow, column: int) -> str:
        if column == NAME:
            return row.setting.name
        if column == VALUE:
            return row.value or (NEEDED if row.setting.is_needed else "")
        mark = ESTIMATE_MARK if row.setting.is_assumed and not row.wanted else ""
        usual = f"changed; else {row.setting.value}" if row.setting.value else "changed"
        return usual if row.wanted else f"{mark}{row.setting.source}"

    def tooltip(self, row: SettingRow, column: int) -> str:
        source = row.setting.source or "a choice, not a figure"
        words = f"\none of: {', '.join(row.setting.words)}" if row.setting.words else ""
        return f"{row.setting.name} = {row.value}\n{source}{words}"

    def other(self, row: SettingRow, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.EditRole and column == VALUE:
            return row.value
        if role == Qt.ItemDataRole.FontRole and row.wanted:
            return self._theme.font_ui(bold=True)
        if role == Qt.ItemDataRole.ForegroundRole and row.setting.is_needed and not row.wanted:
            return self._theme.color("warning")
        if role == Qt.ItemDataRole.ForegroundRole and column == SOURCE:
            is_guess = row.setting.is_assumed and not row.wanted
            return self._theme.color("estimated" if is_guess else "text-muted")
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.column() == VALUE else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or index.column() != VALUE:
            return False
        row = self.rows[index.row()]
        text = str(value).strip()
        wanted = "" if text == row.setting.value else text
        if wanted != row.wanted:
            self.edited.emit(row.setting.name, wanted)
        return True


class WordDelegate(QStyledItemDelegate):
    """Edits a setting that takes only certain words by a box that offers them."""

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        model = index.model()
        words = model.rows[index.row()].setting.words if isinstance(model, SettingsTable) else ()
        if not words:
            return super().createEditor(parent, option, index)
        box = QComboBox(parent)
        box.addItems(list(words))
        return box

    def setEditorData(self, editor: QWidget, index: QModelIndex | QPersistentModelIndex) -> None:
        if isinstance(editor, QComboBox):
            editor.setCurrentText(str(index.data(Qt.ItemDataRole.EditRole)))
        else:
            super().setEditorData(editor, index)


def rows_of(
    settings: Sequence[Setting], dimensions: Sequence[str], wanted: Mapping[str, str]
) -> list[SettingRow]:
    """Return the rows: dimensions of the model, then the settings, each with the user's value."""
    named = {setting.name for setting in settings}
    sized = [Setting(name, "1", DIMENSION) for name in dimensions if name not in named]
    return [
        *(SettingRow(each, wanted.get(each.name, ""), True) for each in sized),
        *(SettingRow(each, wanted.get(each.name, "")) for each in settings),
    ]


def summary_of(rows: Sequence[SettingRow]) -> str:
    """Return a text of how many figures are documented, assumed and changed."""
    figures = [row for row in rows if row.setting.source and not row.is_dimension]
    assumed = sum(row.setting.is_assumed for row in figures)
    changed = sum(bool(row.wanted) for row in rows)
    return f"{len(figures) - assumed} figures documented, {assumed} assumed, {changed} changed"
