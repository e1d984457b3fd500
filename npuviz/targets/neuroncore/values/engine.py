"""The values engine: the contents of all memories after any prefix of the machine's log.

Contents are a pure function of program, inputs, hand-written bytes and the log of completions. The
engine holds them at one place and moves: forward by applying log entries, back by undoing them or from
a whole state that was kept.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.values.chip import Chip, HbmArray
from npuviz.targets.neuroncore.values.edits import Edit
from npuviz.targets.neuroncore.values.history import (
    Place,
    Snapshot,
    Snapshots,
    UndoLog,
    ValueHazard,
    is_within,
)
from npuviz.targets.neuroncore.values.host import tensor_homes
from npuviz.targets.neuroncore.values.memory import GRANULE, ValueFault
from npuviz.targets.neuroncore.values.plan import Plan
from npuviz.targets.neuroncore.values.planner import NOTHING, Planner
from npuviz.targets.neuroncore.values.spans import spans_of
from npuviz.targets.neuroncore.values.transfer import TRANSPOSE_ORDER

MAX_HAZARDS = 10_000
"""Hazards kept of a run; a program that reads unwritten memory does it everywhere."""

# A long way forward is undone from a kept state, only its end entry by entry.
_UNDONE_ENTRIES = 1024
_SNAPSHOT_SECONDS = 1.0
_SNAPSHOT_MASK = 255

NO_LIMIT = 1 << 62


Visit = Callable[[int, int], object]
"""Takes the position and the entry that has just been applied."""


class ValueEngine:
    """Contents of SBUF, PSUM, HBM and accumulators. Any thread may ask; one at a time is served.

    inputs  graph input name -> array; an absent one is 0
    Arrays returned are the caller's.
    """

    def __init__(
        self,
        tables: Tables,
        graph: Graph,
        spec: NeuronSpec,
        inputs: Mapping[str, np.ndarray],
        transpose_order: tuple[int, ...] = TRANSPOSE_ORDER,
    ) -> None:
        self.tables = tables
        self.graph = graph
        self.spec = spec
        self.inputs = dict(inputs)
        self.lock = threading.RLock()
        self._order = transpose_order
        self._chip: Chip | None = None
        self._place: Place = (0, 0)
        self._edits: tuple[Edit, ...] = ()
        # The longest log seen that agrees with what was applied and kept.
        self._known = np.zeros(1024, np.int64)
        self._num_known = 0
        self._hazards: list[ValueHazard] = []
        self._instruction = -1
        self._last_snapshot = 0.0

    # Where the contents are ---------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Log entries applied."""
        return self._place[0]

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Hand-written bytes of the last `advance_to`."""
        return self._edits

    @property
    def hazards(self) -> list[ValueHazard]:
        """Hazards up to here, in log order; at most MAX_HAZARDS."""
        with self.lock:
            return list(self._hazards)

    def advance_to(self, log: np.ndarray, edits: tuple[Edit, ...] = ()) -> None:
        """Bring the contents to exactly this log (int64) with these edits, sorted by position.

        Edits at positions beyond the log wait.
        """
        with self.lock:
            self._advance(np.asarray(log, np.int64), edits, None)

    @contextmanager
    def at(self, log: np.ndarray, edits: tuple[Edit, ...] = ()) -> Generator["ValueEngine"]:
        """As `advance_to`; nobody moves the contents until the block ends."""
        with self.lock:
            self.advance_to(log, edits)
            yield self

    def replay(self, log: np.ndarray, edits: tuple[Edit, ...], visit: Visit) -> None:
        """Apply a log from the beginning; `visit` may read contents after every entry."""
        with self.lock:
            self._prepare()
            self._restore(None)
            self._advance(np.asarray(log, np.int64), edits, visit)

    def _advance(self, log: np.ndarray, edits: tuple[Edit, ...], visit: Visit | None) -> None:
        self._prepare()
        self._agree(log, edits)
        count = len(log)
        target: Place = (count, sum(edit.position <= count for edit in edits))
        self._go_back(target)
        if visit is None and count - self._place[0] > _UNDONE_ENTRIES:
            kept = self._snapshots.best(target)
            if kept is not None and kept.place[0] > self._place[0] and kept.place[1] >= self._place[1]:
                self._restore(kept)
        self._forward(log, target, visit)

    def _prepare(self) -> None:
        """Memories are made when first needed: a machine that nobody asks for values takes none."""
        if self._chip is None:
            self._chip = chip = Chip(self.tables, self.graph, self.spec, self.inputs)
            self._planner = Planner(self.tables, self.graph, chip, self._report, self._order)
            self._undo = UndoLog(chip)
            self._snapshots = Snapshots(chip)
            self._homes = tensor_homes(chip)
            self._last_snapshot = time.monotonic()

    def _agree(self, log: np.ndarray, edits: tuple[Edit, ...]) -> None:
        """Make this log and these edits the known ones; leave what only others had."""
        shared = min(len(log), self._num_known)
        same = self._known[:shared] == log[:shared]
        limit = NO_LIMIT
        if not same.all():
            limit = self._num_known = int(same.argmin())
        common = 0
        for mine, new in zip(self._edits, edits, strict=False):
            if mine != new:
                break
            common += 1
        for rest in (self._edits[common:], edits[common:]):
            if rest:
                limit = min(limit, rest[0].position)
        if limit < NO_LIMIT:
            self._snapshots.drop_after((limit, common))
            self._go_back((limit, common))
        self._edits = edits
        if len(log) > self._num_known:
            if len(log) > len(self._known):
                self._known = np.concatenate([self._known, np.zeros(len(log), np.int64)])
            self._known[self._num_known : len(log)] = log[self._num_known :]
            self._num_known = len(log)

    # Moving -------------------------------------------------------------------------------------

    def _go_back(self, target: Place) -> None:
        """To the last place reached that is after `target` neither in entries nor in edits."""
        if is_within(self._place, target):
            return
        if not self._undo.reaches(target):
            self._restore(self._snapshots.best(target))
            return
        while not is_within(self._place, target):
            self._place = self._undo.back()
        while self._hazards and self._hazards[-1].position >= self._place[0]:
            self._hazards.pop()

    def _restore(self, kept: Snapshot | None) -> None:
        self._snapshots.restore(kept)
        self._undo.clear()
        self._place = (0, 0) if kept is None else kept.place
        self._hazards = [] if kept is None else list(kept.hazards)

    def _forward(self, log: np.ndarray, target: Place, visit: Visit | None) -> None:
        position, applied = self._place
        count, edits = target[0], self._edits
        undone_from = count if visit is not None else count - _UNDONE_ENTRIES
        if undone_from > position:
            self._undo.clear()
        due = _position_of(edits, applied)
        with np.errstate(all="ignore"):
            for entry in log[position:count].tolist():
                while due <= position:
                    self._apply_edit(edits[applied], position >= undone_from)
                    applied += 1
                    self._place = (position, applied)
                    due = _position_of(edits, applied)
                self._apply(entry, position >= undone_from)
                position += 1
                self._place = (position, applied)
                if visit is not None:
                    visit(position - 1, entry)
                elif not position & _SNAPSHOT_MASK:
                    self._keep_sometimes()
            while due <= count:
                self._apply_edit(edits[applied], position >= undone_from)
                applied += 1
                self._place = (position, applied)
                due = _position_of(edits, applied)

    def _keep_sometimes(self) -> None:
        # By time: how often a state is worth keeping depends on what it costs to compute it again.
        if time.monotonic() - self._last_snapshot > _SNAPSHOT_SECONDS:
            self._snapshots.take(self._place, tuple(self._hazards))
            self._last_snapshot = time.monotonic()

    def _apply(self, entry: int, undoable: bool) -> None:
        self._instruction = entry if entry >= 0 else -1 - entry
        try:
            plan = self._planner.plan(entry)
        except ValueFault as fault:
            self._report("fault", f"instruction {self._instruction} is not executed: {fault}")
            plan = NOTHING
        if undoable:
            self._undo.note(self._place, plan)
        if plan is NOTHING:
            return
        for mask in plan.reads:
            if not mask.is_written():
                self._report("unwritten", f"instruction {self._instruction} reads memory that nobody wrote")
                break
        plan.run()
        for mask in plan.marks:
            mask.mark()
        if plan.arrays:
            self._snapshots.touch(plan.arrays)

    def _report(self, kind: str, text: str) -> None:
        if len(self._hazards) < MAX_HAZARDS:
            self._hazards.append(ValueHazard(self._place[0], self._instruction, kind, text))

    def _apply_edit(self, edit: Edit, undoable: bool) -> None:
        chip = self._chip
        assert chip is not None
        spans = spans_of(self._memories, edit.memory, edit.address, len(edit.data))
        for span in spans:
            if isinstance(span.memory, HbmArray) and not span.memory.is_private:
                chip.own(span.memory)
                self._planner.forget()
        plan = Plan(
            NOTHING.run,
            marks=tuple(mask for span in spans if (mask := span.mask()) is not None),
            writes=tuple(span.view() for span in spans),
            arrays=tuple(span.memory for span in spans if isinstance(span.memory, HbmArray)),
        )
        if undoable:
            self._undo.note(self._place, plan)
        for span, view in zip(spans, plan.writes, strict=True):
            view[:] = np.frombuffer(edit.data, np.uint8)[span.start : span.start + span.size]
        for mask in plan.marks:
            mask.mark()
        self._snapshots.touch(plan.arrays)

    # Reading ------------------------------------------------------------------------------------

    def read(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory (id of the machine's description) here; what nobody wrote is 0.

        Of SBUF and PSUM the address is partition * partition bytes + byte.
        """
        with self.lock:
            self._prepare()
            made = np.zeros(size_bytes, np.uint8)
            for span in spans_of(self._memories, memory, address, size_bytes):
                made[span.start : span.start + span.size] = span.view()
            return made.tobytes()

    def read_at(
        self, log: np.ndarray, edits: tuple[Edit, ...], memory: int, address: int, size_bytes: int
    ) -> bytes:
        """`advance_to` and `read` as one."""
        with self.at(log, edits):
            return self.read(memory, address, size_bytes)

    def variable(self, number: int) -> np.ndarray:
        """A copy of a variable of the program, in its shape and type."""
        with self.lock:
            self._prepare()
            return self._memories.variables[number].array().copy()

    def tensor(self, tensor: int) -> np.ndarray | None:
        """A copy of a graph tensor in the type in which HBM holds it; None if HBM does not."""
        with self.lock:
            self._prepare()
            home = self._homes.get(tensor)
            return None if home is None else home.array().copy()

    def variable_of(self, tensor: int) -> int:
        """The variable that `tensor` shows, -1 if there is none."""
        self._prepare()
        home = self._homes.get(tensor)
        return -1 if home is None else home.variable.id

    def is_complete(self, number: int) -> bool:
        """Whether all bytes of a variable have been written (in granules of 64 bytes)."""
        with self.lock:
            self._prepare()
            flags = self._memories.variables[number].written
            return flags is None or bool(flags.all())

    def written_elements(self, number: int) -> np.ndarray:
        """Which elements of a variable have been written: flat bool, in granules of 64 bytes."""
        with self.lock:
            self._prepare()
            array = self._memories.variables[number]
            item = max(1, array.dtype.itemsize)
            count = array.size // item
            if array.written is None:
                return np.ones(count, np.bool_)
            first = np.arange(count) * item // GRANULE
            return array.written[first]

    def operand(self, index: int, position: int) -> np.ndarray:
        """A copy of the elements of an instruction's operand: (partitions, *dims).

        Raises ValueError where the instruction has no such operand in a memory.
        """
        with self.lock:
            self._prepare()
            ins = self._planner.instruction(index)
            space, dtype, partition, partitions, address, sizes, steps = ins.operands[position]
            try:
                sram = self._memories.sram(ins.core, space)
                found = sram.operand(dtype, partition, partitions, address, sizes, steps)
            except ValueFault as fault:
                raise ValueError(f"instruction {index}: {fault}") from None
            return found.view.copy()

    def accumulators(self, core: int) -> np.ndarray:
        """(128,) float32: the accumulators of a core's Activation engine."""
        with self.lock:
            if self._chip is None:
                return np.zeros(NUM_PARTITIONS, np.float32)
            return self._chip.accumulators[core].copy()

    def table_set(self, core: int) -> int:
        """The activation table set that a core has loaded, -1 before the first."""
        with self.lock:
            return -1 if self._chip is None else int(self._chip.table_sets[core])

    @property
    def _memories(self) -> Chip:
        assert self._chip is not None
        return self._chip


def _position_of(edits: tuple[Edit, ...], number: int) -> int:
    return edits[number].position if number < len(edits) else NO_LIMIT
