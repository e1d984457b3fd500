"""Drive a machine in slices: record each cycle once, keep checkpoints, react to interrupts."""

import threading
import time
from collections.abc import Callable

import numpy as np

from npuviz.base.errors import Cancelled, SimulationError
from npuviz.base.progress import Progress
from npuviz.debug.edits import EditList
from npuviz.debug.timeline import Timeline
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import NO_STOPS, StopKind, StopReason
from npuviz.trace.recorder import Recorder

SLICE_SECONDS = 0.005
"""Target duration of one call of `advance`, far below the 50 ms within which an interrupt must work: the
number of cycles of a slice is estimated from the slice before, and the next cycles may take ten times as
long."""

FIRST_SLICE_CYCLES = 128
LEAST_SLICE_CYCLES = 16
LARGEST_SLICE_CYCLES = 1 << 40

DRAIN_SECONDS = 0.1
"""Longest time, while running, after which readers of the trace see new events."""

REPORT_SECONDS = 0.1
"""Shortest time between two reports of progress."""

NEAR_SECONDS = 0.004
"""A stretch that takes less time than this to simulate again is not worth a checkpoint."""


class Runner:
    """The only caller of `Machine.advance`, `snapshot` and `restore` of a session.

    version  changes whenever history changes
    furthest  the last cycle that was reached since history changed
    tick  called with the present cycle after every slice; it may raise, and the state is then consistent
    """

    def __init__(
        self,
        machine: Machine,
        recorder: Recorder | None,
        budget_bytes: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.machine = machine
        self.recorder = recorder
        self.edits = EditList()
        self.version = 0
        self.furthest = machine.cycle
        self.interrupted = threading.Event()
        self.tick: Callable[[int], None] = no_tick
        self._clock = clock
        self._first = machine.snapshot()
        self.timeline = Timeline(self._first, budget_bytes)
        self._buffer = EventBuffer(max(1 << 16, 4 * machine.event_rows_per_cycle))
        self._slice = FIRST_SLICE_CYCLES
        self._since_base = 0.0
        self._drained_at = clock()
        if recorder is not None:
            recorder.mark(machine.cycle)

    @property
    def first(self) -> Snapshot:
        """The state before the first cycle, without the edits of that cycle."""
        return self._first

    def advance(self, until: int, rows: np.ndarray = NO_STOPS) -> StopReason:
        """Run to `until`, a hit of `rows`, the end, a fault or an interrupt.

        Events stay in the buffer until it is full or `flush` is called.
        """
        machine = self.machine
        while True:
            now = machine.cycle
            if machine.is_finished:
                return StopReason(StopKind.FINISHED, now, detail="the program has ended")
            if self.interrupted.is_set():
                return StopReason(StopKind.INTERRUPTED, now, detail="stopped by the user")
            reason = self._advance_slice(now, until, rows)
            self.tick(machine.cycle)
            if reason.kind is StopKind.UNTIL and machine.cycle < until:
                continue
            if reason.kind is StopKind.EVENTS_FULL:
                self._drain(now)
                continue
            return reason

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the machine to a checkpoint; events in the buffer are recorded first."""
        self.flush()
        self.machine.restore(snapshot)
        if snapshot is self._first:  # the only checkpoint taken before the edits of its cycle
            self.edits.apply(self.machine)
        self._since_base = 0.0

    def travel(self, cycle: int) -> StopReason:
        """Go to `cycle`, ignoring stops; simulate again from the nearest checkpoint or from here."""
        nearest = self.timeline.nearest(cycle)
        if not nearest.cycle <= self.machine.cycle <= cycle:
            is_back = cycle < self.machine.cycle
            self.restore(nearest)
            if is_back:
                self._approach(cycle)
        if self.machine.cycle == cycle and not self.machine.is_finished:
            return StopReason(StopKind.UNTIL, cycle)
        return self.advance(cycle)

    def flush(self) -> None:
        """Hand everything in the buffer to the recorder."""
        self._drain(-1)

    def forget_after(self, cycle: int) -> None:
        """Drop the later checkpoints and the later trace, because history changed at `cycle`.

        The machine must be at `cycle` or before it, or the dropped part would count as recorded.
        """
        self.flush()
        self.version += 1
        self.furthest = min(self.furthest, cycle)
        self.timeline.drop_from(cycle)
        self._since_base = 0.0
        if self.recorder is not None and self.recorder.horizon > cycle:
            self.recorder.truncate(cycle)

    def replace_edits(self, edits: EditList, cycle: int) -> None:
        """Adopt another history that is the same before `cycle`; the machine is then at or before that."""
        self.flush()
        self.edits = edits
        is_first = cycle <= self._first.cycle
        self.restore(self._first if is_first else self.timeline.before(cycle))
        self.forget_after(cycle)

    # ---- inside

    def _advance_slice(self, now: int, until: int, rows: np.ndarray) -> StopReason:
        goal = min(until, now + self._slice)
        edit_cycle = self.edits.next_after(now)
        if edit_cycle is not None:
            goal = min(goal, edit_cycle)
        events = None
        if self.recorder is not None:
            horizon = self.recorder.horizon
            if now < horizon:
                goal = min(goal, horizon)
            else:
                events = self._buffer
        begin = self._clock()
        reason = self.machine.advance(goal, rows, events)
        end = self._clock()
        moved = self.machine.cycle - now
        self.furthest = max(self.furthest, self.machine.cycle)
        if moved and self.machine.cycle == edit_cycle:
            self.edits.apply(self.machine)
        self._adapt_slice(moved, end - begin)
        self._lay_base(end - begin)
        if events is not None and end - self._drained_at > DRAIN_SECONDS:
            self._drain(-1)
        return reason

    def _adapt_slice(self, moved: int, seconds: float) -> None:
        if seconds > 2 * SLICE_SECONDS:
            self._slice = max(LEAST_SLICE_CYCLES, int(moved * SLICE_SECONDS / seconds))
        elif moved >= self._slice and seconds < SLICE_SECONDS / 2:
            self._slice = min(2 * self._slice, LARGEST_SLICE_CYCLES)

    def _lay_base(self, seconds: float) -> None:
        cycle = self.machine.cycle
        if cycle <= self.timeline.last_base_cycle:
            return
        self._since_base += seconds
        if self._since_base >= self.timeline.spacing_seconds:
            begin = self._clock()
            snapshot = self.machine.snapshot()
            self.timeline.add(snapshot, self._clock() - begin)
            self._since_base = 0.0

    def _approach(self, cycle: int) -> None:
        """Go towards `cycle` in halves, keeping a checkpoint where simulating took long."""
        while cycle - self.machine.cycle > 1:
            begin = self._clock()
            halfway = (self.machine.cycle + cycle) // 2
            reason = self.advance(halfway)
            if reason.kind is not StopKind.UNTIL or self._clock() - begin < NEAR_SECONDS:
                return
            self.timeline.add_near(self.machine.snapshot())

    def _drain(self, cycle_before: int) -> None:
        """Empty the buffer. `cycle_before`: cycle at which the slice began if a full buffer ended it,
        else -1."""
        recorder = self.recorder
        if recorder is None:
            return
        cycle = self.machine.cycle
        if int(self._buffer.count[0]) == 0 and cycle == cycle_before:
            raise SimulationError(f"the machine found an empty event buffer too small at cycle {cycle}")
        recorder.drain(self._buffer)
        if cycle > recorder.horizon:
            recorder.mark(cycle)
        self._drained_at = self._clock()


def reporting(
    progress: Progress,
    span: tuple[int, int | None],
    clock: Callable[[], float],
    interrupt: Callable[[], None],
) -> Callable[[int], None]:
    """Return a tick that reports progress now and then over a span,
    whose last cycle may be unknown (None)."""
    begin, goal = span
    reported = clock()

    def tick(cycle: int) -> None:
        nonlocal reported
        now = clock()
        if now - reported < REPORT_SECONDS:
            return
        reported = now
        total = goal - begin if goal is not None else 0
        fraction = min(1.0, max(0.0, (cycle - begin) / total)) if total > 0 else -1.0
        try:
            progress.report(fraction, f"cycle {cycle}")
        except Cancelled:
            interrupt()

    return tick


def no_tick(cycle: int) -> None:
    """Do nothing at a tick."""
