"""What the program assumes, why runs stopped, what failed, and how long work took."""

import time
from typing import Any

from PySide6.QtCore import QModelIndex, QPoint
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QStackedLayout,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from npuviz.base.units import format_count
from npuviz.sim.stop import BROKEN, StopKind, StopReason
from npuviz.ui.kit.empty_state import EmptyState
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.table_view import make_table, on_key
from npuviz.ui.log.table import (
    SEVERITIES,
    LogEntry,
    LogFilter,
    LogTable,
    entries_as_text,
)
from npuviz.workbench.selection import Selection

NOTHING_YET = "Notes of the program, reasons for stopping and errors appear here. Open a model to begin."
WORTH_TELLING_SECONDS = 0.3
WIDTHS = (24, 72, 92)
QUIET_STOPS = (StopKind.UNTIL, StopKind.START, StopKind.EVENTS_FULL)
"""Stops that only say that what was asked for happened: a log of single steps helps nobody."""


class LogPanel(Panel):
    """Collects entries whether it can be seen or not."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._started: float | None = None
        self._known_cycle = 0
        self.table = LogTable(self)
        self.rows = LogFilter(self.table, self)
        self.view = self._make_view()
        self._filters: dict[str, QToolButton] = {}
        self._search = QLineEdit(self)
        self._search.setPlaceholderText("Filter")
        self._search.setAccessibleName("Show only lines with this text")
        self._search.setClearButtonEnabled(True)
        self._search.setMaximumWidth(220)
        self._search.textChanged.connect(self.rows.show_text)
        self._empty = EmptyState(NOTHING_YET, "Open\u2026", lambda: context.commands.run("file.open"), self)
        self._lay_out()
        context.model.failed.connect(self._add_failure)
        self.on_theme_changed()
        self.on_session_changed()

    def _make_view(self) -> QTableView:
        view = make_table(self.rows, self.theme, "Log", self, widths=WIDTHS, show_menu=self._show_menu)
        view.clicked.connect(self._open_entry)
        view.activated.connect(self._open_entry)
        on_key(view, QKeySequence.StandardKey.Copy, self.copy_selected)
        return view

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(4, 2, 4, 2)
        bar.setSpacing(2)
        for severity, (_, _, title) in SEVERITIES.items():
            button = QToolButton(self)
            button.setCheckable(True)
            button.setChecked(True)
            button.setToolTip(f"Show {title.lower()}")
            button.setAccessibleName(f"Show {title.lower()}")
            button.toggled.connect(lambda on, severity=severity: self.rows.show_severity(severity, on))
            self._filters[severity] = button
            bar.addWidget(button)
        bar.addStretch(1)
        bar.addWidget(self._search)
        filled = QWidget(self)
        column = QVBoxLayout(filled)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(bar)
        column.addWidget(self.view, 1)
        self._stack = QStackedLayout(self)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(filled)

    # -- hooks --------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self.table.reset([])
        self._started = None
        self._known_cycle = self.model.cycle
        opened, program = self.model.opened, self.model.program
        entries: list[LogEntry] = []
        if opened is not None:
            steps = ", ".join(
                f"{name.replace('_', ' ')} {seconds:.2f} s" for name, seconds in opened.seconds.items()
            )
            entries.append(LogEntry("timing", "open", f"{opened.title}: {steps}" if steps else opened.title))
        if program is not None:
            entries += [
                LogEntry("warning" if n.severity == "warning" else "info", n.code, n.text, node=n.node)
                for n in program.notes
            ]
        reader = self.model.reader
        if reader is not None and not reader.is_complete and self.model.session is None:
            text = "the run was killed: the trace ends before the program does"
            entries.append(LogEntry("warning", "trace", text, cycle=reader.end_cycle))
        self.add(entries)

    def on_running_changed(self, running: bool) -> None:
        if running:
            self._started = time.perf_counter()
            return
        entries: list[LogEntry] = []
        stop = self.model.stop
        if stop is not None and stop.kind not in QUIET_STOPS:
            severity = "error" if stop.kind in BROKEN else "stop"
            entries.append(LogEntry(severity, stop.kind.value, self._stop_text(stop), cycle=stop.cycle))
        if self._started is not None:
            seconds = time.perf_counter() - self._started
            cycles = self.model.cycle - self._known_cycle
            if seconds >= WORTH_TELLING_SECONDS and cycles > 0:
                rate = format_count(int(cycles / seconds))
                text = f"{format_count(cycles)} cycles in {seconds:.2f} s, {rate} cycles a second"
                entries.append(LogEntry("timing", "run", text, cycle=self.model.cycle))
            self._started = None
        self._known_cycle = self.model.cycle
        self.add(entries)

    def on_theme_changed(self) -> None:
        roles = {"text", "text-muted", *(role for _, role, _ in SEVERITIES.values())}
        self.table.colors = {role: self.theme.color(role) for role in roles}
        muted, text = self.theme.color("text-disabled").name(), self.theme.color("text").name()
        for button in self._filters.values():
            checked = f"QToolButton:checked {{ background: transparent; color: {text}; }}"
            button.setStyleSheet(f"QToolButton {{ color: {muted}; }} {checked}")
        self.view.viewport().update()

    def save_state(self) -> dict[str, Any]:
        return {"hidden": [name for name, button in self._filters.items() if not button.isChecked()]}

    def restore_state(self, state: dict[str, Any]) -> None:
        hidden = state.get("hidden", [])
        for name, button in self._filters.items():
            button.setChecked(not isinstance(hidden, list) or name not in hidden)

    # -- entries --------------------------------------------------------------------------------------

    def add(self, entries: list[LogEntry]) -> None:
        """Append entries; the view follows when its end was in sight."""
        bar = self.view.verticalScrollBar()
        was_at_end = bar.value() >= bar.maximum()
        self.table.add(entries)
        self._stack.setCurrentIndex(1 if self.table.rowCount() else 0)
        for severity, button in self._filters.items():
            count = sum(entry.severity == severity for entry in self.table.rows)
            glyph, _, title = SEVERITIES[severity]
            button.setText(f"{glyph} {title} {count}")
            button.setVisible(count > 0)
        if was_at_end and len(entries) < 3:
            self.view.scrollToBottom()

    def _stop_text(self, stop: StopReason) -> str:
        """Which breakpoints hit, or what the machine says."""
        session = self.model.session
        points = [session.breakpoints.get(i) for i in stop.breakpoints] if session else []
        named = ", ".join(point.text for point in points if point is not None)
        detail = stop.detail if stop.detail not in ("", stop.kind.value) else ""
        parts = [part for part in (named, stop.unit, detail) if part]
        return ": ".join(parts) or stop.kind.value

    def _add_failure(self, message: str) -> None:
        details = self.model.error_details
        self.add([LogEntry("error", "failed", message, cycle=self.model.cycle, details=details)])

    def copy_selected(self) -> None:
        """Put the selected lines on the clipboard, or all lines shown when none is selected."""
        chosen = sorted(index.row() for index in self.view.selectionModel().selectedRows())
        rows = chosen or range(self.rows.rowCount())
        entries = [self.rows.entry(self.rows.index(row, 0)) for row in rows]
        QGuiApplication.clipboard().setText(entries_as_text(entries))

    def _open_entry(self, index: QModelIndex) -> None:
        if index.isValid() and (node := self.rows.entry(index).node) >= 0:
            self.context.selection.set(Selection(node=node))

    def _show_menu(self, position: QPoint) -> None:
        index = self.view.indexAt(position)
        menu = QMenu(self)
        menu.addAction("Copy", self.copy_selected)
        if index.isValid():
            entry = self.rows.entry(index)
            if entry.details:
                menu.addAction("Copy details", lambda: QGuiApplication.clipboard().setText(entry.details))
            if entry.cycle >= 0 and self.model.session is not None:
                menu.addAction(
                    f"Go to cycle {format_count(entry.cycle)}", lambda: self.model.go_to(entry.cycle)
                )
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.view.viewport().mapToGlobal(position))


SPEC = PanelSpec("log", "Log", "mdi6.text-box-outline", "bottom", 2, (), LogPanel)
