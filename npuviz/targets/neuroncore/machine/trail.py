"""Make trails: accesses of completed instructions and transfers, and the order that semaphores gave them."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from npuviz.program.program import Program
from npuviz.program.source import line_of
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.checks.order_kernels import SEATLESS, STEP
from npuviz.sim.checks.trail import MemoryTrail, accesses_of
from npuviz.sim.machine import Hazard
from npuviz.targets.neuroncore.ids import hbm_memory, memory_of_space, space_bytes
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Space
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.overlaps import overlaps
from npuviz.targets.neuroncore.machine.program_accesses import ProgramAccesses
from npuviz.targets.neuroncore.machine.synchronization import Links, link
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables, Variable

_A = sk.ACCESS


class TrailMaker:
    """Makes trails of one program from logs of completions."""

    def __init__(
        self, spec: NeuronSpec, tables: Tables, program: Program, unit_name: Callable[[int], str]
    ) -> None:
        self._spec, self._tables, self._program = spec, tables, program
        self._unit_name = unit_name
        self.accesses = ProgramAccesses(spec, tables, program.graph)
        """The accesses of the program's instructions and transfers."""
        self._hbm = hbm_memory(spec)
        self._shared: dict[tuple[int, int], bool] = {}

    def trail(self, log: np.ndarray, is_finished: bool) -> MemoryTrail:
        """Make the trail of a log of completions, (n, 2) int64 as `Engine.log` returns it."""
        order = _Order(self._tables, self._links, log[:, 0])
        steps = np.array(order.steps, dtype=np.int64).reshape(-1, 3)
        entry = steps[:, 0]
        cycle = log[np.maximum(steps[:, 2], 0), 1] if len(log) else steps[:, 2]
        instruction = np.where(entry >= 0, entry, -1 - entry)
        accesses = self._accesses(entry, steps[:, 1] != -1)
        names = [memory.name for memory in self._memories]

        def share(first: int, second: int) -> bool:
            return self._share(int(entry[first]), int(entry[second]))

        return MemoryTrail(
            instruction=instruction,
            thread=steps[:, 1],
            cycle=cycle,
            orders=np.array(order.orders, dtype=np.int64).reshape(-1, 2),
            accesses=accesses,
            given=self._given,
            kept=self._kept if is_finished else None,
            sizes=[(memory.banks, memory.bytes) for memory in self._memories],
            names=names,
            unit=lambda index: self._unit_name(self._program.listing.describe(index).unit),
            text=lambda index: f"instruction {index} ({self._program.listing.describe(index).opcode})",
            line=lambda index: line_of(self._program.listing, index),
            shares=share,
            is_moved=entry < 0,
            results=self._results,
        )

    def overlaps(self, log: np.ndarray) -> Iterator[Hazard]:
        """Yield a hazard for each completed instruction that overwrote its own operands; `log` as in
        `trail`.
        """
        describe = self._program.listing.describe
        for index, cycle in log[np.isin(log[:, 0], [*self._overlaps])].tolist() if self._overlaps else ():
            place, unit = self._overlaps[index], self._unit_name(describe(index).unit)
            text = f"instruction {index} ({describe(index).opcode}) overwrites {place} before it has read it"
            yield hazard_of("overlap", cycle, unit, index, text, place)

    @cached_property
    def _overlaps(self) -> dict[int, str]:
        return overlaps(self._tables)

    @cached_property
    def _links(self) -> Links:
        return link(self._spec, self._tables)

    @cached_property
    def _memories(self) -> list["_Memory"]:
        found: list[_Memory] = []
        for core in range(self._tables.num_cores):
            for space in (Space.SBUF, Space.PSUM):
                size = space_bytes(self._spec, space) // NUM_PARTITIONS
                place = memory_of_space(core, space)
                found += [_Memory("", 0, 0)] * (place + 1 - len(found))
                found[place] = _Memory(f"Core[{core}].{space.name}", NUM_PARTITIONS, size)
        end = max((v.address + v.size_bytes for v in self._tables.variables), default=0)
        found += [_Memory("", 0, 0)] * (self._hbm + 1 - len(found))
        found[self._hbm] = _Memory("HBM", 1, max(self._spec.hbm_bytes, end))
        return found

    @cached_property
    def _given(self) -> np.ndarray:
        return self._rows(lambda variable: variable.kind in ("input", "constant"))

    @cached_property
    def _kept(self) -> np.ndarray:
        """Accesses of outputs and of tensors of the graph, which users and checks may read."""
        outputs = set(self._tables.outputs.values())
        return self._rows(lambda v: v.kind == "output" or v.id in outputs or v.tensor >= 0)

    @cached_property
    def _results(self) -> dict[str, np.ndarray]:
        variables = self._tables.variables
        return {
            variables[number].name: self._rows(lambda v, number=number: v.id == number)
            for number in self._tables.outputs.values()
        }

    def _rows(self, chosen: Callable[[Variable], bool]) -> np.ndarray:
        return accesses_of(
            [
                (0, self._hbm, False, True, 0, 1, v.address, v.address + v.size_bytes)
                for v in self._tables.variables
                if chosen(v)
            ]
        )

    # --- accesses --------------------------------------------------------------------------------------

    def _accesses(self, entry: np.ndarray, is_real: np.ndarray) -> np.ndarray:
        found: list[np.ndarray] = []
        transfer_of = self._tables.transfer_of
        for chosen, (rows, ranges, dense), key in (
            (is_real & (entry >= 0), self.accesses.operands, entry),
            (is_real & (entry < 0), self.accesses.moves, transfer_of[np.where(entry < 0, -1 - entry, 0)]),
        ):
            steps = np.flatnonzero(chosen)
            mine = ranges[key[steps]] if len(steps) else np.zeros((0, 2), np.int64)
            counts = mine[:, 1]
            ends = np.cumsum(counts)
            index = np.repeat(mine[:, 0] - (ends - counts), counts) + np.arange(int(counts.sum()))
            taken = rows[index]
            columns = [np.repeat(steps, counts), taken[:, _A.memory], taken[:, _A.write], dense[index],
                       *(taken[:, n] for n in (_A.partition, _A.partitions, _A.low, _A.high))]  # fmt: skip
            made = np.stack(columns, axis=1)
            found.append(made)
        every = np.concatenate(found)
        return every[np.argsort(every[:, STEP], kind="stable")]

    def _share(self, first: int, second: int) -> bool:
        """Return whether two log entries touch a common byte that one of them writes."""
        found = self._shared.get((first, second))
        if found is None:
            found = self._shared[first, second] = any(
                memory == other and (is_write or writes) and mine.meet(theirs)
                for memory, is_write, mine in self.accesses.runs(first)
                for other, writes, theirs in self.accesses.runs(second)
            )
        return found


class _Memory:
    """A memory of the trail: name, number of banks, bytes of a bank."""

    def __init__(self, name: str, banks: int, size: int) -> None:
        self.name, self.banks, self.bytes = name, banks, size


def _lists(rows: list[Any], first: np.ndarray, count: np.ndarray) -> list[list[Any]]:
    """Split rows into a list for each (first, count)."""
    return [rows[start : start + n] for start, n in zip(first.tolist(), count.tolist(), strict=True)]


class _Order:
    """Converts a log into steps, with further steps for counts of semaphores, and their order.

    steps   (entry, thread or -1, position in the log)
    orders  (step, later step that waited for it)
    """

    def __init__(self, tables: Tables, links: Links, entries: np.ndarray) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.orders: list[tuple[int, int]] = []
        self._sequencer = np.searchsorted(
            tables.sequencers[:, 1], np.arange(len(tables.instructions)), side="right"
        ).tolist()
        self._host, self._last_host = len(tables.sequencers) - 1, -1
        self._step_of: dict[int, int] = {}
        self._count: dict[int, list[int]] = {}
        self._repeats = len(np.unique(entries)) < len(entries)
        waits = links.waits[:, [sk.WAIT.semaphore, sk.WAIT.producer]].tolist()
        self._waits = _lists(waits, links.wait_first, links.wait_count)
        updates = links.updates[:, sk.UPDATE.semaphore].tolist()
        self._updates = _lists(updates, links.update_first, links.update_count)
        self._transfer_of = tables.transfer_of.tolist()
        own = zip(links.transfer_semaphore.tolist(), links.transfer_event.tolist(), strict=True)
        remotes = _lists(links.remotes.tolist(), links.remote_first, links.remote_count)
        self._of_transfer = [
            [semaphore for semaphore in (*mine, *others) if semaphore >= 0]
            for mine, others in zip(own, remotes, strict=True)
        ]
        self._ordinals = self._find_ordinals()
        for position, entry in enumerate(entries.tolist()):
            if entry >= 0:
                self._instruction(entry, position)
            else:
                self._transfer(entry, position)

    def _find_ordinals(self) -> dict[tuple[int, int], int]:
        """Return {(semaphore, instruction): updates of it up to and with this instruction's}, in program
        order.

        Empty if the log repeats instructions, as in loops.
        """
        found: dict[tuple[int, int], int] = {}
        if self._repeats:
            return found
        so_far: dict[int, int] = {}
        for index, (counted, transfer) in enumerate(zip(self._updates, self._transfer_of, strict=True)):
            for semaphore in (*counted, *self._of_transfer[transfer]) if transfer >= 0 else counted:
                found[semaphore, index] = so_far[semaphore] = so_far.get(semaphore, 0) + 1
        return found

    def _instruction(self, entry: int, position: int) -> None:
        waited = self._waited(entry)
        step = len(self.steps)
        self.steps.append((entry, self._sequencer[entry], position))
        self.orders += [(each, step) for each in waited]
        if self._sequencer[entry] == self._host:
            self.orders += [(self._last_host, step)] if self._last_host >= 0 else []
            self._last_host = step
        self._step_of[entry] = step
        for semaphore in self._updates[entry]:
            self._counted(semaphore, step, position)

    def _transfer(self, entry: int, position: int) -> None:
        step = len(self.steps)
        # Each ring serves in order independently, so transfers of one queue set may overlap.
        self.steps.append((entry, SEATLESS, position))
        trigger = self._step_of.get(-1 - entry)
        if trigger is not None:
            self.orders.append((trigger, step))
        for semaphore in self._of_transfer[self._transfer_of[-1 - entry]]:
            self._counted(semaphore, step, position)

    def _counted(self, semaphore: int, step: int, position: int) -> None:
        """Add a step for the new count of a semaphore, which comes after `step` and all earlier counts."""
        chain = self._count.setdefault(semaphore, [])
        node = len(self.steps)
        self.steps.append((0, -1, position))
        if chain:
            self.orders.append((chain[-1], node))
        self.orders.append((step, node))
        chain.append(node)

    def _waited(self, entry: int) -> list[int]:
        """Return the count steps that an instruction waited for; the latest where it is unknown which."""
        found: list[int] = []
        for semaphore, producer in self._waits[entry]:
            chain = self._count.get(semaphore)
            if not chain:
                continue
            ordinal = self._ordinals.get((semaphore, producer), len(chain))
            found.append(chain[min(ordinal, len(chain)) - 1])
        return found
