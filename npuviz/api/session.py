"""Define the session of the public API: methods that move in time,
and questions about the machine and its trace."""

import shlex
import signal
import threading
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

import numpy as np

from npuviz.api.picture import Picture, PictureOptions, take_picture
from npuviz.api.questions import (
    PictureArguments,
    accuracy_answer,
    comparison_answer,
    explanation_answer,
    recorded_why_answer,
    rounding_answer,
    tensor_answer,
)
from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.base.progress import NoProgress
from npuviz.debug import translate
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.arguments import memory_of, unit_of
from npuviz.debug.console.commands import answer_of
from npuviz.debug.session import Session
from npuviz.program.program import Program
from npuviz.program.tensor import Tensor
from npuviz.sim.check_result import CheckResult
from npuviz.sim.checks.findings import findings_of
from npuviz.sim.description import MachineDescription
from npuviz.sim.stop import StopReason
from npuviz.trace.bundle.query import MAX_SECONDS, query_trace
from npuviz.trace.reader import TraceReader
from npuviz.workbench.opening import Opened

Place = str | tuple[str, int]
"""Place of a byte: "HBM 0x1000", ("HBM", 0x1000), or the name of a tensor."""


class DebugSession:
    """A model that runs, or a recorded trace, for programs, notebooks and tests.

    Verbs (`run`, `step`, `goto`, ...) return why they stopped. Ctrl+C stops a verb where it is and raises
    KeyboardInterrupt; the session goes on from there. One thread at a time may use it; `interrupt` may be
    called from any. A trace has no machine: verbs and questions about the machine then raise UsageError.
    """

    def __init__(self, opened: Opened) -> None:
        if opened.sweep is not None:
            raise UsageError(f"{opened.path}: the results of a sweep; `npuviz open` shows them")
        self.opened = opened
        self._simulated = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.opened.session is None:
            return f"<trace {self.title!r}, {self.trace.end_cycle} cycles>"
        return f"<{self.target} {self.title!r} at cycle {self.cycle}, {self.stop.kind}>"

    def _repr_html_(self) -> str:
        if self.opened.session is None:
            return Answer({"trace": self.title, "cycles": self.trace.end_cycle})._repr_html_()
        return self.info()._repr_html_()

    # ---- what is

    @property
    def path(self) -> Path:
        """The file that was opened."""
        return self.opened.path

    @property
    def title(self) -> str:
        """Name of the program."""
        return self.opened.title

    @property
    def target(self) -> str:
        """Id of the target."""
        return self.session.description.target if self.opened.session else self.trace.schema.target

    @property
    def session(self) -> Session:
        """The session of `npuviz.debug` on which this one is built. Raises UsageError for a trace."""
        if self.opened.session is None:
            raise UsageError(f"{self.path}: a recorded trace has no machine; open its model to run it")
        return self.opened.session

    @property
    def description(self) -> MachineDescription:
        """Description of the machine."""
        return self.session.description

    @property
    def program(self) -> Program:
        """The program that runs: graph, listing, places of tensors, notes."""
        return self.session.program

    @property
    def cycle(self) -> int:
        """Number of cycles completed."""
        return self.session.cycle

    @property
    def is_finished(self) -> bool:
        """Whether the program has ended at the present cycle."""
        return self.session.is_finished

    @property
    def stop(self) -> StopReason:
        """Why the last verb stopped: kind, cycle, breakpoints, unit, detail."""
        return self.session.stop

    @property
    def trace(self) -> TraceReader:
        """The recorded trace. Raises UsageError if nothing is recorded."""
        if self.opened.reader is None:
            raise UsageError(f"{self.path}: nothing is recorded; open it with is_recording=True")
        return self.opened.reader

    # ---- moving

    def run(self, until: int | None = None) -> StopReason:
        """Run to a breakpoint, the end, a fault, or the cycle `until`."""
        return self._move(lambda session: session.run(_cycle(until)))

    def step(self, cycles: int = 1) -> StopReason:
        """Run `cycles` cycles, or less if a breakpoint hits."""
        return self._move(lambda session: session.step(cycles))

    def back(self, cycles: int = 1) -> StopReason:
        """Go `cycles` cycles back, at most to the first."""
        return self._move(lambda session: session.step_back(cycles))

    def goto(self, cycle: int) -> StopReason:
        """Go to a cycle, ignoring breakpoints; to the end if the program ends before it."""
        return self._move(lambda session: session.go_to(cycle))

    def run_back(self) -> StopReason:
        """Go back to the last hit of a breakpoint, or to the first cycle."""
        return self._move(lambda session: session.run_back())

    def run_to(self, condition: str) -> StopReason:
        """Run to where a condition next holds, ignoring breakpoints."""
        return self._move(lambda session: session.run_to(condition))

    def run_back_to(self, condition: str) -> StopReason:
        """Go back to where a condition last held, or to the first cycle."""
        return self._move(lambda session: session.run_back_to(condition))

    def next(self, unit: str) -> StopReason:
        """Run until a unit starts its next instruction."""
        return self._move(lambda session: session.step_instruction(unit_of(session, shlex.quote(unit))))

    def previous(self, unit: str) -> StopReason:
        """Go back to where a unit last started an instruction."""
        return self._move(lambda session: session.step_instruction_back(unit_of(session, shlex.quote(unit))))

    def restart(self) -> StopReason:
        """Begin again at the first cycle, without what was written."""
        return self._move(lambda session: session.restart())

    def interrupt(self) -> None:
        """Stop the verb that another thread is running."""
        self.session.interrupt()

    # ---- breakpoints

    def break_on(self, condition: str) -> int:
        """Set a breakpoint and return its id. Raises ConditionError for a text that cannot be understood."""
        return self.session.breakpoints.add(condition).id

    def delete(self, breakpoint_id: int) -> None:
        """Delete a breakpoint. Raises UsageError for an unknown id."""
        self.do(f"delete {breakpoint_id}")

    @property
    def breakpoints(self) -> Answer:
        """All breakpoints: id, condition, enabled, hits."""
        return self.do("breakpoints")

    # ---- asking

    def do(self, command: str) -> Answer:
        """Return the text debugger's answer to a line such as "frames 0,0" or "deps 12".
        Raises UsageError."""
        begin = time.perf_counter()
        with self._interruptible() as session:
            answer = answer_of(session, command)
        self._simulated += time.perf_counter() - begin
        return answer

    @property
    def units(self) -> Answer:
        """State of every unit: unit, status, since, instruction, detail."""
        return self.do("units")

    @property
    def queues(self) -> Answer:
        """Contents of every queue: queue, entries, capacity, contents."""
        return self.do("queues")

    @property
    def tensors(self) -> Answer:
        """Tensors of the program: tensor, kind, shape, dtype, memory, address, bytes."""
        return tensor_answer(self.program, self.description)

    def info(self) -> Answer:
        """Return program, machine and present cycle."""
        return self.do("info")

    def why(self, unit: str, cycle: int | None = None, until: int | None = None) -> Answer:
        """Explain why a unit is idle or waits at a cycle (None: now), as a chain of waiting units.

        until  list instead what the unit lost the cycles [cycle, until) to, most first
        """
        if self.opened.session is None:
            return recorded_why_answer(self.trace, unit, cycle, until)
        cycles = [cycle, until] if until is not None and cycle is not None else [cycle]
        return self.do(" ".join(["why", shlex.quote(unit), *(str(c) for c in cycles if c is not None)]))

    def who(self, place: Place) -> Answer:
        """Return the instruction that wrote a byte last, before now."""
        memory, address = self._place(place)
        return self.do(f"who {shlex.quote(memory)} {address}")

    def origin(self, place: Place, depth: int = 3) -> Answer:
        """Return what a byte was made from: a tree of steps, back to inputs and weights.
        Raises UsageError."""
        memory, address = self._place(place)
        return self.do(f"origin {shlex.quote(memory)} {address} {depth}")

    def readers(self, place: Place) -> Answer:
        """Return who reads a byte next, who overwrites it, and which outputs it reaches.
        Raises UsageError."""
        memory, address = self._place(place)
        return self.do(f"readers {shlex.quote(memory)} {address}")

    def hazards(self) -> Answer:
        """Return the hazards found up to now: cycle, unit, instruction, hazard, level, detail."""
        return self.do("hazards")

    def explain(self) -> Answer:
        """Break down the critical path up to now: cycles by cause, and its costliest parts.

        `npuviz explain` also predicts what would help. Cycles of unknown cause are counted as such.
        """
        program = self.program if self.opened.session is not None else None
        return explanation_answer(self.trace, program)

    def memory(self, name: str, address: int, size_bytes: int, dtype: str = "uint8") -> np.ndarray:
        """Return bytes of a memory now, as elements of a type.
        Raises UsageError, or ValueError outside the memory."""
        memory = memory_of(self.session, name)
        return translate.numbers(self.session.machine.read_memory(memory.id, address, size_bytes), dtype)

    def tensor(self, name: str) -> np.ndarray:
        """Return the values of a tensor now, in its shape; elements not written yet are 0.
        Raises UsageError."""
        tensor = self._tensor(name)
        values = self.session.machine.tensor(tensor.id)
        if values is None:
            raise UsageError(f"tensor {echo(name)}: the machine holds no values of it now")
        return np.array(values).reshape(tensor.shape) if values.size == tensor.num_elements else values

    def read(self, probe: str) -> Any:
        """Return the value of a probe now. Raises UsageError for an unknown one."""
        return self.do(f"print {probe}")["value"]

    def write(self, probe: str, value: Any) -> None:
        """Set a probe now; the recorded future is dropped and kept as a branch.
        Raises KeyError or ValueError."""
        self.session.write(probe, value)

    def write_memory(self, name: str, address: int, data: bytes) -> None:
        """Change bytes of a memory now, with the same effect on the future as `write`.
        Raises UsageError or ValueError."""
        self.session.write_memory(memory_of(self.session, name).id, address, bytes(data))

    @property
    def branches(self) -> Answer:
        """Futures that a write replaced: branch, parts_at, writes, left_at, known_to."""
        return self.do("branches")

    def switch(self, branch: int) -> StopReason:
        """Go to where a branch was left; the present future becomes a branch. Raises UsageError."""
        return self._move(lambda session: session.switch(branch))

    def compare_branch(self, branch: int) -> Answer:
        """Compare a branch with the present: first difference, outputs, work of units. Raises UsageError."""
        return self.do(f"compare {branch}")

    def query(self, sql: str, max_seconds: float = MAX_SECONDS) -> Answer:
        """Query what is recorded up to now with SQL, as `npuviz query` does. Raises UsageError."""
        found = query_trace(self.trace, sql, max_seconds=max_seconds, hazards=self._hazard_rows)
        return Answer(columns=found.columns, rows=tuple(found.rows))

    def _hazard_rows(self) -> list[dict[str, Any]]:
        from npuviz.workbench.headless.run import hazard_values

        session = self.opened.session
        return [] if session is None else [*map(hazard_values, findings_of(session.machine).hazards)]

    def compare(self, other: "DebugSession") -> Answer:
        """Return where this trace and another first differ, and the units whose working cycles differ."""
        return comparison_answer(self.trace, other.trace)

    def check(self) -> CheckResult:
        """Compare every tensor with the reference execution. Raises TargetError or UsageError."""
        if not self.is_finished or self.opened.target is None:
            raise UsageError(f"check needs the whole run; it is at cycle {self.cycle}")
        return self.opened.target.check(self.session.machine, NoProgress())

    def accuracy(self) -> Answer:
        """Return the errors of every tensor against the reference, end to end and per operator,
        along the model's depth.

        Raises TargetError or UsageError.
        """
        return accuracy_answer(self.program, self.check())

    def round_tensors(self, *types: str, tensors: Collection[str] = ()) -> Answer:
        """Round one tensor at a time to narrower types,
        and return the effect on the outputs (`npuviz accuracy --what-if`).

        tensors  names of the tensors; () for all floats. Raises UsageError or TargetError.
        """
        from npuviz.workbench.accuracy.report import Wanted, round_of

        return rounding_answer(
            self.program, round_of(self.opened, self.program.graph, Wanted(types, tensors), NoProgress())
        )

    def summary(self) -> dict[str, Any]:
        """Return the totals of the run so far, as `npuviz run --json` prints them."""
        from npuviz.workbench.headless.run import Outcome, findings_at, summarize

        findings = findings_at(self.session, self.stop)
        return summarize(
            self.opened, self.session, Outcome(self.stop, (self._simulated, 0.0), None, findings)
        )

    def picture(self, **options: Unpack[PictureArguments]) -> Picture:
        """Take a picture of the window at this cycle; a separate process runs the model again for it.

        Raises UsageError, also after `write`: the other process would not know what was written.
        """
        cycle = None
        if self.opened.session is not None:
            if self.opened.session.is_edited:
                raise UsageError("picture: values were written, which a picture would not show")
            cycle = self.cycle
        return take_picture(self.opened, PictureOptions(cycle=cycle, **options))

    # ---- ending

    def publish(self) -> Path | None:
        """Finish the bundle that `record` asked for, with its summary;
        return its folder, None without a bundle."""
        session = self.opened.session
        if session is not None and session.recorder is not None and session.recorder.bundle is not None:
            summary = self.summary()
            session.recorder.bundle.set_model({"summary": summary, "notes": summary["notes"]})
        return self.opened.publish()

    def close(self) -> None:
        """Discard what was recorded and not published. May be called twice."""
        self.opened.close()

    # ---- inside

    def _move(self, verb: Callable[[Session], StopReason]) -> StopReason:
        begin = time.perf_counter()
        try:
            with self._interruptible() as session:
                return verb(session)
        except ValueError as error:
            raise UsageError(str(error)) from error
        finally:
            self._simulated += time.perf_counter() - begin

    @contextmanager
    def _interruptible(self) -> Generator[Session]:
        """Let Ctrl+C stop the session at a whole cycle inside a `with` block;
        KeyboardInterrupt is raised after the block."""
        session = self.session
        if threading.current_thread() is not threading.main_thread():
            yield session
            return
        asked: list[bool] = []

        def handle(_signal: int, _frame: object) -> None:
            if asked:  # a second Ctrl+C ends what did not stop at the first
                raise KeyboardInterrupt
            asked.append(True)
            session.interrupt()

        previous = signal.signal(signal.SIGINT, handle)
        try:
            yield session
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL if previous is None else previous)
        if asked:
            raise KeyboardInterrupt

    def _tensor(self, name: str) -> Tensor:
        tensors = {tensor.name: tensor for tensor in self.program.graph.tensors}
        if name not in tensors:
            close = get_close_matches(name, tensors, n=3) or list(tensors)[:8]
            raise UsageError(f"no tensor {echo(name)!r}; for example {', '.join(close) or 'none'}")
        return tensors[name]

    def _place(self, place: Place) -> tuple[str, int]:
        if isinstance(place, tuple):
            return place
        name, _, address = place.rpartition(" ")
        if name and address[:1].isdigit():
            try:
                return name.strip(), int(address, 0)
            except ValueError:
                raise UsageError(
                    f"{echo(place)!r}: expected a memory and an address, as HBM 0x1000"
                ) from None
        allocation = self.program.memory_map.of_tensor(self._tensor(place).id)
        if allocation is None:
            raise UsageError(f"tensor {echo(place)}: it has no place of its own in a large memory")
        memories = {memory.id: memory.name for memory in self.description.memories}
        return memories[allocation.memory], allocation.address


def _cycle(until: int | None) -> int | None:
    if until is not None and until < 0:
        raise ValueError(f"cycle {until}: expected 0 or later")
    return until
