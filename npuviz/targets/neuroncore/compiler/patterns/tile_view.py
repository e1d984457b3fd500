"""Views: access patterns of tiles in SBUF and PSUM, sliced, reshaped and permuted like numpy arrays."""

import struct
from collections.abc import Sequence
from math import prod

from npuviz.base.errors import SimulationError
from npuviz.targets.neuroncore import strides
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.isa import DTYPE_BYTES, DTYPE_NAMES, NUM_PARTITIONS, Space

DTYPE_CODES: dict[str, int] = {name: code for code, name in enumerate(DTYPE_NAMES)}
"""Code (isa.Dtype) of each element type name."""
ITEM_BYTES: dict[str, int] = dict(zip(DTYPE_NAMES, DTYPE_BYTES, strict=True))

MAX_SIZE = 65535
MIN_STEP, MAX_STEP = -32768, 32767
_OPERAND = struct.Struct("<BBBBI4H4h8x")


class View:
    """An immutable pattern of a tile's elements (partition, *free), the same in every partition.

    tile      allocation the bytes belong to
    partition, partitions  first partition and their number
    address   byte offset of the first element in each partition
    dtype     name of isa.DTYPE_NAMES
    shape, steps  free dimensions, outermost first; steps in elements
    """

    __slots__ = ("_box", "_packed", "address", "dtype", "partition", "partitions", "shape", "steps", "tile")

    def __init__(
        self,
        tile: Tile,
        partition: int,
        partitions: int,
        address: int,
        dtype: str,
        shape: tuple[int, ...],
        steps: tuple[int, ...] | None = None,
    ) -> None:
        self.tile = tile
        self.partition = partition
        self.partitions = partitions
        self.address = address
        self.dtype = dtype
        self.shape = shape
        self.steps = strides.dense_steps(shape) if steps is None else steps
        self._packed: bytes | None = None
        self._box: tuple[int, int, int, int] | None = None

    def __repr__(self) -> str:
        first, end = self.partition, self.partition + self.partitions
        return f"{self.space.name}[{first}:{end}, {self.address:#x}] {self.dtype}{self.shape}/{self.steps}"

    @property
    def space(self) -> Space:
        """SBUF or PSUM."""
        return self.tile.space

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return ITEM_BYTES[self.dtype]

    @property
    def free_size(self) -> int:
        """Elements in each partition."""
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements of a partition are contiguous."""
        return len(strides.merged(zip(self.shape, self.steps, strict=True))) <= 1 and (
            self.free_size == 1 or self._inner_step() == 1
        )

    def _inner_step(self) -> int:
        dims = strides.merged(zip(self.shape, self.steps, strict=True))
        return dims[-1][1] if dims else 1

    def __getitem__(self, key: object) -> "View":
        """Slice (partition, *free); an int drops a free dimension, but keeps one partition."""
        items = strides.expanded_key(key if isinstance(key, tuple) else (key,), len(self.shape) + 1)
        first = items[0]
        if isinstance(first, slice):
            start, stop, stride = first.indices(self.partitions)
            if stride != 1:
                raise IndexError("partitions are sliced with step 1")
            count = max(0, stop - start)
        else:
            start, _, _ = strides.sliced((self.partitions,), (1,), (first,))
            count = 1
        offset, shape, steps = strides.sliced(self.shape, self.steps, items[1:])
        return View(
            self.tile,
            self.partition + start,
            count,
            self.address + offset * ITEM_BYTES[self.dtype],
            self.dtype,
            shape,
            steps,
        )

    def reshape(self, *free: int) -> "View":
        """Return the elements with other free dimensions (one may be -1). Raises ValueError if not a view."""
        shape = strides.resolved_shape(self.free_size, free)
        return self._with(shape, strides.reshaped_steps(self.shape, self.steps, shape))

    def permute(self, *free_axes: int) -> "View":
        """Return the view with its free dimensions in another order; axis 0 is the first free dimension."""
        if sorted(free_axes) != list(range(len(self.shape))):
            raise ValueError(f"{free_axes} is no order of {len(self.shape)} free dimensions")
        return self._with(
            tuple(self.shape[axis] for axis in free_axes), tuple(self.steps[axis] for axis in free_axes)
        )

    def broadcast(self, *free: int) -> "View":
        """Return the view with free dimensions of size 1 repeated to `free`; missing leading ones are
        added.
        """
        extra = len(free) - len(self.shape)
        if extra < 0:
            raise ValueError(f"cannot broadcast {self.shape} to {free}")
        steps: list[int] = [0] * extra
        for size, step, wanted in zip(self.shape, self.steps, free[extra:], strict=True):
            if size not in (1, wanted):
                raise ValueError(f"cannot broadcast {self.shape} to {free}")
            steps.append(step if size == wanted else 0)
        return self._with(free, tuple(steps))

    def bitcast(self, dtype: str) -> "View":
        """Return the bytes as another type; another item size needs a dense innermost dimension that fits."""
        old, new = ITEM_BYTES[self.dtype], ITEM_BYTES[dtype]
        shape, steps = bitcast_dims(self.shape, self.steps, old, new)
        return View(self.tile, self.partition, self.partitions, self.address, dtype, shape, steps)

    def _with(self, shape: tuple[int, ...], steps: tuple[int, ...]) -> "View":
        return View(self.tile, self.partition, self.partitions, self.address, self.dtype, shape, steps)

    # For the builder ----------------------------------------------------------------------

    def box(self) -> tuple[int, int, int, int]:
        """Return the box (first partition, end partition, first byte, end byte) around the elements."""
        found = self._box
        if found is None:
            item = ITEM_BYTES[self.dtype]
            low, high = strides.extent(self.shape, self.steps)
            found = self._box = (
                self.partition,
                self.partition + self.partitions,
                self.address + low * item,
                self.address + (high + 1) * item,
            )
        return found

    def packed(self) -> bytes:
        """Pack the view as isa.OPERAND_DTYPE. Raises SimulationError if operands cannot express it."""
        found = self._packed
        if found is None:
            found = self._packed = self._pack()
        return found

    def for_reduction(self, num_inner: int) -> tuple["View", int]:
        """Return the view with its `num_inner` innermost dimensions encoded apart from the others.

        Also returns the number of encoded dimensions of the inner ones.
        """
        split = len(self.shape) - num_inner
        outer = strides.merged(zip(self.shape[:split], self.steps[:split], strict=True))
        inner = strides.merged(zip(self.shape[split:], self.steps[split:], strict=True)) or [(1, 0)]
        copy = self._with(self.shape, self.steps)
        copy._packed = copy._pack([*outer, *inner])  # noqa: SLF001 - of this class
        return copy, len(inner)

    def packed_as(self, dims: strides.Dims) -> bytes:
        """Pack the view with its elements, in the same order, in at most four given dimensions."""
        return self._pack(dims)

    def _pack(self, dims: strides.Dims | None = None) -> bytes:
        self._check()
        if dims is None:
            dims = strides.merged(zip(self.shape, self.steps, strict=True))
        if len(dims) > 4:
            raise SimulationError(f"{self!r} needs {len(dims)} free dimensions, engines have 4")
        for size, step in dims:
            if size > MAX_SIZE or not MIN_STEP <= step <= MAX_STEP:
                raise SimulationError(
                    f"{self!r}: size {size} or step {step} does not fit 16 bits; tile it smaller"
                )
        missing = 4 - len(dims)
        return _OPERAND.pack(
            self.tile.space,
            DTYPE_CODES[self.dtype],
            self.partition,
            self.partitions,
            self.address,
            *(1,) * missing,
            *(size for size, _ in dims),
            *(0,) * missing,
            *(step for _, step in dims),
        )

    def _check(self) -> None:
        # Ref: ARCH2, start partitions of tensor accesses.
        first, count = self.partition, self.partitions
        allowed = 128 if count > 64 else 64 if count > 32 else 32
        if count < 1 or first + count > NUM_PARTITIONS or first % allowed:
            raise SimulationError(f"{self!r}: {count} partitions may not start at partition {first}")
        if 0 in self.shape:
            raise SimulationError(f"{self!r} has no elements")
        _, _, low, high = self.box()
        if low < self.tile.address or high > self.tile.address + self.tile.size:
            raise SimulationError(
                f"{self!r} leaves its tile {self.tile.address:#x}..{self.tile.address + self.tile.size:#x}"
            )


def packed_pattern(dims: strides.Dims) -> bytes:
    """Pack sizes and steps (at most four, outermost first) as an operand of isa.Space.PATTERN."""
    if len(dims) > 4 or any(size > MAX_SIZE or not MIN_STEP <= step <= MAX_STEP for size, step in dims):
        raise SimulationError(f"{dims} does not fit a pattern of four 16-bit sizes and steps")
    missing = 4 - len(dims)
    sizes = (*(1,) * missing, *(size for size, _ in dims))
    steps = (*(0,) * missing, *(step for _, step in dims))
    return _OPERAND.pack(Space.PATTERN, 0, 0, 0, 0, *sizes, *steps)


def packed_order(order: Sequence[int]) -> bytes:
    """Pack the 32 bytes of a shuffle's order as two operands of isa.Space.PATTERN."""
    if len(order) != 32 or any(not 0 <= each <= 255 for each in order):
        raise SimulationError(f"a shuffle names 32 partitions (255: kept), found {list(order)}")
    data = bytes(order)
    parts = (struct.unpack("<4H4h", data[at : at + 16]) for at in (0, 16))
    return b"".join(_OPERAND.pack(Space.PATTERN, 0, 0, 0, 0, *part) for part in parts)


def bitcast_dims(
    shape: tuple[int, ...], steps: tuple[int, ...], old: int, new: int, in_bytes: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and steps of elements of `old` bytes viewed as elements of `new` bytes.

    in_bytes  whether steps count bytes, not elements

    Raises ValueError if the innermost dimension is not dense or does not divide.
    """
    if old == new:
        return shape, steps
    byte_steps = steps if in_bytes else tuple(step * old for step in steps)
    is_dense = bool(shape) and (shape[-1] == 1 or byte_steps[-1] == old)
    units = (1,) if in_bytes else (new,)
    if not is_dense or (shape[-1] * old) % new or any(step % units[0] for step in byte_steps[:-1]):
        raise ValueError(f"{shape} of {old} bytes with steps {steps} cannot be taken as {new} bytes")
    last = shape[-1] * old // new
    made = (*byte_steps[:-1], new)
    return (*shape[:-1], last), tuple(step // units[0] for step in made)
