"""Find the bytes that a program's instructions and transfers touch: as ranges, and exactly."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from npuviz.program.graph import Graph
from npuviz.sim.access_order import ADDING, DENSE, SPARSE
from npuviz.targets.neuroncore.ids import hbm_memory, memory_of_space
from npuviz.targets.neuroncore.isa import DST, DTYPE_BYTES, RES, Flag, Opcode, Space
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.accesses import access_rows, transfer_accesses
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Access, Tables

MOST_RUNS = 1 << 24
_LEAVING = (Opcode.TENSOR_COPY_PREDICATED,)
_A = sk.ACCESS
_BYTES = np.array(DTYPE_BYTES, dtype=np.int64)


class ProgramAccesses:
    """The accesses of one program. An entry is an instruction, or -1 - trigger for a transfer."""

    def __init__(self, spec: NeuronSpec, tables: Tables, graph: Graph) -> None:
        self._spec, self._tables, self._graph = spec, tables, graph
        self._hbm = hbm_memory(spec)

    @cached_property
    def operand_kinds(self) -> np.ndarray:
        """(n,) int64 by row of `operands`: DENSE, SPARSE or ADDING of npuviz.sim.access_order."""
        rows, _, _ = self.operands
        operands = self._tables.instructions["operands"]
        present = (operands["space"] == Space.SBUF) | (operands["space"] == Space.PSUM)
        kinds = np.full(len(rows), DENSE, np.int64)
        count = int(present.sum())
        kinds[:count] = np.where(self._is_run[present], DENSE, SPARSE)
        adds = np.broadcast_to(self._is_adding[:, None], present.shape)[present]
        kinds[:count][adds & (rows[:count, _A.write] > 0)] = ADDING
        return kinds

    @cached_property
    def operand_patterns(self) -> np.ndarray:
        """(n, k) int64 by row of `operands`: equal rows touch the very same bytes."""
        rows, _, _ = self.operands
        operands = self._tables.instructions["operands"]
        present = (operands["space"] == Space.SBUF) | (operands["space"] == Space.PSUM)
        sizes, steps = (operands[name].astype(np.int64)[present] for name in ("sizes", "steps"))
        steps = np.where(sizes > 1, steps, 0) * _BYTES[operands["dtype"]][present][:, None]
        shape = np.zeros((len(rows), 2 * sizes.shape[1]), np.int64)
        shape[: len(sizes)] = np.concatenate([sizes, steps], axis=1)
        return np.concatenate([rows, shape], axis=1)

    @cached_property
    def _is_run(self) -> np.ndarray:
        """For each operand, whether its bytes in a partition have no gaps."""
        operands = self._tables.instructions["operands"]
        sizes, steps = operands["sizes"].astype(np.int64), operands["steps"].astype(np.int64)
        counts = np.where(steps == 0, 1, sizes).prod(axis=2)
        return counts == (np.abs(steps) * (sizes - 1)).sum(axis=2) + 1

    @cached_property
    def _is_adding(self) -> np.ndarray:
        """For each instruction, whether it adds to the bytes in its target, or leaves some of them."""
        code = self._tables.instructions
        return (code["flags"] & Flag.ACCUMULATE > 0) | np.isin(code["opcode"], _LEAVING)

    @cached_property
    def operands(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows and ranges of instructions as `access_rows` returns them, and whether each row is dense."""
        rows, ranges = access_rows(self._spec, self._tables, self._graph)
        operands = self._tables.instructions["operands"]
        present = (operands["space"] == Space.SBUF) | (operands["space"] == Space.PSUM)
        dense = np.ones(len(rows), np.bool_)
        dense[: int(present.sum())] = (self._is_run & ~self._is_adding[:, None])[present]
        return rows, ranges, dense

    @cached_property
    def moves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows and ranges of transfers, and whether each row is dense."""
        rows, ranges = transfer_accesses(self._spec, self._tables)
        accesses: list[Access] = []
        for transfer in self._tables.transfers:
            for descriptor in transfer.descriptors:
                accesses += [*descriptor.sources, descriptor.to]
        covered = (rows[:, _A.high] - rows[:, _A.low]) * rows[:, _A.partitions] if len(rows) else rows
        dense = np.array([a.num_bytes for a in accesses], dtype=np.int64) == covered.reshape(-1)
        return rows, ranges, dense

    def shares(self, first: int, second: int) -> bool:
        """Answer ExactAccesses for entries of the access table; indexed transfers may touch anything."""
        mine, theirs = self._entry(first), self._entry(second)
        if self._is_indexed(mine) or self._is_indexed(theirs):
            return True
        written = [(memory, runs) for memory, is_write, runs in self.runs(mine) if is_write]
        return any(
            memory == other and runs.meet(read)
            for other, is_write, read in self.runs(theirs)
            if not is_write
            for memory, runs in written
        )

    def touches(self, entry: int, memory: int, address: int, *, is_write: bool) -> bool:
        """Answer ExactAccesses for entries of the access table; indexed transfers may touch anything."""
        mine, byte = self._entry(entry), Runs(address, [(1, 1)])
        return self._is_indexed(mine) or any(
            where == memory and writes == is_write and runs.meet(byte)
            for where, writes, runs in self.runs(mine)
        )

    def _entry(self, number: int) -> int:
        """Return the entry (instruction, or -1 - trigger) of a row of the access table."""
        count = len(self._tables.instructions)
        return number if number < count else count - 1 - number

    def _is_indexed(self, entry: int) -> bool:
        flags = self._tables.instructions["flags"]
        return entry < 0 and bool(flags[-1 - entry] & (Flag.GATHER_SOURCE | Flag.SCATTER_TARGET))

    def runs(self, entry: int) -> Iterator[tuple[int, bool, "Runs"]]:
        """Yield (memory, whether it is written, linear byte addresses) of each access of an entry."""
        if entry < 0:
            transfer = self._tables.transfers[int(self._tables.transfer_of[-1 - entry])]
            for descriptor in transfer.descriptors:
                for access in (*descriptor.sources, descriptor.to):
                    base, memory = 0, memory_of_space(transfer.core, Space.SBUF)
                    if access.variable >= 0:
                        base, memory = self._tables.variables[access.variable].address, self._hbm
                    pairs = list(zip(access.sizes, access.steps, strict=True))
                    yield memory, access is descriptor.to, Runs(base + access.offset, pairs)
            return
        rows, ranges, _ = self.operands
        row = self._tables.instructions[entry]
        if row["opcode"] == Opcode.HOST_CALL:
            first, count = ranges[entry].tolist()
            for each in rows[first : first + count].tolist():
                size = each[_A.high] - each[_A.low]
                yield each[_A.memory], bool(each[_A.write]), Runs(each[_A.low], [(size, 1)])
            return
        first = int(ranges[entry, 0])
        place = first
        for position, operand in enumerate(row["operands"]):
            if operand["space"] not in (Space.SBUF, Space.PSUM):
                continue
            each = rows[place].tolist()
            place += 1
            item = DTYPE_BYTES[int(operand["dtype"])]
            pairs = [(item, 1)]
            pairs += [
                (int(n), int(s) * item) for n, s in zip(operand["sizes"], operand["steps"], strict=True)
            ]
            pairs.append((each[_A.partitions], each[_A.pitch]))
            base = each[_A.partition] * each[_A.pitch] + int(operand["address"])
            yield each[_A.memory], position in (DST, RES), Runs(base, pairs)


class Runs:
    """The bytes base + sum of i * step, 0 <= i < size, as runs of equal length.

    starts  (n,) int64, rising; at most about MOST_RUNS
    """

    def __init__(self, base: int, pairs: list[tuple[int, int]]) -> None:
        self.length = 1
        self.starts = np.array([base], dtype=np.int64)
        for size, step in pairs:
            if step == self.length and len(self.starts) == 1 and size:
                self.length *= size
                continue
            count = 1 if step == 0 and size else min(size, max(1, MOST_RUNS // max(1, len(self.starts))))
            self.starts = (self.starts[:, None] + np.arange(count) * step).reshape(-1)
        self.starts.sort()

    def meet(self, other: "Runs") -> bool:
        """Return whether a byte is in both."""
        before = np.searchsorted(other.starts, self.starts, side="right") - 1
        behind = other.starts[np.maximum(before, 0)] + other.length if len(other.starts) else self.starts
        reached = (before >= 0) & (behind > self.starts)
        following = np.minimum(before + 1, len(other.starts) - 1)
        reaches = (before + 1 < len(other.starts)) & (
            other.starts[following] < self.starts + self.length if len(other.starts) else False
        )
        return bool(reached.any() or reaches.any())
