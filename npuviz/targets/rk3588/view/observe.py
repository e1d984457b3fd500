"""Reads an RK3588 machine's state for people: queues, units, what is under way, totals."""

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.sim.machine import Activity, QueueEntry, RunSummary, UnitState
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.state_words import QUEUES_PER_CORE
from npuviz.targets.rk3588.view.description import (
    CNA,
    CORE,
    DPU,
    PC,
    PPU,
    STREAM_NAMES,
    UNITS,
    host_unit,
    unit_of,
)

_WAITS = {
    sk.KIND_WAIT_DATA: ("waits for features", "wait-bandwidth"),
    sk.KIND_WAIT_WEIGHTS: ("waits for weights", "wait-bandwidth"),
    sk.KIND_WAIT_OUTPUT: ("waits for output", "wait-queue"),
}
_STREAM_TRACKS = (
    (sk.STREAM_FEATURE, sk.TRACK_FEATURE, sk.KIND_FEATURE),
    (sk.STREAM_WEIGHT, sk.TRACK_WEIGHT, sk.KIND_WEIGHT),
    (sk.STREAM_OPERAND, sk.TRACK_OPERAND, sk.KIND_OPERAND),
    (sk.STREAM_WRITE, sk.TRACK_WRITE, sk.KIND_WRITE),
)


class Observer:
    """Looks at an engine's state; never changes it."""

    def __init__(self, engine: Engine, listing: Listing) -> None:
        self._engine = engine
        self._listing = listing

    @property
    def _s(self) -> np.ndarray:
        return self._engine.state

    # --- parts of the state ----------------------------------------------------------------------------

    def core(self, core: int) -> np.ndarray:
        """Words of a core (a view)."""
        start = self._engine.shape.cores + core * sk.CORE_WORDS
        return self._s[start : start + sk.CORE_WORDS]

    def stream(self, core: int, stream: int) -> np.ndarray:
        """Words of a stream of a core (a view)."""
        start = sk.K_STREAMS + stream * sk.STREAM_WORDS
        return self.core(core)[start : start + sk.STREAM_WORDS]

    def task_words(self, task: int) -> np.ndarray:
        """Program words of a task (a view)."""
        start = int(self._engine.words[sk.P_TASKS]) + task * sk.TASK_WORDS
        return self._engine.words[start : start + sk.TASK_WORDS]

    # --- queues ----------------------------------------------------------------------------------------

    def queue_length(self, queue: int) -> int:
        """Entries of a queue now."""
        core, number = divmod(queue, QUEUES_PER_CORE)
        k = self.core(core)
        return int(k[sk.K_STRIPES]) if number else int(k[sk.K_END] - k[sk.K_NEXT])

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Entries of a queue now, head first."""
        core, number = divmod(queue, QUEUES_PER_CORE)
        k = self.core(core)
        if number == 0:
            return [self._entry(index) for index in range(int(k[sk.K_NEXT]), int(k[sk.K_END]))]
        task = int(k[sk.K_TASK])
        node = self._engine.tables.tasks[task].node if task >= 0 else -1
        found: list[QueueEntry] = []
        for place in range(int(k[sk.K_STRIPES])):
            atoms, group = k[sk.K_RING + 2 * place : sk.K_RING + 2 * place + 2].tolist()
            found.append(QueueEntry(f"{atoms} positions of kernel group {group}", task, node))
        return found

    def _entry(self, index: int) -> QueueEntry:
        found = self._listing.describe(index)
        return QueueEntry(found.text, index, found.node)

    # --- what is under way -----------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Intervals that the trace does not hold yet."""
        s, found = self._s, list[Activity]()
        if int(s[sk.H_STATUS]) != sk.STATUS_RUNNING:
            return found
        cycle, cores = int(s[sk.H_CYCLE]), self._engine.spec.cores
        for core in range(cores):
            found += self._core_activities(core, cycle)
        first = cores * sk.TRACKS_PER_CORE
        state, start, end = (int(s[w]) for w in (sk.H_JOB_STATE, sk.H_JOB_START, sk.H_JOB_UNTIL))
        if state == sk.JOB_HOST and start < cycle:
            number = int(s[sk.H_HOST])
            index = len(self._engine.tables.tasks) + number
            found.append(
                Activity(first, start, end, sk.KIND_HOST, self._engine.tables.hosts[number].node, index)
            )
        if state == sk.JOB_DRIVER and start < end and start < cycle:
            found.append(Activity(first + 1, start, end, sk.KIND_DRIVER, -1, -1))
        if 0 <= int(s[sk.H_BUS_SINCE]) < cycle:
            found.append(Activity(first + 2, int(s[sk.H_BUS_SINCE]), -1, sk.KIND_BUS, -1, -1))
        return found

    def _core_activities(self, core: int, cycle: int) -> list[Activity]:
        k, base, found = self.core(core), core * sk.TRACKS_PER_CORE, list[Activity]()
        task, phase = int(k[sk.K_TASK]), int(k[sk.K_PHASE])
        if task < 0:
            return found

        def add(track: int, start: int, end: int, kind: int) -> None:
            if 0 <= start < cycle:
                node = self._engine.tables.tasks[task].node
                found.append(Activity(base + track, start, end, kind, node, task))

        if phase == sk.PHASE_REGISTERS:
            add(sk.TRACK_TASK, int(k[sk.K_START]), -1, sk.KIND_REGISTERS)
            return found
        q = self.task_words(task)
        add(sk.TRACK_TASK, int(k[sk.K_UNTIL]), -1, int(q[sk.T_KIND]))
        for stream, track, kind in _STREAM_TRACKS:
            add(track, int(self.stream(core, stream)[sk.R_START]), -1, kind)
        if int(q[sk.T_FACTOR]) > 0:
            state = int(k[sk.K_CORE_STATE])
            if state == sk.CORE_BUSY:
                add(sk.TRACK_STRIPES, int(k[sk.K_CORE_START]), int(k[sk.K_CORE_UNTIL]), sk.KIND_STRIPE)
            elif state == sk.CORE_WAITING:
                add(sk.TRACK_STRIPES, int(k[sk.K_SINCE]), -1, int(k[sk.K_CAUSE]))
            add(sk.TRACK_CORE, int(k[sk.K_GROUP_START]), -1, sk.KIND_GROUP)
        if int(k[sk.K_OUT_UNTIL]) < sk.FAR:
            is_pooling = bool(q[sk.T_IS_POOLING])
            track, kind = (sk.TRACK_PPU, sk.KIND_PPU) if is_pooling else (sk.TRACK_DPU, sk.KIND_DPU)
            add(track, int(k[sk.K_OUT_START]), int(k[sk.K_OUT_UNTIL]), kind)
        return found

    # --- units -----------------------------------------------------------------------------------------

    def unit_states(self) -> list[UnitState]:
        """What every unit does now, by unit id."""
        found: list[UnitState] = []
        for core in range(self._engine.spec.cores):
            found += self._core_units(core)
        s, host = self._s, host_unit(self._engine.spec)
        state, start = int(s[sk.H_JOB_STATE]), int(s[sk.H_JOB_START])
        is_running = int(s[sk.H_STATUS]) == sk.STATUS_RUNNING
        if is_running and state == sk.JOB_HOST:
            number = int(s[sk.H_HOST])
            index = len(self._engine.tables.tasks) + number
            name = self._engine.tables.hosts[number].name
            found.append(UnitState(host, "running", "host", name, index, start))
        else:
            found.append(UnitState(host, "idle", "idle"))
        is_driving = is_running and state == sk.JOB_DRIVER
        text = f"job {int(s[sk.H_JOB])}"
        found.append(
            UnitState(host + 1, "starting", "control", text, -1, start)
            if is_driving
            else UnitState(host + 1, "idle", "idle", text)
        )
        stream = int(s[sk.H_BUS_STREAM])
        if stream >= 0:
            core, number = divmod(stream, sk.STREAMS)
            detail = f"{STREAM_NAMES[number]} of Core[{core}]"
            found.append(UnitState(host + 2, "busy", "move-in", detail, -1, int(s[sk.H_BUS_SINCE])))
        else:
            found.append(UnitState(host + 2, "idle", "idle"))
        return found

    def _core_units(self, core: int) -> list[UnitState]:
        k = self.core(core)
        task, phase = int(k[sk.K_TASK]), int(k[sk.K_PHASE])
        if task < 0:
            held = int(k[sk.K_NEXT]) if int(k[sk.K_NEXT]) < int(k[sk.K_END]) else -1
            return [UnitState(unit_of(core, unit), "idle", "idle", "", held) for unit in range(len(UNITS))]
        idle = {unit: UnitState(unit_of(core, unit), "idle", "idle", "", task) for unit in range(len(UNITS))}
        if phase == sk.PHASE_REGISTERS:
            start = int(k[sk.K_START])
            idle[PC] = UnitState(unit_of(core, PC), "registers", "control", "reads commands", task, start)
            return list(idle.values())
        idle[PC] = UnitState(unit_of(core, PC), "task", "control", f"task {task}", task, int(k[sk.K_UNTIL]))
        for stream, role in ((sk.STREAM_FEATURE, "move-in"), (sk.STREAM_WEIGHT, "move-in")):
            words = self.stream(core, stream)
            if int(words[sk.R_DONE]) < int(words[sk.R_TOTAL]):
                detail = (
                    f"{int(words[sk.R_DONE])} of {int(words[sk.R_TOTAL])} bytes of {STREAM_NAMES[stream]}"
                )
                start = int(words[sk.R_START])
                idle[CNA] = UnitState(unit_of(core, CNA), "fetching", role, detail, task, start)
                break
        idle[CORE] = self._array(core, k, task)
        if int(k[sk.K_OUT_UNTIL]) < sk.FAR:
            unit = PPU if self.task_words(task)[sk.T_IS_POOLING] else DPU
            detail = f"stripe {int(k[sk.K_OUT_DRAINED]) + 1} of {int(k[sk.K_OUT_TOTAL])}"
            start = int(k[sk.K_OUT_START])
            idle[unit] = UnitState(unit_of(core, unit), "output", "compute", detail, task, start)
        return list(idle.values())

    def _array(self, core: int, k: np.ndarray, task: int) -> UnitState:
        unit, q, state = unit_of(core, CORE), self.task_words(task), int(k[sk.K_CORE_STATE])
        if int(q[sk.T_FACTOR]) == 0 or state in (sk.CORE_DONE, sk.CORE_IDLE):
            return UnitState(unit, "idle", "idle", "", task)
        place = f"kernel group {int(k[sk.K_GROUP])}, position {int(k[sk.K_ATOM])} of {int(q[sk.T_ATOMS])}"
        if state == sk.CORE_BUSY:
            return UnitState(unit, "stripe", "compute", place, task, int(k[sk.K_CORE_START]))
        text, role = _WAITS[int(k[sk.K_CAUSE])]
        return UnitState(unit, text, role, place, task, int(k[sk.K_SINCE]))

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> task that the core's PC takes next."""
        found: dict[int, int] = {}
        for core in range(self._engine.spec.cores):
            k = self.core(core)
            if int(k[sk.K_NEXT]) < int(k[sk.K_END]):
                found[unit_of(core, PC)] = int(k[sk.K_NEXT])
        return found

    # --- totals ----------------------------------------------------------------------------------------

    def summary(self) -> RunSummary:
        """Totals so far: busy cycles from finished tasks, and the running ones up to now."""
        s, spec, cycle = self._s, self._engine.spec, int(self._s[sk.H_CYCLE])
        busy = {unit_of(core, unit): 0 for core in range(spec.cores) for unit in range(len(UNITS))}
        for task in self._engine.tables.tasks:
            record = self._engine.record(task.index)
            if int(record[sk.X_END]):
                self._add(busy, task.core, record[sk.X_START : sk.X_OUT + 1].tolist(), task.index)
        ahead = max(0, int(s[sk.H_BUS_UNTIL]) - cycle) if int(s[sk.H_BUS_STREAM]) >= 0 else 0
        for core in range(spec.cores):
            k = self.core(core)
            busy[unit_of(core, CNA)] = self._fetching(core, ahead)
            if int(k[sk.K_TASK]) >= 0:
                mac = int(k[sk.K_CORE_BUSY]) - self._ahead(k, sk.K_CORE_UNTIL, cycle)
                out = int(k[sk.K_OUT_BUSY]) - self._ahead(k, sk.K_OUT_UNTIL, cycle)
                times = [int(k[sk.K_START]), cycle, max(0, mac), max(0, out)]
                self._add(busy, core, times, int(k[sk.K_TASK]))
        units = [(f"Core[{u // len(UNITS)}].{UNITS[u % len(UNITS)]}", min(n, cycle)) for u, n in busy.items()]
        units.append(("Host", int(s[sk.H_HOST_BUSY])))
        units.append(("Driver", int(s[sk.H_DRIVER_BUSY])))
        units.append(("DDR", int(s[sk.H_BUS_BUSY]) - ahead))
        counters = {
            "read_bytes": int(s[sk.H_READ_BYTES]),
            "written_bytes": int(s[sk.H_WRITE_BYTES]),
            "mac_cycles": sum(busy[unit_of(core, CORE)] for core in range(spec.cores)),
            "jobs": int(s[sk.H_JOB]),
        }
        return RunSummary(tuple(units), (), (), counters)

    def _fetching(self, core: int, ahead: int) -> int:
        """Cycles in which the bus moved features or weights for a core, up to now."""
        streams = (sk.STREAM_FEATURE, sk.STREAM_WEIGHT)
        total = sum(int(self.stream(core, stream)[sk.R_BUSY]) for stream in streams)
        under_way = int(self._s[sk.H_BUS_STREAM])
        is_mine = under_way in [core * sk.STREAMS + stream for stream in streams]
        return total - (ahead if is_mine else 0)

    @staticmethod
    def _ahead(k: np.ndarray, word: int, cycle: int) -> int:
        until = int(k[word])
        if until >= sk.FAR or (word == sk.K_CORE_UNTIL and int(k[sk.K_CORE_STATE]) != sk.CORE_BUSY):
            return 0
        return max(0, until - cycle)

    def _add(self, busy: dict[int, int], core: int, times: list[int], task: int) -> None:
        start, end, mac, out = times
        busy[unit_of(core, PC)] += end - start
        busy[unit_of(core, CORE)] += mac
        is_pooling = bool(self.task_words(task)[sk.T_IS_POOLING])
        busy[unit_of(core, PPU if is_pooling else DPU)] += out
