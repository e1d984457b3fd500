"""Measure the costs of choices of machine and settings by running them, and list them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from npuviz.base.progress import Progress
from npuviz.base.units import format_count
from npuviz.ui.bridge.worker import Worker
from npuviz.ui.kit.parts import fill, line, muted_label, text_button
from npuviz.ui.kit.progress import WorkProgress
from npuviz.ui.kit.row_model import RowModel
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.advice import failure_of
from npuviz.workbench.jobs import JobEnd
from npuviz.workbench.measuring import Measured, measure
from npuviz.workbench.opening import OpenOptions

UNMEASURED = "Unknown until it is measured: that compiles the model and runs it without a trace."


class CostTable(RowModel[Measured]):
    """One row for each measured choice."""

    titles = ("Choice", "Cycles", "Time", "Compiling", "Instructions", "Remarks")
    numbers = (1, 2, 3, 4)

    def text(self, row: Measured, column: int) -> str:
        if column == 0:
            return choice_text(row.options)
        if column == 5:
            return row.problem or (f"\u2248 {len(row.notes)} assumptions" if row.notes else "")
        if row.cycles < 0:
            return "unknown" if column == 1 else ""
        return (
            row.cycles_text,
            row.time_text,
            f"{row.open_seconds:.1f} s",
            format_count(row.instructions),
        )[column - 1]

    def tooltip(self, row: Measured, column: int) -> str:
        return "\n".join((choice_text(row.options), row.problem, *row.notes[:5])).replace("\n\n", "\n")


def choice_text(options: OpenOptions) -> str:
    """Return a choice as text: target, preset, description file, settings."""
    parts = [options.target, options.preset or "default"]
    if options.config is not None:
        parts.append(options.config.name)
    return ", ".join((*parts, *(f"{name}={value}" for name, value in options.settings.items())))


class CostsView(QWidget):
    """Measures choices one after the other, and can be stopped.

    asked  the user wants to measure: False the present choice, True all presets
    """

    asked = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.table = CostTable(self)
        self._worker = Worker(self)
        self._worker.progress.connect(self._show_progress)
        self._worker.ended.connect(self._ended)
        self.note = muted_label(self, "run_on.cost_note", UNMEASURED)
        self.note.setWordWrap(True)
        self._one = text_button(self, "Measure This Choice", lambda: self.asked.emit(False))
        self._one.setObjectName("run_on.measure")
        self._all = text_button(self, "Measure All Presets", lambda: self.asked.emit(True))
        self._all.setObjectName("run_on.measure_all")
        self._work = WorkProgress(self)
        self._work.cancelled.connect(self.cancel)
        self.view = make_table(
            self.table, theme, "What choices cost", self, object_name="run_on.costs",
            widths=(230, 110, 90, 80, 90), is_single=True,
        )  # fmt: skip
        self.view.setMinimumHeight(5 * theme.row_height)
        add_copying(self.view)
        buttons = line(self._one, self._all, self._work, 1, margins=(0, 0, 0, 0))
        fill(self, self.note, buttons, (self.view, 1), spacing=4)
        self.view.hide()

    @property
    def is_busy(self) -> bool:
        """Whether a choice is being measured."""
        return self._worker.is_busy

    def measure(self, path: Path, choices: Sequence[OpenOptions]) -> None:
        """Run these choices of a model; each result adds or replaces a row."""
        for options in choices:
            title = f"Measuring {choice_text(options)}"
            self._worker.start(title, _work(path, options), self._add)

    def cancel(self) -> None:
        """Stop the measurement under way, and drop the waiting ones."""
        self._worker.cancel_all()

    def clear(self) -> None:
        """Stop measuring and remove all rows, because another model was chosen."""
        self._worker.cancel_all()
        self.table.reset([])
        self.view.hide()

    def shut_down(self) -> None:
        """Stop measuring for good."""
        self._worker.shut_down()

    def _add(self, measured: Measured) -> None:
        named = choice_text(measured.options)
        others = [row for row in self.table.rows if choice_text(row.options) != named]
        self.table.reset([*others, measured])
        self.view.show()

    def _show_progress(self, fraction: float, text: str) -> None:
        if text:
            self._work.report(fraction, text)
        else:
            self._work.end()

    def _ended(self, end: JobEnd) -> None:
        if end.error is not None:
            self.note.setText(failure_of(end.error).text)


def _work(path: Path, options: OpenOptions) -> Callable[[Progress], Measured]:
    return lambda progress: measure(path, options, progress)
