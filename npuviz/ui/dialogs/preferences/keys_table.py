"""The table of the keys of all commands, in which they can be edited."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QKeySequenceEdit, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from npuviz.ui.kit.row_model import Index, RowModel
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.commands import Command
from npuviz.workbench.preferences.keymaps import Keymap

TITLE, KEYS, WHERE = range(3)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A command with its keys; `rival` is another command with one of them, "" if there is none."""

    id: str
    title: str
    menu: str
    keys: tuple[str, ...]
    is_own: bool
    rival: str = ""


def key_rows(commands: Sequence[Command], keymap: Keymap, text: str) -> list[KeyRow]:
    """Return the commands whose title, menu or keys contain every word of a search."""
    owners: dict[str, list[Command]] = {}
    for command in commands:
        for key in command.shortcuts:
            owners.setdefault(key, []).append(command)
    words = text.lower().split()
    found: list[KeyRow] = []
    for command in commands:
        said = f"{command.title} {command.menu} {' '.join(command.shortcuts)}".lower()
        if all(word in said for word in words):
            rivals = [o.title for key in command.shortcuts for o in owners[key] if o.id != command.id]
            menu = command.menu.replace("/", " \u203a ")
            is_own = keymap.is_own(command.id)
            row = KeyRow(command.id, command.title, menu, command.shortcuts, is_own, next(iter(rivals), ""))
            found.append(row)
    return found


class KeysTable(RowModel[KeyRow]):
    """One row for each command; its keys can be edited in place.

    chosen  (command id, keys) after the user pressed new keys; "" removes them
    """

    chosen = Signal(str, str)
    titles = ("Command", "Keys", "Menu")

    def __init__(self, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme

    def text(self, row: KeyRow, column: int) -> str:
        clash = f"  (also {row.rival})" if row.rival else ""
        return (row.title, f"{', '.join(row.keys)}{clash}", row.menu)[column]

    def other(self, row: KeyRow, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.EditRole and column == KEYS:
            return row.keys[0] if row.keys else ""
        if role == Qt.ItemDataRole.FontRole and row.is_own:
            return self._theme.font_ui(bold=True)
        if role == Qt.ItemDataRole.ForegroundRole and column == KEYS and row.rival:
            return self._theme.color("error")
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.column() == KEYS else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or index.column() != KEYS:
            return False
        row = self.rows[index.row()]
        if str(value) != (row.keys[0] if row.keys else ""):
            self.chosen.emit(row.id, str(value))
        return True


class KeyDelegate(QStyledItemDelegate):
    """Edits keys by recording the keys that are pressed."""

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QKeySequenceEdit(parent, maximumSequenceLength=2, clearButtonEnabled=True)
        editor.editingFinished.connect(self._finish(editor))
        return editor

    def _finish(self, editor: QKeySequenceEdit) -> Callable[[], None]:
        def finish() -> None:
            # The signal is emitted again when the closed editor loses the focus.
            editor.blockSignals(True)
            self.commitData.emit(editor)
            self.closeEditor.emit(editor)

        return finish

    def setEditorData(self, editor: QWidget, index: QModelIndex | QPersistentModelIndex) -> None:
        if isinstance(editor, QKeySequenceEdit):
            editor.setKeySequence(QKeySequence(str(index.data(Qt.ItemDataRole.EditRole) or "")))

    def setModelData(self, editor: QWidget, model: Any, index: QModelIndex | QPersistentModelIndex) -> None:
        if isinstance(editor, QKeySequenceEdit):
            model.setData(index, editor.keySequence().toString(QKeySequence.SequenceFormat.PortableText))
