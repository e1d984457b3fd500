"""Reads a NeuronCore machine's state for people: queues, units, what is under way, totals."""

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.sim.machine import Activity, QueueEntry, RunSummary, SemaphoreState, UnitState, Wait
from npuviz.targets.neuroncore.ids import dma_unit, space_bytes
from npuviz.targets.neuroncore.isa import Opcode
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.view.description import UsedSemaphore, sequencer_name

_COMPARISONS = (">=", ">", "<=", "<", "==", "!=", "always")
_CAUSES = {
    sk.KIND_WAIT_SEMAPHORE: ("waits for a semaphore", "wait-dependency"),
    sk.KIND_WAIT_PORT: ("waits for a port", "wait-conflict"),
    sk.KIND_WAIT_QUEUE: ("waits for a queue", "wait-queue"),
    sk.KIND_WAIT_BARRIER: ("waits for the other core", "wait-dependency"),
}


class Observer:
    """Looks at an engine's state; never changes it."""

    def __init__(self, engine: Engine, listing: Listing, used: tuple[UsedSemaphore, ...]) -> None:
        self._engine = engine
        self._listing = listing
        self._used = used
        self._names = {semaphore.index: semaphore for semaphore in used}

    @property
    def _s(self) -> np.ndarray:
        return self._engine.state

    # --- parts of the state ----------------------------------------------------------------------------

    def sequencer(self, number: int) -> np.ndarray:
        """Words of a sequencer (a view)."""
        start = self._engine.shape.sequencer_words + number * sk.SEQUENCER_WORDS
        return self._s[start : start + sk.SEQUENCER_WORDS]

    def queue_set(self, queue: int) -> np.ndarray:
        """Words of a queue set (a view)."""
        start = self._engine.shape.queues + queue * sk.QUEUE_WORDS
        return self._s[start : start + sk.QUEUE_WORDS]

    def dma_engine(self, number: int) -> np.ndarray:
        """Words of a DMA engine (a view)."""
        start = self._engine.shape.engine_words + number * sk.ENGINE_WORDS
        return self._s[start : start + sk.ENGINE_WORDS]

    def semaphore_word(self, index: int) -> int:
        """Word of a semaphore's value by its global index."""
        return self._engine.shape.semaphores + index * sk.SEMAPHORE_WORDS + sk.S_VALUE

    def instruction_words(self, instruction: int) -> np.ndarray:
        """Program words of an instruction (a view)."""
        start = int(self._engine.words[sk.P_INSTRUCTIONS]) + instruction * sk.INSTRUCTION_WORDS
        return self._engine.words[start : start + sk.INSTRUCTION_WORDS]

    def waits_of(self, instruction: int) -> list[list[int]]:
        """Wait rows of an instruction: semaphore, condition, value, producer."""
        words, i = self._engine.words, self.instruction_words(instruction)
        start = int(words[sk.P_WAITS]) + int(i[sk.I_WAIT]) * sk.WAIT_WORDS
        count = int(i[sk.I_WAITS])
        return words[start : start + count * sk.WAIT_WORDS].reshape(count, sk.WAIT_WORDS).tolist()

    def in_flight(self, number: int) -> list[tuple[int, int]]:
        """(instruction, completion time) in a sequencer's pipeline, oldest first."""
        k = self.sequencer(number)
        ring = k[sk.Q_FLIGHT : sk.Q_FLIGHT + 2 * sk.FLIGHTS].reshape(sk.FLIGHTS, 2)
        order = (int(k[sk.Q_HEAD]) + np.arange(int(k[sk.Q_COUNT]))) % sk.FLIGHTS
        return [(row[0], row[1]) for row in ring[order].tolist()]

    def pending(self, queue: int) -> list[list[int]]:
        """Transfers of a queue set that are not finished, oldest first: FIFO_WORDS words each."""
        w = self.queue_set(queue)
        numbers = np.arange(int(w[sk.W_DONE]), int(w[sk.W_COUNT])) % sk.FIFO_TRANSFERS
        fifo = w[sk.W_FIFO :].reshape(sk.FIFO_TRANSFERS, sk.FIFO_WORDS)
        return fifo[numbers].tolist()

    # --- queues ----------------------------------------------------------------------------------------

    def queue_length(self, queue: int) -> int:
        """Entries of a queue now: queue sets first, then pipelines."""
        sets = len(self._engine.tables.queue_sets)
        if queue < sets:
            w = self.queue_set(queue)
            return int(w[sk.W_COUNT] - w[sk.W_DONE])
        return int(self.sequencer(queue - sets)[sk.Q_COUNT])

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Entries of a queue now, head first."""
        sets = len(self._engine.tables.queue_sets)
        if queue >= sets:
            return [
                self._entry(index, f"completes at {done}") for index, done in self.in_flight(queue - sets)
            ]
        rings = self._engine.tables.queue_sets[queue].num_queues
        return [
            self._entry(row[sk.F_TRIGGER], f"{rings - row[sk.F_LEFT]} of {rings} rings done")
            for row in self.pending(queue)
        ]

    def _entry(self, index: int, note: str) -> QueueEntry:
        found = self._listing.describe(index)
        return QueueEntry(f"{found.text}  ({note})", index, found.node)

    # --- semaphores ------------------------------------------------------------------------------------

    def semaphores(self) -> list[SemaphoreState]:
        """Semaphores and events in use, with who waits for them."""
        waiting: dict[int, list[Wait]] = {}
        for number in range(len(self._engine.tables.sequencers)):
            k = self.sequencer(number)
            if int(k[sk.Q_STATE]) != sk.WAITING:
                continue
            instruction = int(k[sk.Q_PC])
            for semaphore, condition, needed, _ in self._unmet(instruction):
                wait = Wait(number, instruction, _COMPARISONS[condition], needed)
                waiting.setdefault(semaphore, []).append(wait)
        found: list[SemaphoreState] = []
        for place, used in enumerate(self._used):
            word = self.semaphore_word(used.index)
            found.append(
                SemaphoreState(
                    place, used.name, f"Core[{used.core}]", int(self._s[word]), used.use,
                    tuple(waiting.get(used.index, ())), int(self._s[word + sk.S_UPDATER]),
                )
            )  # fmt: skip
        return found

    def _unmet(self, instruction: int) -> list[list[int]]:
        """Waits of an instruction that do not hold now."""
        found: list[list[int]] = []
        for row in self.waits_of(instruction):
            value = int(self._s[self.semaphore_word(row[sk.WAIT_SEMAPHORE])])
            if not _holds(value, row[sk.WAIT_CONDITION], row[sk.WAIT_VALUE]):
                found.append(row)
        return found

    def _wait_text(self, row: list[int]) -> str:
        used = self._names.get(row[sk.WAIT_SEMAPHORE])
        value = int(self._s[self.semaphore_word(row[sk.WAIT_SEMAPHORE])])
        name = "a semaphore" if used is None else used.name + (f" ({used.use})" if used.use else "")
        return f"{name} {_COMPARISONS[row[sk.WAIT_CONDITION]]} {row[sk.WAIT_VALUE]}, now {value}"

    def deadlock(self) -> tuple[str, str]:
        """(unit, sentence) for a machine in which nothing can happen any more: who waits for whom."""
        tables = self._engine.tables
        waiting = [
            number
            for number in range(len(tables.sequencers))
            if int(self.sequencer(number)[sk.Q_STATE]) == sk.WAITING
        ]
        if not waiting:
            return "", "nothing can happen any more, but the program has not ended"
        chain: list[int] = []
        texts: list[str] = []
        current = waiting[0]
        while current not in chain:
            chain.append(current)
            instruction = int(self.sequencer(current)[sk.Q_PC])
            unmet = self._unmet(instruction)
            name = sequencer_name(tables, current)
            if not unmet:
                texts.append(f"{name} is held back by {self._cause(current)[0]}")
                break
            texts.append(f"{name} waits for {self._wait_text(unmet[0])}")
            following = self._updater_of(unmet[0], waiting)
            if following is None:
                texts.append("which nobody will change any more")
                break
            current = following
        else:
            texts.append(f"back to {sequencer_name(tables, current)}")
        return sequencer_name(tables, waiting[0]), "deadlock: " + " -> ".join(texts)

    def _updater_of(self, row: list[int], waiting: list[int]) -> int | None:
        """The waiting sequencer whose coming instructions would change the semaphore, or None."""
        words, wanted = self._engine.words, row[sk.WAIT_SEMAPHORE]
        updates, transfers = int(words[sk.P_UPDATES]), int(words[sk.P_TRANSFERS])
        for number in waiting:
            k = self.sequencer(number)
            for instruction in range(int(k[sk.Q_PC]), int(k[sk.Q_END])):
                i = self.instruction_words(instruction)
                first = updates + int(i[sk.I_UPDATE]) * sk.UPDATE_WORDS
                for n in range(int(i[sk.I_UPDATES])):
                    if int(words[first + n * sk.UPDATE_WORDS + sk.UPDATE_SEMAPHORE]) == wanted:
                        return number
                transfer = int(i[sk.I_TRANSFER])
                if transfer >= 0:
                    t = transfers + transfer * sk.TRANSFER_WORDS
                    if wanted in (int(words[t + sk.T_SEMAPHORE]), int(words[t + sk.T_EVENT])):
                        return number
        return None

    def subject_name(self, index: int) -> str:
        """Name of a semaphore or event by its global index."""
        used = self._names.get(index)
        return used.name if used is not None else f"semaphore {index}"

    # --- what is under way -----------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Intervals that the trace does not hold yet."""
        found: list[Activity] = []
        tables, cycle = self._engine.tables, int(self._s[sk.H_CYCLE])
        if int(self._s[sk.H_STATUS]) == sk.STATUS_FINISHED:
            return found
        for number in range(len(tables.sequencers)):
            k = self.sequencer(number)
            state = int(k[sk.Q_STATE])
            if state == sk.BUSY:
                index = int(k[sk.Q_CURRENT])
                kind = int(self.instruction_words(index)[sk.I_KIND])
                start, end = int(k[sk.Q_START]), int(k[sk.Q_UNTIL])
                found.append(Activity(number, start, end, kind, self._node(index), index))
            elif state == sk.WAITING and int(k[sk.Q_SINCE]) < cycle:
                index = int(k[sk.Q_PC])
                # A deadlock has no end to its waits, so the trace never gets them.
                found.append(
                    Activity(number, int(k[sk.Q_SINCE]), -1, int(k[sk.Q_CAUSE]), self._node(index), index)
                )
        for number in range(self._engine.shape.engines):
            d = self.dma_engine(number)
            if int(d[sk.D_SLICE]) >= 0:
                index = int(d[sk.D_SLICE_TRIGGER])
                track = len(tables.sequencers) + number
                found.append(
                    Activity(track, int(d[sk.D_SLICE]), -1, sk.KIND_TRANSFER, self._node(index), index)
                )
        return found

    def _node(self, index: int) -> int:
        return int(self._engine.tables.nodes[index])

    # --- units -----------------------------------------------------------------------------------------

    def unit_states(self) -> list[UnitState]:
        """What every unit does now, by unit id."""
        found = [self._sequencer_state(number) for number in range(len(self._engine.tables.sequencers))]
        for number in range(self._engine.shape.engines):
            d = self.dma_engine(number)
            core, engine = divmod(number, self._engine.spec.num_dma_engines)
            unit = dma_unit(self._engine.spec, core, engine)
            if int(d[sk.D_SLICE]) >= 0:
                index = int(d[sk.D_SLICE_TRIGGER])
                queue = self._engine.tables.queue_sets[int(d[sk.D_SLICE_QUEUE])]
                found.append(
                    UnitState(unit, "moving", "move-in", f"for {queue.name}", index, int(d[sk.D_SLICE]))
                )
            else:
                found.append(UnitState(unit, "idle", "idle"))
        return found

    def _sequencer_state(self, number: int) -> UnitState:
        k = self.sequencer(number)
        state = int(k[sk.Q_STATE])
        if state == sk.BUSY:
            index = int(k[sk.Q_CURRENT])
            code = int(self._engine.tables.instructions["opcode"][index])
            role = "control" if code < Opcode.NC_MATMUL else "compute"
            role = "host" if code == Opcode.HOST_CALL else role
            detail = f"until cycle {int(k[sk.Q_UNTIL])}"
            return UnitState(number, Opcode(code).name.lower(), role, detail, index, int(k[sk.Q_START]))
        if state == sk.WAITING:
            text, role = self._cause(number)
            index = int(k[sk.Q_PC])
            unmet = self._unmet(index)
            detail = "; ".join(self._wait_text(row) for row in unmet)
            return UnitState(number, text, role, detail, index, int(k[sk.Q_SINCE]))
        if state == sk.ENDED:
            return UnitState(number, "ended", "idle", "its program has ended")
        return UnitState(number, "idle", "idle", "", self._held(k))

    def _cause(self, number: int) -> tuple[str, str]:
        return _CAUSES[int(self.sequencer(number)[sk.Q_CAUSE])]

    def _held(self, k: np.ndarray) -> int:
        return int(k[sk.Q_PC]) if int(k[sk.Q_PC]) < int(k[sk.Q_END]) else -1

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> instruction it will issue next."""
        found: dict[int, int] = {}
        for number in range(len(self._engine.tables.sequencers)):
            k = self.sequencer(number)
            held = self._held(k)
            if held >= 0 and int(k[sk.Q_STATE]) != sk.ENDED:
                found[number] = held
        return found

    # --- totals ----------------------------------------------------------------------------------------

    def busy(self, number: int) -> int:
        """Cycles a sequencer's engine has been occupied up to now."""
        k = self.sequencer(number)
        ahead = int(k[sk.Q_UNTIL]) - int(self._s[sk.H_CYCLE]) if int(k[sk.Q_STATE]) == sk.BUSY else 0
        return int(k[sk.Q_BUSY]) - max(0, ahead)

    def waited(self, number: int) -> int:
        """Cycles a sequencer has been held back up to now."""
        k = self.sequencer(number)
        running = int(self._s[sk.H_CYCLE]) - int(k[sk.Q_SINCE]) if int(k[sk.Q_STATE]) == sk.WAITING else 0
        return int(k[sk.Q_WAITED]) + max(0, running)

    def summary(self) -> RunSummary:
        """Totals so far."""
        tables, spec = self._engine.tables, self._engine.spec
        units = [(sequencer_name(tables, n), self.busy(n)) for n in range(len(tables.sequencers))]
        cycle = int(self._s[sk.H_CYCLE])
        for number in range(self._engine.shape.engines):
            d = self.dma_engine(number)
            core, engine = divmod(number, spec.num_dma_engines)
            ahead = int(d[sk.D_UNTIL]) - cycle if int(d[sk.D_QUEUE]) >= 0 else 0
            units.append((f"Core[{core}].DMA[{engine}]", int(d[sk.D_BUSY]) - max(0, ahead)))
        queues = [
            (f"Core[{queue.core}].{queue.name}", int(self.queue_set(queue.id)[sk.W_PEAK]), sk.FIFO_TRANSFERS)
            for queue in tables.queue_sets
        ]
        memories = [
            (f"Core[{core}].{name}", self._peak(core, space), space_bytes(spec, space))
            for core in range(tables.num_cores)
            for space, name in ((1, "SBUF"), (2, "PSUM"))
        ]
        counters = {
            "instructions": int(self._s[sk.H_COMPLETED]),
            "transfers": int(self._s[sk.H_TRANSFERS]),
            "dma_bytes": int(self._s[sk.H_BYTES]),
            "macs": int(self._s[sk.H_MACS]),
        }
        return RunSummary(tuple(units), tuple(queues), tuple(memories), counters)

    def _peak(self, core: int, space: int) -> int:
        """Highest byte that an allocation opened so far has used, over all its partitions."""
        found = self._engine.tables.allocations
        opened = self._s[self._engine.shape.tiles : self._engine.shape.tiles + len(found)] != -1
        mine = opened & (found["core"] == core) & (found["space"] == space)
        ends = (found["address"] + found["size_bytes"])[mine]
        return int(ends.max()) * 128 if len(ends) else 0


def _holds(value: int, condition: int, bound: int) -> bool:
    return (
        value >= bound,
        value > bound,
        value <= bound,
        value < bound,
        value == bound,
        value != bound,
        True,
    )[condition]
