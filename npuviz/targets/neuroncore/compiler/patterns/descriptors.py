"""Make DMA descriptors from patterns: at most four sizes and steps a side, the innermost in bytes."""

from collections.abc import Sequence
from itertools import product

from npuviz.base.errors import SimulationError
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Space
from npuviz.targets.neuroncore.strides import merged, merged_together
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, DescriptorOp

MAX_DIMS = 4
MAX_DESCRIPTORS = 1 << 16


class Side:
    """One side of a movement: shape, byte steps, type."""

    __slots__ = ("dtype", "item", "offset", "shape", "steps", "variable")

    def __init__(
        self, variable: int, offset: int, dtype: str, item: int, shape: Sequence[int], steps: Sequence[int]
    ) -> None:
        self.variable = variable
        self.offset = offset
        self.dtype = dtype
        self.item = item
        self.shape = tuple(shape)
        self.steps = tuple(steps)


def hbm_side(view: HbmView) -> Side:
    """Return the side of a pattern of a variable."""
    return Side(view.variable, view.offset, view.dtype, view.itemsize, view.shape, view.steps)


def sbuf_side(view: View, partition_bytes: int) -> Side:
    """Return the side of a pattern in SBUF; its first dimension is the partition."""
    if view.space != Space.SBUF:
        raise SimulationError(f"{view!r}: DMA moves to and from SBUF only")
    item = view.itemsize
    return Side(
        SBUF,
        view.partition * partition_bytes + view.address,
        view.dtype,
        item,
        (view.partitions, *view.shape),
        (partition_bytes, *(step * item for step in view.steps)),
    )


def descriptors(to: Side, source: Side, op: DescriptorOp = "copy") -> tuple[Descriptor, ...]:
    """Return the descriptors of an element-wise movement between sides of the same shape.

    Patterns of more than four dimensions are cut into several descriptors. Raises SimulationError for
    more than MAX_DESCRIPTORS.
    """
    dims = merged_together(to.shape, (to.steps, source.steps))
    peeled: list[tuple[int, ...]] = []
    while len(_entries(dims, 1, to.item)) > MAX_DIMS or len(_entries(dims, 2, source.item)) > MAX_DIMS:
        smallest = min(range(len(dims) - 1), key=lambda index: dims[index][0])
        peeled.append(dims.pop(smallest))
    count = 1
    for dim in peeled:
        count *= dim[0]
    if count > MAX_DESCRIPTORS:
        raise SimulationError(f"a movement of shape {to.shape} would take {count} descriptors")
    to_entries = _entries(dims, 1, to.item)
    from_entries = _entries(dims, 2, source.item)
    made: list[Descriptor] = []
    for index in product(*(range(dim[0]) for dim in peeled)):
        target = _access(to, to_entries, sum(i * dim[1] for i, dim in zip(index, peeled, strict=True)))
        origin = _access(source, from_entries, sum(i * dim[2] for i, dim in zip(index, peeled, strict=True)))
        made.append(Descriptor(op, target, (origin,)))
    return tuple(made)


def transposition(to: Side, source: Side) -> Descriptor:
    """Return the descriptor of a DMA transpose: `to` [columns, rows] = `source` [rows, columns]."""
    columns, rows = to.shape
    accesses = [
        _access(each, _entries([*zip(each.shape, each.steps, strict=True)], 1, each.item), 0)
        for each in (to, source)
    ]
    shape = (columns, 1, 1, rows)
    return Descriptor("transpose", accesses[0], (accesses[1],), transpose_shape=shape, element_size=to.item)


def _entries(dims: Sequence[tuple[int, ...]], side: int, item: int) -> list[tuple[int, int]]:
    """Return (size, step) of a side, outermost first; the last one counts bytes."""
    found = merged([*((dim[0], dim[side]) for dim in dims), (item, 1)])
    if not found:
        return [(item, 1)]
    return found if found[-1][1] == 1 else [*found, (1, 1)]


def _access(side: Side, entries: list[tuple[int, int]], shift: int) -> Access:
    return Access(
        side.variable,
        side.offset + shift,
        tuple(step for _, step in reversed(entries)),
        tuple(size for size, _ in reversed(entries)),
        side.dtype,
    )
