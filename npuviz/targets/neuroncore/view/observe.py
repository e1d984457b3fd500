"""Read a NeuronCore machine's state for display: queues, semaphores, units, unfinished intervals, totals."""

from functools import cached_property
from typing import Any

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.sim.machine import Activity, Peak, QueueEntry, RunSummary, SemaphoreState, UnitState, Wait
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
    """Reads an engine's state; never changes it."""

    def __init__(self, engine: Engine, listing: Listing, used: tuple[UsedSemaphore, ...]) -> None:
        self._engine = engine
        self._listing = listing
        self._used = used
        self._names = {semaphore.index: semaphore for semaphore in used}

    @property
    def _chip(self) -> Any:
        return sk.CHIP(self._engine.state)

    # --- parts of the state ----------------------------------------------------------------------------

    def sequencer(self, number: int) -> Any:
        """Return the state record of a sequencer."""
        return sk.SEQUENCER(self._engine.state, self._engine.shape.sequencer_words, number)

    def queue_set(self, queue: int) -> Any:
        """Return the state record of a queue set."""
        return sk.QUEUE(self._engine.state, self._engine.shape.queues, queue)

    def dma_engine(self, number: int) -> Any:
        """Return the state record of a DMA engine."""
        return sk.ENGINE(self._engine.state, self._engine.shape.engine_words, number)

    def semaphore(self, index: int) -> Any:
        """Return the state record of a semaphore, by its global index."""
        return sk.SEMAPHORE(self._engine.state, self._engine.shape.semaphores, index)

    def instruction(self, index: int) -> Any:
        """Return the program's record of an instruction."""
        program = sk.PROGRAM(self._engine.words)
        return sk.INSTRUCTION(program, program.instructions, index)

    def waits_of(self, instruction: int) -> list[Any]:
        """Return the records of an instruction's waits."""
        program, i = sk.PROGRAM(self._engine.words), self.instruction(instruction)
        return [sk.WAIT(program, program.waits, i.wait + n) for n in range(i.waits)]

    def in_flight(self, number: int) -> list[tuple[int, int]]:
        """Return (instruction, completion time) of what a sequencer's pipeline holds, oldest first."""
        k = self.sequencer(number)
        flights = [k.flight[(k.head + n) % sk.FLIGHTS] for n in range(k.count)]
        return [(int(flight.instruction), int(flight.end)) for flight in flights]

    def pending(self, queue: int) -> list[Any]:
        """Return the records of a queue set's transfers that are not finished, oldest first."""
        w = self.queue_set(queue)
        return [w.fifo[number % sk.FIFO_TRANSFERS] for number in range(w.done, w.count)]

    # --- queues ----------------------------------------------------------------------------------------

    def queue_length(self, queue: int) -> int:
        """Return the number of entries of a queue; queue sets are numbered first, then pipelines."""
        sets = len(self._engine.tables.queue_sets)
        if queue < sets:
            w = self.queue_set(queue)
            return int(w.count - w.done)
        return int(self.sequencer(queue - sets).count)

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Return the entries of a queue now, head first."""
        sets = len(self._engine.tables.queue_sets)
        if queue >= sets:
            return [
                self._entry(index, f"completes at {done}") for index, done in self.in_flight(queue - sets)
            ]
        rings = self._engine.tables.queue_sets[queue].num_queues
        return [
            self._entry(int(row.trigger), f"{rings - row.left} of {rings} rings done")
            for row in self.pending(queue)
        ]

    def _entry(self, index: int, note: str) -> QueueEntry:
        found = self._listing.describe(index)
        return QueueEntry(f"{found.text}  ({note})", index, found.node)

    # --- semaphores ------------------------------------------------------------------------------------

    def semaphores(self) -> list[SemaphoreState]:
        """Return the semaphores and events in use, with the units that wait for them."""
        waiting: dict[int, list[Wait]] = {}
        for number in range(len(self._engine.tables.sequencers)):
            k = self.sequencer(number)
            if int(k.state) != sk.WAITING:
                continue
            instruction = int(k.pc)
            for row in self._unmet(instruction):
                wait = Wait(number, instruction, _COMPARISONS[row.condition], int(row.value))
                waiting.setdefault(int(row.semaphore), []).append(wait)
        found: list[SemaphoreState] = []
        for place, used in enumerate(self._used):
            row = self.semaphore(used.index)
            found.append(
                SemaphoreState(
                    place, used.name, f"Core[{used.core}]", int(row.value), used.use,
                    tuple(waiting.get(used.index, ())), int(row.updater),
                )
            )  # fmt: skip
        return found

    def _unmet(self, instruction: int) -> list[Any]:
        """Return the records of an instruction's waits that are not satisfied now."""
        return [
            row
            for row in self.waits_of(instruction)
            if not _holds(int(self.semaphore(row.semaphore).value), int(row.condition), int(row.value))
        ]

    def _wait_text(self, row: Any) -> str:
        used = self._names.get(int(row.semaphore))
        value = int(self.semaphore(row.semaphore).value)
        name = "a semaphore" if used is None else used.name + (f" ({used.use})" if used.use else "")
        return f"{name} {_COMPARISONS[row.condition]} {row.value}, now {value}"

    def deadlock(self) -> tuple[str, str]:
        """Return (unit, sentence) for a machine in which nothing can happen any more: who waits for whom."""
        tables = self._engine.tables
        waiting = [
            number
            for number in range(len(tables.sequencers))
            if int(self.sequencer(number).state) == sk.WAITING
        ]
        if not waiting:
            return "", "nothing can happen any more, but the program has not ended"
        chain: list[int] = []
        texts: list[str] = []
        current = waiting[0]
        while current not in chain:
            chain.append(current)
            instruction = int(self.sequencer(current).pc)
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

    def _updater_of(self, row: Any, waiting: list[int]) -> int | None:
        """Return the waiting sequencer whose coming instructions would change the semaphore, or None."""
        program, wanted = sk.PROGRAM(self._engine.words), row.semaphore
        for number in waiting:
            k = self.sequencer(number)
            for instruction in range(int(k.pc), int(k.end)):
                i = self.instruction(instruction)
                for n in range(i.updates):
                    if sk.UPDATE(program, program.updates, i.update + n).semaphore == wanted:
                        return number
                if i.transfer >= 0:
                    transfer = sk.TRANSFER(program, program.transfers, i.transfer)
                    if wanted in (transfer.semaphore, transfer.event):
                        return number
        return None

    def subject_name(self, index: int) -> str:
        """Return the name of a semaphore or event by its global index."""
        used = self._names.get(index)
        return used.name if used is not None else f"semaphore {index}"

    # --- what is under way -----------------------------------------------------------------------------

    def activities(self) -> list[Activity]:
        """Return the intervals under way, which the trace does not hold yet."""
        found: list[Activity] = []
        tables, cycle = self._engine.tables, int(self._chip.cycle)
        if int(self._chip.status) == sk.STATUS_FINISHED:
            return found
        for number in range(len(tables.sequencers)):
            k = self.sequencer(number)
            state = int(k.state)
            if state == sk.BUSY:
                index = int(k.current)
                kind = int(self.instruction(index).kind)
                start, end = int(k.start), int(k.until)
                found.append(Activity(number, start, end, kind, self._node(index), index))
            elif state == sk.WAITING and int(k.since) < cycle:
                index = int(k.pc)
                # A deadlock has no end to its waits, so the trace never gets them.
                found.append(
                    Activity(
                        number,
                        int(k.since),
                        -1,
                        int(k.cause),
                        self._node(index),
                        index,
                    )
                )
        for number in range(self._engine.shape.engines):
            d = self.dma_engine(number)
            if int(d.slice) >= 0:
                index = int(d.slice_trigger)
                track = len(tables.sequencers) + number
                found.append(Activity(track, int(d.slice), -1, sk.KIND_TRANSFER, self._node(index), index))
        return found

    def _node(self, index: int) -> int:
        return int(self._engine.tables.nodes[index])

    # --- units -----------------------------------------------------------------------------------------

    def unit_states(self) -> list[UnitState]:
        """Return the state of every unit now, by unit id."""
        found = [self._sequencer_state(number) for number in range(len(self._engine.tables.sequencers))]
        for number in range(self._engine.shape.engines):
            d = self.dma_engine(number)
            core, engine = divmod(number, self._engine.spec.num_dma_engines)
            unit = dma_unit(self._engine.spec, core, engine)
            if int(d.slice) >= 0:
                index = int(d.slice_trigger)
                queue = self._engine.tables.queue_sets[int(d.slice_queue)]
                found.append(UnitState(unit, "moving", "move-in", f"for {queue.name}", index, int(d.slice)))
            else:
                found.append(UnitState(unit, "idle", "idle"))
        return found

    def _sequencer_state(self, number: int) -> UnitState:
        k = self.sequencer(number)
        state = int(k.state)
        if state == sk.BUSY:
            index = int(k.current)
            code = int(self._engine.tables.instructions["opcode"][index])
            role = "control" if code < Opcode.NC_MATMUL else "compute"
            role = "host" if code == Opcode.HOST_CALL else role
            detail = f"until cycle {int(k.until)}"
            if int(k.is_limited) and int(k.array):
                detail += f", at {self._engine.spec.limited_rate} its rate: it was not busy enough before"
            return UnitState(number, Opcode(code).name.lower(), role, detail, index, int(k.start))
        if state == sk.WAITING:
            text, role = self._cause(number)
            index = int(k.pc)
            unmet = self._unmet(index)
            detail = "; ".join(self._wait_text(row) for row in unmet)
            return UnitState(number, text, role, detail, index, int(k.since))
        if state == sk.ENDED:
            return UnitState(number, "ended", "idle", "its program has ended")
        return UnitState(number, "idle", "idle", "", self._held(k))

    def _cause(self, number: int) -> tuple[str, str]:
        return _CAUSES[int(self.sequencer(number).cause)]

    def _held(self, k: Any) -> int:
        return int(k.pc) if int(k.pc) < int(k.end) else -1

    def next_instructions(self) -> dict[int, int]:
        """Return {unit id: instruction it will issue next}."""
        found: dict[int, int] = {}
        for number in range(len(self._engine.tables.sequencers)):
            k = self.sequencer(number)
            held = self._held(k)
            if held >= 0 and int(k.state) != sk.ENDED:
                found[number] = held
        return found

    # --- totals ----------------------------------------------------------------------------------------

    def busy(self, number: int) -> int:
        """Return the cycles a sequencer's engine has been occupied up to now."""
        k = self.sequencer(number)
        ahead = int(k.until) - int(self._chip.cycle) if int(k.state) == sk.BUSY else 0
        return int(k.busy) - max(0, ahead)

    def limited(self, number: int) -> int:
        """Return the cycles lost by PE because it ran at its limited rate after pauses (`pe_ramp_ns`)."""
        return int(self.sequencer(number).limited)

    def waited(self, number: int) -> int:
        """Return the cycles a sequencer has waited up to now."""
        k = self.sequencer(number)
        running = int(self._chip.cycle) - int(k.since) if int(k.state) == sk.WAITING else 0
        return int(k.waited) + max(0, running)

    def summary(self) -> RunSummary:
        """Return the totals of the run so far."""
        tables, spec = self._engine.tables, self._engine.spec
        units = [
            (sequencer_name(tables, n), self.busy(n), self.waited(n)) for n in range(len(tables.sequencers))
        ]
        cycle = int(self._chip.cycle)
        for number in range(self._engine.shape.engines):
            d = self.dma_engine(number)
            core, engine = divmod(number, spec.num_dma_engines)
            ahead = int(d.until) - cycle if int(d.queue) >= 0 else 0
            units.append((f"Core[{core}].DMA[{engine}]", int(d.busy) - max(0, ahead), 0))
        queues = [
            (
                f"Core[{queue.core}].{queue.name}",
                int(self.queue_set(queue.id).peak),
                sk.FIFO_TRANSFERS,
            )
            for queue in tables.queue_sets
        ]
        memories = [
            (f"Core[{core}].{name}", self._peak(core, space), space_bytes(spec, space))
            for core in range(tables.num_cores)
            for space, name in ((1, "SBUF"), (2, "PSUM"))
        ]
        read, written = self._hbm_traffic()
        counters = {
            "instructions": int(self._chip.completed),
            "transfers": int(self._chip.transfers),
            "dma_bytes": int(self._chip.bytes),
            "hbm_read_bytes": read,
            "hbm_write_bytes": written,
            "macs": int(self._chip.macs),
        }
        return RunSummary(tuple(units), tuple(queues), tuple(memories), counters)

    def _hbm_traffic(self) -> tuple[int, int]:
        """Return the bytes that complete transfers have read from HBM, and written to it."""
        tables, log = self._engine.tables, self._engine.log()[:, 0]
        done = np.bincount(tables.transfer_of[-1 - log[log < 0]], minlength=len(tables.transfers))
        read, written = done @ self._hbm_bytes
        return int(read), int(written)

    @cached_property
    def _hbm_bytes(self) -> np.ndarray:
        """Bytes that each transfer reads from HBM, and writes to it."""
        transfers = self._engine.tables.transfers
        found = np.zeros((len(transfers), 2), dtype=np.int64)
        for number, transfer in enumerate(transfers):
            for each in transfer.descriptors:
                found[number, 0] += sum(access.num_bytes for access in each.sources if access.variable >= 0)
                found[number, 1] += each.to.num_bytes if each.to.variable >= 0 else 0
        return found

    def peaks(self) -> list[Peak]:
        """Return bytes and MACs of the DMA engines and PE beside the most possible, and DMA bytes as a
        check.
        """
        spec, tables, found = self._engine.spec, self._engine.tables, list[Peak]()
        cycles = int(self._chip.cycle)
        rate = spec.dma_peak_bytes_per_ns * 1e9 / spec.base_hz
        total = 0
        for number in range(self._engine.shape.engines):
            engine = self.dma_engine(number)
            total += int(engine.bytes)
            name = "Core[{}].DMA[{}]".format(*divmod(number, spec.num_dma_engines))
            # The bytes of a quantum count when it begins.
            until = max(cycles, int(engine.until))
            found.append(Peak(name, int(engine.bytes), rate * until, "bytes"))
        found.append(Peak("DMA, by engines", total, int(self._chip.bytes), "bytes", is_exact=True))
        array = spec.matmul_max_contraction * spec.matmul_max_stationary
        macs = array * tables.num_cores * cycles
        found.append(Peak("PE", int(self._chip.macs), macs, "MACs"))
        return found

    def _peak(self, core: int, space: int) -> int:
        """Return the highest use of a core's SBUF or PSUM so far: the largest end address, times 128
        partitions.
        """
        found = self._engine.tables.allocations
        opened = self._engine.state[self._engine.shape.tiles : self._engine.shape.tiles + len(found)] != -1
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
