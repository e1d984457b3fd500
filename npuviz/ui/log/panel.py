"""The log panel: notes of the program, reasons of stops, failures, durations of work."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from PySide6.QtCore import QModelIndex, QPoint
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QMenu,
    QTableView,
    QToolButton,
)

from npuviz.base.units import format_count
from npuviz.sim.stop import BROKEN, StopKind, StopReason
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import button, column, filter_line, line, pop_up
from npuviz.ui.kit.table_view import make_table, on_key
from npuviz.ui.log.table import (
    SEVERITIES,
    LogEntry,
    LogFilter,
    LogTable,
    entries_as_text,
)
from npuviz.workbench.finding.run_search import Found
from npuviz.workbench.selection import Selection

NOTHING_YET = "Notes of the program, reasons for stopping and errors appear here. Open a model to begin."
WORTH_TELLING_SECONDS = 0.3
WIDTHS = (24, 72, 92)
QUIET_STOPS = (StopKind.UNTIL, StopKind.START, StopKind.EVENTS_FULL)
"""Stops that are not logged, because they were asked for, such as the end of a step."""


class LogPanel(Panel):
    """Collects log entries, even while hidden, and shows them."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._started: float | None = None
        self._known_cycle = 0
        self.table = LogTable(self)
        self.rows = LogFilter(self.table, self)
        self.view = self._make_view()
        self._filters: dict[str, QToolButton] = {}
        self._search = filter_line(
            self, "Filter", self.rows.show_text, title="Show only lines with this text", width=220
        )
        self._lay_out()
        context.model.failed.connect(self._add_failure)
        context.log_lines.append(self._lines)
        self.on_theme_changed()
        self.on_session_changed()

    def _make_view(self) -> QTableView:
        view = make_table(self.rows, self.theme, "Log", self, widths=WIDTHS, show_menu=self._show_menu)
        view.clicked.connect(self._open_entry)
        view.activated.connect(self._open_entry)
        on_key(view, QKeySequence.StandardKey.Copy, self.copy_selected)
        return view

    def _lay_out(self) -> None:
        for severity, (_, _, title) in SEVERITIES.items():
            show = partial(self.rows.show_severity, severity)
            tip = f"Show {title.lower()}"
            self._filters[severity] = button(self, "", tip, show, is_on=True, is_flat=False)
        bar = line(*self._filters.values(), 1, self._search, margins=(4, 2, 4, 2), spacing=2)
        self.set_pages(self.invitation(NOTHING_YET), column(bar, (self.view, 1), parent=self))

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
                LogEntry(n.severity if n.severity in SEVERITIES else "info", n.code, n.text, node=n.node)
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
        for tool in self._filters.values():
            checked = f"QToolButton:checked {{ background: transparent; color: {text}; }}"
            tool.setStyleSheet(f"QToolButton {{ color: {muted}; }} {checked}")
        self.view.viewport().update()

    def save_state(self) -> dict[str, Any]:
        return {"hidden": [name for name, tool in self._filters.items() if not tool.isChecked()]}

    def restore_state(self, state: dict[str, Any]) -> None:
        hidden = state.get("hidden", [])
        for name, tool in self._filters.items():
            tool.setChecked(not isinstance(hidden, list) or name not in hidden)

    # -- entries --------------------------------------------------------------------------------------

    def add(self, entries: list[LogEntry]) -> None:
        """Append entries; scroll to the end if that was visible."""
        bar = self.view.verticalScrollBar()
        was_at_end = bar.value() >= bar.maximum()
        self.table.add(entries)
        self.show_page(self.table.rowCount() > 0)
        for severity, tool in self._filters.items():
            count = sum(entry.severity == severity for entry in self.table.rows)
            glyph, _, title = SEVERITIES[severity]
            tool.setText(f"{glyph} {title} {count}")
            tool.setVisible(count > 0)
        if was_at_end and len(entries) < 3:
            self.view.scrollToBottom()

    def _lines(self) -> Iterator[Found]:
        for entry in self.table.rows:
            here = Selection(node=entry.node) if entry.node >= 0 else Selection()
            yield Found("log", entry.text, f"{entry.severity} {entry.code}", here, entry.cycle)

    def _stop_text(self, stop: StopReason) -> str:
        """Return the reason of a stop: breakpoints that were hit, unit, and the machine's detail."""
        session = self.model.session
        points = [session.breakpoints.get(i) for i in stop.breakpoints] if session else []
        named = ", ".join(point.text for point in points if point is not None)
        detail = stop.detail if stop.detail not in ("", stop.kind.value) else ""
        parts = [part for part in (named, stop.unit, detail) if part]
        return ": ".join(parts) or stop.kind.value

    def _add_failure(self, message: str) -> None:
        details = self.model.failure.details
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
        pop_up(menu, position, self.view.viewport())


SPEC = PanelSpec("log", "Log", "mdi6.text-box-outline", "bottom", 2, (), LogPanel, listens=True)
