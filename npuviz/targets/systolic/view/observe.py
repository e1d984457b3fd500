"""Reads a state in the terms of the machine contract: queues, units, activities, totals."""

from dataclasses import dataclass

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.sim.machine import Activity, QueueEntry, RunSummary, UnitState
from npuviz.sim.network import simple_kernels as ik
from npuviz.targets.systolic.isa import MNEMONICS, UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine, StillEngine
from npuviz.targets.systolic.view.description import EX, LD, ST, UNITS_PER_CORE, VEC, host_unit
from npuviz.targets.systolic.view.dram import DramObserver

_KEPT_ENTRIES = 1 << 14
"""Decoded instructions kept: an entry waits in its queue for many cycles."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A resident tile: its words, and its position among the resident ones."""

    words: np.ndarray

    def __getitem__(self, word: int) -> int:
        return int(self.words[word])


class Observer:
    """Reads an engine's state for people; never changes it."""

    def __init__(self, engine: Engine | StillEngine, listing: Listing) -> None:
        self._engine = engine
        self._listing = listing
        self.dram = DramObserver(engine, listing)
        self._known: dict[int, QueueEntry] = {}
        self._nodes: dict[int, int] = {}

    # --- positions ---------------------------------------------------------------------------------

    @property
    def _s(self) -> np.ndarray:
        return self._engine.state

    def core(self, index: int) -> np.ndarray:
        """Return the words of a core (a view)."""
        words = int(self._s[sk.CHIP.core_words])
        start = int(self._s[sk.CHIP.cores]) + index * words
        return self._s[start : start + words]

    def slot(self, core: int, index: int) -> Slot:
        """Return a slot of a core, resident or not."""
        start = sk.CORE.slot + index * sk.SLOT.num_words
        return Slot(self.core(core)[start : start + sk.SLOT.num_words])

    def slots(self, core: int) -> list[Slot]:
        """Return the resident tiles in order of arrival."""
        k = self.core(core)
        return [self.slot(core, int(k[sk.CORE.order + i])) for i in range(int(k[sk.CORE.tiles]))]

    def _entry(self, code: int, core: int, slot_index: int) -> QueueEntry:
        return self._index_entry(code + self.slot(core, slot_index)[sk.SLOT.delta])

    def _index_entry(self, index: int) -> QueueEntry:
        found = self._known.get(index)
        if found is None:
            if len(self._known) >= _KEPT_ENTRIES:
                self._known.clear()
            found = QueueEntry(self._listing.describe(index).text, index, self._node(index))
            self._known[index] = found
        return found

    def _node(self, index: int) -> int:
        """Return the graph node of an instruction, which never changes."""
        found = self._nodes.get(index)
        if found is None:
            if len(self._nodes) >= _KEPT_ENTRIES:
                self._nodes.clear()
            found = self._nodes[index] = int(self._listing.nodes_of(np.array([index]))[0])
        return found

    # --- queues ------------------------------------------------------------------------------------

    def queue_length(self, core: int, queue: int) -> int:
        """Return the number of entries of a queue now."""
        k = self.core(core)
        if queue == sk.QUEUE_VEC:
            return int(k[sk.CORE.vec] >= 0)
        word = {
            sk.QUEUE_LD: sk.CORE.loads,
            sk.QUEUE_EX: sk.CORE.gemm_count,
            sk.QUEUE_ST: sk.CORE.stores,
            sk.QUEUE_REQUESTS: sk.CORE.burst_count,
        }[queue]
        return int(k[word])

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Return the entries of a queue (id of the description) now, head first."""
        first = self._engine.spec.num_cores * sk.QUEUES_PER_CORE
        if queue >= first:
            return self.dram.queue_entries(queue - first)
        core, queue = divmod(queue, sk.QUEUES_PER_CORE)
        k = self.core(core)
        count = self.queue_length(core, queue)
        if queue == sk.QUEUE_VEC:
            return [self._entry(int(k[sk.CORE.vec]), core, int(k[sk.CORE.vec_slot]))] if count else []
        if queue == sk.QUEUE_EX:
            return [self._entry(row[sk.GEMM.code], core, row[sk.GEMM.slot]) for row in self.gemm_ring(core)]
        if queue == sk.QUEUE_REQUESTS:
            return [self._index_entry(row[sk.BURST.index]) for row in self.bursts(core)]
        ring = sk.CORE.load_ring if queue == sk.QUEUE_LD else sk.CORE.store_ring
        pairs = k[ring : ring + 2 * count].reshape(count, 2).tolist()
        return [self._entry(code, core, slot) for code, slot in pairs]

    def gemm_ring(self, core: int) -> list[list[int]]:
        """Return the entries of the GEMM pipeline, head first: the words of a GEMM row each."""
        k = self.core(core)
        height, head, count = int(k[sk.CORE.height]), int(k[sk.CORE.gemm_head]), int(k[sk.CORE.gemm_count])
        ring = k[int(k[sk.CORE.ring]) :][: height * sk.GEMM.num_words].reshape(height, sk.GEMM.num_words)
        return ring[(head + np.arange(count)) % height].tolist()

    def bursts(self, core: int, limit: int = 1 << 62) -> list[list[int]]:
        """Return the bursts of the request list, head first, at most `limit`: the words of a BURST row
        each."""
        k, s = self.core(core), self._s
        capacity = int(s[sk.CHIP.burst_capacity])
        start = int(s[sk.CHIP.bursts]) + core * capacity * sk.BURST.num_words
        ring = s[start : start + capacity * sk.BURST.num_words].reshape(capacity, sk.BURST.num_words)
        count = min(int(k[sk.CORE.burst_count]), limit)
        order = (int(k[sk.CORE.burst_head]) + np.arange(count)) % capacity
        return ring[order].tolist()

    # --- what is under way ---------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Return the intervals that the trace does not hold yet."""
        s, found = self._s, list[Activity]()
        cycle = int(s[sk.CHIP.cycle])
        if int(s[sk.CHIP.status]) == sk.STATUS_FINISHED:
            return found
        for core in range(self._engine.spec.num_cores):
            found += self._core_activities(core, cycle)
        tracks = self._engine.spec.num_cores * sk.TRACKS_PER_CORE
        for lane, layer in self.running_layers():
            start, node, first = self.layer_start(layer), self.layer_node(layer), self.layer_first(layer)
            if start >= cycle:
                continue
            track = tracks + (sk.TRACK_OPERATORS if lane == 0 else sk.TRACK_HOST + lane)
            found.append(Activity(track, start, -1, sk.KIND_OPERATOR, node, first))
            if layer == self.host_layer() and int(s[sk.CHIP.host_until]) > cycle:
                end = int(s[sk.CHIP.host_until])
                found.append(Activity(tracks + sk.TRACK_HOST, start, end, tk.OP_HOST, node, first))
        return found

    def running_layers(self) -> list[tuple[int, int]]:
        """Return (lane of the operator tracks, layer) of every running layer that has a lane."""
        s = self._s
        schedule = int(s[sk.CHIP.sched])
        if schedule == 0:
            return [(0, int(s[sk.CHIP.layer]))] if int(s[sk.CHIP.layer]) >= 0 else []
        lanes = int(s[schedule + sk.SCHEDULER.lanes])
        layers = s[lanes : lanes + int(s[schedule + sk.SCHEDULER.num_lanes])].tolist()
        return [(lane, layer) for lane, layer in enumerate(layers) if layer >= 0]

    def host_layer(self) -> int:
        """Return the layer on the Host unit, -1 if it is idle."""
        s = self._s
        if int(s[sk.CHIP.host_until]) < 0:
            return -1
        schedule = int(s[sk.CHIP.sched])
        return int(s[sk.CHIP.layer] if schedule == 0 else s[schedule + sk.SCHEDULER.host_layer])

    def layer_start(self, layer: int) -> int:
        """Return the cycle in which a layer started, -1 if it has not."""
        return int(self._s[int(self._s[sk.CHIP.times]) + 2 * layer])

    def _core_activities(self, core: int, cycle: int) -> list[Activity]:
        found: list[Activity] = []
        k, base = self.core(core), core * sk.TRACKS_PER_CORE
        code = self._engine.tables.code
        for row in self.gemm_ring(core):
            index = row[sk.GEMM.code] + self.slot(core, row[sk.GEMM.slot])[sk.SLOT.delta]
            for kind, start, end in self._occupations(core, row):
                if start < cycle:
                    held = -1 if kind == sk.KIND_WAIT_EMPTY else index
                    found.append(self._activity(base + sk.TRACK_EX, start, end, kind, held))
        if int(k[sk.CORE.vec]) >= 0 and int(k[sk.CORE.vec_start]) < cycle:
            row = int(k[sk.CORE.vec])
            index = row + self.slot(core, int(k[sk.CORE.vec_slot]))[sk.SLOT.delta]
            start, end = int(k[sk.CORE.vec_start]), int(k[sk.CORE.vec_finish])
            found.append(self._activity(base + sk.TRACK_VEC, start, end, int(code[row, tk.CODE.op]), index))
        transfer = self._transfer(core)
        if transfer is not None and transfer[1] < cycle:
            burst = self.bursts(core, 1)[0]
            track = base + (sk.TRACK_LD if transfer[0] == LD else sk.TRACK_ST)
            op = int(code[burst[sk.BURST.code], tk.CODE.op])
            found.append(self._activity(track, transfer[1], -1, op, burst[sk.BURST.index]))
        return found

    def _transfer(self, core: int) -> tuple[int, int] | None:
        """Return LD or ST and the start of its present transfer, None if no request of it was made yet."""
        k = self.core(core)
        if int(k[sk.CORE.request]) < 0 or int(k[sk.CORE.burst_count]) <= 0:
            return None
        is_load = self.bursts(core, 1)[0][sk.BURST.entry] != 0
        last = int(k[sk.CORE.load_end if is_load else sk.CORE.store_end])
        return LD if is_load else ST, max(int(k[sk.CORE.burst_start]), last)

    def _occupations(self, core: int, row: list[int]) -> list[tuple[int, int, int]]:
        """Return (kind, start, end) on EX until an entry of the GEMM pipeline has entered: waits, weights,
        rows."""
        k = self.core(core)
        drain = int(k[sk.CORE.height]) + int(k[sk.CORE.width]) - 2
        if int(k[sk.CORE.dataflow]) == sk.DATAFLOW_OUTPUTS:
            drain += int(k[sk.CORE.height])
        enter, start, since = row[sk.GEMM.enter], row[sk.GEMM.start], row[sk.GEMM.idle]
        found: list[tuple[int, int, int]] = []
        for kind, known in (
            (sk.KIND_WAIT_EMPTY, min(row[sk.GEMM.arrived], enter)),
            (sk.KIND_WAIT_BANDWIDTH, min(row[sk.GEMM.filled], enter)),
            (sk.KIND_WAIT_DEPENDENCY, enter),
            (sk.KIND_LOAD_WEIGHTS, start),
            (int(self._engine.tables.code[row[sk.GEMM.code], tk.CODE.op]), row[sk.GEMM.finish] - drain),
        ):
            if known > since:
                found.append((kind, since, known))
                since = known
        return found

    def _activity(self, track: int, start: int, end: int, kind: int, index: int) -> Activity:
        return Activity(track, start, end, kind, self._node(index), index)

    def layer_node(self, layer: int) -> int:
        """Return the graph node of a layer, -1 if none."""
        return int(self._engine.tables.layers[layer, tk.LAYER.node])

    def layer_first(self, layer: int) -> int:
        """Return the first instruction of a layer, -1 if it has none."""
        row = self._engine.tables.layers[layer]
        if row[tk.LAYER.host_cycles] > 0:
            return int(row[tk.LAYER.instruction])
        tile = self._engine.tables.tiles[row[tk.LAYER.first_tile]]
        return int(tile[tk.TILE.first]) if tile[tk.TILE.count] > 0 else -1

    # --- units ---------------------------------------------------------------------------------------

    def unit_states(self) -> list[UnitState]:
        """Return the present state of every unit, by unit id."""
        found: list[UnitState] = []
        running = {activity.track: activity for activity in self.activities()}
        for core in range(self._engine.spec.num_cores):
            found += self._core_units(core, running)
        s, host = self._s, host_unit(self._engine.spec)
        activity = running.get(self._engine.spec.num_cores * sk.TRACKS_PER_CORE + sk.TRACK_HOST)
        if activity is not None:
            detail = "its duration is an assumption"
            found.append(UnitState(host, "running", "host", detail, activity.instruction, activity.start))
        else:
            found.append(UnitState(host, "idle", "idle"))
        waiting = int(ik.NOC(s, s[sk.CHIP.noc]).waiting)
        detail = f"{waiting} packets waiting" if waiting else ""
        found.append(
            UnitState(host + 1, "busy" if waiting else "idle", "control" if waiting else "idle", detail)
        )
        return found + self.dram.unit_states(host + 2)

    def _core_units(self, core: int, running: dict[int, Activity]) -> list[UnitState]:
        k = self.core(core)
        unit, base = core * UNITS_PER_CORE, core * sk.TRACKS_PER_CORE
        cycle = int(self._s[sk.CHIP.cycle])
        found: list[UnitState] = []
        held = self._next_of_core(core)
        for number, role in ((LD, "move-in"), (EX, "compute"), (VEC, "compute"), (ST, "move-out")):
            activity = running.get(base + number)
            if activity is not None and (activity.planned_end < 0 or activity.planned_end > cycle):
                text = MNEMONICS.get(activity.kind, "loading weights")
                detail = f"since cycle {activity.start}"
                state = UnitState(unit + number, text, role, detail, activity.instruction, activity.start)
            elif number == EX:
                state = self._waiting_array(core, k, unit, held.get(EX, -1))
            else:
                state = UnitState(unit + number, "idle", "idle", "", held.get(number, -1))
            found.append(state)
        return found

    def _waiting_array(self, core: int, k: np.ndarray, unit: int, held: int) -> UnitState:
        """Return the state of an idle array with its reason: no tile, operands on their way, or the order of
        issue."""
        if not int(k[sk.CORE.tiles]):
            return UnitState(unit + EX, "no tile", "wait-empty", "no tile is resident on this core")
        if held < 0:
            return UnitState(unit + EX, "idle", "idle", "the resident tiles have no matrix product left")
        cycle = int(self._s[sk.CHIP.cycle])
        for slot in self.slots(core):
            code = held - slot[sk.SLOT.delta]
            if not slot[sk.SLOT.pc] - 1 <= code < slot[sk.SLOT.end]:
                continue
            row = self._engine.tables.code[code]
            for operand in (int(row[tk.CODE.src0]), int(row[tk.CODE.src1])):
                if operand and not self.is_valid(core, slot, operand, cycle):
                    return UnitState(
                        unit + EX, "waiting for data", "wait-bandwidth", "an operand is not loaded yet", held
                    )
            detail = "operands are there; instructions before it are issued first"
            return UnitState(unit + EX, "waiting for issue", "wait-dependency", detail, held)
        return UnitState(unit + EX, "waiting for issue", "wait-dependency", "", held)

    def entry_words(self, core: int, half: int, index: int) -> np.ndarray:
        """Return the words of entry `index` of a half (0, 1 scratchpad; 2, 3 accumulator)."""
        start = int(self.core(core)[sk.CORE.entries + half]) + index * sk.ENTRY.num_words
        return self._s[start : start + sk.ENTRY.num_words]

    def is_valid(self, core: int, slot: Slot, operand: int, cycle: int) -> bool:
        """Return whether an operand of a resident tile is complete."""
        half = slot[sk.SLOT.spad] if operand > 0 else 2 + slot[sk.SLOT.acc]
        entry = self.entry_words(core, half, abs(operand) - 1)
        return int(entry[sk.ENTRY.left]) == 0 and int(entry[sk.ENTRY.valid]) <= cycle

    # --- program counters ----------------------------------------------------------------------------

    def next_instructions(self) -> dict[int, int]:
        """Return the instruction that each unit takes next, by unit id."""
        found: dict[int, int] = {}
        for core in range(self._engine.spec.num_cores):
            for number, index in self._next_of_core(core).items():
                found[core * UNITS_PER_CORE + number] = index
        layer = self.host_layer()
        if layer >= 0:
            found[host_unit(self._engine.spec)] = self.layer_first(layer)
        return found

    def _next_of_core(self, core: int) -> dict[int, int]:
        """Return for LD, EX, VEC, ST the instruction held in its queue, or the next one of a resident
        tile."""
        k = self.core(core)
        found: dict[int, int] = {}
        queued = [(LD, sk.CORE.loads, sk.CORE.load_ring), (ST, sk.CORE.stores, sk.CORE.store_ring)]
        for number, count, ring in queued:
            if int(k[count]):
                found[number] = int(k[ring]) + self.slot(core, int(k[ring + 1]))[sk.SLOT.delta]
        code = self._engine.tables.code
        for slot in self.slots(core):
            rest = UNIT_KIND_OF[code[slot[sk.SLOT.pc] : slot[sk.SLOT.end], tk.CODE.op]]
            for number in (LD, EX, VEC, ST):
                if number not in found:
                    places = np.flatnonzero(rest == number)
                    if len(places):
                        found[number] = slot[sk.SLOT.pc] + int(places[0]) + slot[sk.SLOT.delta]
        return found

    # --- totals --------------------------------------------------------------------------------------

    def summary(self) -> RunSummary:
        """Return the totals so far."""
        s, spec = self._s, self._engine.spec
        units: list[tuple[str, int, int]] = []
        queues: list[tuple[str, int, int]] = []
        memories: list[tuple[str, int, int]] = []
        for core in range(spec.num_cores):
            name, k = f"Core[{core}]", self.core(core)
            for number, (busy, waiting) in self._times(core).items():
                units.append((f"{name}.{UNIT_KINDS[number]}", busy, waiting))
            queues.append((f"{name}.requests", int(k[sk.CORE.peak_bursts]), 0))
            queues.append((f"{name}.EX", int(k[sk.CORE.peak_gemm]), int(k[sk.CORE.height])))
            memories.append((f"{name}.SPAD", int(k[sk.CORE.peak_spad]), 2 * int(k[sk.CORE.spad_half])))
            memories.append((f"{name}.ACC", int(k[sk.CORE.peak_acc]), 2 * int(k[sk.CORE.acc_half])))
        queues += self.dram.peaks()
        host = int(s[sk.CHIP.host_busy]) - max(0, int(s[sk.CHIP.host_until]) - int(s[sk.CHIP.cycle]))
        units.append(("Host", host, 0))
        counters = {
            "gemm_instructions": int(s[sk.CHIP.gemm_count]),
            "preloads": int(s[sk.CHIP.preload_count]),
            "reads": int(s[sk.CHIP.reads]),
            "writes": int(s[sk.CHIP.writes]),
            "tiles": int(s[sk.CHIP.tiles_done]),
            "layers": int(s[sk.CHIP.layers_done]),
            **self.dram.totals(),
        }
        if spec.spad_banks:
            cores = range(spec.num_cores)
            counters["bank_conflict_cycles"] = sum(int(self.core(core)[sk.CORE.conflicts]) for core in cores)
        return RunSummary(tuple(units), tuple(queues), tuple(memories), counters)

    def _times(self, core: int) -> dict[int, tuple[int, int]]:
        """Return busy and waiting cycles of LD, EX, VEC, ST up to now; of running instructions, the part
        before now."""
        k, cycle = self.core(core), int(self._s[sk.CHIP.cycle])
        found = {
            LD: [int(k[sk.CORE.load_busy]) - max(0, int(k[sk.CORE.load_end]) - cycle), 0],
            EX: [int(k[sk.CORE.ex_busy]), int(k[sk.CORE.ex_waited])],
            VEC: [int(k[sk.CORE.vec_busy]), 0],
            ST: [int(k[sk.CORE.store_busy]) - max(0, int(k[sk.CORE.store_end]) - cycle), 0],
        }
        transfer = self._transfer(core)
        if transfer is not None:
            found[transfer[0]][0] += max(0, cycle - transfer[1])
        vector = int(k[sk.CORE.vec_finish]) - cycle if int(k[sk.CORE.vec]) >= 0 else 0
        found[VEC][0] -= max(0, vector)
        for row in self.gemm_ring(core):
            for kind, start, end in self._occupations(core, row):
                is_wait = sk.KIND_WAIT_EMPTY <= kind <= sk.KIND_WAIT_DEPENDENCY
                found[EX][is_wait] += max(0, min(end, cycle) - start)
        return {number: (busy, waiting) for number, (busy, waiting) in found.items()}
