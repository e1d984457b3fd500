"""The session as the window sees it: the only object that uses a Session directly while the window lives."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from npuviz.base.errors import Cancelled, SettingsNeeded
from npuviz.base.kernels.lull import LULL
from npuviz.base.kernels.uncompiled import uncompiled_seconds
from npuviz.base.progress import Progress
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.stop import StopReason
from npuviz.ui.bridge.features import features_of
from npuviz.ui.bridge.verb_queue import VerbQueue
from npuviz.ui.bridge.verbs import (
    begin_of_operator,
    go_to_turn,
    restart_and_run,
    run_operator,
    step_each,
    step_line,
)
from npuviz.ui.bridge.worker import Worker
from npuviz.workbench.advice import Failure, failure_of
from npuviz.workbench.jobs import JobEnd
from npuviz.workbench.under_way import under_way

if TYPE_CHECKING:
    from npuviz.debug.breakpoint import Breakpoint
    from npuviz.debug.session import Session
    from npuviz.trace.reader import TraceReader
    from npuviz.trace.unit_times import UnderWay
    from npuviz.workbench.opening import Opened, OpenOptions

FAR = 1 << 62
"""A cycle that no run reaches."""
TICK_MS = 33
"""Milliseconds between two `cycle_changed` signals while the machine runs."""
PICTURE_MS = 500
"""Milliseconds after opening a file by which the window has painted it; helpers compile only afterwards."""


class SessionModel(QObject):
    """Runs the verbs of a session (run, step, go to, write) on a worker thread and reports by signals.

    A verb that is asked for while another one is under way waits for its end; waiting steps of one kind are
    added up. Pause, Cancel and a failure drop the waiting ones.

    session_changed  another session, or none, is open
    cycle_changed    the machine is at this cycle; after every verb even if the number is the same,
                     because the state may have changed; at most 30 times a second while it runs
    running_changed  a verb began or ended; while it runs, `session` belongs to the worker
    progress         fraction (0..1, negative if unknown) and text of long work; (1, "") when it ended
    failed           one line for the user; `failure` holds more
    settings_needed  (path, OpenOptions) of a file that needs settings from the user to open; `failed` follows
    finished_job     title and result of a job given to `submit`
    """

    session_changed = Signal()
    cycle_changed = Signal("qlonglong")  # pyright: ignore[reportArgumentType]
    running_changed = Signal(bool)
    progress = Signal(float, str)
    failed = Signal(str)
    settings_needed = Signal(Path, object)
    finished_job = Signal(str, object)
    breakpoints_changed = Signal()

    _breakpoints_moved = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._opened: Opened | None = None
        self._features: frozenset[str] = frozenset()
        self._under_way: tuple[int, list[UnderWay]] = -1, []
        self._is_running = False
        self._shown_cycle = -1
        self._rate = 0.0
        self._is_measured = False
        self._rate_start = (0, 0.0, 0.0)
        self._is_uncompiled = False
        self._unsubscribe: Callable[[], None] | None = None
        self.failure = Failure("", "")
        """What went wrong last."""
        self.may_open: Callable[[Path, OpenOptions], bool] = _only_data
        self.stop: StopReason | None = None
        self.opening: tuple[Path, OpenOptions] | None = None
        """What is being opened, and how."""
        self.num_verbs = 0
        """Verbs begun so far."""
        self.is_step = False
        """Whether the last verb was a step: only then are changes marked, since a run changes most things."""
        # Hit counts change in the worker's thread; the signal is delivered in the window's.
        self._breakpoints_moved.connect(self.breakpoints_changed, Qt.ConnectionType.QueuedConnection)
        self._worker = Worker(self)
        self._worker.progress.connect(self.progress)
        self._worker.ended.connect(self._on_ended)
        self._waiting = VerbQueue()
        self._tick = QTimer(self, interval=TICK_MS)
        self._tick.timeout.connect(self._on_tick)
        self._picture = QTimer(self, singleShot=True, interval=PICTURE_MS)
        self._picture.timeout.connect(self._end_lull)

    # -- what is open ---------------------------------------------------------------------------

    @property
    def opened(self) -> "Opened | None":
        """What was opened: path, title, target, times."""
        return self._opened

    @property
    def session(self) -> "Session | None":
        """The session, None for a bundle or when nothing is open. Read it only while not `is_running`."""
        return self._opened.session if self._opened else None

    @property
    def reader(self) -> "TraceReader | None":
        """The trace; safe at any time, also while the machine runs."""
        return self._opened.reader if self._opened else None

    @property
    def description(self) -> MachineDescription | None:
        """The machine, None for a bundle."""
        session = self.session
        return session.description if session else None

    @property
    def features(self) -> frozenset[str]:
        """Names of the machine's features beyond units and queues, by which panels and layouts are chosen."""
        return self._features

    @property
    def under_way(self) -> "list[UnderWay]":
        """Work that the machine has begun and the trace does not hold yet; empty while it runs."""
        session = self.session
        if session is None or self._is_running:
            return []
        if self._under_way[0] != session.cycle:
            self._under_way = session.cycle, under_way(session.machine, self.reader)
        return self._under_way[1]

    @property
    def program(self) -> Program | None:
        """The program, None for a bundle."""
        session = self.session
        return session.program if session else None

    @property
    def cycle(self) -> int:
        """The cycle the machine is at; 0 when nothing is open."""
        session = self.session
        return session.cycle if session else 0

    @property
    def is_running(self) -> bool:
        """Whether a verb is under way, so that the session belongs to the worker."""
        return self._is_running

    @property
    def is_busy(self) -> bool:
        """Whether any work is under way, opening and exporting included."""
        return self._worker.is_busy

    @property
    def can_step(self) -> bool:
        """Whether the machine can go forward now, or once the verb under way has ended."""
        session = self.session
        return session is not None and (self._is_running or not session.is_finished)

    @property
    def can_go_back(self) -> bool:
        """Whether there is a past to go to, or may be once the verb under way has ended."""
        session = self.session
        return session is not None and (self._is_running or session.cycle > 0)

    @property
    def cycles_per_second(self) -> float:
        """Simulated cycles a second of the last run, 0 before the first."""
        return self._rate

    @property
    def is_uncompiled(self) -> bool:
        """Whether kernels ran uncompiled for some of the time in which `cycles_per_second` was measured."""
        return self._is_uncompiled

    @property
    def num_events(self) -> int:
        """Number of events recorded so far; of a bundle: its intervals."""
        recorder = self.session.recorder if self.session else None
        if recorder is not None:
            return recorder.num_events
        return self.reader.num_intervals if self.reader else 0

    # -- opening ----------------------------------------------------------------------------------

    def open(self, path: Path, options: "OpenOptions | None" = None, *, is_named: bool = False) -> None:
        """Open a model or a bundle; `session_changed` or `failed` follows.

        is_named  the user named the file to npuviz; otherwise `may_open` is asked (by default it refuses
                  files
                  that start programs), and nothing happens if it refuses
        """
        from npuviz.workbench.opening import OpenOptions, open_file

        chosen = options or OpenOptions()
        if not is_named and not self.may_open(path, chosen):
            return
        self._worker.cancel_all()
        self.opening = path, chosen
        LULL.begin()
        self.submit(
            f"Opening {path.name}", lambda progress: open_file(path, chosen, progress), self.show_opened
        )

    def show_opened(self, opened: "Opened | None") -> None:
        """Show what was opened elsewhere and close the previous; None only closes. Only while nothing
        runs.
        """
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._waiting.clear()
        previous, self._opened = self._opened, opened
        self._features, self._under_way = _features_of(opened), (-1, [])
        if previous is not None:
            previous.close()
        self.stop = opened.session.stop if opened and opened.session else None
        self._rate = 0.0
        self._shown_cycle = self.cycle
        if opened is not None and opened.session is not None:
            self._unsubscribe = opened.session.breakpoints.changed.subscribe(self._breakpoints_moved.emit)
        self.session_changed.emit()
        self.cycle_changed.emit(self.cycle)

    def close(self) -> None:
        """Close what is open, after the work under way has been interrupted."""
        self._worker.cancel_all()
        if not self._worker.is_busy:
            self.show_opened(None)
        else:
            self.submit("Closing", lambda _progress: None, self.show_opened)

    def shut_down(self) -> None:
        """Stop the worker; the model cannot be used afterwards."""
        self._tick.stop()
        self._picture.stop()
        LULL.end()
        self._waiting.clear()
        self._worker.shut_down()
        self.blockSignals(True)
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _end_lull(self) -> None:
        """Let helpers compile from now on, unless another file is being opened."""
        if self.opening is None:
            LULL.end()

    # -- verbs ------------------------------------------------------------------------------------

    def run(self, until: int | None = None) -> None:
        """Run to the next stop, or to a cycle."""
        self._verb("Running", lambda s, p: s.run(until, p), is_measured=True)

    def step(self, count: int = 1) -> None:
        """Go some cycles forward."""
        self._steps("Stepping", step_each, count)

    def step_back(self, count: int = 1) -> None:
        """Go some cycles back."""
        self._steps("Stepping back", lambda s, n: s.step_back(n), count)

    def step_instruction(self, unit: int) -> None:
        """Run until the unit starts its next instruction."""
        self._verb("Stepping", lambda s, _p: s.step_instruction(unit), is_step=True)

    def step_instruction_back(self, unit: int) -> None:
        """Go back to where the unit started its previous instruction."""
        self._verb("Stepping back", lambda s, _p: s.step_instruction_back(unit), is_step=True)

    def step_line(self, subject: int, how: str = "over", is_back: bool = False) -> None:
        """Go to another line of the program of an element, or of a unit on a machine without elements.

        how  "over", "into" or "out"
        """
        self._verb("Stepping", lambda s, _p: step_line(s, subject, how, is_back), is_step=True)

    def step_task(self, element: int, is_back: bool = False) -> None:
        """Run until an element begins a task, or back to where it began one."""
        self._verb(
            "Stepping",
            lambda s, _p: s.step_task_back(element) if is_back else s.step_task(element),
            is_step=True,
        )

    def go_to_turn(self, variable: str, turn: int, instruction: int) -> None:
        """Go to iteration `turn` of a loop around an instruction, on that instruction's unit."""
        self._verb(f"Going to {variable}, {turn}", lambda s, p: go_to_turn(s, variable, turn, p, instruction))

    def run_back(self) -> None:
        """Go back to the previous stop, or to cycle 0."""
        self._verb("Running back", lambda s, _p: s.run_back())

    def go_to(self, cycle: int) -> None:
        """Go to a cycle, forward or back."""
        self._verb(f"Going to cycle {cycle}", lambda s, p: s.go_to(max(0, cycle), p))

    def restart(self) -> None:
        """Go to cycle 0."""
        self._verb("Restarting", lambda s, _p: s.restart())

    def restart_and_run(self) -> None:
        """Go to cycle 0 and run."""
        self._verb("Running", restart_and_run, is_measured=True)

    def run_through(self) -> None:
        """Run to the end, past all breakpoints."""
        self._verb("Running to the end", lambda s, p: s.go_to(FAR, p))

    def run_to_end_of_operator(self, node: int) -> None:
        """Run until the last work of a graph node ends."""
        self._verb("Running to the end of the operator", lambda s, p: run_operator(s, node, p))

    def run_to_begin_of_operator(self, node: int) -> None:
        """Go to where the work on a graph node begins, forward or back."""
        self._verb("Going to the operator", lambda s, p: begin_of_operator(s, node, p))

    def write(self, probe: str, value: Any) -> None:
        """Set a writable probe; the future is recomputed from here."""
        self._verb("Writing", lambda s, _p: s.write(probe, value), is_step=True)

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory; the future is recomputed from here."""
        self._verb("Writing", lambda s, _p: s.write_memory(memory, address, data), is_step=True)

    def pause(self) -> None:
        """Stop the verb under way as soon as possible, and drop the waiting ones."""
        if self._is_running:
            self.cancel()

    def cancel(self) -> None:
        """Stop all work under way (a run, opening, an export), and drop the waiting verbs."""
        self._waiting.clear()
        self._worker.cancel_all()

    def add_breakpoint(self, text: str) -> "Breakpoint | None":
        """Set a breakpoint; return None without session. Raises ConditionError if the text is no
        condition.
        """
        session = self.session
        return session.breakpoints.add(text) if session else None

    def submit(
        self, title: str, work: Callable[[Progress], Any], done: Callable[[Any], None] | None = None
    ) -> None:
        """Do other long work on the worker; `done` gets its result in the window's thread."""
        self._worker.start(title, work, done or (lambda result: self.finished_job.emit(title, result)))

    def perform(self, title: str, work: "Callable[[Session, Progress], StopReason | None]") -> None:
        """Do any work on the session as one verb."""
        self._verb(title, work)

    def when_free(self, call: Callable[[], object]) -> None:
        """Call something in the window's thread that uses the session: now, or after the verb under way."""
        if self._is_running:
            self._waiting.add(lambda _count: call())
        else:
            call()

    # -- inside -----------------------------------------------------------------------------------

    def _verb(
        self,
        title: str,
        work: "Callable[[Session, Progress], StopReason | None]",
        is_measured: bool = False,
        is_step: bool = False,
    ) -> None:
        session = self.session
        if session is None:
            return
        if self._worker.is_busy:
            self._waiting.add(lambda _count: self._verb(title, work, is_measured, is_step))
            return
        self._is_running = True
        self._under_way = -1, []
        self.num_verbs += 1
        self.is_step = is_step
        self._is_measured = is_measured
        self._rate_start = (session.cycle, time.perf_counter(), uncompiled_seconds())
        self._worker.start(
            title, lambda progress: work(session, progress), self._verb_done, session.interrupt
        )
        self._tick.start()
        self.running_changed.emit(True)

    def _steps(self, title: str, step: "Callable[[Session, int], StopReason]", count: int) -> None:
        """Take steps of one kind; if other work is under way, add them to the waiting ones of that kind."""
        if self._worker.is_busy:
            self._waiting.add(lambda total: self._steps(title, step, total), title, count)
        else:
            self._verb(title, lambda session, _progress: step(session, count), is_step=True)

    def _verb_done(self, result: Any) -> None:
        if isinstance(result, StopReason):
            self.stop = result

    def _on_tick(self) -> None:
        cycle = self.cycle
        self._measure_rate(cycle)
        if cycle != self._shown_cycle:
            self._shown_cycle = cycle
            self.cycle_changed.emit(cycle)

    def _measure_rate(self, cycle: int) -> None:
        start_cycle, start_time, uncompiled = self._rate_start
        seconds = time.perf_counter() - start_time
        if self._is_measured and seconds > 0.05 and cycle > start_cycle:
            self._rate = (cycle - start_cycle) / seconds
            self._is_uncompiled = uncompiled_seconds() > uncompiled

    def _on_ended(self, end: JobEnd) -> None:
        was_running, self._is_running = self._is_running, False
        opening = self.opening
        if not self._worker.is_busy:
            self.opening = None
        if opening is not None:
            self._picture.start()
        self._tick.stop()
        if was_running:
            self._shown_cycle = self.cycle
            self._measure_rate(self._shown_cycle)
            self.running_changed.emit(False)
            self.cycle_changed.emit(self._shown_cycle)
        if end.error is not None:
            self._waiting.clear()
            if isinstance(end.error, SettingsNeeded) and opening is not None:
                self.settings_needed.emit(*opening)
            if not isinstance(end.error, Cancelled):
                self.failure = failure_of(end.error)
                self.failed.emit(self.failure.text)
        self._waiting.work_off(lambda: not self._worker.is_busy)


def _features_of(opened: "Opened | None") -> frozenset[str]:
    if opened is not None and opened.sweep is not None:
        return frozenset(("sweep results",))
    session = opened.session if opened is not None else None
    return features_of(session.machine if session else None, opened.reader if opened is not None else None)


def _only_data(path: Path, options: "OpenOptions") -> bool:
    """Return whether opening a path starts no program."""
    from npuviz.workbench.trust import scripts_to_run

    return not scripts_to_run(path, options)
