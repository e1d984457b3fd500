"""The values engine: what DDR holds after any prefix of the machine's log.

Contents are a pure function of program, inputs, hand-written bytes and the log of completions. The engine
holds them at one place and moves: forward by applying log entries, back from a whole state that was kept.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables
from npuviz.targets.rk3588.values.buffers import decoded, encoded, from_graph, to_graph
from npuviz.targets.rk3588.values.history import Place, Snapshot, Snapshots, ValueHazard, is_within
from npuviz.targets.rk3588.values.host import run_host_node
from npuviz.targets.rk3588.values.memory import Memory, ValueFault
from npuviz.targets.rk3588.values.task import Tasks

_KEEP_SECONDS = 0.1
_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes written by hand when `position` log entries had been applied.

    memory  DDR is `spec.cores`; lower ids are CBUFs: what is written there does not flow into results
    """

    position: int
    memory: int
    address: int
    data: bytes


Visit = Callable[[int, int], object]
"""Takes the position and the entry that has just been applied."""


class ValueEngine:
    """Contents of DDR. Any thread may ask; one at a time is served.

    A log entry is a task's index, or -1 - i for host call i.
    inputs  graph input name -> array; an absent one is 0
    Arrays returned are the caller's.
    """

    def __init__(
        self, tables: Tables, graph: Graph, spec: RknnSpec, inputs: Mapping[str, np.ndarray]
    ) -> None:
        self.tables = tables
        self.graph = graph
        self.spec = spec
        self.inputs = dict(inputs)
        self.lock = threading.RLock()
        self._memory: Memory | None = None
        self._tasks: Tasks | None = None
        self._snapshots = Snapshots()
        self._place: Place = (0, 0)
        self._edits: tuple[Edit, ...] = ()
        # The longest log seen that agrees with what was applied and kept.
        self._known = np.zeros(0, np.int64)
        self._hazards: list[ValueHazard] = []
        self._homes: dict[int, list[int]] = {}
        for number, buffer in enumerate(tables.buffers):
            if buffer.tensor >= 0:
                self._homes.setdefault(buffer.tensor, []).append(number)
        self._last_kept = 0.0

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
        """What went wrong up to here, in log order."""
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
            memory, _ = self._parts()
            memory.restore(None)
            self._place, self._hazards = (0, 0), []
            self._advance(np.asarray(log, np.int64), edits, visit)

    def _parts(self) -> tuple[Memory, Tasks]:
        """Memory is made when first needed: a machine that nobody asks for values takes none."""
        if self._memory is None or self._tasks is None:
            self._memory, self._tasks = Memory(self.tables.buffers), Tasks(self.tables.tasks)
            self._last_kept = time.monotonic()
        return self._memory, self._tasks

    def _advance(self, log: np.ndarray, edits: tuple[Edit, ...], visit: Visit | None) -> None:
        memory, _ = self._parts()
        self._agree(log, edits)
        target: Place = (len(log), sum(edit.position <= len(log) for edit in edits))
        best = self._snapshots.best(target)
        is_behind = is_within(self._place, target)
        if not is_behind or (visit is None and best is not None and best.place[0] > self._place[0]):
            memory.restore(None if best is None else best.kept)
            self._place = (0, 0) if best is None else best.place
            self._hazards = [] if best is None else list(best.hazards)
        self._forward(log, target, visit)

    def _agree(self, log: np.ndarray, edits: tuple[Edit, ...]) -> None:
        """Make this log and these edits the known ones; leave what only others had."""
        memory, _ = self._parts()
        shared = min(len(log), len(self._known))
        same = self._known[:shared] == log[:shared]
        limit = _NO_LIMIT
        if not same.all():
            limit = int(same.argmin())
            self._known = self._known[:limit]
        common = 0
        for mine, new in zip(self._edits, edits, strict=False):
            if mine != new:
                break
            common += 1
        for rest in (self._edits[common:], edits[common:]):
            if rest:
                limit = min(limit, rest[0].position)
        if limit < _NO_LIMIT:
            self._snapshots.drop_after((limit, common))
            if not is_within(self._place, (limit, common)):
                best = self._snapshots.best((limit, common))
                memory.restore(None if best is None else best.kept)
                self._place = (0, 0) if best is None else best.place
                self._hazards = [] if best is None else list(best.hazards)
        self._edits = edits
        if len(log) > len(self._known):
            self._known = log.copy()

    def _forward(self, log: np.ndarray, target: Place, visit: Visit | None) -> None:
        memory, _ = self._parts()
        position, applied = self._place
        while True:
            while applied < target[1] and self._edits[applied].position <= position:
                edit = self._edits[applied]
                if edit.memory == self.spec.cores:
                    memory.write_by_hand(edit.address, edit.data)
                applied += 1
            self._place = (position, applied)
            if position == target[0]:
                return
            entry = int(log[position])
            self._apply(entry)
            position += 1
            self._place = (position, applied)
            if visit is not None:
                visit(position - 1, entry)
            elif time.monotonic() - self._last_kept > _KEEP_SECONDS:
                # By time: how often a state is worth keeping depends on what it costs to compute it again.
                self._snapshots.take(Snapshot(self._place, memory.keep(), tuple(self._hazards)))
                self._last_kept = time.monotonic()

    def _apply(self, entry: int) -> None:
        memory, tasks = self._parts()
        try:
            # Infinities and what comes of them are values like others.
            with np.errstate(all="ignore"):
                if entry < 0:
                    self._run_host(self.tables.hosts[-1 - entry])
                else:
                    tasks.run(memory, entry)
        except (ValueFault, FormatError) as fault:
            name = f"host call {-1 - entry}" if entry < 0 else f"task {entry}"
            text = f"{name} is not executed: {fault}"
            self._hazards.append(ValueHazard(self._place[0], entry, "fault", text))

    # Host calls ---------------------------------------------------------------------------------

    def _run_host(self, call: HostCall) -> None:
        if call.node >= 0:
            results = run_host_node(self.graph, call.node, lambda tensor: self._held(tensor, call.reads))
            for number in call.writes:
                buffer = self.tables.buffers[number]
                if buffer.tensor in results:
                    self._store(buffer, from_graph(buffer, results[buffer.tensor]))
            return
        for place, number in enumerate(call.writes):
            buffer = self.tables.buffers[number]
            source = self._source(call, place)
            if source >= 0:
                self._store(buffer, self._converted(self.tables.buffers[source], buffer))
            elif buffer.tensor in self.graph.inputs:
                self._store(buffer, from_graph(buffer, self.input_of(buffer.tensor)))
            else:
                raise ValueFault(f"nothing says what {buffer.name} is converted from")

    def _source(self, call: HostCall, place: int) -> int:
        """The buffer that is converted into that at a place: of the same tensor, else at the same place."""
        tensor = self.tables.buffers[call.writes[place]].tensor
        for number in call.reads:
            if tensor >= 0 and self.tables.buffers[number].tensor == tensor:
                return number
        if tensor in self.graph.inputs:
            return -1
        return call.reads[place] if place < len(call.reads) else -1

    def _converted(self, source: Buffer, target: Buffer) -> np.ndarray:
        values = self._elements(source)
        same = (source.dtype, source.scale, source.zero_point)
        if same == (target.dtype, target.scale, target.zero_point) and values.size == np.prod(target.shape):
            return values.reshape(target.shape)
        if target.tensor >= 0:
            kind = numpy_dtype(self.graph.tensors[target.tensor].dtype)
        else:
            kind = np.dtype(np.float64)
        return from_graph(target, to_graph(source, values, kind))

    def input_of(self, tensor: int) -> np.ndarray:
        """What a graph input was given, zeros if nothing."""
        held = self.graph.tensors[tensor]
        values = self.inputs.get(held.name)
        return np.zeros(held.shape, numpy_dtype(held.dtype)) if values is None else np.asarray(values)

    def _store(self, buffer: Buffer, values: np.ndarray) -> None:
        memory, _ = self._parts()
        data = encoded(buffer, values)
        memory.target(buffer.address, len(data), buffer.name)[:] = data

    def _elements(self, buffer: Buffer) -> np.ndarray:
        memory, _ = self._parts()
        return decoded(buffer, np.array(memory.view(buffer.address, buffer.size_bytes, buffer.name)))

    def _held(self, tensor: int, preferred: tuple[int, ...] = ()) -> np.ndarray | None:
        """A tensor in the graph's shape and type, None where no buffer has it."""
        number = next((n for n in preferred if self.tables.buffers[n].tensor == tensor), self.home_of(tensor))
        if number < 0:
            return self.input_of(tensor) if tensor in self.graph.inputs else None
        return None if self.tables.buffers[number].layout == "weight" else self._graph_values(number)

    def _graph_values(self, number: int) -> np.ndarray:
        """A buffer's tensor in the graph's shape and type."""
        buffer = self.tables.buffers[number]
        kind = self.graph.tensors[buffer.tensor]
        return to_graph(buffer, self._elements(buffer), numpy_dtype(kind.dtype)).reshape(kind.shape)

    # Reading ------------------------------------------------------------------------------------

    def home_of(self, tensor: int) -> int:
        """The buffer that shows a tensor, -1 if there is none: of several the packed one."""
        found = self._homes.get(tensor, [])
        for number in found:
            if self.tables.buffers[number].layout == "feature":
                return number
        return found[0] if found else -1

    def read(self, address: int, size: int) -> bytes:
        """Bytes of DDR here; what does not exist is 0."""
        with self.lock:
            return self._parts()[0].read(address, size).tobytes()

    def read_at(self, log: np.ndarray, edits: tuple[Edit, ...], address: int, size: int) -> bytes:
        """`advance_to` and `read` as one."""
        with self.at(log, edits):
            return self.read(address, size)

    def operand_at(self, log: np.ndarray, edits: tuple[Edit, ...], task: int, kind: str) -> np.ndarray:
        """The bytes (uint8) that CNA of a task fetches, in the order of CBUF: "features" or "weights".

        Empty where the task has no convolution, or its addresses lead nowhere.
        """
        with self.at(log, edits):
            memory, tasks = self._parts()
            try:
                return tasks.operand(memory, task, kind)
            except (ValueFault, FormatError):
                return np.zeros(0, np.uint8)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """A copy of a graph tensor in the graph's shape and type; None if no buffer holds it."""
        with self.lock:
            found = self.held(tensor) if self.home_of(tensor) >= 0 else None
            if found is None and tensor in self.graph.constants:
                return np.array(self.graph.constants[tensor])
            return found

    def held(self, tensor: int) -> np.ndarray | None:
        """As `tensor`, and the graph's inputs where no buffer holds them."""
        with self.lock:
            try:
                return self._held(tensor)
            except (ValueFault, FormatError):
                return None

    def held_in(self, buffer: int) -> np.ndarray | None:
        """What a buffer holds of its tensor, in the graph's shape and type; None where it cannot be read."""
        with self.lock:
            try:
                return self._graph_values(buffer)
            except (ValueFault, FormatError):
                return None
