"""The toy machine: the pipeline behind the Machine contract."""

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
    UnitState,
    Wait,
)
from npuviz.sim.probe import Probe
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import StopKind, StopReason
from tests.toy.description import (
    K_ADD,
    K_BANK,
    K_DEPENDENCY,
    K_EMPTY,
    K_LOAD,
    K_MUL,
    K_STORE,
    KINDS,
    describe,
    probes,
)
from tests.toy.pipeline import EVENTS_PER_CYCLE, Pipeline
from tests.toy.program import ALU, LD, NODES, NUM_BANKS, PER_TILE, SLOTS, SPAD, ST, TENSORS, ToySpec


class ToyMachine:
    """A small real machine. All of its state is the pipeline's record."""

    pipeline_class: type[Pipeline] = Pipeline

    def __init__(self, spec: ToySpec, program: Program) -> None:
        self._spec = spec
        self._program = program
        self._description = describe(spec, program.target)
        self._probes = probes(spec)
        self._pipeline = self.pipeline_class(spec, program.payload)
        self._state = self._pipeline.state

    @property
    def description(self) -> MachineDescription:
        return self._description

    @property
    def program(self) -> Program:
        return self._program

    @property
    def cycle(self) -> int:
        return int(self._state["cycle"])

    @property
    def is_finished(self) -> bool:
        return bool(self._state["finished"])

    @property
    def event_rows_per_cycle(self) -> int:
        return EVENTS_PER_CYCLE

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        while True:
            now = self.cycle
            if self.is_finished:
                return StopReason(StopKind.FINISHED, now, detail="the program has ended")
            if self._state["fault"] >= 0:
                detail = f"instruction {int(self._state['fault'])} is marked as faulty"
                return StopReason(StopKind.FAULT, now, unit="Core[0]", detail=detail)
            if self._state["stuck"]:
                return StopReason(StopKind.DEADLOCK, now, unit="Core[0]", detail=self._circle())
            if now >= until:
                return StopReason(StopKind.UNTIL, now)
            if events is not None and len(events.rows) - int(events.count[0]) < EVENTS_PER_CYCLE:
                return StopReason(StopKind.EVENTS_FULL, now)
            hits = self._pipeline.cycle(stops, events, until)
            if hits:
                return StopReason(StopKind.BREAKPOINT, self.cycle, hits)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.cycle, self._pipeline.array.view(np.int64).copy())

    def restore(self, snapshot: Snapshot) -> None:
        self._pipeline.array.view(np.int64)[:] = snapshot.words

    def digest(self) -> str:
        return hashlib.blake2b(self._pipeline.array.tobytes(), digest_size=16).hexdigest()

    @property
    def probes(self) -> Sequence[Probe]:
        return self._probes

    def read(self, probe: str) -> Any:
        state = self._state
        match probe:
            case "Core[0].ALU.occupancy":
                return int(state["queue"][0]["count"])
            case "Core[0].ST.occupancy":
                return int(state["queue"][1]["count"])
            case "Core[0].LD.latency":
                return int(state["latency"])
            case "Core[0].busy":
                return np.array([self._busy(unit) for unit in range(3)], np.int64)
            case "Core[0].SPAD.used":
                return int(state["used"])
            case _:
                if all(probe != known.id for known in self._probes):
                    raise KeyError(probe)
                return self._bank(int(probe[-2])).copy()

    def write(self, probe: str, value: Any) -> None:
        known = next((p for p in self._probes if p.id == probe), None)
        if known is None:
            raise KeyError(probe)
        if not known.writable:
            raise ValueError(f"probe {probe} cannot be written")
        array = np.asarray(value)
        if array.shape != known.shape:
            raise ValueError(f"probe {probe}: expected shape {known.shape}, found {array.shape}")
        if probe == "Core[0].LD.latency":
            if not 1 <= int(array) <= 10_000:
                raise ValueError(f"probe {probe}: expected 1..10000, found {int(array)}")
            self._state["latency"] = int(array)
        else:
            self._bank(int(probe[-2]))[:] = array

    def regions(self, memory: int) -> Sequence[Region]:
        shape = (self._spec.elements,)
        if memory != SPAD:
            size = self._spec.tensor_bytes
            shape = (self._spec.blocks * self._spec.elements,)
            return [
                Region(i * size, size, i, name, shape, "float32", True, 0)
                for i, (name, _, _) in enumerate(TENSORS)
            ]
        found: list[Region] = []
        size = self._spec.block_bytes
        for bank in range(NUM_BANKS):
            for part in range(SLOTS):
                slot = self._state["slot"][bank][part]
                if slot["since"] < 0:
                    continue
                writer = int(slot["writer"])
                _, _, *operands = NODES[writer // PER_TILE // self._spec.blocks]
                tensor = operands[part]
                address = bank * self._spec.bank_bytes + part * size
                label, valid, since = TENSORS[tensor][0], bool(slot["valid"]), int(slot["since"])
                found.append(Region(address, size, tensor, label, shape, "float32", valid, since, writer))
        return found

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        return self._bytes(memory, address, size_bytes).tobytes()

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        self._bytes(memory, address, len(data))[:] = np.frombuffer(data, np.uint8)

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        record = self._state["queue"][queue]
        tiles = [
            int(record["entry"][(int(record["head"]) + k) % self._spec.queue])
            for k in range(int(record["count"]))
        ]
        part = 2 + queue
        return [QueueEntry(f"tile {t}", t * PER_TILE + part, t // self._spec.blocks) for t in tiles]

    def unit_states(self, most: int | None = None) -> Sequence[UnitState]:
        found: list[UnitState] = []
        for unit in range(3):
            record = self._state["unit"][unit]
            held = self._pipeline.held(unit)
            if record["until"] >= 0:
                text = self._program.listing.describe(held).text
                since = int(record["start"])
                found.append(UnitState(unit, "busy", KINDS[self._kind(held)].role, text, held, since))
            elif record["wait"] >= 0:
                kind = KINDS[int(record["wait"])]
                found.append(UnitState(unit, "waiting", kind.role, kind.name, held, int(record["since"])))
            else:
                found.append(UnitState(unit, "idle", "wait-empty"))
        return found[:most]

    def next_instructions(self) -> dict[int, int]:
        return {unit: index for unit in range(3) if (index := self._pipeline.next_of(unit)) >= 0}

    def activities(self) -> Sequence[Activity]:
        found: list[Activity] = []
        for unit in range(3):
            record = self._state["unit"][unit]
            held = self._pipeline.held(unit)
            node = held // PER_TILE // self._spec.blocks if held >= 0 else -1
            if record["until"] >= 0:
                start, end = int(record["start"]), int(record["until"])
                found.append(Activity(unit, start, end, self._kind(held), node, held))
            elif record["wait"] >= 0:
                found.append(Activity(unit, int(record["since"]), -1, int(record["wait"]), node, held))
        return found

    def summary(self) -> RunSummary:
        state = self._state
        names = [unit.name for unit in self._description.units]
        dram, spad = self._description.memories
        return RunSummary(
            units=tuple((name, self._busy(i), self._waited(i)) for i, name in enumerate(names)),
            queues=tuple(
                (queue.name, int(state["queue"][queue.id]["peak"]), queue.capacity)
                for queue in self._description.queues
            ),
            memories=(
                (dram.name, dram.size_bytes, dram.size_bytes),
                (spad.name, int(state["peak"]), spad.size_bytes),
            ),
            counters={"tiles": int(state["stored"])},
        )

    def tensor(self, tensor: int) -> np.ndarray | None:
        if not 0 <= tensor < len(TENSORS):
            return None
        first = self._spec.dram_address(tensor, 0) // 4
        values = self._state["dram"][first : first + self._spec.blocks * self._spec.elements].copy()
        return values

    def semaphores(self) -> Sequence[SemaphoreState]:
        """Tiles that left a unit, counted; who needs more of them waits."""
        state, names = self._state, [unit.name for unit in self._description.units]
        loaded = int(state["unit"][LD]["tile"])
        stored = int(state["stored"])
        started = loaded - int(state["queue"][0]["count"])
        computed = started - int(state["unit"][ALU]["tile"] >= 0)
        values = (("loaded", LD, loaded, 1), ("computed", ALU, computed, 2), ("stored", ST, stored, 3))
        waits: dict[int, list[Wait]] = {0: [], 1: [], 2: []}
        for unit in range(3):
            wait, held = int(state["unit"][unit]["wait"]), self._pipeline.held(unit)
            if unit == ALU and wait == K_EMPTY and loaded < self._spec.num_tiles:
                waits[0].append(Wait(ALU, loaded * PER_TILE + 2, ">=", loaded + 1))
            elif unit == ST and wait in (K_EMPTY, K_DEPENDENCY) and stored < self._spec.num_tiles:
                waits[1].append(Wait(ST, stored * PER_TILE + 3, ">=", computed + 1))
            elif unit == LD and wait in (K_BANK, K_DEPENDENCY):
                behind = NUM_BANKS if wait == K_BANK else self._spec.blocks
                waits[2].append(Wait(LD, held, ">=", loaded - behind + 1))
        return [
            SemaphoreState(
                i, name, "Core[0]", value, names[unit], tuple(waits[i]),
                (value - 1) * PER_TILE + part if value else -1,
            )
            for i, (name, unit, value, part) in enumerate(values)
        ]  # fmt: skip

    def hazards(self) -> Sequence[Hazard]:
        """Products larger than the toy can hold."""
        found = self._state["hazard"][: int(self._state["hazards"])]
        text = f"a product is larger than {self._spec.hazard_above}"
        return [Hazard(int(h["cycle"]), "Core[0].ALU", int(h["instruction"]), "range", text) for h in found]

    def _circle(self) -> str:
        """Who waits for whom in a deadlock."""
        names = [unit.name for unit in self._description.units]
        parts = [
            f"{names[wait.unit]} waits for {semaphore.name} {wait.comparison} {wait.needed}"
            for semaphore in self.semaphores()
            for wait in semaphore.waiting
        ]
        return ", ".join(parts) or "nobody can go on"

    def _busy(self, unit: int) -> int:
        record = self._state["unit"][unit]
        running = self.cycle - int(record["start"]) if record["until"] >= 0 else 0
        return int(record["busy"]) + running

    def _waited(self, unit: int) -> int:
        record = self._state["unit"][unit]
        running = self.cycle - int(record["since"]) if record["until"] < 0 and record["wait"] >= 0 else 0
        return int(record["waited"]) + running

    def _bank(self, bank: int) -> np.ndarray:
        size = self._spec.bank_bytes // 4
        return self._state["spad"][bank * size : (bank + 1) * size]

    def _bytes(self, memory: int, address: int, size_bytes: int) -> np.ndarray:
        limit = self._description.memories[memory].size_bytes
        if address < 0 or size_bytes < 0 or address + size_bytes > limit:
            raise ValueError(f"{address:#x}+{size_bytes} is outside the memory of {limit} bytes")
        values = self._state["spad" if memory == SPAD else "dram"]
        return values.view(np.uint8)[address : address + size_bytes]

    def _kind(self, index: int) -> int:
        part = index % PER_TILE
        if part == 2:
            return K_MUL if NODES[index // PER_TILE // self._spec.blocks][1] == "Mul" else K_ADD
        return K_LOAD if part < 2 else K_STORE


assert (LD, ALU, ST) == (0, 1, 2)  # unit ids are track ids
