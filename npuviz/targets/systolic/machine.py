"""The systolic machine behind the contract: engine, observation and contents put together."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Activity, QueueEntry, Region, RunSummary, StillMemories, UnitState
from npuviz.sim.parts import dram_kernels as dk
from npuviz.sim.parts import interconnect_kernels as ik
from npuviz.sim.probe import Probe
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import StopKind, StopReason
from npuviz.targets.systolic import state_kernels as sk
from npuviz.targets.systolic.contents import Contents, Image, StillContents
from npuviz.targets.systolic.description import describe, make_probes
from npuviz.targets.systolic.engine import Engine
from npuviz.targets.systolic.observe import Observer
from npuviz.targets.systolic.payload import Payload
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.values import ValueEngine

_FAULTS = {
    sk.FAULT_SPAD_FULL: "the scratchpad half is full; the tile is larger than half of the scratchpad",
    sk.FAULT_ACC_FULL: "the accumulator half is full; the tile is larger than half of the accumulator",
    sk.FAULT_ENTRY_EXISTS: "a load would overwrite data of the same tile that is still in its half",
    sk.FAULT_HANG: "nothing can happen any more, but the program has not ended (deadlock)",
    sk.FAULT_QUEUE: "the store queue is full",
}


MAX_LATENCY = 1_000_000
"""Largest DRAM latency that can be set, in DRAM cycles."""


class SystolicMachine:
    """One chip with one program; see npuviz.sim.machine.Machine for the contract."""

    def __init__(self, spec: SystolicSpec, program: Program) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        tables = payload.tables
        self._program = program
        self._engine = Engine(spec, tables)
        end = max((a.address + a.size_bytes for a in program.memory_map.allocations), default=1)
        self._description = describe(spec, end)
        self._observer = Observer(self._engine, program.listing)
        self._contents = Contents(self._engine, self._observer, program, self._description)
        values = None
        if tables.values is not None:
            values = ValueEngine(tables, program.graph, spec, payload.inputs)
        self._image = Image(values)
        self._probes = make_probes(spec)
        self._readers = self._make_readers()

    @property
    def values(self) -> ValueEngine | None:
        """The values engine of the present image, None in programs without values."""
        return self._image.values

    @property
    def description(self) -> MachineDescription:
        """What the machine consists of."""
        return self._description

    @property
    def program(self) -> Program:
        """What it runs."""
        return self._program

    @property
    def listing(self) -> Listing:
        """The program's instructions."""
        return self._program.listing

    @property
    def cycle(self) -> int:
        """Core cycles completed."""
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
        if result == sk.RESULT_EVENTS:
            return StopReason(StopKind.EVENTS_FULL, self.cycle)
        return StopReason(StopKind.UNTIL, self.cycle)

    def _fault(self) -> StopReason:
        s = self._engine.state
        core, index = int(s[sk.H_FAULT_CORE]), int(s[sk.H_FAULT_INSTRUCTION])
        detail = _FAULTS[int(s[sk.H_FAULT])]
        if index >= 0:
            detail = f"{self._program.listing.describe(index).text}: {detail}"
        return StopReason(
            StopKind.FAULT, self.cycle, unit=f"Core[{core}]" if core >= 0 else "", detail=detail
        )

    def snapshot(self) -> Snapshot:
        """Copy the whole state; values are shared, they never change."""
        return Snapshot(self.cycle, self._engine.copy_state(), self._image)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot of this machine."""
        self._engine.restore_state(snapshot.words)
        self._image = snapshot.image

    def digest(self) -> str:
        """Digest of state and image."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self._engine.used_state().data)
        digest.update(self._image.digest().encode())
        return digest.hexdigest()

    # --- probes ----------------------------------------------------------------------------------------

    @property
    def probes(self) -> Sequence[Probe]:
        """All observation points."""
        return self._probes

    def _make_readers(self) -> dict[str, Callable[[], Any]]:
        found: dict[str, Callable[[], Any]] = {}
        observer = self._observer
        queues = {
            "LD": sk.QUEUE_LD,
            "EX": sk.QUEUE_EX,
            "VEC": sk.QUEUE_VEC,
            "ST": sk.QUEUE_ST,
            "requests": sk.QUEUE_REQUESTS,
        }
        for core in range(self._engine.spec.num_cores):
            name = f"Core[{core}]"
            for queue, number in queues.items():
                found[f"{name}.{queue}.occupancy"] = lambda c=core, n=number: observer.queue_length(c, n)
            found[f"{name}.SPAD.used"] = lambda c=core: int(observer.core(c)[sk.K_USED : sk.K_USED + 2].sum())
            found[f"{name}.ACC.used"] = lambda c=core: int(
                observer.core(c)[sk.K_USED + 2 : sk.K_USED + 4].sum()
            )
            found[f"{name}.tiles"] = lambda c=core: int(observer.core(c)[sk.K_TILES])
            found[f"{name}.macs"] = lambda c=core: int(observer.core(c)[sk.K_MACS])
        header = {
            "Scheduler.layer": sk.H_LAYER,
            "Scheduler.tiles_done": sk.H_TILES_DONE,
            "DRAM.reads_sent": sk.H_READS,
            "DRAM.writes_sent": sk.H_WRITES,
            "GEMM.instructions": sk.H_GEMM_COUNT,
            "GEMM.preloads": sk.H_PRELOAD_COUNT,
        }
        for name, word in header.items():
            found[name] = lambda w=word: int(self._engine.state[w])
        state = self._engine
        found["NoC.waiting"] = lambda: int(state.state[int(state.state[sk.H_NOC]) + ik.NOC_WAITING])
        channels = range(self._engine.spec.config.dram_channels)
        found["DRAM.latency"] = lambda: state.dram_latency
        for name, word in (("DRAM.reads", dk.CH_READS), ("DRAM.writes", dk.CH_WRITES)):
            found[name] = lambda w=word: np.array([observer.channel(i)[w] for i in channels], dtype=np.int64)
        return found

    def read(self, probe: str) -> Any:
        """Value of a probe. Raises KeyError for an unknown one."""
        return self._readers[probe]()

    def write(self, probe: str, value: Any) -> None:
        """Set `DRAM.latency`; other probes are read-only (ValueError), unknown ones a KeyError."""
        if probe not in self._readers:
            raise KeyError(probe)
        if probe != "DRAM.latency":
            raise ValueError(f"probe {probe} cannot be written; DRAM.latency can")
        number = np.asarray(value)
        if number.shape != () or number.dtype.kind not in "iu" or not 0 <= int(number) <= MAX_LATENCY:
            raise ValueError(f"probe {probe}: expected a whole number from 0 to {MAX_LATENCY}")
        self._engine.set_dram_latency(int(number))

    # --- contents --------------------------------------------------------------------------------------

    def regions(self, memory: int) -> Sequence[Region]:
        """What a memory holds now."""
        return self._contents.regions(memory, self._image)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory now."""
        return self._contents.read(memory, address, size_bytes, self._image)

    def still_memories(self) -> StillMemories:
        """The memories as they are now, for another thread."""
        return StillContents(self._contents.still(), self._image)

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on."""
        self._image = self._contents.write(memory, address, data, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor as far as they are stored."""
        return self._contents.tensor(tensor, self._image)

    # --- observation -----------------------------------------------------------------------------------

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        """Entries of a queue now, head first."""
        core, number = divmod(queue, sk.QUEUES_PER_CORE)
        return self._observer.queue_entries(core, number)

    def unit_states(self) -> Sequence[UnitState]:
        """What every unit does now."""
        return self._observer.unit_states()

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> index of the instruction it takes next."""
        return self._observer.next_instructions()

    def activities(self) -> Sequence[Activity]:
        """Intervals under way now."""
        return self._observer.activities()

    def summary(self) -> RunSummary:
        """Totals so far."""
        return self._observer.summary()
