"""Keep toolbar and status bar up to date: cycle, time, stop, speed, progress, hazards."""

import textwrap
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from npuviz.base.units import format_count, format_cycles_as_time
from npuviz.sim.stop import BROKEN, StopKind
from npuviz.ui.bridge.hazard_watch import HazardWatch
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.shell.bars.compiling import CompilingDisplay
from npuviz.ui.shell.bars.run import RunBar
from npuviz.ui.shell.bars.status import ClickLabel, StatusLine
from npuviz.ui.shell.commands.run import stop_text
from npuviz.ui.theme.theme import Theme

TOOLTIP_WIDTH = 88
QUIET_MS = 120
"""Milliseconds a verb must last before the toolbar shows it, so that short ones do not make it flicker."""


class PositionDisplay(QObject):
    """Shows the state of a session model in toolbar and status bar.

    refresh_actions  called when work began or ended, which may enable or disable actions
    """

    def __init__(
        self,
        model: SessionModel,
        run_bar: RunBar,
        status: StatusLine,
        refresh_actions: Callable[[], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._run_bar = run_bar
        self._status = status
        self._refresh_actions = refresh_actions
        self._busy = QTimer(self, singleShot=True, interval=QUIET_MS)
        self._busy.timeout.connect(self._show_running)
        model.session_changed.connect(self._session_changed)
        model.cycle_changed.connect(self._show_cycle)
        model.running_changed.connect(self._running_changed)
        model.progress.connect(self._show_progress)
        status.work.cancelled.connect(model.cancel)
        CompilingDisplay(status.compiling, self)

    @property
    def _has_cycles(self) -> bool:
        """Whether a machine or a trace is open: the results of a sweep have no cycle."""
        opened = self._model.opened
        return opened is not None and opened.sweep is None

    def _session_changed(self) -> None:
        if not self._has_cycles:
            self._status.clear_all()
            self._run_bar.show_position(None, None, "")

    def _show_cycle(self, cycle: int) -> None:
        model, status = self._model, self._status
        if not self._has_cycles:
            return
        reader, session = model.reader, model.session
        frequency = reader.schema.frequency_hz if reader is not None else 0.0
        if model.description is not None:
            frequency = model.description.base_clock.frequency_hz
        end = session.end_cycle if session is not None else reader.end_cycle if reader is not None else None
        time = format_cycles_as_time(cycle, frequency)
        self._run_bar.show_position(cycle, end, time)
        # Plain digits: scripts read the number from here.
        status.cycle.setText(f"cycle {cycle}")
        status.time.setText(time)
        if not model.is_running:
            self._show_stop()
        rate = model.cycles_per_second
        first = " (kernels partly uncompiled)" if model.is_uncompiled else ""
        status.speed.setText(f"{format_count(round(rate))} cycles/s{first}" if rate >= 1 else "")
        status.events.setText(f"{format_count(model.num_events)} event{'s' * (model.num_events != 1)}")

    def _show_stop(self) -> None:
        stop = self._model.stop
        if self._model.session is None:
            self._status.stop.setText("recorded trace")
        elif stop is not None:
            detail = self._hit_names(stop.breakpoints) or stop.detail
            self._status.stop.setText(stop_text(stop.kind, detail))
            self._status.stop.setToolTip(plain_tip(_wrapped(detail)) or "Why it stopped")
        self._status.faults.setText(_broken_text(stop.kind) if stop is not None else "")

    def _hit_names(self, hits: tuple[int, ...]) -> str:
        """Return the breakpoints that were hit, with numbers and as the user wrote them."""
        session = self._model.session
        points = [session.breakpoints.get(hit) for hit in hits] if session is not None else []
        return "; ".join(f"{point.id} {point.text}" for point in points if point is not None)

    def _running_changed(self, running: bool) -> None:
        if running:
            self._busy.start()
        else:
            self._busy.stop()
            self._show_running()

    def _show_running(self) -> None:
        running = self._model.is_running
        self._run_bar.show_running(running)
        if running:
            self._status.stop.setText("running")
        self._refresh_actions()

    def _show_progress(self, fraction: float, text: str) -> None:
        if text:
            self._status.work.report(fraction, text)
            if not self._busy.isActive():
                self._busy.start()
        else:
            self._status.work.end()
            self._refresh_actions()


def _broken_text(kind: StopKind) -> str:
    """Return what is wrong with the simulated chip, "" if nothing is."""
    if kind not in BROKEN:
        return ""
    return "1 fault" if kind is StopKind.FAULT else kind.value


def _wrapped(text: str) -> str:
    """Wrap a text to readable lines for a tooltip, and begin a line at each unit of a circle of waits."""
    return "\n".join(line for part in text.split(" -> ") for line in textwrap.wrap(part, TOOLTIP_WIDTH))


class HazardDisplay(QObject):
    """Shows the number of hazards in the status bar.

    show_list  called when the label is clicked
    """

    def __init__(
        self,
        watch: HazardWatch,
        label: ClickLabel,
        theme: Theme,
        show_list: Callable[[], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._watch, self._label, self._theme = watch, label, theme
        label.clicked.connect(show_list)
        watch.changed.connect(self._show)
        theme.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        watch, label = self._watch, self._label
        found = watch.hazards or ()
        label.setText(_hazards_text(watch, len(found)))
        label.setVisible(watch.is_available)
        role = "warning" if found else "text-muted"
        if any(each.level == "error" for each in found):
            role = "hazard"
        label.setStyleSheet(f"color: {self._theme.color(role).name()};")


def _hazards_text(watch: HazardWatch, count: int) -> str:
    if watch.hazards is None:
        if watch.is_looking:
            return "looking for hazards\u2026"
        return "hazards 0" if watch.is_automatic else "hazards ?"
    return f"hazards {format_count(count)}"
