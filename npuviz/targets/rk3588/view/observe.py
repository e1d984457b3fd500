"""Read an RK3588 machine's state for people: queues, units, work under way, totals."""

from typing import Any

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
    """Read an engine's state; never changes it."""

    def __init__(self, engine: Engine, listing: Listing) -> None:
        self._engine = engine
        self._listing = listing

    @property
    def _s(self) -> Any:
        return sk.CHIP(self._engine.state)

    # --- parts of the state ----------------------------------------------------------------------------

    def core(self, core: int) -> Any:
        """Return a core's row of the state."""
        return sk.CORE(self._engine.state, self._engine.shape.cores, core)

    def stream(self, core: int, stream: int) -> Any:
        """Return a stream of a core."""
        return self.core(core).streams[stream]

    def task_words(self, task: int) -> Any:
        """Return a task's row of the program words."""
        words = self._engine.words
        return sk.TASK(words, int(sk.PROGRAM(words).tasks), task)

    # --- queues ----------------------------------------------------------------------------------------

    def queue_length(self, queue: int) -> int:
        """Return how many entries a queue holds now."""
        core, number = divmod(queue, QUEUES_PER_CORE)
        k = self.core(core)
        return int(k.stripes) if number else int(k.end - k.next)

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Return the entries of a queue now, head first."""
        core, number = divmod(queue, QUEUES_PER_CORE)
        k = self.core(core)
        if number == 0:
            return [self._entry(index) for index in range(int(k.next), int(k.end))]
        task = int(k.task)
        node = self._engine.tables.tasks[task].node if task >= 0 else -1
        found: list[QueueEntry] = []
        for place in range(int(k.stripes)):
            atoms, group = k.ring[2 * place : 2 * place + 2].tolist()
            found.append(QueueEntry(f"{atoms} positions of kernel group {group}", task, node))
        return found

    def _entry(self, index: int) -> QueueEntry:
        found = self._listing.describe(index)
        return QueueEntry(found.text, index, found.node)

    # --- what is under way -----------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Return the intervals under way, which the trace does not hold yet."""
        s, found = self._s, list[Activity]()
        if int(s.status) != sk.STATUS_RUNNING:
            return found
        cycle, cores = int(s.cycle), self._engine.spec.cores
        for core in range(cores):
            found += self._core_activities(core, cycle)
        first = cores * sk.TRACKS_PER_CORE
        state, start, end = (int(s[w]) for w in (sk.CHIP.job_state, sk.CHIP.job_start, sk.CHIP.job_until))
        if state == sk.JOB_HOST and start < cycle:
            number = int(s.host)
            index = len(self._engine.tables.tasks) + number
            found.append(
                Activity(first, start, end, sk.KIND_HOST, self._engine.tables.hosts[number].node, index)
            )
        if state == sk.JOB_DRIVER and start < end and start < cycle:
            found.append(Activity(first + 1, start, end, sk.KIND_DRIVER, -1, -1))
        if 0 <= int(s.bus_since) < cycle:
            found.append(Activity(first + 2, int(s.bus_since), -1, sk.KIND_BUS, -1, -1))
        return found

    def _core_activities(self, core: int, cycle: int) -> list[Activity]:
        k, base, found = self.core(core), core * sk.TRACKS_PER_CORE, list[Activity]()
        task, phase = int(k.task), int(k.phase)
        if task < 0:
            return found

        def add(track: int, start: int, end: int, kind: int) -> None:
            if 0 <= start < cycle:
                node = self._engine.tables.tasks[task].node
                found.append(Activity(base + track, start, end, kind, node, task))

        if phase == sk.PHASE_REGISTERS:
            add(sk.TRACK_TASK, int(k.start), -1, sk.KIND_REGISTERS)
            return found
        q = self.task_words(task)
        add(sk.TRACK_TASK, int(k.until), -1, int(q.kind))
        for stream, track, kind in _STREAM_TRACKS:
            add(track, int(self.stream(core, stream).start), -1, kind)
        if int(q.factor) > 0:
            state = int(k.core_state)
            if state == sk.CORE_BUSY:
                add(sk.TRACK_STRIPES, int(k.core_start), int(k.core_until), sk.KIND_STRIPE)
            elif state == sk.CORE_WAITING:
                add(sk.TRACK_STRIPES, int(k.since), -1, int(k.cause))
            add(sk.TRACK_CORE, int(k.group_start), -1, sk.KIND_GROUP)
        if int(k.out_until) < sk.FAR:
            is_pooling = bool(q.is_pooling)
            track, kind = (sk.TRACK_PPU, sk.KIND_PPU) if is_pooling else (sk.TRACK_DPU, sk.KIND_DPU)
            add(track, int(k.out_start), int(k.out_until), kind)
        return found

    # --- units -----------------------------------------------------------------------------------------

    def unit_states(self) -> list[UnitState]:
        """Return what every unit does now, by unit id."""
        found: list[UnitState] = []
        for core in range(self._engine.spec.cores):
            found += self._core_units(core)
        s, host = self._s, host_unit(self._engine.spec)
        state, start = int(s.job_state), int(s.job_start)
        is_running = int(s.status) == sk.STATUS_RUNNING
        if is_running and state == sk.JOB_HOST:
            number = int(s.host)
            index = len(self._engine.tables.tasks) + number
            name = self._engine.tables.hosts[number].name
            found.append(UnitState(host, "running", "host", name, index, start))
        else:
            found.append(UnitState(host, "idle", "idle"))
        is_driving = is_running and state == sk.JOB_DRIVER
        text = f"job {int(s.job)}"
        found.append(
            UnitState(host + 1, "starting", "control", text, -1, start)
            if is_driving
            else UnitState(host + 1, "idle", "idle", text)
        )
        stream = int(s.bus_stream)
        if stream >= 0:
            core, number = divmod(stream, sk.STREAMS)
            detail = f"{STREAM_NAMES[number]} of Core[{core}]"
            found.append(UnitState(host + 2, "busy", "move-in", detail, -1, int(s.bus_since)))
        else:
            found.append(UnitState(host + 2, "idle", "idle"))
        return found

    def _core_units(self, core: int) -> list[UnitState]:
        k = self.core(core)
        task, phase = int(k.task), int(k.phase)
        if task < 0:
            held = int(k.next) if int(k.next) < int(k.end) else -1
            return [UnitState(unit_of(core, unit), "idle", "idle", "", held) for unit in range(len(UNITS))]
        idle = {unit: UnitState(unit_of(core, unit), "idle", "idle", "", task) for unit in range(len(UNITS))}
        if phase == sk.PHASE_REGISTERS:
            start = int(k.start)
            idle[PC] = UnitState(unit_of(core, PC), "registers", "control", "reads commands", task, start)
            return list(idle.values())
        idle[PC] = UnitState(unit_of(core, PC), "task", "control", f"task {task}", task, int(k.until))
        for stream, role in ((sk.STREAM_FEATURE, "move-in"), (sk.STREAM_WEIGHT, "move-in")):
            words = self.stream(core, stream)
            if int(words.done) < int(words.total):
                detail = f"{int(words.done)} of {int(words.total)} bytes of {STREAM_NAMES[stream]}"
                start = int(words.start)
                idle[CNA] = UnitState(unit_of(core, CNA), "fetching", role, detail, task, start)
                break
        idle[CORE] = self._array(core, k, task)
        if int(k.out_until) < sk.FAR:
            unit = PPU if self.task_words(task).is_pooling else DPU
            detail = f"stripe {int(k.out_drained) + 1} of {int(k.out_total)}"
            start = int(k.out_start)
            idle[unit] = UnitState(unit_of(core, unit), "output", "compute", detail, task, start)
        return list(idle.values())

    def _array(self, core: int, k: Any, task: int) -> UnitState:
        unit, q, state = unit_of(core, CORE), self.task_words(task), int(k.core_state)
        if int(q.factor) == 0 or state in (sk.CORE_DONE, sk.CORE_IDLE):
            return UnitState(unit, "idle", "idle", "", task)
        place = f"kernel group {int(k.group)}, position {int(k.atom)} of {int(q.atoms)}"
        if state == sk.CORE_BUSY:
            return UnitState(unit, "stripe", "compute", place, task, int(k.core_start))
        text, role = _WAITS[int(k.cause)]
        return UnitState(unit, text, role, place, task, int(k.since))

    def next_instructions(self) -> dict[int, int]:
        """Return unit id -> the task that the core's PC takes next."""
        found: dict[int, int] = {}
        for core in range(self._engine.spec.cores):
            k = self.core(core)
            if int(k.next) < int(k.end):
                found[unit_of(core, PC)] = int(k.next)
        return found

    # --- totals ----------------------------------------------------------------------------------------

    def summary(self) -> RunSummary:
        """Return the totals so far."""
        s, spec, cycle = self._s, self._engine.spec, int(self._s.cycle)
        times = {unit_of(core, unit): (0, 0) for core in range(spec.cores) for unit in range(len(UNITS))}
        for core in range(spec.cores):
            times |= {unit_of(core, unit): time for unit, time in self._times(core, cycle).items()}
        ahead = max(0, int(s.bus_until) - cycle) if int(s.bus_stream) >= 0 else 0
        job = int(s.job_state) if int(s.status) == sk.STATUS_RUNNING else sk.JOB_RUNNING
        passed = max(0, min(int(s.job_until), cycle) - int(s.job_start))
        units = [(f"Core[{u // len(UNITS)}].{UNITS[u % len(UNITS)]}", *time) for u, time in times.items()]
        units.append(("Host", int(s.host_busy) + (passed if job == sk.JOB_HOST else 0), 0))
        units.append(("Driver", int(s.driver_busy) + (passed if job == sk.JOB_DRIVER else 0), 0))
        units.append(("DDR", int(s.bus_busy) - ahead, 0))
        counters = {
            "read_bytes": int(s.read_bytes),
            "written_bytes": int(s.write_bytes),
            "mac_cycles": sum(times[unit_of(core, CORE)][0] for core in range(spec.cores)),
            "jobs": int(s.job),
        }
        return RunSummary(tuple(units), (), (), counters)

    def _times(self, core: int, cycle: int) -> dict[int, tuple[int, int]]:
        """Return busy and waiting cycles of a core's units up to now: of finished tasks and of the running
        one."""
        k, found = self.core(core), [0, 0, 0]
        for task in self._engine.tables.tasks:
            record = self._engine.record(task.index)
            if task.core == core and int(record.end):
                found[0] += int(record.end) - int(record.start)
                if int(self.task_words(task.index).factor) > 0:
                    found[1] += int(record.mac)
                    found[2] += int(record.data) + int(record.weights) + int(record.output)
        out = 0
        task = int(k.task)
        if task >= 0:
            found[0] += cycle - int(k.start)
            words = self.task_words(task)
            state = int(k.core_state) if int(words.factor) > 0 else sk.CORE_IDLE
            if int(words.factor) > 0:
                ahead = max(0, int(k.core_until) - cycle) if state == sk.CORE_BUSY else 0
                found[1] += int(k.core_busy) - ahead
                found[2] += int(k.wait_data) + int(k.wait_weights) + int(k.wait_output)
            if state == sk.CORE_WAITING:
                found[2] += cycle - int(k.since)
            if int(words.is_pooling) and int(k.out_until) < sk.FAR:
                out = min(int(k.out_until), cycle) - int(k.out_start)
        return {
            PC: (found[0], 0),
            CNA: (int(k.fetch_busy) + self._passed(int(k.fetch_since), cycle), 0),
            CORE: (found[1], found[2]),
            DPU: (int(k.dpu_busy) + self._passed(int(k.dpu_since), cycle), 0),
            PPU: (int(k.ppu_busy) + out, 0),
        }

    @staticmethod
    def _passed(since: int, cycle: int) -> int:
        return cycle - since if since >= 0 else 0
