"""The preferences dialog: looks, memory and keys on one page, with search."""

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from npuviz.ui.dialogs.preferences.keys_table import KeyDelegate, KeysTable, key_rows
from npuviz.ui.kit.parts import choice, fill, line, muted_label, text_button
from npuviz.ui.kit.table_view import add_copying, make_table, on_key
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.commands import CommandRegistry
from npuviz.workbench.preferences.choices import (
    PREFERENCES,
    Preference,
    matches,
    prefer,
    preferred,
)
from npuviz.workbench.preferences.keymaps import Keymap
from npuviz.workbench.settings import Settings

SIZE = (760, 640)
TEXT_MARGIN = 6
SYSTEM_FONT = "that of the system"


class PreferencesDialog(QDialog):
    """Applies every change at once, unless its line says when it takes effect.

    changed  a preference or the keys of a command changed
    """

    changed = Signal()

    def __init__(
        self, theme: Theme, settings: Settings, commands: CommandRegistry, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("dialog.preferences")
        self.setWindowTitle("Preferences")
        self.resize(*SIZE)
        self._theme, self._settings, self._commands = theme, settings, commands
        self._keymap = Keymap(settings)
        self.search = QLineEdit(self, placeholderText="Search preferences and keys", clearButtonEnabled=True)
        self.search.setObjectName("preferences.search")
        self.search.setAccessibleName("Search")
        self.search.textChanged.connect(self._show)
        self._lines: list[tuple[Preference, list[QWidget]]] = []
        self._grid = QGridLayout()
        self._grid.setColumnStretch(1, 1)
        self._grid.setHorizontalSpacing(12)
        for number, preference in enumerate(PREFERENCES):
            self._add_line(number, preference)
        self.table = KeysTable(theme, self)
        self.table.chosen.connect(self._set_keys)
        self.view = make_table(
            self.table, theme, "Keys of commands", self, object_name="preferences.keys",
            widths=(290, 220), is_single=True,
        )  # fmt: skip
        self.view.setItemDelegate(KeyDelegate(self.view))
        edit = QAbstractItemView.EditTrigger
        self.view.setEditTriggers(edit.DoubleClicked | edit.EditKeyPressed)
        on_key(self.view, Qt.Key.Key_Delete, lambda: self._change_selected(()))
        add_copying(self.view)
        usual = text_button(self, "Keys of the Preset", lambda: self._change_selected(None))
        usual.setAutoDefault(False)
        usual.setToolTip("Take back what you set for the selected command")
        hint = muted_label(self, "", "Double-click or F2, then press keys; Del takes them away.")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        fill(
            self, self.search, self._grid, (self.view, 1), line(hint, 1, usual, margins=(0, 0, 0, 0)),
            buttons, margins=(16, 16, 16, 12), spacing=12,
        )  # fmt: skip
        self._show()

    # -- lines of preferences ---------------------------------------------------------------------

    def _add_line(self, number: int, preference: Preference) -> None:
        label = QLabel(preference.title, self)
        editor = self._editor(preference)
        editor.setObjectName(f"preferences.{preference.key}")
        editor.setAccessibleName(preference.title)
        note = muted_label(self, "", preference.when)
        for column, widget in enumerate((label, editor, note)):
            self._grid.addWidget(widget, number, column)
        self._lines.append((preference, [label, editor, note]))

    def _editor(self, preference: Preference) -> QWidget:
        value = preferred(self._settings, preference)
        if isinstance(preference.default, int):
            low, high = preference.bounds
            spin = QSpinBox(self, minimum=low, maximum=high, suffix=preference.unit)
            spin.lineEdit().setTextMargins(TEXT_MARGIN, 0, TEXT_MARGIN, 0)
            spin.setValue(int(value))
            spin.valueChanged.connect(partial(self._choose, preference))
            return spin
        box = choice(self, preference.title)
        families = [("", SYSTEM_FONT)] if preference.is_font else []
        if preference.is_font:
            families += [(name, name) for name in QFontDatabase.families()]
        for known, title in preference.choices or families:
            box.addItem(title, known)
        box.setCurrentIndex(max(box.findData(value), 0))
        box.currentIndexChanged.connect(lambda _place: self._choose(preference, box.currentData()))
        # Scrolling the page with the wheel must not change the values under the pointer.
        box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return box

    def editor(self, preference: Preference) -> QWidget:
        """Return the widget that edits a preference."""
        return next(widgets[1] for known, widgets in self._lines if known == preference)

    def _choose(self, preference: Preference, value: object) -> None:
        prefer(self._settings, preference, value)
        self.changed.emit()
        self._show()

    # -- keys -------------------------------------------------------------------------------------

    def _set_keys(self, command_id: str, keys: str) -> None:
        self._keymap.set_own(command_id, (keys,) if keys else ())
        self.changed.emit()
        self._show()

    def _change_selected(self, keys: tuple[str, ...] | None) -> None:
        for index in self.view.selectionModel().selectedRows():
            self._keymap.set_own(self.table.rows[index.row()].id, keys)
        self.changed.emit()
        self._show()

    def _show(self, *_text: str) -> None:
        text = self.search.text()
        for preference, widgets in self._lines:
            for widget in widgets:
                widget.setVisible(matches(preference, text))
        rows = key_rows(self._commands.all(), self._keymap, text)
        self.table.show_rows(rows, lambda row: row.id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and isinstance(self.focusWidget(), QLineEdit | QSpinBox | QComboBox):
            return
        super().keyPressEvent(event)
