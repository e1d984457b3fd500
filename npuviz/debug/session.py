"""Define a session: one program on one machine, which can be brought to any of its cycles."""

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from npuviz.base.errors import Cancelled
from npuviz.base.notifier import Notifier
from npuviz.base.progress import NoProgress, Progress
from npuviz.debug.branches import Apart, Branch, BranchList, run_apart
from npuviz.debug.breakpoint import Breakpoint, BreakpointList, Watch, watch_of
from npuviz.debug.condition.atoms import Scope
from npuviz.debug.condition.expression import Expression
from npuviz.debug.condition.language import Condition, parse
from npuviz.debug.edits import Edit, EditList, MemoryEdit, ProbeEdit, frozen_value
from npuviz.debug.element_steps import (
    LineStep,
    frames_of,
    is_same_line,
    line_rows,
    place_text,
    rows_back,
    same_line_rows,
    task_rows,
)
from npuviz.debug.runner import Runner, no_tick, reporting
from npuviz.debug.search import Search, unit_rows
from npuviz.debug.started import with_instruction
from npuviz.debug.timeline import Timeline
from npuviz.debug.tracepoint import TraceLog
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.fabric import FabricShape, HasFabric
from npuviz.sim.machine import HasUnitStops, Machine
from npuviz.sim.stop import BROKEN, StopKind, StopReason
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder

FOREVER = 1 << 62
NO_PROGRESS = NoProgress()


class Session:
    """Runs, steps and travels. These methods (verbs) return why they stopped;
    one thread at a time may call them.

    machine   at its first cycle; from now on only the session advances or changes it
    recorder  None records nothing
    checkpoint_budget_bytes  memory for the checkpoints from which going back starts
    changed   notified after every verb and write, with the reason why it stopped
    progress  receives the progress of verbs that are called without one
    """

    def __init__(
        self,
        machine: Machine,
        recorder: Recorder | None = None,
        checkpoint_budget_bytes: int = 256 << 20,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.machine = machine
        self.recorder = recorder
        self.trace = TraceReader(recorder.store) if recorder is not None else None
        self.changed: Notifier[StopReason] = Notifier()
        self.breakpoints = BreakpointList(
            lambda text: parse(text, machine.description, machine.program, machine.probes, self.fabric)
        )
        self.log = TraceLog()
        self.end_cycle: int | None = None
        self.progress: Progress = NO_PROGRESS
        self._clock = clock
        self._runner = Runner(machine, recorder, checkpoint_budget_bytes, clock)
        self._search = Search(self._runner)
        self._branches = BranchList()
        self._first_cycle = machine.cycle
        self._stop = StopReason(StopKind.START, machine.cycle)

    # ---- what is

    @property
    def description(self) -> MachineDescription:
        """Description of the machine."""
        return self.machine.description

    @property
    def program(self) -> Program:
        """The program that runs."""
        return self.machine.program

    @property
    def fabric(self) -> FabricShape | None:
        """The grid of the machine's processing elements, None if it has none."""
        return self.machine.fabric if isinstance(self.machine, HasFabric) else None

    @property
    def scope(self) -> Scope:
        """Everything that conditions and expressions can name."""
        return Scope(self.description, self.program, self.machine.probes, self.fabric)

    @property
    def cycle(self) -> int:
        """Number of base-clock cycles completed."""
        return self.machine.cycle

    @property
    def stop(self) -> StopReason:
        """Why the last verb stopped."""
        return self._stop

    @property
    def is_finished(self) -> bool:
        """Whether the program has ended at the present cycle."""
        return self.machine.is_finished

    @property
    def is_edited(self) -> bool:
        """Whether something was written since the first cycle."""
        return self._runner.edits.first_cycle is not None

    @property
    def version(self) -> int:
        """Changes whenever history changes, so that results derived from the earlier run are void."""
        return self._runner.version

    @property
    def timeline(self) -> Timeline:
        """The checkpoints of the session."""
        return self._runner.timeline

    # ---- forward

    def run(self, until: int | None = None, progress: Progress = NO_PROGRESS) -> StopReason:
        """Run to a breakpoint, the end, a fault, an interrupt or the cycle `until`."""
        with self._verb(progress, until):
            return self.stopped(self._forward(FOREVER if until is None else until))

    def run_to(self, text: str, progress: Progress = NO_PROGRESS) -> StopReason:
        """Run to where a condition next holds, ignoring breakpoints; their hits are not counted.

        Raises ConditionError for a text that cannot be understood.
        """
        wanted = self.breakpoints.parse(text)
        with self._verb(progress):
            return self.stopped(self._reached(self._search.forward(FOREVER, watch_of([(wanted, 0)])), wanted))

    def run_back_to(self, text: str) -> StopReason:
        """Go back to where a condition last held before now, or to the first cycle; see `run_to`."""
        wanted = self.breakpoints.parse(text)
        with self._verb():
            return self.stopped(self._reached(self._search.backward(watch_of([(wanted, 0)])), wanted))

    def step(self, n: int = 1) -> StopReason:
        """Run `n` cycles, or less if a breakpoint hits."""
        _check_count(n)
        with self._verb():
            return self.stopped(self._forward(self.cycle + n))

    def step_instruction(self, unit_id: int) -> StopReason:
        """Run until the unit starts its next instruction."""
        rows = self._rows_of(unit_id)
        with self._verb():
            reason = self._ahead(FOREVER, self.breakpoints.watch().joined(rows))
            return self.stopped(self._without_unit(reason, unit_id))

    def step_line(self, element: int, how: LineStep = LineStep.OVER) -> StopReason:
        """Run until a processing element comes to another line of its program, or begins a task."""
        rows = line_rows(self.program.listing, frames_of(self.machine, element), element, how)
        return self._step_element(element, rows, is_line=True)

    def step_task(self, element: int) -> StopReason:
        """Run until a processing element begins its next task."""
        frames_of(self.machine, element)
        return self._step_element(element, task_rows(self.program.listing, element))

    # ---- back, and anywhere

    def step_back(self, n: int = 1) -> StopReason:
        """Go `n` cycles back, at most to the first."""
        _check_count(n)
        return self.go_to(max(self._first_cycle, self.cycle - n))

    def step_instruction_back(self, unit_id: int) -> StopReason:
        """Go back to where the unit last started an instruction."""
        rows = self._rows_of(unit_id)
        with self._verb():
            reason = self._search.backward(Watch(rows))
            return self.stopped(self._without_unit(reason, unit_id))

    def step_line_back(self, element: int, how: LineStep = LineStep.OVER) -> StopReason:
        """Go back to where a processing element began the line before the present one."""
        rows = rows_back(self.program.listing, frames_of(self.machine, element), element, how)
        with self._verb():
            reason = self._search.backward(Watch(rows))
            while reason.kind is StopKind.BREAKPOINT and not frames_of(self.machine, element):
                reason = self._search.backward(Watch(rows))  # the end of a task, where no line runs
            if reason.kind is StopKind.BREAKPOINT:
                reason = self._begin_of_line(reason, element, how)
            return self.stopped(self._at_element(reason, element))

    def _begin_of_line(self, reason: StopReason, element: int, how: LineStep) -> StopReason:
        """Go back from inside a line to where the element came to it."""
        listing, frames, end = self.program.listing, frames_of(self.machine, element), self.cycle
        inner = LineStep.OVER if how is LineStep.OVER else LineStep.INTO
        begin = self._search.backward(Watch(line_rows(listing, frames, element, inner)))
        if begin.kind is StopKind.INTERRUPTED:
            return begin
        before = frames_of(self.machine, element)
        if not before or not is_same_line(listing, before[0], frames[0]):
            self._search.forward(end, Watch(same_line_rows(listing, frames[0], element)))
        return StopReason(reason.kind, self.cycle, reason.breakpoints)

    def step_task_back(self, element: int) -> StopReason:
        """Go back to where a processing element last began a task."""
        frames_of(self.machine, element)
        with self._verb():
            reason = self._search.backward(Watch(task_rows(self.program.listing, element)))
            return self.stopped(self._at_element(reason, element))

    def run_back(self) -> StopReason:
        """Go back to the last hit of a breakpoint before now, or to the first cycle."""
        with self._verb():
            return self.stopped(self._search.backward(self.breakpoints.watch(with_logs=False)))

    def go_to(self, cycle: int, progress: Progress = NO_PROGRESS) -> StopReason:
        """Go to `cycle`, ignoring breakpoints; to the end if the program ends before it."""
        if cycle < self._first_cycle:
            raise ValueError(f"cycle {cycle}: expected {self._first_cycle} or later")
        with self._verb(progress, cycle):
            reason = self._runner.travel(cycle)
            if reason.kind is StopKind.UNTIL and reason.cycle == self._first_cycle:
                reason = StopReason(StopKind.START, reason.cycle)
            return self.stopped(reason)

    def restart(self) -> StopReason:
        """Begin again at the first cycle, without what was written since."""
        with self._verb():
            runner = self._runner
            edited = runner.edits.first_cycle
            if edited is not None:
                self._keep_branch()
            runner.edits.clear()
            runner.restore(self.timeline.nearest(self._first_cycle))
            if edited is not None:
                runner.forget_after(edited)
                self.end_cycle = None
            return self.stopped(StopReason(StopKind.START, self._first_cycle))

    def interrupt(self) -> None:
        """Stop the running verb soon. May be called from any thread."""
        self._runner.interrupted.set()

    # ---- back in time, to look, and here again

    def last_hit(self, rows: np.ndarray) -> StopReason | None:
        """Return the last stop at rows up to now, found by going back; the session stays in place.

        None if they never hit. Raises Cancelled when interrupted.
        """
        start = self.cycle
        with self._verb():
            found = self._search.last_until_now(Watch(rows))
            self._runner.travel(start)
        if found.kind is StopKind.INTERRUPTED:
            raise Cancelled("the search was stopped")
        return found if found.kind is StopKind.BREAKPOINT else None

    def at_first(self, holds: Callable[[], bool], look: Callable[[], Any]) -> Any:
        """Return `look()` at the first cycle at which `holds()`, which holds from then on;
        the session stays in place.

        Raises Cancelled when interrupted.
        """
        start, low, high = self.cycle, self._first_cycle - 1, self.cycle
        with self._verb():
            try:
                while high - low > 1:
                    middle = (low + high) // 2
                    self._travel_to_look(middle)
                    low, high = (low, middle) if holds() else (middle, high)
                self._travel_to_look(high)
                return look()
            finally:
                self._runner.interrupted.clear()
                self._runner.travel(start)

    def at_cycle(self, cycle: int, look: Callable[[], Any]) -> Any:
        """Return `look()` at another cycle; the session stays in place. Raises Cancelled when interrupted."""
        return self.at_cycles([cycle], look)[0]

    def at_cycles(self, cycles: Iterable[int], look: Callable[[], Any]) -> list[Any]:
        """Return `look()` at several cycles, as `at_cycle`; rising cycles take one pass through the run."""
        start = self.cycle
        with self._verb():
            try:
                found: list[Any] = []
                for cycle in cycles:
                    self._travel_to_look(cycle)
                    found.append(look())
                return found
            finally:
                self._runner.interrupted.clear()
                self._runner.travel(start)

    def _travel_to_look(self, cycle: int) -> None:
        if self._runner.travel(cycle).kind is StopKind.INTERRUPTED:
            raise Cancelled("the search was stopped")

    # ---- looking and changing

    def read(self, probe: str) -> Any:
        """Return the value of a probe now. Raises KeyError for an unknown one."""
        return self.machine.read(probe)

    def evaluate(self, expression: Expression) -> Any:
        """Return the value of an expression now: a number, a truth, or None if it is not known yet.

        An expression that depends on the past is evaluated from there, which takes as long as simulating it.
        """
        with self._verb():
            return self._search.value(expression, self.is_finished)

    def write(self, probe: str, value: Any) -> None:
        """Set a probe now; later checkpoints and trace are dropped, and that future is kept as a branch.

        Raises KeyError (unknown) or ValueError (not writable, bad value), without changing anything.
        """
        self._edit(ProbeEdit(probe, frozen_value(value)))

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory now, with the same effect on the future as `write`. Raises ValueError."""
        self._edit(MemoryEdit(memory, address, bytes(data)))

    # ---- other futures

    @property
    def known_to(self) -> int:
        """Last cycle of the present future that has been simulated."""
        return self._runner.furthest

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Futures that a write or a restart replaced, in the order in which they were left."""
        return self._branches.all

    @property
    def edits(self) -> EditList:
        """The writes on the way to the present; do not change the list."""
        return self._runner.edits

    def switch(self, branch_id: int, progress: Progress = NO_PROGRESS) -> StopReason:
        """Go to where a branch was left; the present future becomes a branch. Raises UsageError."""
        branch = self._branches.named(branch_id)
        with self._verb(progress):
            runner = self._runner
            fork = branch.parts_at(runner.edits)
            self._keep_branch()
            self._branches.forget(branch_id)
            if fork is not None:
                runner.replace_edits(branch.edits.copy(), fork)
                self.log.clear(fork)
                self.end_cycle = branch.end
            return self.stopped(runner.travel(branch.cycle))

    def run_apart(self, branch_id: int, look: Callable[[], Any], progress: Progress = NO_PROGRESS) -> Apart:
        """Return the trace of a branch as far as it is known, and `look()` at its end;
        the session stays in place.

        Raises UsageError, and Cancelled when interrupted.
        """
        branch = self._branches.named(branch_id)
        with self._verb(progress):
            found = run_apart(self._runner, branch, look)
            if self._runner.interrupted.is_set():
                raise Cancelled("the comparison was stopped")
            return found

    # ---- inside

    def _keep_branch(self) -> None:
        self._branches.keep(self._runner.edits, self.cycle, self._runner.furthest, self.end_cycle)

    def _edit(self, edit: Edit) -> None:
        edit.apply(self.machine)
        if self._runner.furthest > self.cycle:
            self._keep_branch()
        self._runner.edits.add(self.cycle, edit)
        self._runner.forget_after(self.cycle)
        self.log.clear(self.cycle)
        self.end_cycle = self.cycle if self.is_finished else None
        self.changed.notify(self._stop)

    def _reached(self, reason: StopReason, wanted: Condition) -> StopReason:
        """Turn the hit of a condition that is no breakpoint into a stop without breakpoints."""
        if reason.kind is not StopKind.BREAKPOINT:
            return reason
        hit = with_instruction(self.machine, [Breakpoint(0, wanted.text, wanted)], reason)
        text = f"reached: {wanted.text}"
        return StopReason(StopKind.UNTIL, hit.cycle, (), hit.unit, text, hit.instruction)

    def _forward(self, until: int) -> StopReason:
        reason = self._ahead(until, self.breakpoints.watch())
        self.breakpoints.count_hits(reason.breakpoints)
        return reason

    def _ahead(self, until: int, watch: Watch) -> StopReason:
        """Run to the next hit that does not only log."""
        while True:
            reason = self._search.forward(until, watch)
            if reason.kind is not StopKind.BREAKPOINT:
                return reason
            logs = set(self.log.note(self.machine, self.breakpoints, reason))
            if not logs:
                return reason
            self.breakpoints.count_hits(tuple(sorted(logs)))
            left = tuple(hit for hit in reason.breakpoints if hit not in logs)
            if left:
                return replace(reason, breakpoints=left)
            if reason.cycle >= until:
                return StopReason(StopKind.UNTIL, reason.cycle)

    def _rows_of(self, unit_id: int) -> np.ndarray:
        names = {unit.id: unit.name for unit in self.description.units}
        if unit_id not in names:
            raise ValueError(f"unit {unit_id}: expected one of 0..{len(names) - 1}")
        if isinstance(self.machine, HasUnitStops):
            return self.machine.unit_stops(unit_id)
        return unit_rows(self.program.listing, unit_id, self.machine.next_instructions().get(unit_id, 0))

    def _without_unit(self, reason: StopReason, unit_id: int) -> StopReason:
        """Turn a hit of the unit's own rows (id 0) into a stop without breakpoints."""
        if reason.kind is not StopKind.BREAKPOINT:
            return reason
        hits = tuple(hit for hit in reason.breakpoints if hit)
        self.breakpoints.count_hits(hits)
        name = next(unit.name for unit in self.description.units if unit.id == unit_id)
        if hits:
            return replace(reason, breakpoints=hits, unit=reason.unit or name)
        is_step = reason.instruction < 0 and isinstance(self.machine, HasUnitStops)
        detail = f"{name} {'took its next step' if is_step else 'started an instruction'}"
        detail += f": {reason.detail}" if reason.detail else ""
        return StopReason(StopKind.UNTIL, reason.cycle, (), name, detail, reason.instruction)

    def _step_element(self, element: int, rows: np.ndarray, is_line: bool = False) -> StopReason:
        with self._verb():
            reason = self._ahead(FOREVER, self.breakpoints.watch().joined(rows))
            while is_line and reason.breakpoints == (0,) and not frames_of(self.machine, element):
                # A task has just ended: the next line is the first one of the next task.
                reason = self._ahead(FOREVER, self.breakpoints.watch().joined(rows))
            return self.stopped(self._at_element(reason, element))

    def _at_element(self, reason: StopReason, element: int) -> StopReason:
        """Turn a hit of an element's own rows (id 0) into a stop without breakpoints that tells its place."""
        if reason.kind is not StopKind.BREAKPOINT:
            return reason
        hits = tuple(hit for hit in reason.breakpoints if hit)
        self.breakpoints.count_hits(hits)
        if hits:
            return replace(reason, breakpoints=hits)
        fabric = self.fabric
        name = fabric.label(element % fabric.columns, element // fabric.columns) if fabric else ""
        return StopReason(StopKind.UNTIL, reason.cycle, (), name, place_text(self.machine, element))

    @contextmanager
    def _verb(self, progress: Progress = NO_PROGRESS, until: int | None = None) -> Generator[None]:
        """Run a verb inside a `with` block: report its progress, record all events and notify at its end."""
        runner = self._runner
        runner.interrupted.clear()
        progress = self.progress if progress is NO_PROGRESS else progress
        goal = until if until is not None else self.end_cycle
        runner.tick = no_tick if progress is NO_PROGRESS else self._reporting(progress, goal)
        try:
            yield
        finally:
            runner.tick = no_tick
            runner.flush()
            self.changed.notify(self._stop)

    def _reporting(self, progress: Progress, goal: int | None) -> Callable[[int], None]:
        return reporting(progress, (self.cycle, goal), self._clock, self.interrupt)

    def stopped(self, reason: StopReason) -> StopReason:
        """Keep why the last verb stopped; a step made of other verbs calls it with its own reason."""
        self._stop = reason = with_instruction(self.machine, self.breakpoints.all, reason)
        if reason.kind is StopKind.FINISHED or reason.kind in BROKEN:
            self.end_cycle = reason.cycle
        return reason


def _check_count(n: int) -> None:
    if n < 1:
        raise ValueError(f"number of cycles: expected 1 or more, found {n}")
