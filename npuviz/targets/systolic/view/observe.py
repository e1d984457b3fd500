"""What the state says, in the words of the machine contract: queues, units, activities, totals."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.sim.machine import Activity, QueueEntry, RunSummary, UnitState
from npuviz.sim.network import simple_kernels as ik
from npuviz.targets.systolic.isa import MNEMONICS, UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.tables import SystolicTables
from npuviz.targets.systolic.view.description import EX, LD, ST, UNITS_PER_CORE, VEC, host_unit
from npuviz.targets.systolic.view.dram import DramObserver, HasDram

_KEPT_ENTRIES = 1 << 14
"""Decoded instructions kept: an entry waits in its queue for many cycles."""
_STORE = UNIT_KINDS.index("ST")


@dataclass(frozen=True, slots=True)
class Slot:
    """A resident tile: its words, and its position among the resident ones."""

    words: np.ndarray

    def __getitem__(self, word: int) -> int:
        return int(self.words[word])


class Observed(HasDram, Protocol):
    """What is read of an engine."""

    @property
    def tables(self) -> SystolicTables:
        """The program."""
        ...


class Observer:
    """Reads an engine's state for people; never changes it."""

    def __init__(self, engine: Observed, listing: Listing) -> None:
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
        """Words of a core (a view)."""
        words = int(self._s[sk.H_CORE_WORDS])
        start = int(self._s[sk.H_CORES]) + index * words
        return self._s[start : start + words]

    def slot(self, core: int, index: int) -> Slot:
        """A slot of a core, resident or not."""
        start = sk.K_SLOT + index * sk.SLOT_WORDS
        return Slot(self.core(core)[start : start + sk.SLOT_WORDS])

    def slots(self, core: int) -> list[Slot]:
        """Resident tiles in order of arrival."""
        k = self.core(core)
        return [self.slot(core, int(k[sk.K_ORDER + i])) for i in range(int(k[sk.K_TILES]))]

    def _entry(self, code: int, core: int, slot_index: int) -> QueueEntry:
        return self._index_entry(code + self.slot(core, slot_index)[sk.S_DELTA])

    def _index_entry(self, index: int) -> QueueEntry:
        found = self._known.get(index)
        if found is None:
            if len(self._known) >= _KEPT_ENTRIES:
                self._known.clear()
            found = QueueEntry(self._listing.describe(index).text, index, self._node(index))
            self._known[index] = found
        return found

    def _node(self, index: int) -> int:
        """Graph node of an instruction, which never changes."""
        found = self._nodes.get(index)
        if found is None:
            if len(self._nodes) >= _KEPT_ENTRIES:
                self._nodes.clear()
            found = self._nodes[index] = int(self._listing.nodes_of(np.array([index]))[0])
        return found

    def bytes_used(self, core: int, first_half: int) -> int:
        """Bytes in use of scratchpad (first half 0) or accumulator (2)."""
        return int(self.core(core)[sk.K_USED + first_half : sk.K_USED + first_half + 2].sum())

    # --- queues ------------------------------------------------------------------------------------

    def queue_length(self, core: int, queue: int) -> int:
        """Entries of a queue now."""
        k = self.core(core)
        if queue == sk.QUEUE_VEC:
            return int(k[sk.K_VEC] >= 0)
        word = {
            sk.QUEUE_LD: sk.K_LOADS,
            sk.QUEUE_EX: sk.K_GEMM_COUNT,
            sk.QUEUE_ST: sk.K_STORES,
            sk.QUEUE_REQUESTS: sk.K_BURST_COUNT,
        }[queue]
        return int(k[word])

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Entries of a queue (id of the description) now, head first."""
        first = self._engine.spec.num_cores * sk.QUEUES_PER_CORE
        if queue >= first:
            return self.dram.queue_entries(queue - first)
        core, queue = divmod(queue, sk.QUEUES_PER_CORE)
        k = self.core(core)
        count = self.queue_length(core, queue)
        if queue == sk.QUEUE_VEC:
            return [self._entry(int(k[sk.K_VEC]), core, int(k[sk.K_VEC_SLOT]))] if count else []
        if queue == sk.QUEUE_EX:
            return [self._entry(row[sk.R_CODE], core, row[sk.R_SLOT]) for row in self.gemm_ring(core)]
        if queue == sk.QUEUE_REQUESTS:
            return [self._index_entry(row[sk.B_INDEX]) for row in self.bursts(core)]
        ring = sk.K_LOAD_RING if queue == sk.QUEUE_LD else sk.K_STORE_RING
        pairs = k[ring : ring + 2 * count].reshape(count, 2).tolist()
        return [self._entry(code, core, slot) for code, slot in pairs]

    def gemm_ring(self, core: int) -> list[list[int]]:
        """Entries of the GEMM pipeline, head first: RING_WORDS words each."""
        k = self.core(core)
        height, head, count = int(k[sk.K_HEIGHT]), int(k[sk.K_GEMM_HEAD]), int(k[sk.K_GEMM_COUNT])
        ring = k[int(k[sk.K_RING]) :][: height * sk.RING_WORDS].reshape(height, sk.RING_WORDS)
        return ring[(head + np.arange(count)) % height].tolist()

    def bursts(self, core: int, limit: int = 1 << 62) -> list[list[int]]:
        """Bursts of the request list, head first, at most `limit`: BURST_WORDS words each."""
        k, s = self.core(core), self._s
        capacity = int(s[sk.H_BURST_CAPACITY])
        start = int(s[sk.H_BURSTS]) + core * capacity * sk.BURST_WORDS
        ring = s[start : start + capacity * sk.BURST_WORDS].reshape(capacity, sk.BURST_WORDS)
        count = min(int(k[sk.K_BURST_COUNT]), limit)
        order = (int(k[sk.K_BURST_HEAD]) + np.arange(count)) % capacity
        return ring[order].tolist()

    # --- what is under way ---------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Intervals that the trace does not hold yet."""
        s, found = self._s, list[Activity]()
        cycle = int(s[sk.H_CYCLE])
        if int(s[sk.H_STATUS]) == sk.STATUS_FINISHED:
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
            if layer == self.host_layer() and int(s[sk.H_HOST_UNTIL]) > cycle:
                end = int(s[sk.H_HOST_UNTIL])
                found.append(Activity(tracks + sk.TRACK_HOST, start, end, tk.OP_HOST, node, first))
        return found

    def running_layers(self) -> list[tuple[int, int]]:
        """(lane of the operator tracks, layer) of every layer under way that has a lane."""
        s = self._s
        schedule = int(s[sk.H_SCHED])
        if schedule == 0:
            return [(0, int(s[sk.H_LAYER]))] if int(s[sk.H_LAYER]) >= 0 else []
        lanes = int(s[schedule + sk.Q_LANES])
        layers = s[lanes : lanes + int(s[schedule + sk.Q_NUM_LANES])].tolist()
        return [(lane, layer) for lane, layer in enumerate(layers) if layer >= 0]

    def host_layer(self) -> int:
        """The layer on the Host unit, -1 if it is idle."""
        s = self._s
        if int(s[sk.H_HOST_UNTIL]) < 0:
            return -1
        schedule = int(s[sk.H_SCHED])
        return int(s[sk.H_LAYER] if schedule == 0 else s[schedule + sk.Q_HOST_LAYER])

    def layer_start(self, layer: int) -> int:
        """Cycle in which a layer started, -1 if it has not."""
        return int(self._s[int(self._s[sk.H_TIMES]) + 2 * layer])

    def _core_activities(self, core: int, cycle: int) -> list[Activity]:
        found: list[Activity] = []
        k, base = self.core(core), core * sk.TRACKS_PER_CORE
        code = self._engine.tables.code
        for row in self.gemm_ring(core):
            index = row[sk.R_CODE] + self.slot(core, row[sk.R_SLOT])[sk.S_DELTA]
            rows = max(int(code[row[sk.R_CODE], tk.C_N]), 4)
            start, op = row[sk.R_START], int(code[row[sk.R_CODE], tk.C_OP])
            if row[sk.R_ENTER] < start and row[sk.R_IDLE] < cycle:
                weights = max(row[sk.R_IDLE], row[sk.R_ENTER])
                if weights < min(start, cycle):
                    found.append(
                        self._activity(base + sk.TRACK_EX, weights, start, sk.KIND_LOAD_WEIGHTS, index)
                    )
            if start < cycle:
                found.append(self._activity(base + sk.TRACK_EX, start, start + rows, op, index))
        if int(k[sk.K_VEC]) >= 0 and int(k[sk.K_VEC_START]) < cycle:
            row = int(k[sk.K_VEC])
            index = row + self.slot(core, int(k[sk.K_VEC_SLOT]))[sk.S_DELTA]
            start, end = int(k[sk.K_VEC_START]), int(k[sk.K_VEC_FINISH])
            found.append(self._activity(base + sk.TRACK_VEC, start, end, int(code[row, tk.C_OP]), index))
        if int(k[sk.K_REQUEST]) >= 0 and int(k[sk.K_BURST_COUNT]) > 0:
            burst = self.bursts(core, 1)[0]
            is_load = burst[sk.B_ENTRY] != 0
            start = max(int(k[sk.K_BURST_START]), int(k[sk.K_LOAD_END if is_load else sk.K_STORE_END]))
            if start < cycle:
                track = base + (sk.TRACK_LD if is_load else sk.TRACK_ST)
                op = int(code[burst[sk.B_CODE], tk.C_OP])
                found.append(self._activity(track, start, -1, op, burst[sk.B_INDEX]))
        return found

    def _activity(self, track: int, start: int, end: int, kind: int, index: int) -> Activity:
        return Activity(track, start, end, kind, self._node(index), index)

    def layer_node(self, layer: int) -> int:
        """Graph node of a layer, -1 if none."""
        return int(self._engine.tables.layers[layer, tk.L_NODE])

    def layer_first(self, layer: int) -> int:
        """First instruction of a layer, -1 if it has none."""
        row = self._engine.tables.layers[layer]
        if row[tk.L_HOST_CYCLES] > 0:
            return int(row[tk.L_INSTRUCTION])
        tile = self._engine.tables.tiles[row[tk.L_FIRST_TILE]]
        return int(tile[tk.T_FIRST]) if tile[tk.T_COUNT] > 0 else -1

    # --- units ---------------------------------------------------------------------------------------

    def unit_states(self) -> list[UnitState]:
        """What every unit does now, by unit id."""
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
        noc = int(s[sk.H_NOC])
        waiting = int(s[noc + ik.NOC_WAITING])
        detail = f"{waiting} packets waiting" if waiting else ""
        found.append(
            UnitState(host + 1, "busy" if waiting else "idle", "control" if waiting else "idle", detail)
        )
        return found + self.dram.unit_states(host + 2)

    def _core_units(self, core: int, running: dict[int, Activity]) -> list[UnitState]:
        k = self.core(core)
        unit, base = core * UNITS_PER_CORE, core * sk.TRACKS_PER_CORE
        cycle = int(self._s[sk.H_CYCLE])
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
        """Why the array does nothing: no tile, operands on their way, or the order of issue."""
        if not int(k[sk.K_TILES]):
            return UnitState(unit + EX, "no tile", "wait-empty", "no tile is resident on this core")
        if held < 0:
            return UnitState(unit + EX, "idle", "idle", "the resident tiles have no matrix product left")
        cycle = int(self._s[sk.H_CYCLE])
        for slot in self.slots(core):
            code = held - slot[sk.S_DELTA]
            if not slot[sk.S_PC] - 1 <= code < slot[sk.S_END]:
                continue
            row = self._engine.tables.code[code]
            for operand in (int(row[tk.C_SRC0]), int(row[tk.C_SRC1])):
                if operand and not self.is_valid(core, slot, operand, cycle):
                    return UnitState(
                        unit + EX, "waiting for data", "wait-bandwidth", "an operand is not loaded yet", held
                    )
            detail = "operands are there; instructions before it are issued first"
            return UnitState(unit + EX, "waiting for issue", "wait-dependency", detail, held)
        return UnitState(unit + EX, "waiting for issue", "wait-dependency", "", held)

    def entry_words(self, core: int, half: int, index: int) -> np.ndarray:
        """Words of entry `index` of a half (0, 1 scratchpad; 2, 3 accumulator)."""
        start = int(self.core(core)[sk.K_ENTRIES + half]) + index * sk.ENTRY_STATE_WORDS
        return self._s[start : start + sk.ENTRY_STATE_WORDS]

    def is_valid(self, core: int, slot: Slot, operand: int, cycle: int) -> bool:
        """Whether an operand of a resident tile is complete."""
        half = slot[sk.S_SPAD] if operand > 0 else 2 + slot[sk.S_ACC]
        entry = self.entry_words(core, half, abs(operand) - 1)
        return int(entry[sk.N_LEFT]) == 0 and int(entry[sk.N_VALID]) <= cycle

    # --- program counters ----------------------------------------------------------------------------

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> instruction it will take next."""
        found: dict[int, int] = {}
        for core in range(self._engine.spec.num_cores):
            for number, index in self._next_of_core(core).items():
                found[core * UNITS_PER_CORE + number] = index
        layer = self.host_layer()
        if layer >= 0:
            found[host_unit(self._engine.spec)] = self.layer_first(layer)
        return found

    def _next_of_core(self, core: int) -> dict[int, int]:
        """LD, EX, VEC, ST -> instruction held in its queue, or the next one of a resident tile."""
        k = self.core(core)
        found: dict[int, int] = {}
        queued = [(LD, sk.K_LOADS, sk.K_LOAD_RING), (ST, sk.K_STORES, sk.K_STORE_RING)]
        for number, count, ring in queued:
            if int(k[count]):
                found[number] = int(k[ring]) + self.slot(core, int(k[ring + 1]))[sk.S_DELTA]
        code = self._engine.tables.code
        for slot in self.slots(core):
            rest = UNIT_KIND_OF[code[slot[sk.S_PC] : slot[sk.S_END], tk.C_OP]]
            for number in (LD, EX, VEC, ST):
                if number not in found:
                    places = np.flatnonzero(rest == number)
                    if len(places):
                        found[number] = slot[sk.S_PC] + int(places[0]) + slot[sk.S_DELTA]
        return found

    # --- totals --------------------------------------------------------------------------------------

    def summary(self) -> RunSummary:
        """Totals so far."""
        s, spec = self._s, self._engine.spec
        units: list[tuple[str, int]] = []
        queues: list[tuple[str, int, int]] = []
        memories: list[tuple[str, int, int]] = []
        for core in range(spec.num_cores):
            name, k = f"Core[{core}]", self.core(core)
            for number, busy in self._busy(core).items():
                units.append((f"{name}.{UNIT_KINDS[number]}", busy))
            queues.append((f"{name}.requests", int(k[sk.K_PEAK_BURSTS]), 0))
            queues.append((f"{name}.EX", int(k[sk.K_PEAK_GEMM]), int(k[sk.K_HEIGHT])))
            memories.append((f"{name}.SPAD", int(k[sk.K_PEAK_SPAD]), 2 * int(k[sk.K_SPAD_HALF])))
            memories.append((f"{name}.ACC", int(k[sk.K_PEAK_ACC]), 2 * int(k[sk.K_ACC_HALF])))
        queues += self.dram.peaks()
        host = int(s[sk.H_HOST_BUSY]) - max(0, int(s[sk.H_HOST_UNTIL]) - int(s[sk.H_CYCLE]))
        units.append(("Host", host))
        counters = {
            "gemm_instructions": int(s[sk.H_GEMM_COUNT]),
            "preloads": int(s[sk.H_PRELOAD_COUNT]),
            "reads": int(s[sk.H_READS]),
            "writes": int(s[sk.H_WRITES]),
            "tiles": int(s[sk.H_TILES_DONE]),
            "layers": int(s[sk.H_LAYERS_DONE]),
            **self.dram.totals(),
        }
        if spec.spad_banks:
            cores = range(spec.num_cores)
            counters["bank_conflict_cycles"] = sum(int(self.core(core)[sk.K_CONFLICTS]) for core in cores)
        return RunSummary(tuple(units), tuple(queues), tuple(memories), counters)

    def _busy(self, core: int) -> dict[int, int]:
        """Busy cycles of the core's units up to now; what was booked ahead is taken off."""
        k, cycle = self.core(core), int(self._s[sk.H_CYCLE])
        ahead = 0
        code = self._engine.tables.code
        for row in self.gemm_ring(core):
            rows = max(int(code[row[sk.R_CODE], tk.C_N]), 4)
            ahead += min(rows, max(0, row[sk.R_START] + rows - cycle))
        vector = int(k[sk.K_VEC_FINISH]) - cycle if int(k[sk.K_VEC]) >= 0 else 0
        return {
            LD: int(k[sk.K_LOAD_BUSY]) - max(0, int(k[sk.K_LOAD_END]) - cycle),
            EX: int(k[sk.K_EX_BUSY]) - ahead,
            VEC: int(k[sk.K_VEC_BUSY]) - max(0, vector),
            ST: int(k[sk.K_STORE_BUSY]) - max(0, int(k[sk.K_STORE_END]) - cycle),
        }
