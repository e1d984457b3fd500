"""All memories of a program's machine: SBUF and PSUM of every core, one array per variable in HBM."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Space
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Tables, Variable
from npuviz.targets.neuroncore.values.element_types import converted
from npuviz.targets.neuroncore.values.memory import GRANULE, Dims, Mask, Sram, ValueFault, reach, touched


class HbmArray:
    """A variable in HBM: `flat` holds its bytes; `written` is None if all bytes have contents from the
    start.
    """

    def __init__(self, variable: Variable, initial: np.ndarray | None) -> None:
        self.variable = variable
        self.size = variable.size_bytes
        self.dtype = numpy_dtype(variable.dtype)
        self.is_private = initial is None
        self._initial = initial
        self._flat: np.ndarray | None = None
        self.objects = self._initial_objects = initial if self.dtype.kind == "O" else None
        self.written = None if initial is not None else np.zeros(-(-self.size // GRANULE), np.bool_)

    @property
    def flat(self) -> np.ndarray:
        """The bytes, (size,) uint8; expands a constant of one repeated value."""
        if self._flat is None:
            self._flat = np.zeros(self.size, np.uint8) if self._initial is None else self._bytes()
        return self._flat

    def make_private(self) -> None:
        """Copy the bytes of a shared variable, to be changed; earlier views still show the old ones."""
        if not self.is_private:
            self._flat = self.flat.copy()
            self.is_private = True

    def reset(self) -> None:
        """Restore the contents from before the program started."""
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
        """Return a view of a DMA pattern of bytes, and its masks. Raises ValueFault outside the variable."""
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
        """Return the element that the pattern has everywhere in a constant of one repeated value, or None.

        This way such a constant is not expanded in memory.
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
        """Return the contents in the variable's shape and type: a view, or an array of objects for text."""
        if self.dtype.kind == "O":
            return self.objects if self.objects is not None else np.full(self.variable.shape, "", self.dtype)
        count = prod(self.variable.shape)
        if count * self.dtype.itemsize > self.size:
            return self.flat
        return self.flat[: count * self.dtype.itemsize].view(self.dtype).reshape(self.variable.shape)


class Chip:
    """All memories of a program's machine, and the state of its engines that values depend on.

    inputs        graph input name -> array; cast to the type of the input's variable
    accumulators  of each core's Scalar engine, then of each core's Vector engine
    """

    def __init__(
        self, tables: Tables, graph: Graph, spec: NeuronSpec, inputs: Mapping[str, np.ndarray]
    ) -> None:
        cores = range(tables.num_cores)
        self.spec = spec
        self.sbuf = [Sram("SBUF", spec.sbuf_partition_bytes) for _ in cores]
        self.psum = [Sram("PSUM", spec.psum_partition_bytes) for _ in cores]
        self.accumulators = [np.zeros(NUM_PARTITIONS, np.float32) for _ in range(2 * tables.num_cores)]
        self.table_sets = np.full(tables.num_cores, -1, np.int64)
        self.variables = [
            HbmArray(variable, _initial(variable, graph, inputs)) for variable in tables.variables
        ]
        self.num_private = 0
        self._scratch: dict[tuple[int, str], np.ndarray] = {}

    def sram(self, core: int, space: int) -> Sram:
        """Return the memory of an operand. Raises ValueFault if the space is none."""
        if space == Space.SBUF:
            return self.sbuf[core]
        if space == Space.PSUM:
            return self.psum[core]
        raise ValueFault("an operand is missing")

    def own(self, array: HbmArray) -> None:
        """Make a variable writable; earlier views of it may be stale afterwards."""
        if not array.is_private:
            array.make_private()
            self.num_private += 1

    def access(self, core: int, access: Access, dims: Dims, dtype: np.dtype) -> tuple[np.ndarray, list[Mask]]:
        """Return a view of a descriptor's access, with dimensions outermost first, and its masks."""
        if access.variable == SBUF:
            return self.sbuf[core].access(access.offset, dims, dtype)
        if not 0 <= access.variable < len(self.variables):
            raise ValueFault(f"variable {access.variable} does not exist")
        return self.variables[access.variable].access(access.offset, dims, dtype)

    def scratch(self, slot: int, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """Return a contiguous temporary array; arrays of the same slot share memory."""
        count = prod(shape)
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
