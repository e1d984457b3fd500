"""The NeuronCore machine behind the contract: engine, observation and contents put together."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import (
    Activity,
    Hazard,
    QueueEntry,
    Region,
    RunSummary,
    SemaphoreState,
    StillMemories,
    UnitState,
)
from npuviz.sim.probe import Probe
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import StopKind, StopReason
from npuviz.targets.neuroncore import state_kernels as sk
from npuviz.targets.neuroncore.contents import Contents, Image, StillContents
from npuviz.targets.neuroncore.description import describe, make_probes, numbering, used_semaphores
from npuviz.targets.neuroncore.engine import Engine
from npuviz.targets.neuroncore.observe import Observer
from npuviz.targets.neuroncore.payload import Payload
from npuviz.targets.neuroncore.probes import ProbeTable
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.values_engine import ValueEngine

_FAULTS = {
    sk.FAULT_SEMAPHORE_OVERFLOW: "counts past 32 bits",
    sk.FAULT_SEMAPHORE_UNDERFLOW: "would become negative",
    sk.FAULT_EVENT_SET_TWICE: "is set although it is set already",
    sk.FAULT_EVENT_CLEARED_TWICE: "is cleared although it is clear already",
}


class NeuronMachine:
    """One logical core with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: NeuronSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        tables = payload.tables
        self._program = program
        used = used_semaphores(spec, tables)
        self._engine = Engine(spec, tables, program.graph, numbering(spec, tables, used))
        self._description = describe(spec, tables, used, payload.is_estimated)
        self._observer = Observer(self._engine, program.listing, used)
        values = None
        if not payload.is_estimated:
            values = ValueEngine(tables, program.graph, spec, payload.inputs)
        self._image = Image()
        self._contents = Contents(self._engine, program, values)
        self._probes = make_probes(spec, tables, used)
        self._table = ProbeTable(self._engine, self._observer, used, self._accumulators)

    def values(self) -> ValueEngine | None:
        """The values engine with the contents of now, None for programs without values."""
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
        """Base cycles completed."""
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
        if result == sk.RESULT_FAULT:
            return self._fault()
        if result == sk.RESULT_DEADLOCK:
            unit, detail = self._observer.deadlock()
            return StopReason(StopKind.DEADLOCK, self.cycle, unit=unit, detail=detail)
        if result == sk.RESULT_EVENTS:
            return StopReason(StopKind.EVENTS_FULL, self.cycle)
        return StopReason(StopKind.UNTIL, self.cycle)

    def _fault(self) -> StopReason:
        s = self._engine.state
        code, index, subject = (
            int(s[word]) for word in (sk.H_FAULT, sk.H_FAULT_INSTRUCTION, sk.H_FAULT_SUBJECT)
        )
        instruction = self._program.listing.describe(index)
        unit = self._description.units[instruction.unit].name
        if code == sk.FAULT_BRANCH:
            detail = f"{instruction.text}: branches out of its program, to instruction {subject}"
        else:
            detail = f"{instruction.text}: {self._observer.subject_name(subject)} {_FAULTS[code]}"
        return StopReason(StopKind.FAULT, self.cycle, unit=unit, detail=detail)

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
        digest.update(self._engine.used_state().data)
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
        """Set a semaphore or the registers of a sequencer. Raises KeyError or ValueError."""
        self._table.write(probe, value)

    def _accumulators(self, core: int) -> np.ndarray:
        return self._contents.accumulators(core, self._image)

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
        """Change bytes of a memory from now on; they flow into results."""
        self._image = self._contents.write(memory, address, data, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor as HBM holds them now."""
        return self._contents.tensor(tensor, self._image)

    def hazards(self) -> Sequence[Hazard]:
        """Hazards up to now; values are computed first."""
        return self._contents.hazards(self._image)

    # --- observation -----------------------------------------------------------------------------------

    def semaphores(self) -> Sequence[SemaphoreState]:
        """Semaphores and events that the program uses."""
        return self._observer.semaphores()

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        """Entries of a queue now, head first."""
        return self._observer.queue_entries(queue)

    def unit_states(self) -> Sequence[UnitState]:
        """What every unit does now."""
        return self._observer.unit_states()

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> index of the instruction it issues next."""
        return self._observer.next_instructions()

    def activities(self) -> Sequence[Activity]:
        """Intervals under way now."""
        return self._observer.activities()

    def summary(self) -> RunSummary:
        """Totals so far."""
        return self._observer.summary()

    def log(self) -> np.ndarray:
        """(n, 2) int64 copy of the completions so far: instruction or -1 - trigger, and the time."""
        return self._engine.log().copy()
