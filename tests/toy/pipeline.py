"""The toy's behaviour: what happens in one cycle, on one root record.

Cycle c: first starts (ST, ALU, LD: downstream first, so room made in a cycle is used in it), then
the ends of work that fills cycle c as its last. Cycles in which nothing can change are skipped.
"""

from typing import Any

import numpy as np

from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import STOP_MEMORY_READ, STOP_MEMORY_WRITE, STOP_NODE_END, STOP_NODE_START
from npuviz.trace.schema import COUNTER, FLOW, INTERVAL, LIFETIME, TRACK_SHIFT, TYPE_SHIFT
from tests.toy.description import (
    K_ADD,
    K_BANK,
    K_DEPENDENCY,
    K_EMPTY,
    K_FULL,
    K_LOAD,
    K_MUL,
    K_STORE,
    T_ALU_QUEUE,
    T_ST_QUEUE,
    T_USED,
)
from tests.toy.program import ALU, DRAM, LD, NODES, NUM_BANKS, PER_TILE, SLOTS, SPAD, ST, TENSORS, ToySpec
from tests.toy.watching import Watching

EVENTS_PER_CYCLE = 32
MAX_HAZARDS = 16
NEVER = 1 << 62


def state_dtype(spec: ToySpec) -> np.dtype:
    """The root record of a toy machine; a whole number of int64 words."""
    unit = [(name, "i8") for name in ("tile", "phase", "start", "until", "wait", "since", "busy", "waited")]
    queue = [("head", "i8"), ("count", "i8"), ("peak", "i8"), ("entry", "i8", (spec.queue,))]
    slot = [("since", "i8"), ("valid", "i8"), ("writer", "i8")]
    numbers = SLOTS * NUM_BANKS * spec.elements
    dram = len(TENSORS) * spec.blocks * spec.elements
    head = [
        (name, "i8")
        for name in ("cycle", "finished", "fault", "stuck", "latency", "used", "peak", "stored", "hazards")
    ]
    return np.dtype(
        [
            *head,
            ("unit", unit, (3,)),
            ("queue", queue, (2,)),
            ("owner", "i8", (NUM_BANKS,)),
            ("hazard", [("cycle", "i8"), ("instruction", "i8")], (MAX_HAZARDS,)),
            ("slot", slot, (NUM_BANKS, SLOTS)),
            ("spad", "f4", (numbers + numbers % 2,)),
            ("dram", "f4", (dram + dram % 2,)),
        ]
    )


class Pipeline:
    """Runs cycles on `state`, a one-element structured array. Keeps nothing between calls of `cycle`."""

    def __init__(self, spec: ToySpec, payload: dict[int, np.ndarray]) -> None:
        self.spec = spec
        self.array = np.zeros(1, state_dtype(spec))
        state: Any = self.array[0]
        self.state = state
        state["fault"] = -1
        state["latency"] = spec.latency
        state["unit"]["until"] = -1
        state["unit"]["wait"] = -1
        state["unit"]["tile"][[ALU, ST]] = -1
        state["owner"] = -1
        state["slot"]["since"] = -1
        for tensor, values in payload.items():
            first = spec.dram_address(tensor, 0) // 4
            state["dram"][first : first + values.size] = values

    # ---- one cycle

    def cycle(self, stops: np.ndarray, events: EventBuffer | None, until: int) -> tuple[int, ...]:
        """Run from the present cycle to the end of the next one in which something happens (or `until`)."""
        state = self.state
        self._watch, self._events = Watching(stops), events
        self._changed = False
        before = [int(n) for n in state["queue"]["count"]]
        now = int(state["cycle"])
        self._start_store(now)
        self._start_alu(now)
        self._start_load(now)
        for unit in (ST, ALU, LD):
            if state["unit"][unit]["until"] == now + 1:
                self._changed = True
                self._end_work(unit, now + 1)
        self._watch.queues(before, [int(n) for n in state["queue"]["count"]])
        state["cycle"] = now + 1
        if not self._changed:
            waiting = [int(u) for u in state["unit"]["until"] if u >= 0]
            # When no unit works and nothing changed, nothing ever will.
            state["stuck"] = int(not waiting)
            state["cycle"] = max(now + 1, min([until, *(u - 1 for u in waiting)])) if waiting else now + 1
        return tuple(sorted(self._watch.hits))

    def _start_store(self, now: int) -> None:
        store, queue = self.state["unit"][ST], self.state["queue"][1]
        if store["until"] >= 0:
            return
        if queue["count"] == 0:
            self._wait(ST, K_EMPTY, now, -1)
            return
        if self.state["queue"][1]["entry"][self.state["queue"][1]["head"]] == self.spec.stuck_at:
            self._wait(ST, K_DEPENDENCY, now, -1)
            return
        tile = self._pop(1, now)
        store["tile"] = tile
        size = self.spec.block_bytes
        self._begin(ST, tile * PER_TILE + 3, now, int(self.state["latency"]) // 2 + 1 + size // 16)
        self._watch.memory(
            STOP_MEMORY_READ,
            SPAD,
            (tile % NUM_BANKS) * self.spec.bank_bytes + 2 * size,
            self.spec.block_bytes,
        )
        self._flow(now, tile * PER_TILE + 2, tile * PER_TILE + 3)

    def _start_alu(self, now: int) -> None:
        alu = self.state["unit"][ALU]
        if alu["until"] >= 0:
            return
        if alu["phase"] == 1:
            if self.state["queue"][1]["count"] == self.spec.queue:
                self._wait(ALU, K_FULL, now, int(alu["tile"]) * PER_TILE + 2)
                return
            self._close_wait(ALU, now)
            self._push(1, int(alu["tile"]), now)
            alu["phase"], alu["tile"] = 0, -1
        if self.state["queue"][0]["count"] == 0:
            self._wait(ALU, K_EMPTY, now, -1)
            return
        tile = self._pop(0, now)
        alu["tile"] = tile
        index = tile * PER_TILE + 2
        is_mul = NODES[tile // self.spec.blocks][1] == "Mul"
        # Assumed: multiplying is slow enough to fill the queue, adding is not.
        self._begin(ALU, index, now, self.spec.elements + 10 if is_mul else self.spec.elements // 4 + 6)
        base = (tile % NUM_BANKS) * self.spec.bank_bytes
        for part in range(2):
            self._watch.memory(
                STOP_MEMORY_READ, SPAD, base + part * self.spec.block_bytes, self.spec.block_bytes
            )
            self._flow(now, index - 2 + part, index)
        self._allocate(tile, 2, now, index)

    def _start_load(self, now: int) -> None:
        load = self.state["unit"][LD]
        if load["until"] >= 0 or load["tile"] == self.spec.num_tiles:
            return
        if load["phase"] == 2:
            if self.state["queue"][0]["count"] == self.spec.queue:
                self._wait(LD, K_FULL, now, int(load["tile"]) * PER_TILE + 1)
                return
            self._close_wait(LD, now)
            self._push(0, int(load["tile"]), now)
            load["tile"] += 1
            load["phase"] = 0
            if load["tile"] == self.spec.num_tiles:
                return
        tile, part = int(load["tile"]), int(load["phase"])
        index, bank = tile * PER_TILE + part, tile % NUM_BANKS
        if part == 0 and self.state["owner"][bank] >= 0:
            self._wait(LD, K_BANK, now, index)
            return
        if self.state["stored"] <= tile - self.spec.blocks:
            self._wait(LD, K_DEPENDENCY, now, index)
            return
        node = tile // self.spec.blocks
        _, _, left, right, _ = NODES[node]
        source, size = (left, right)[part], self.spec.block_bytes
        address = self.spec.dram_address(source, tile)
        # Assumed: rows of three blocks, so that latencies are not all equal.
        latency = int(self.state["latency"]) + (address // size) % 3 + size // 16
        self.state["owner"][bank] = tile
        self._begin(LD, index, now, latency)
        if part == 0 and index % (PER_TILE * self.spec.blocks) == 0:
            self._watch.node(STOP_NODE_START, node)
        self._watch.memory(STOP_MEMORY_READ, DRAM, address, self.spec.block_bytes)
        writer = TENSORS[source][2]
        if writer >= 0:
            self._flow(now, ((writer * self.spec.blocks) + tile % self.spec.blocks) * PER_TILE + 3, index)
        self._allocate(tile, part, now, index)

    # ---- the ends of work

    def _end_work(self, unit: int, end: int) -> None:
        record = self.state["unit"][unit]
        tile, start = int(record["tile"]), int(record["start"])
        part = {LD: int(record["phase"]), ALU: 2, ST: 3}[unit]
        index = tile * PER_TILE + part
        record["until"] = -1
        record["busy"] += end - start
        kind = (K_LOAD, K_LOAD, K_MUL, K_STORE)[part]
        if unit == ALU:
            kind = K_MUL if NODES[tile // self.spec.blocks][1] == "Mul" else K_ADD
        self._emit(INTERVAL, unit, kind, start, end, index)
        bank = (tile % NUM_BANKS) * self.spec.bank_bytes
        if unit == LD:
            record["phase"] += 1
            self._fill(tile, part)
            self._watch.memory(
                STOP_MEMORY_WRITE, SPAD, bank + part * self.spec.block_bytes, self.spec.block_bytes
            )
        elif unit == ALU:
            record["phase"] = 1
            self._fill(tile, 2)
            self._look_for_hazard(tile, index, end)
            self._watch.memory(
                STOP_MEMORY_WRITE, SPAD, bank + 2 * self.spec.block_bytes, self.spec.block_bytes
            )
            self._free(tile, (0, 1), end)
        else:
            self._fill(tile, 3)
            out = NODES[tile // self.spec.blocks][4]
            self._watch.memory(
                STOP_MEMORY_WRITE, DRAM, self.spec.dram_address(out, tile), self.spec.block_bytes
            )
            self._free(tile, (2,), end)
            self._end_tile(tile, end)

    def _end_tile(self, tile: int, end: int) -> None:
        state = self.state
        state["unit"][ST]["tile"] = -1
        state["owner"][tile % NUM_BANKS] = -1
        state["stored"] += 1
        if (tile + 1) % self.spec.blocks == 0:
            self._watch.node(STOP_NODE_END, tile // self.spec.blocks)
        if state["stored"] == self.spec.num_tiles:
            state["finished"] = 1
            for unit in range(3):  # close the waits, so that the trace covers every cycle
                self._close_wait(unit, end)

    def _fill(self, tile: int, part: int) -> None:
        """Apply the values of an instruction."""
        state, spec, n = self.state, self.spec, self.spec.elements
        base = (tile % NUM_BANKS) * SLOTS * n
        _, op_type, left, right, out = NODES[tile // spec.blocks]
        slots = [state["spad"][base + k * n : base + (k + 1) * n] for k in range(SLOTS)]
        if part < 2:
            first = spec.dram_address((left, right)[part], tile) // 4
            slots[part][:] = state["dram"][first : first + n]
        elif part == 2:
            # Tests write any bytes into memory: what they mean as numbers may overflow.
            with np.errstate(all="ignore"):
                slots[2][:] = slots[0] * slots[1] if op_type == "Mul" else slots[0] + slots[1]
        else:
            first = spec.dram_address(out, tile) // 4
            state["dram"][first : first + n] = slots[2]
            return
        state["slot"][tile % NUM_BANKS][part]["valid"] = 1

    def _look_for_hazard(self, tile: int, index: int, end: int) -> None:
        """Remember a product that is too large for the toy's hardware."""
        state, spec = self.state, self.spec
        first = ((tile % NUM_BANKS) * SLOTS + 2) * spec.elements
        is_large = float(np.nanmax(np.abs(state["spad"][first : first + spec.elements]))) > spec.hazard_above
        count = int(state["hazards"])
        if spec.hazard_above and is_large and NODES[tile // spec.blocks][1] == "Mul" and count < MAX_HAZARDS:
            state["hazard"][count] = (end, index)
            state["hazards"] = count + 1

    # ---- small things

    def _begin(self, unit: int, index: int, now: int, cycles: int) -> None:
        self._close_wait(unit, now)
        self._changed = True
        record = self.state["unit"][unit]
        record["start"], record["until"] = now, now + cycles
        self._watch.instruction(index)
        if index == self.spec.fault_at:
            self.state["fault"] = index

    def _wait(self, unit: int, kind: int, now: int, index: int) -> None:
        record = self.state["unit"][unit]
        if record["wait"] != kind:
            self._close_wait(unit, now)
            record["wait"], record["since"] = kind, now
            self._changed = True

    def _close_wait(self, unit: int, end: int) -> None:
        record = self.state["unit"][unit]
        if record["wait"] >= 0 and end > record["since"]:
            self._emit(INTERVAL, unit, int(record["wait"]), int(record["since"]), end, self.held(unit))
            record["waited"] += end - record["since"]
        record["wait"] = -1

    def held(self, unit: int) -> int:
        """The instruction a unit holds or waits to start, -1 for none."""
        record = self.state["unit"][unit]
        tile = int(record["tile"])
        if tile < 0 or tile >= self.spec.num_tiles:
            return -1
        return tile * PER_TILE + {LD: min(int(record["phase"]), 1), ALU: 2, ST: 3}[unit]

    def next_of(self, unit: int) -> int:
        """The instruction a unit starts next, -1 if it is not known yet or there is none."""
        record = self.state["unit"][unit]
        if unit == LD:
            following = int(record["tile"]) * PER_TILE + int(record["phase"])
            following += int(record["until"] >= 0)
            tile, part = divmod(following, PER_TILE)
            tile, part = (tile + 1, 0) if part >= 2 else (tile, part)
            return tile * PER_TILE + part if tile < self.spec.num_tiles else -1
        queue = self.state["queue"][unit - ALU]
        if queue["count"] == 0:
            return -1
        return int(queue["entry"][queue["head"]]) * PER_TILE + (2 if unit == ALU else 3)

    def _push(self, queue: int, tile: int, now: int) -> None:
        record = self.state["queue"][queue]
        record["entry"][(record["head"] + record["count"]) % self.spec.queue] = tile
        record["count"] += 1
        record["peak"] = max(record["peak"], record["count"])
        self._count_queue(queue, now)

    def _pop(self, queue: int, now: int) -> int:
        record = self.state["queue"][queue]
        tile = int(record["entry"][record["head"]])
        record["head"] = (record["head"] + 1) % self.spec.queue
        record["count"] -= 1
        self._count_queue(queue, now)
        return tile

    def _count_queue(self, queue: int, now: int) -> None:
        self._changed = True
        track = (T_ALU_QUEUE, T_ST_QUEUE)[queue]
        self._emit(COUNTER, track, 0, now, int(self.state["queue"][queue]["count"]), -1)

    def _allocate(self, tile: int, part: int, now: int, index: int) -> None:
        slot = self.state["slot"][tile % NUM_BANKS][part]
        slot["since"], slot["valid"], slot["writer"] = now, 0, index
        self._use(self.spec.block_bytes, now)

    def _free(self, tile: int, parts: tuple[int, ...], end: int) -> None:
        bank = tile % NUM_BANKS
        for part in parts:
            slot = self.state["slot"][bank][part]
            self._emit(LIFETIME, SPAD, bank, int(slot["since"]), end, int(slot["writer"]))
            slot["since"], slot["valid"] = -1, 0
            self._use(-self.spec.block_bytes, end - 1)

    def _use(self, size: int, now: int) -> None:
        self.state["used"] += size
        self.state["peak"] = max(self.state["peak"], self.state["used"])
        self._emit(COUNTER, T_USED, 0, now, int(self.state["used"]), -1)

    def _flow(self, now: int, source: int, sink: int) -> None:
        self._emit(FLOW, 0, 0, now, source, sink)

    def _emit(self, kind: int, track: int, code: int, a: int, b: int, c: int) -> None:
        if self._events is not None:
            at = int(self._events.count[0])
            self._events.rows[at] = (kind << TYPE_SHIFT | track << TRACK_SHIFT | code, a, b, c)
            self._events.count[0] = at + 1
