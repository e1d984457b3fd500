"""Record what the tasks and host calls of an RK3588 read and wrote, and in what order they ran."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.checks.lineage import readable_sources
from npuviz.sim.checks.order_kernels import EXACT_END, SPARSE
from npuviz.sim.checks.trail import MemoryTrail, accesses_of
from npuviz.targets.rk3588.machine.program_accesses import ProgramAccesses
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, Tables
from npuviz.targets.rk3588.task.accesses import exact_ranges
from npuviz.targets.rk3588.task.cost import cost_of

ADDRESS_BYTES = 1 << 32


class TrailMaker:
    """Make trails of a program from its completions. Jobs run one after the other, and so do tasks of a
    core."""

    def __init__(
        self, spec: RknnSpec, tables: Tables, program: Program, unit_name: Callable[[int], str]
    ) -> None:
        self._spec, self._tables, self._program = spec, tables, program
        self._unit_name = unit_name
        self.accesses = ProgramAccesses(spec, tables)
        """What the program's tasks and host calls touch."""

    def trail(self, log: np.ndarray, times: np.ndarray, is_finished: bool) -> MemoryTrail:
        """Return the trail of completions. log  tasks, or -1 - i for host call i; times  their cycles"""
        tasks, hosts = self._tables.tasks, self._tables.hosts
        thread: list[int] = []
        instruction: list[int] = []
        cycles: list[int] = []
        orders: list[tuple[int, int]] = []
        accesses: list[tuple[int, ...]] = []
        last: dict[int, int] = {}
        barrier, stage, open_steps = -1, (-1, 0), list[int]()
        for entry, cycle in zip(log.tolist(), times.tolist(), strict=True):
            # A host call runs between the job before it and the job that it names.
            mine = (tasks[entry].job, 1) if entry >= 0 else (hosts[-1 - entry].job, 0)
            if mine != stage or entry < 0:
                stage = mine
                barrier = len(thread)
                orders += [(step, barrier) for step in open_steps]
                open_steps = [barrier]
                thread.append(-1)
                instruction.append(-1)
                cycles.append(cycle)
            step = len(thread)
            orders.append((barrier, step))
            core = tasks[entry].core if entry >= 0 else self._spec.cores
            if core in last:
                orders.append((last[core], step))
            last[core] = step
            open_steps.append(step)
            index = entry if entry >= 0 else len(tasks) - 1 - entry
            thread.append(core)
            instruction.append(index)
            cycles.append(cycle)
            exact = self._exact[index]
            for is_write, low, high in self.accesses.rows[index]:
                density = EXACT_END if not is_write and (low, high) in exact else SPARSE
                accesses.append((step, 0, is_write, density, 0, 1, low, high))
        describe = self._program.listing.describe

        def share(first: int, second: int) -> bool:
            return self._share(instruction[first], instruction[second])

        return MemoryTrail(
            instruction=np.array(instruction, dtype=np.int64),
            thread=np.array(thread, dtype=np.int64),
            cycle=np.array(cycles, dtype=np.int64),
            orders=np.array(orders, dtype=np.int64).reshape(-1, 2),
            accesses=accesses_of(accesses),
            given=self._given,
            kept=self._kept if is_finished else None,
            sizes=[(1, ADDRESS_BYTES)],
            names=["DDR"],
            unit=lambda index: self._unit_name(describe(index).unit),
            text=lambda index: f"{describe(index).opcode} {index}",
            shares=share,
            node=np.array([self._nodes[index] for index in instruction], dtype=np.int64),
            sources=self._sources,
            results=self._results,
        )

    @cached_property
    def _exact(self) -> list[set[tuple[int, int]]]:
        """Return, for each task and host call, the ranges whose last byte it reads."""
        starts = [exact_ranges(task, cost_of(task, self._spec)) for task in self._tables.tasks]
        return starts + [set[tuple[int, int]]() for _ in self._tables.hosts]

    def _share(self, first: int, second: int) -> bool:
        """Return whether two tasks or host calls touch a common atom that one of them writes."""
        (read, written), (reads, writes) = self.accesses.touched(first), self.accesses.touched(second)
        return bool(np.isin(written, np.concatenate([reads, writes])).any() or np.isin(read, writes).any())

    @cached_property
    def _nodes(self) -> list[int]:
        """The operator of each task, then of each host call; the last is for steps that are
        neither."""
        return [*(each.node for each in (*self._tables.tasks, *self._tables.hosts)), -1]

    @cached_property
    def _sources(self) -> tuple[np.ndarray, np.ndarray]:
        # Products read the stored integers, even if other tasks read them as floats.
        return readable_sources(self._program.graph, self._nodes, ("DequantizeLinear",))

    @cached_property
    def _results(self) -> dict[str, np.ndarray]:
        tensors, buffers = self._program.graph.tensors, self._tables.buffers
        homes = {tensors[tensor].name: buffers[number] for tensor, number in self._tables.outputs.items()}
        return {name: _rows_of([buffer]) for name, buffer in homes.items()}

    @cached_property
    def _given(self) -> np.ndarray:
        """The buffers with data or zeros, and those of no operator that no task and no host call
        writes.

        An input that the host fills into one buffer reaches other buffers of the same tensor only by tasks.
        """
        tensors, buffers = self._program.graph.tensors, self._tables.buffers
        filled = {buffers[number].tensor for call in self._tables.hosts for number in call.writes}
        written = [(low, high) for rows in self.accesses.rows for is_write, low, high in rows if is_write]
        starts = np.array(sorted(low for low, _ in written), dtype=np.int64)
        ends = np.array(sorted(high for _, high in written), dtype=np.int64)

        def is_given(buffer: Buffer) -> bool:
            if buffer.data is not None or buffer.is_cleared:
                return True
            if 0 <= buffer.tensor < len(tensors) and (
                buffer.tensor in filled or tensors[buffer.tensor].producer >= 0
            ):
                return False
            low, high = buffer.address, buffer.address + buffer.size_bytes
            return bool(np.searchsorted(starts, high) == np.searchsorted(ends, low, side="right"))

        return self._ranges(is_given)

    @cached_property
    def _kept(self) -> np.ndarray:
        """The buffers of tensors of the graph: people and checks read them."""
        return self._ranges(lambda buffer: buffer.tensor >= 0)

    def _ranges(self, chosen: Callable[[Buffer], bool]) -> np.ndarray:
        return _rows_of([buffer for buffer in self._tables.buffers if chosen(buffer)])


def _rows_of(buffers: Sequence[Buffer]) -> np.ndarray:
    """Return rows for all bytes of buffers."""
    return accesses_of([(0, 0, False, True, 0, 1, b.address, b.address + b.size_bytes) for b in buffers])
