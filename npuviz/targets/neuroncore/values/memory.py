"""The bytes of SBUF and PSUM, and views of access patterns on them.

Arrays are never reallocated, so that instructions can be planned once as operations on views.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.strides import merged
from npuviz.targets.neuroncore.values.element_types import NUMPY_DTYPES

GRANULE = 64
"""Bytes that share one flag of whether they have been written."""

# Rows are padded by this: a power of two between them would map a column of a tile to few cache sets.
_PAD = 64

Dims = list[tuple[int, int]]


class ValueFault(Exception):
    """An instruction cannot be executed; the text says why. Never leaves the values engine."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Flags of the granules that an operand touches: all of `flags`, or the rows `index` of it."""

    flags: np.ndarray
    index: np.ndarray | None = None

    def is_written(self) -> bool:
        """Return whether all of them have been written."""
        return bool((self.flags if self.index is None else self.flags[self.index]).all())

    def mark(self) -> None:
        """Mark all of them as written."""
        if self.index is None:
            self.flags.fill(True)
        else:
            self.flags[self.index] = True

    def copy(self) -> np.ndarray:
        """Return a copy of the flags for `restore`."""
        return self.flags.copy() if self.index is None else self.flags[self.index]

    def restore(self, saved: np.ndarray) -> None:
        """Restore the flags that `copy` returned."""
        self.flags[... if self.index is None else self.index] = saved


@dataclass(frozen=True, slots=True)
class Operand:
    """An access pattern on real memory.

    view   (partitions, *dims): dimensions of size 1 are dropped, mergeable neighbours merged
    count  elements in each partition
    dtype  isa.Dtype
    """

    view: np.ndarray
    mask: Mask
    dtype: int
    partition: int
    partitions: int
    count: int


class Sram:
    """SBUF or PSUM of a core: `rows` is (128, partition_bytes) uint8."""

    def __init__(self, name: str, partition_bytes: int) -> None:
        self.name = name
        self.partition_bytes = partition_bytes
        self.pitch = partition_bytes + _PAD
        self.flat = np.zeros(NUM_PARTITIONS * self.pitch, np.uint8)
        self.rows = self.flat.reshape(NUM_PARTITIONS, self.pitch)[:, :partition_bytes]
        self.written = np.zeros((-(-partition_bytes // GRANULE), NUM_PARTITIONS), np.bool_)
        self._operands: dict[tuple[object, ...], Operand] = {}

    def operand(
        self, dtype: int, partition: int, partitions: int, address: int, sizes: list[int], steps: list[int]
    ) -> Operand:
        """Return the operand of an instruction, cached. Raises ValueFault outside the memory."""
        key = dtype, partition, partitions, address, *sizes, *steps
        found = self._operands.get(key)
        if found is None:
            if len(self._operands) > 1 << 12:
                self._operands.clear()
            found = self._operands[key] = self._make(dtype, partition, partitions, address, sizes, steps)
        return found

    def _make(
        self, dtype: int, partition: int, partitions: int, address: int, sizes: list[int], steps: list[int]
    ) -> Operand:
        kind = NUMPY_DTYPES[dtype]
        item = kind.itemsize
        dims = merged([(size, step * item) for size, step in zip(sizes, steps, strict=True)])
        low, high = reach(dims)
        low, high = address + low, address + high + item
        if low < 0 or high > self.partition_bytes or partition + partitions > NUM_PARTITIONS:
            raise ValueFault(
                f"{self.name} partitions {partition}..{partition + partitions - 1}, bytes {low}..{high - 1} "
                f"are outside {NUM_PARTITIONS} partitions of {self.partition_bytes} bytes"
            )
        count = prod(size for size, _ in dims)
        if partitions == 0 or count == 0:
            raise ValueFault(f"{self.name}: an operand without elements")
        view = np.ndarray(
            (partitions, *(size for size, _ in dims)),
            kind,
            self.flat,
            partition * self.pitch + address,
            (self.pitch, *(step for _, step in dims)),
        )
        mask = self._mask(partition, partitions, address, dims, item)
        return Operand(view, mask, dtype, partition, partitions, count)

    def _mask(self, partition: int, partitions: int, address: int, dims: Dims, item: int) -> Mask:
        rows = touched(address, dims, item)
        flags = self.written[:, partition : partition + partitions]
        return Mask(flags[rows]) if isinstance(rows, slice) else Mask(flags, rows)

    def access(self, offset: int, dims: Dims, dtype: np.dtype) -> tuple[np.ndarray, list[Mask]]:
        """Return a view of a DMA pattern, and its masks. Steps are in linear bytes.

        offset  partition * partition_bytes + byte

        Raises ValueFault outside the memory, or if the pattern crosses from one partition to the next.
        """
        item, size = dtype.itemsize, self.partition_bytes
        partition, address = divmod(offset, size)
        dims = [part for dim in dims for part in self._at_partitions(address, dim)]
        strides: list[int] = []
        across: Dims = []
        within: Dims = []
        for count, step in dims:
            partition_step = round(step / size)
            byte_step = step - partition_step * size
            strides.append(partition_step * self.pitch + byte_step)
            across.append((count, partition_step))
            within.append((count, byte_step))
        low, high = reach(within)
        first, last = reach(across)
        first, last = partition + first, partition + last
        if address + low < 0 or address + high + item > size or first < 0 or last >= NUM_PARTITIONS:
            raise ValueFault(
                f"{self.name} partitions {first}..{last}, bytes {address + low}..{address + high + item - 1} "
                f"are outside {NUM_PARTITIONS} partitions of {size} bytes"
            )
        view = np.ndarray(
            tuple(count for count, _ in dims), dtype, self.flat, partition * self.pitch + address, strides
        )
        rows = touched(address, [dim for dim in within if dim[1]], item)
        lanes = touched(partition, [dim for dim in across if dim[1]], 1, 1)
        flags = self.written[:, lanes]
        if isinstance(rows, slice):
            return view, [Mask(flags[rows])]
        if isinstance(lanes, slice):
            return view, [Mask(flags, rows)]
        return view, [Mask(self.written[:, lane], rows) for lane in lanes.tolist()]

    def _at_partitions(self, address: int, dim: tuple[int, int]) -> Dims:
        """Split a dimension that runs through whole partitions into partitions and bytes in each."""
        count, step = dim
        size = self.partition_bytes
        if 0 < step < size and address == 0 and count * step > size and not size % step:
            per_partition = size // step
            if not count % per_partition:
                return [(count // per_partition, size), (per_partition, step)]
        return [dim]


def reach(dims: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the lowest and highest offset of a pattern."""
    low = high = 0
    for size, step in dims:
        if step < 0:
            low += (size - 1) * step
        else:
            high += (size - 1) * step
    return low, high


def touched(offset: int, dims: Dims, item: int, granule: int = GRANULE) -> slice | np.ndarray:
    """Return the granules that a pattern touches: a slice, or an array of their numbers if there are gaps."""
    ordered = sorted(dims, key=lambda dim: abs(dim[1]))
    # Runs without a gap as large as a granule.
    run, first = item, 0
    rest: Dims = []
    for size, step in ordered:
        if rest or abs(step) - run >= granule:
            rest.append((size, step))
            continue
        run += (size - 1) * abs(step)
        first += min(0, (size - 1) * step)
    if not rest:
        return slice((offset + first) // granule, (offset + first + run - 1) // granule + 1)
    starts = np.array([offset + first], np.int64)
    for size, step in rest:
        starts = (starts[:, None] + np.arange(size, dtype=np.int64) * step).reshape(-1)
    low, high = starts // granule, (starts + run - 1) // granule
    begin = int(low.min())
    flags = np.zeros(int(high.max()) + 1 - begin, np.bool_)
    for place in range(int((high - low).max()) + 1):
        flags[np.minimum(low + place, high) - begin] = True
    found = np.flatnonzero(flags) + begin
    return slice(begin, begin + len(flags)) if len(found) == len(flags) else found
