"""Layers that walk over a tensor in storage order, chunk by chunk: vector work without an array.

The output's axes in storage order are merged as far as all operands allow. A tile owns one index of
every axis before the split axis, a range of the split axis, and all of the axes behind it; so what it
needs of every operand is one contiguous run of bytes.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, ceil_div, round_up
from npuviz.targets.systolic.values.storage import Storage

MAX_BASES = 8
MIN_CHUNK_BYTES = 4096
"""Assumed: tiles smaller than this cost more in latency than a further core gains."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An input of a chunked layer: `extents` are its sizes along the merged axes (1: broadcast)."""

    tensor: int
    extents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """Merged axes of the output and how they are cut.

    split  index of the axis that tiles take ranges of; chunk  its largest range
    """

    axes: tuple[int, ...]
    split: int
    chunk: int

    @property
    def num_tiles(self) -> int:
        """Tiles of the layer."""
        return prod(self.axes[: self.split]) * ceil_div(self.axes[self.split], self.chunk)


def stored_extents(storage: Storage, axes: Sequence[int], order: Sequence[int]) -> tuple[int, ...] | None:
    """Return the sizes of an operand along the output's axes in storage order, or None if it lies
    differently."""
    rank = len(order)
    shape = (1,) * (rank - len(storage.shape)) + storage.shape
    if len(shape) > rank:
        return None
    extents = tuple(shape[axis] for axis in order)
    if any(size not in (1, full) for size, full in zip(extents, axes, strict=True)):
        return None
    shift = rank - len(storage.shape)
    own = [axis + shift for axis in storage.order if storage.shape[axis] > 1]
    return extents if own == [axis for axis in order if shape[axis] > 1] else None


def middle_axes(storage: Storage, axes: Collection[int]) -> tuple[int, int, int]:
    """Return the number of elements before, in and behind some axes in DRAM order.

    Axes of size 1 lie anywhere. Raises CannotLower if others lie in between.
    """
    shape, order = storage.shape, storage.order
    places = [place for place, axis in enumerate(order) if axis in axes and shape[axis] > 1]
    if not places:
        return prod(shape), 1, 1
    between = range(places[0], places[-1] + 1)
    if any(order[place] not in axes and shape[order[place]] > 1 for place in between):
        raise CannotLower("the axes it works on are not neighbours in DRAM")
    outer = prod(shape[order[place]] for place in range(places[0]))
    middle = prod(shape[order[place]] for place in between)
    return outer, middle, prod(shape) // (outer * middle)


def merge_axes(
    axes: Sequence[int], operands: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Merge neighbouring axes that every operand has in full or broadcasts."""
    kept: list[int] = []
    columns: list[list[int]] = []
    for position, size in enumerate(axes):
        sizes = [extents[position] for extents in operands]
        if size == 1:
            continue
        if kept and _same_kind(columns[-1], kept[-1], sizes, size):
            kept[-1] *= size
            columns[-1] = [a * b for a, b in zip(columns[-1], sizes, strict=True)]
        else:
            kept.append(size)
            columns.append(sizes)
    if not kept:
        kept, columns = [1], [[1] * len(operands)]
    return tuple(kept), [tuple(column[i] for column in columns) for i in range(len(operands))]


def _same_kind(before: Sequence[int], full: int, sizes: Sequence[int], size: int) -> bool:
    return all((a == full) == (b == size) for a, b in zip(before, sizes, strict=True))


def plan_walk(
    lowering: Lowering, output: int, inputs: Sequence[int], words: int = 1
) -> tuple[Walk, list[Operand]]:
    """Plan the walk over an output whose inputs broadcast to it.

    words  words of the accumulator that a tile needs for each element
    """
    target = lowering.storage(output)
    extents: list[tuple[int, ...]] = []
    for index in inputs:
        found = stored_extents(lowering.storage(index), target.stored_shape, target.order)
        if found is None:
            raise CannotLower("operands lie in different orders in DRAM")
        extents.append(found)
    axes, merged = merge_axes(target.stored_shape, extents)
    items = [(sizes, lowering.storage(index).item_bytes) for sizes, index in zip(merged, inputs, strict=True)]
    walk = choose_walk(lowering, axes, items, lambda elements: words * (elements * ACC_BYTES + 64))
    return walk, [Operand(index, sizes) for index, sizes in zip(inputs, merged, strict=True)]


def choose_walk(
    lowering: Lowering,
    axes: tuple[int, ...],
    operands: Sequence[tuple[Sequence[int], int]],
    acc_entries: Callable[[int], int],
    whole: int = 0,
) -> Walk:
    """Cut the axes so that a tile fits and the cores are busy.

    operands     extents along the axes and bytes per element of everything a tile loads
    acc_entries  elements of a tile's output -> accumulator bytes it needs
    whole        how many innermost axes must stay uncut
    """
    resources = lowering.resources
    for split in range(len(axes) - whole):
        inner = prod(axes[split + 1 :])

        def fits(chunk: int, split: int = split, inner: int = inner) -> bool:
            spad = sum(
                round_up(_run(extents, split, chunk) * item, resources.request_bytes)
                for extents, item in operands
            )
            return spad <= resources.spad_half and acc_entries(chunk * inner) <= resources.acc_half

        if not fits(1):
            continue
        largest = _largest(axes[split], fits)
        outer = prod(axes[:split])
        if outer * ceil_div(axes[split], largest) < resources.num_cores or outer == 1:
            largest = _spread(lowering, axes, split, largest, outer, inner)
        return Walk(axes, split, largest)
    raise CannotLower("one row is larger than half of the scratchpad or accumulator")


def _largest(size: int, fits: Callable[[int], bool]) -> int:
    low, high = 1, size
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _spread(
    lowering: Lowering, axes: tuple[int, ...], split: int, largest: int, outer: int, inner: int
) -> int:
    """Choose a chunk of at most `largest` that gives every core the same number of tiles where possible."""
    cores, size = lowering.resources.num_cores, axes[split]
    count = ceil_div(size, largest) * outer
    per_axis = ceil_div(round_up(count, cores), outer)
    floor = max(1, ceil_div(MIN_CHUNK_BYTES, inner * ACC_BYTES))
    chunk = min(largest, max(ceil_div(size, per_axis), min(floor, largest)))
    if inner == 1 and chunk > 64:
        chunk = min(largest // 64 * 64 if largest > 64 else largest, round_up(chunk, 64))
    return chunk


def _run(extents: Sequence[int], split: int, chunk: int) -> int:
    """Return the number of elements of an operand that a tile loads."""
    return (chunk if extents[split] > 1 else 1) * prod(extents[split + 1 :])


@dataclass
class Chunk:
    """The tile template being written: its entries and their shapes.

    words   operand words of the loaded operands, in order
    shape   shape of the output part: (range of the split axis, inner axes ...)
    out     accumulator word of the output
    """

    template: Template
    acc: Half
    words: list[int]
    shape: tuple[int, ...]
    out: int
    tensor: int

    @property
    def num_elements(self) -> int:
        """Output elements of the tile."""
        return prod(self.shape)

    def temporary(self, key: str, elements: int) -> int:
        """Return an accumulator word for an intermediate result."""
        return self.acc.entry(key, elements * ACC_BYTES)

    def vector(
        self,
        opcode: int,
        sources: Sequence[int],
        destination: int,
        aux: int,
        elements: int = 0,
        rows: int = 1,
        result: int = 0,
    ) -> None:
        """Write a vector instruction on accumulator elements.

        elements  elements of a row it works on (0: all of the tile's); rows: its tile_m
        result    elements of the destination (0: as many as it works on)
        """
        pair = (sources[0], sources[1] if len(sources) > 1 else 0)
        worked = elements or self.num_elements
        size = (result or worked * rows) * ACC_BYTES
        self.template.vector(
            opcode,
            pair,
            destination,
            vbytes=worked * ACC_BYTES,
            tile_m=rows,
            size=size,
            tensor=self.tensor,
            aux=aux,
        )


def lower_chunks(
    lowering: Lowering,
    node: Node,
    output: int,
    operands: Sequence[Operand],
    walk: Walk,
    write: Callable[[Chunk], None],
    out_extents: tuple[int, ...] | None = None,
) -> None:
    """Write the layer of a chunked operator; `write` emits the vector instructions of a template.

    out_extents  sizes of the output along the axes if it is smaller than them (reductions)
    """
    if len(operands) + 1 > MAX_BASES:
        raise CannotLower(f"more than {MAX_BASES - 1} operands")
    builder, split = lowering.builder, walk.split
    target = Operand(output, out_extents or walk.axes)
    builder.begin_layer(node.name or node.op_type, node.id)
    spad = Half(builder.scratchpad_entry, lowering.resources.request_bytes, lowering.resources.spad_half)
    acc = Half(builder.accumulator_entry, lowering.resources.request_bytes, lowering.resources.acc_half)

    def write_template(size: int, template: Template) -> None:
        words: list[int] = []
        for position, operand in enumerate(operands):
            storage = lowering.storage(operand.tensor)
            length = _run(operand.extents, split, size) * storage.item_bytes
            word = spad.entry(position, length)
            shape = tuple(
                (size if extent > 1 else 1) if axis == split else extent
                for axis, extent in enumerate(operand.extents)
                if axis >= split
            )
            rows = Rows(base=position, offset=0, length=length)
            template.movin(word, rows, size=length, tensor=storage.root, aux=lowering.shape(shape))
            words.append(word)
        shape = (size, *walk.axes[split + 1 :])
        root = lowering.storage(output)
        out_elements = _run(target.extents, split, size)
        out = acc.entry("out", out_elements * max(ACC_BYTES, root.item_bytes))
        write(Chunk(template, acc, words, shape, out, root.root))
        rows = Rows(base=len(operands), offset=0, length=out_elements * root.item_bytes)
        template.movout(out, rows, tensor=root.root)

    starts, outer = _tile_starts(walk)
    sizes = np.minimum(walk.chunk, walk.axes[split] - starts)
    ids = np.zeros(len(starts), dtype=np.int64)
    for size in sorted({int(value) for value in sizes}, reverse=True):
        ids[sizes == size] = builder.template(
            size, lambda template, size=size: write_template(size, template)
        )
    bases = [
        lowering.storage(item.tensor).address
        + _element_offsets(item.extents, walk, starts, outer) * lowering.storage(item.tensor).item_bytes
        for item in (*operands, target)
    ]
    cores = np.arange(len(starts)) % lowering.resources.num_cores
    coords = np.stack([np.arange(len(starts)), starts], axis=1)
    builder.add_tiles(ids, np.stack(bases, axis=1), cores=cores, coords=coords)
    builder.end_layer()
    lowering.add_layer(node, [operand.tensor for operand in operands], [output])


def _tile_starts(walk: Walk) -> tuple[np.ndarray, np.ndarray]:
    """Return the start on the split axis and the flat outer index of every tile."""
    per_axis = ceil_div(walk.axes[walk.split], walk.chunk)
    outer = prod(walk.axes[: walk.split])
    index = np.arange(outer * per_axis, dtype=np.int64)
    return index % per_axis * walk.chunk, index // per_axis


def _element_offsets(
    extents: tuple[int, ...], walk: Walk, starts: np.ndarray, outer: np.ndarray
) -> np.ndarray:
    """Return the element offset of every tile's run in an operand with these extents."""
    step = prod(extents[walk.split + 1 :])
    offsets = starts * step if extents[walk.split] > 1 else np.zeros_like(starts)
    step *= extents[walk.split]
    rest = outer
    for axis in reversed(range(walk.split)):
        if extents[axis] > 1:
            offsets = offsets + rest % walk.axes[axis] * step
        rest = rest // walk.axes[axis]
        step *= extents[axis]
    return offsets
