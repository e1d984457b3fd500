"""The bytes of a chip: SBUF and PSUM of every core, and one array per variable in HBM.

Arrays stay where they are for the life of the chip, so that instructions can be planned once as
operations on ready views.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Space
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Tables, Variable
from npuviz.targets.neuroncore.values_types import NUMPY_DTYPES, converted

GRANULE = 64
"""Bytes that are known together to have been written or not."""

# Rows lie this much further apart than a partition is long: a power of two between them would put a
# column of a tile into a few sets of the processor's caches.
_PAD = 64

Dims = list[tuple[int, int]]


class ValueFault(Exception):
    """An instruction cannot be executed; the text says why. Never leaves the values engine."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Granules an operand touches: all of `flags`, or the rows `index` of it."""

    flags: np.ndarray
    index: np.ndarray | None = None

    def is_written(self) -> bool:
        """Whether all of them have been written."""
        return bool((self.flags if self.index is None else self.flags[self.index]).all())

    def mark(self) -> None:
        """Note that they have been written."""
        if self.index is None:
            self.flags.fill(True)
        else:
            self.flags[self.index] = True

    def copy(self) -> np.ndarray:
        """The flags as they are, for `restore`."""
        return self.flags.copy() if self.index is None else self.flags[self.index]

    def restore(self, saved: np.ndarray) -> None:
        """Return to the flags of `copy`."""
        self.flags[... if self.index is None else self.index] = saved


@dataclass(frozen=True, slots=True)
class Operand:
    """An access pattern on real memory.

    view  (partitions, *dims): dimensions of size 1 are dropped, neighbours merged
    count elements in each partition; dtype  isa.Dtype
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
        """The operand of an instruction. Raises ValueFault outside the memory."""
        key = dtype, partition, partitions, address, *sizes, *steps
        found = self._operands.get(key)
        if found is None:
            if len(self._operands) > 1 << 15:
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
        count = 1
        for size, _ in dims:
            count *= size
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
        """View of a DMA pattern: `offset` is partition * partition_bytes + byte, steps are linear bytes.

        Raises ValueFault outside the memory or where the pattern wraps from one partition to the next.
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
        """A dimension that runs through whole partitions, cut where partitions end."""
        count, step = dim
        size = self.partition_bytes
        if 0 < step < size and address == 0 and count * step > size and not size % step:
            per_partition = size // step
            if not count % per_partition:
                return [(count // per_partition, size), (per_partition, step)]
        return [dim]


class HbmArray:
    """A variable: `flat` holds its bytes; `written` is None where all of it has contents."""

    def __init__(self, variable: Variable, initial: np.ndarray | None) -> None:
        self.variable = variable
        self.size = variable.size_bytes
        self.dtype = numpy_dtype(variable.dtype)
        self.is_private = initial is None
        self._initial = initial
        self._flat: np.ndarray | None = None
        self._repeated: np.ndarray | None = None
        self.objects = self._initial_objects = initial if self.dtype.kind == "O" else None
        self.written = None if initial is not None else np.zeros(-(-self.size // GRANULE), np.bool_)

    @property
    def flat(self) -> np.ndarray:
        """(size,) uint8. Expands a constant of one repeated value."""
        if self._flat is None:
            self._flat = np.zeros(self.size, np.uint8) if self._initial is None else self._bytes()
        return self._flat

    def make_private(self) -> None:
        """Give a shared variable bytes of its own; views made before show the old ones."""
        if not self.is_private:
            self._flat = self.flat.copy()
            self.is_private = True

    def reset(self) -> None:
        """Return to the contents before the program started."""
        if self.is_private:
            self.flat[:] = 0 if self._initial is None else self._bytes()
            if self._initial is None and self.written is not None:
                self.written.fill(False)
        self.objects = self._initial_objects

    def _bytes(self) -> np.ndarray:
        initial = self._initial
        assert initial is not None
        if initial.dtype.hasobject:
            return np.zeros(self.size, np.uint8)
        found = np.ascontiguousarray(initial).reshape(-1).view(np.uint8)
        if len(found) == self.size:
            return found
        made = np.zeros(self.size, np.uint8)
        shorter = min(len(found), self.size)
        made[:shorter] = found[:shorter]
        return made

    def access(self, offset: int, dims: Dims, dtype: np.dtype) -> tuple[np.ndarray, list[Mask]]:
        """View of a DMA pattern of bytes. Raises ValueFault past the variable."""
        item = dtype.itemsize
        low, high = reach(dims)
        low, high = offset + low, offset + high + item
        if low < 0 or high > self.size:
            raise ValueFault(
                f"bytes {low}..{high - 1} of variable {self.variable.name!r}, which has {self.size} bytes"
            )
        shape = tuple(size for size, _ in dims)
        strides = tuple(step for _, step in dims)
        repeated = self._one_value(dtype, offset, strides)
        if repeated is not None:
            return np.broadcast_to(repeated, shape), []
        view = np.ndarray(shape, dtype, self.flat, offset, strides)
        if self.written is None:
            return view, []
        rows = touched(offset, dims, item)
        return view, [Mask(self.written[rows]) if isinstance(rows, slice) else Mask(self.written, rows)]

    def _one_value(self, dtype: np.dtype, offset: int, strides: tuple[int, ...]) -> np.ndarray | None:
        """The element that the pattern sees everywhere in a constant of one repeated value, or None.

        Such a constant is not expanded in memory.
        """
        initial = self._initial
        if self.is_private or self._flat is not None or initial is None or initial.size < 2:
            return None
        if any(initial.strides) or initial.nbytes != self.size:
            return None
        period = initial.itemsize
        data = initial.reshape(-1)[:1].tobytes()
        if data == data[:1] * period:
            period = 1
        if offset % period or dtype.itemsize % period or any(step % period for step in strides):
            return None
        return np.frombuffer(data[:period] * (dtype.itemsize // period), dtype).reshape(())

    def array(self) -> np.ndarray:
        """The contents as the variable's shape and type; a view, or the objects of text."""
        if self.dtype.kind == "O":
            return self.objects if self.objects is not None else np.full(self.variable.shape, "", self.dtype)
        count = 1
        for size in self.variable.shape:
            count *= size
        if count * self.dtype.itemsize > self.size:
            return self.flat
        return self.flat[: count * self.dtype.itemsize].view(self.dtype).reshape(self.variable.shape)


class Chip:
    """All memories of a program's machine, and the state of the engines that computes values.

    inputs  graph input name -> array; cast to the type of the input's variable
    """

    def __init__(
        self, tables: Tables, graph: Graph, spec: NeuronSpec, inputs: Mapping[str, np.ndarray]
    ) -> None:
        cores = range(tables.num_cores)
        self.spec = spec
        self.sbuf = [Sram("SBUF", spec.sbuf_partition_bytes) for _ in cores]
        self.psum = [Sram("PSUM", spec.psum_partition_bytes) for _ in cores]
        self.accumulators = [np.zeros(NUM_PARTITIONS, np.float32) for _ in cores]
        self.table_sets = np.full(tables.num_cores, -1, np.int64)
        self.variables = [
            HbmArray(variable, _initial(variable, graph, inputs)) for variable in tables.variables
        ]
        self.num_private = 0
        self._scratch: dict[tuple[int, str], np.ndarray] = {}

    def sram(self, core: int, space: int) -> Sram:
        """The memory of an operand. Raises ValueFault for no memory."""
        if space == Space.SBUF:
            return self.sbuf[core]
        if space == Space.PSUM:
            return self.psum[core]
        raise ValueFault("an operand is missing")

    def own(self, array: HbmArray) -> None:
        """Make sure that a variable can be written. Views of it made before may be stale then."""
        if not array.is_private:
            array.make_private()
            self.num_private += 1

    def access(self, core: int, access: Access, dims: Dims, dtype: np.dtype) -> tuple[np.ndarray, list[Mask]]:
        """View of a descriptor's access with its dimensions outermost first."""
        if access.variable == SBUF:
            return self.sbuf[core].access(access.offset, dims, dtype)
        if not 0 <= access.variable < len(self.variables):
            raise ValueFault(f"variable {access.variable} does not exist")
        return self.variables[access.variable].access(access.offset, dims, dtype)

    def scratch(self, slot: int, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """A contiguous temporary array; one of the same slot is the same memory."""
        count = 1
        for size in shape:
            count *= size
        found = self._scratch.get((slot, dtype))
        if found is None or len(found) < count:
            found = self._scratch[slot, dtype] = np.empty(max(count, 1 << 16), dtype)
        return found[:count].reshape(shape)


def _initial(variable: Variable, graph: Graph, inputs: Mapping[str, np.ndarray]) -> np.ndarray | None:
    if variable.kind == "constant":
        return variable.data
    if variable.kind != "input":
        return None
    dtype = numpy_dtype(variable.dtype)
    name = graph.tensors[variable.tensor].name if 0 <= variable.tensor < len(graph.tensors) else variable.name
    values = inputs.get(name)
    if values is None:
        return np.zeros(variable.shape, dtype)
    return np.ascontiguousarray(values) if values.dtype == dtype else converted(np.asarray(values), dtype)


def merged(dims: Sequence[tuple[int, int]]) -> Dims:
    """The same pattern with fewest dimensions, outermost first."""
    made: Dims = []
    for size, step in dims:
        if size == 1:
            continue
        if made and made[-1][1] == step * size:
            made[-1] = (made[-1][0] * size, step)
        else:
            made.append((size, step))
    return made


def reach(dims: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Lowest and highest offset of a pattern."""
    low = high = 0
    for size, step in dims:
        if step < 0:
            low += (size - 1) * step
        else:
            high += (size - 1) * step
    return low, high


def touched(offset: int, dims: Dims, item: int, granule: int = GRANULE) -> slice | np.ndarray:
    """Granules that a pattern touches: a slice, or an array of their numbers if some are left out."""
    ordered = sorted(dims, key=lambda dim: abs(dim[1]))
    # Runs without a gap in which a whole granule could lie.
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
