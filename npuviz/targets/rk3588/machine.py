"""The RK3588 machine behind the contract: engine, observation and contents put together."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Activity, QueueEntry, Region, RunSummary, StillMemories, UnitState
from npuviz.sim.probe import Probe
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import StopKind, StopReason
from npuviz.targets.rk3588 import state_kernels as sk
from npuviz.targets.rk3588.contents import Contents, Image, StillContents
from npuviz.targets.rk3588.description import describe, make_probes, numbering
from npuviz.targets.rk3588.engine import Engine
from npuviz.targets.rk3588.observe import Observer
from npuviz.targets.rk3588.payload import Payload
from npuviz.targets.rk3588.probes import ProbeTable
from npuviz.targets.rk3588.reports import report_tables
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.values_engine import ValueEngine


class RknnMachine:
    """One NPU with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: RknnSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        tables = payload.tables
        self._program = program
        self._engine = Engine(spec, tables, len(program.graph.nodes), numbering(spec))
        self._description = describe(spec, tables)
        self._observer = Observer(self._engine, program.listing)
        self._measured = payload.measured
        self._image = Image()
        values = ValueEngine(tables, program.graph, spec, payload.inputs)
        self._contents = Contents(self._engine, program, values)
        self._probes = make_probes(spec)
        self._table = ProbeTable(self._engine, self._observer)

    @property
    def engine(self) -> Engine:
        """State and loads, for the target's own reports."""
        return self._engine

    def values(self) -> ValueEngine:
        """The values engine with the contents of now."""
        return self._contents.values(self._image)

    @property
    def description(self) -> MachineDescription:
        """What the machine consists of."""
        return self._description

    @property
    def program(self) -> Program:
        """What it runs."""
        return self._program

    @property
    def cycle(self) -> int:
        """NPU cycles completed."""
        return int(self._engine.state[sk.H_CYCLE])

    @property
    def is_finished(self) -> bool:
        """Whether the program has ended."""
        return int(self._engine.state[sk.H_STATUS]) == sk.STATUS_FINISHED

    @property
    def event_rows_per_cycle(self) -> int:
        """Event rows one cycle may need at most."""
        return self._engine.event_margin

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        """Run; see the contract."""
        if until <= self.cycle and not self.is_finished:
            return StopReason(StopKind.UNTIL, self.cycle)
        result, hits = self._engine.advance(until, stops, events)
        if hits.any():
            ids = tuple(sorted({int(stops[index, 5]) for index in np.flatnonzero(hits)}))
            return StopReason(StopKind.BREAKPOINT, self.cycle, ids)
        if result == sk.RESULT_FINISHED:
            return StopReason(StopKind.FINISHED, self.cycle, detail="the program has ended")
        if result == sk.RESULT_HANG:
            return self._hang()
        if result == sk.RESULT_EVENTS:
            return StopReason(StopKind.EVENTS_FULL, self.cycle)
        return StopReason(StopKind.UNTIL, self.cycle)

    def _hang(self) -> StopReason:
        number = int(self._engine.state[sk.H_HANG])
        task = self._engine.tables.tasks[number]
        detail = f"task {number} at {task.stream:#x}: {self._engine.loads[number].problem}"
        return StopReason(StopKind.HANG, self.cycle, unit=f"Core[{task.core}]", detail=detail)

    def snapshot(self) -> Snapshot:
        """Copy the whole state; values follow from it."""
        return Snapshot(self.cycle, self._engine.copy_state(), self._image)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot of this machine."""
        self._engine.restore_state(snapshot.words)
        self._image = snapshot.image

    def digest(self) -> str:
        """Digest of state and image; values follow from both and the program."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self._engine.state.data)
        digest.update(self._program.fingerprint.encode())
        digest.update(self._image.digest().encode())
        return digest.hexdigest()

    # --- probes ----------------------------------------------------------------------------------------

    @property
    def probes(self) -> Sequence[Probe]:
        """All observation points."""
        return self._probes

    def read(self, probe: str) -> Any:
        """Value of a probe. Raises KeyError for an unknown one."""
        return self._table.read(probe)

    def write(self, probe: str, value: Any) -> None:
        """No probe can be written: KeyError (unknown) or ValueError."""
        self._table.write(probe, value)

    # --- contents --------------------------------------------------------------------------------------

    def regions(self, memory: int) -> Sequence[Region]:
        """What a memory holds now."""
        return self._contents.regions(memory)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory now."""
        return self._contents.read(memory, address, size_bytes, self._image)

    def still_memories(self) -> StillMemories:
        """The memories as they are now, for another thread."""
        return StillContents(self._contents.still(), self._image)

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on; those of DDR flow into results."""
        self._image = self._contents.write(memory, address, data, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor as DDR holds them now."""
        return self._contents.tensor(tensor, self._image)

    # --- observation -----------------------------------------------------------------------------------

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        """Entries of a queue now, head first."""
        return self._observer.queue_entries(queue)

    def unit_states(self) -> Sequence[UnitState]:
        """What every unit does now."""
        return self._observer.unit_states()

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> task its PC takes next."""
        return self._observer.next_instructions()

    def activities(self) -> Sequence[Activity]:
        """Intervals under way now."""
        return self._observer.activities()

    def summary(self) -> RunSummary:
        """Totals so far."""
        return self._observer.summary()

    def reports(self) -> Sequence[DetailTable]:
        """Time and bottleneck of every operator that has finished."""
        return report_tables(self._engine, self._program.graph, self._measured)

    def log(self) -> np.ndarray:
        """(n, 2) int64 copy of the completions so far: task or -1 - host call, and the time."""
        return self._engine.log().copy()
