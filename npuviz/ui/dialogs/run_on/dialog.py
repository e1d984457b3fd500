"""The dialog that chooses machine, preset, description file, dimensions and settings for a model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QLabel,
    QLineEdit,
    QWidget,
)

from npuviz.base.errors import NpuvizError
from npuviz.sim.target import HasSettings, LoadRequest, Setting, Target
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.dialogs.run_on.costs import UNMEASURED, CostsView
from npuviz.ui.dialogs.run_on.settings_table import (
    VALUE,
    SettingRow,
    SettingsTable,
    WordDelegate,
    rows_of,
    summary_of,
)
from npuviz.ui.kit.parts import choice, fill, filter_line, line, muted_label, text_button
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.choosing import targets_for
from npuviz.workbench.opening import OpenOptions

SIZE = (860, 720)
PATIENCE_SECONDS = 0.05
"""Longest time the dialog waits for the model's dimensions; later ones are shown when they arrive."""
DEFAULT_PRESET = "the first preset, or what a compiled file was made for"
NO_MACHINE = "No machine takes this file."


class RunOnDialog(QDialog):
    """Lets the user choose, and shows the resulting settings at once.

    chosen     path and options, when the user accepts
    ask_file   lets the user pick a model; returns None when dismissed
    last_time  returns a text about an earlier run with a choice, "" if unknown
    """

    chosen = Signal(Path, object)

    def __init__(
        self,
        theme: Theme,
        ask_file: Callable[[], Path | None],
        last_time: Callable[[Path, OpenOptions], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("dialog.run_on")
        self.setWindowTitle("Run on")
        self.resize(*SIZE)
        self._theme, self._ask_file, self._last_time = theme, ask_file, last_time
        self._options = OpenOptions()
        self._targets: list[Target] = []
        self._settings: Sequence[Setting] = ()
        self._dimensions: Sequence[str] = ()
        self._wanted: dict[str, str] = {}
        self._job = LatestJob(self)
        self._job.finished.connect(self._take_dimensions)
        self.path = QLineEdit(self, readOnly=True)
        self.path.setAccessibleName("Model")
        self.machine = choice(self, "Machine", "run_on.machine", self._machine_changed)
        self.preset = choice(self, "Preset", "run_on.preset", self._refresh)
        self.preset_text = muted_label(self, "run_on.preset_text")
        self.preset_text.setWordWrap(True)
        self.config = QLineEdit(self, placeholderText="none: the preset alone", clearButtonEnabled=True)
        self.config.setObjectName("run_on.config")
        self.config.setAccessibleName("Hardware description")
        self.config.editingFinished.connect(self._refresh)
        self.table = SettingsTable(theme, self)
        self.table.edited.connect(self._edit)
        self.filter = filter_line(self, "Filter settings", lambda _text: self._show_rows(), width=240)
        self.filter.setObjectName("run_on.filter")
        self.assumed = QCheckBox("assumed or changed only", self)
        self.assumed.toggled.connect(lambda _on: self._show_rows())
        self.summary = muted_label(self, "run_on.summary")
        self.problem = QLabel(self, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.problem.setObjectName("run_on.problem")
        self.problem.setStyleSheet(f"color: {theme.color('error').name()};")
        self.costs = CostsView(theme, self)
        self.costs.asked.connect(self._measure)
        self._build()

    def _build(self) -> None:
        self.view = make_table(
            self.table, self._theme, "Settings", self, object_name="run_on.settings", widths=(210, 150)
        )
        self.view.setItemDelegate(WordDelegate(self.view))
        edit = QAbstractItemView.EditTrigger
        self.view.setEditTriggers(edit.DoubleClicked | edit.EditKeyPressed | edit.AnyKeyPressed)
        add_copying(self.view)
        form = QGridLayout()
        form.setColumnStretch(1, 1)
        form.setHorizontalSpacing(12)
        browse = text_button(self, "Browse ...", self._browse)
        describe = text_button(self, "Browse ...", self._browse_config)
        rows: list[tuple[str, QWidget, QWidget | None]] = [
            ("Model", self.path, browse),
            ("Machine", self.machine, None),
            ("Preset", self.preset, None),
            ("", self.preset_text, None),
            ("Description", self.config, describe),
        ]
        for number, (name, widget, tool) in enumerate(rows):
            form.addWidget(QLabel(name, self), number, 0, Qt.AlignmentFlag.AlignRight)
            form.addWidget(widget, number, 1)
            if tool is not None:
                form.addWidget(tool, number, 2)
        buttons = QDialogButtonBox(self)
        self.run = buttons.addButton("Run", QDialogButtonBox.ButtonRole.AcceptRole)
        self.run.setObjectName("run_on.run")
        self.run.setDefault(True)
        self.compare = buttons.addButton("Compare", QDialogButtonBox.ButtonRole.ActionRole)
        self.compare.setObjectName("run_on.compare")
        self.compare.setToolTip("Run it so beside what is open, and show what it wins and loses")
        self.compare.hide()
        buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        tools = line(self.filter, self.assumed, 1, self.summary, margins=(0, 4, 0, 0), spacing=12)
        fill(
            self, form, tools, (self.view, 3), self.problem, (self.costs, 2), buttons,
            margins=(16, 16, 16, 12), spacing=8,
        )  # fmt: skip

    # -- what is chosen ---------------------------------------------------------------------------

    @property
    def options(self) -> OpenOptions:
        """The options with which the model would be opened now."""
        text = self.config.text().strip()
        return replace(
            self._options,
            target=str(self.machine.currentData() or ""),
            preset=str(self.preset.currentData() or ""),
            config=Path(text) if text else None,
            settings=dict(self._wanted),
        )

    def show_model(self, path: Path, options: OpenOptions) -> None:
        """Show a model with the options that the user begins with."""
        self._options = options
        self._targets = targets_for(path)
        self._wanted = dict(options.settings)
        self._dimensions = ()
        self.path.setText(str(path))
        self.path.setToolTip(str(path))
        self.config.setText(str(options.config or ""))
        self.machine.blockSignals(True)
        self.machine.clear()
        for target in self._targets:
            self.machine.addItem(target.title, target.id)
        place = self.machine.findData(options.target)
        self.machine.setCurrentIndex(max(place, 0) if self._targets else -1)
        self.machine.blockSignals(False)
        self.costs.clear()
        self._fill_presets(options.preset)
        self._refresh()
        if not self._choose_missing():
            self.machine.setFocus(Qt.FocusReason.OtherFocusReason)
        if path.suffix.lower() == ".onnx" and path.is_file():
            from npuviz.onnx.shape_inference import open_dimensions

            if self._job.ask(lambda: open_dimensions(path), PATIENCE_SECONDS):
                self._take_dimensions()

    def offer_comparison(self, compare: Callable[[Path, OpenOptions], None]) -> None:
        """Show a button that compares the choice with the open run by calling `compare`."""

        def chosen() -> None:
            path, options = Path(self.path.text()), self.options
            self.accept()
            compare(path, options)

        self.compare.clicked.connect(chosen)
        self.compare.show()

    def _fill_presets(self, wanted: str) -> None:
        self.preset.blockSignals(True)
        self.preset.clear()
        target = self._target
        if target is not None:
            self.preset.addItem("default", "")
            for name in target.presets:
                self.preset.addItem(name, name)
            self.preset.setCurrentIndex(max(self.preset.findData(wanted), 0))
        self.preset.blockSignals(False)

    @property
    def _target(self) -> Target | None:
        place = self.machine.currentIndex()
        return self._targets[place] if 0 <= place < len(self._targets) else None

    def _machine_changed(self, _place: int) -> None:
        # Settings of the previous machine are dropped, dimensions of the model are kept.
        self._wanted = {name: text for name, text in self._wanted.items() if name in self._dimensions}
        self.config.clear()
        self._fill_presets("")
        self._refresh()

    def _refresh(self, *_changed: object) -> None:
        """Ask the target for the settings that the choice leads to, and show why it would be refused."""
        target, options, path = self._target, self.options, Path(self.path.text())
        preset = options.preset
        self.preset_text.setText(target.presets.get(preset, DEFAULT_PRESET) if target else "")
        problem = "" if target is not None or not self.path.text() else NO_MACHINE
        if isinstance(target, HasSettings):
            try:
                self._settings = target.settings(options.request(path))
            except (NpuvizError, OSError) as error:
                problem = str(error)
                self._settings = self._settings or self._unchanged(target, path)
        else:
            self._settings = ()
        problem = problem or self._missing()
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        for each in (self.run, self.compare):
            each.setEnabled(target is not None and not problem)
        self.costs.setEnabled(target is not None and not problem)
        self.costs.note.setText(self._last_time(path, options) or UNMEASURED)
        self._show_rows()

    def _missing(self) -> str:
        """Return a text that names the settings still needed from the user, "" if none."""
        names = [each.name for each in self._settings if each.is_needed and each.name not in self._wanted]
        return f"Still needed: {', '.join(names)} (type a value in the table)." if names else ""

    def _unchanged(self, target: HasSettings, path: Path) -> Sequence[Setting]:
        try:
            return target.settings(LoadRequest(path))
        except (NpuvizError, OSError):
            return ()

    def _rows(self) -> list[SettingRow]:
        # Beside a changed setting its row shows the value without the change.
        target, path, options = self._target, Path(self.path.text()), self.options
        usual = {each.name: each for each in self._settings}
        if self._wanted and isinstance(target, HasSettings):
            try:
                plain = target.settings(replace(options, settings={}).request(path))
                usual |= {each.name: each for each in plain}
            except (NpuvizError, OSError):
                pass
        return rows_of(list(usual.values()), self._dimensions, self._wanted)

    def _show_rows(self) -> None:
        rows = self._rows()
        self.summary.setText(summary_of(rows) if rows else "")
        words = self.filter.text().lower().split()
        only = self.assumed.isChecked()
        self.table.show_rows(
            [
                row
                for row in rows
                if all(word in f"{row.setting.name} {row.setting.source}".lower() for word in words)
                and (not only or row.setting.is_assumed or row.wanted or row.is_dimension)
            ],
            lambda row: row.setting.name,
        )

    def _choose_missing(self) -> bool:
        """Focus the first setting still needed from the user; return False if there is none."""
        rows = enumerate(self.table.rows)
        place = next((number for number, row in rows if row.setting.is_needed and not row.wanted), -1)
        if place >= 0:
            self.view.setCurrentIndex(self.table.index(place, VALUE))
            self.view.setFocus(Qt.FocusReason.OtherFocusReason)
        return place >= 0

    def _edit(self, name: str, wanted: str) -> None:
        if wanted:
            self._wanted[name] = wanted
        else:
            self._wanted.pop(name, None)
        self._refresh()

    def _take_dimensions(self) -> None:
        try:
            self._dimensions = self._job.answer()
        except (NpuvizError, OSError) as error:
            self.problem.setText(str(error))
            self.problem.show()
            return
        self._show_rows()

    # -- what it costs ----------------------------------------------------------------------------

    def _measure(self, is_all: bool) -> None:
        target, path = self._target, Path(self.path.text())
        if target is None:
            return
        names = list(target.presets) if is_all else [self.options.preset]
        self.costs.measure(path, [replace(self.options, preset=name) for name in names])

    # -- files and the end ------------------------------------------------------------------------

    def _browse(self) -> None:
        path = self._ask_file()
        if path is not None:
            self.show_model(path, OpenOptions())

    def _browse_config(self) -> None:
        folder = str(Path(self.config.text() or self.path.text()).parent)
        name, _ = QFileDialog.getOpenFileName(
            self, "Hardware description", folder, "JSON (*.json);;All files (*)"
        )
        if name:
            self.config.setText(name)
            self._refresh()

    def _accept(self) -> None:
        path, options = Path(self.path.text()), self.options
        self.accept()
        self.chosen.emit(path, options)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.focusWidget() is self.filter:
            self.view.setFocus(Qt.FocusReason.TabFocusReason)
            return
        if event.key() == Qt.Key.Key_Escape and self.costs.is_busy:
            self.costs.cancel()
            return
        super().keyPressEvent(event)

    def done(self, result: int) -> None:
        """Stop measuring and close the dialog."""
        self._job.shut_down()
        self.costs.shut_down()
        super().done(result)
