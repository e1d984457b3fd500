"""Operators that move rows which a run picks: Gather, GatherND, GatherElements, ScatterND, ScatterElements.

A tile loads its indices, the vector unit makes byte offsets of them, and each row is one move: a load at
such an offset (gathering), or a store to one behind a copy of what the result begins with (scattering).

Assumed: a core moves rows at addresses that it computed, and a tile's stores reach DRAM in their order.
Requests of such moves go to places spread evenly over the tensor, since times do not depend on values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.operators.copies import MAX_ENTRIES, Axis, Move, lower_moves
from npuviz.targets.systolic.compiler.template import Pick, Rows, Template
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, ceil_div, round_up
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.plan import Apply

MAX_PICKED = 1 << 14
"""Most rows that an operator picks one by one. Assumed: with more, its program is too long."""

INDICES, SOURCE, TARGET, DATA = range(4)


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows that are moved one by one, between a tensor in which they are picked and one in which they follow
    each other.

    indices       tensor with the indices, `width` of them for each row; -> `sizes` of the axes they select on
                  and the `strides` of those axes in bytes
    count         number of rows
    known         number of a row -> byte offset in the tensor of picked rows where all of its indices are 0
    length        bytes of a row
    outer         how often a row is repeated with the strides `picked_stride` and `other_stride`
    """

    indices: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    count: int
    known: Callable[[int], int]
    length: int
    outer: int = 1
    picked_stride: int = 0
    other_stride: int = 0

    @property
    def width(self) -> int:
        """Number of indices of a row."""
        return len(self.sizes)

    def assumed(self, number: int) -> int:
        """Return the byte offset that stands for a picked row in requests: rows are spread evenly."""
        places = prod(self.sizes)
        place, offset = number * places // self.count, 0
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            place, index = divmod(place, size)
            offset += index * stride
        return offset


def _strides(shape: Sequence[int], item: int) -> tuple[int, ...]:
    return tuple(item * prod(shape[axis + 1 :]) for axis in range(len(shape)))


def gathered_rows(lowering: Lowering, node: Node) -> Picked:
    """Return the rows that Gather picks along an axis."""
    source, indices = lowering.storage(node.inputs[0]), lowering.storage(node.inputs[1])
    axis = attributes_of(node).axis(len(source.shape))
    count, row = prod(indices.shape), source.item_bytes * prod(source.shape[axis + 1 :])
    outer, size = prod(source.shape[:axis]), source.shape[axis]
    return Picked(indices.tensor, (size,), (row,), count, lambda _: 0, row, outer, size * row, count * row)


def rows_of_tuples(lowering: Lowering, node: Node) -> Picked:
    """Return the rows of the first input that GatherND reads, or ScatterND writes, by tuples of indices."""
    data, indices = lowering.storage(node.inputs[0]), lowering.storage(node.inputs[1])
    batch = attributes_of(node).integer("batch_dims") if node.op_type == "GatherND" else 0
    width = indices.shape[-1]
    count, strides = prod(indices.shape[:-1]), _strides(data.shape, data.item_bytes)
    chosen = slice(batch, batch + width)
    length = data.item_bytes * prod(data.shape[batch + width :])
    each = count // max(1, prod(data.shape[:batch]))
    block = data.item_bytes * prod(data.shape[batch:])
    return Picked(
        indices.tensor, data.shape[chosen], strides[chosen], count, lambda row: row // each * block, length
    )


def elements(lowering: Lowering, node: Node) -> Picked:
    """Return the elements of the first input that GatherElements reads, or ScatterElements writes."""
    data, indices = lowering.storage(node.inputs[0]), lowering.storage(node.inputs[1])
    axis = attributes_of(node).axis(len(data.shape))
    strides, shape = _strides(data.shape, data.item_bytes), indices.shape
    own = [0 if place == axis else stride for place, stride in enumerate(strides)]

    def known(number: int) -> int:
        return sum(
            int(index) * stride for index, stride in zip(np.unravel_index(number, shape), own, strict=True)
        )

    chosen = slice(axis, axis + 1)
    count = prod(shape)
    return Picked(indices.tensor, data.shape[chosen], strides[chosen], count, known, data.item_bytes)


def lower_gathering(lowering: Lowering, node: Node, picked: Picked) -> None:
    """Write the layer that loads picked rows and stores them one behind the other."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    _require(lowering, node, picked)
    resources, builder = lowering.resources, lowering.builder
    size = picked.outer * picked.length
    own = round_up(size, resources.request_bytes) + picked.width * lowering.storage(picked.indices).item_bytes
    most = (resources.spad_half - resources.request_bytes) // own
    if most < 1:
        raise CannotLower("one row is larger than half of the scratchpad", f"{size} bytes")
    group = min(MAX_ENTRIES, most, ceil_div(picked.count, resources.num_cores))
    builder.begin_layer(node.name or node.op_type, node.id)
    for core, first in enumerate(range(0, picked.count, group)):
        count = min(group, picked.count - first)
        write = partial(_write_gathered, lowering, node, picked, range(first, first + count))
        tile = builder.template((first, count), write)
        bases = [lowering.storage(index).address for index in (picked.indices, source.tensor, output.tensor)]
        builder.add_tile(tile, bases, core=core % resources.num_cores, coord=(first,))
    builder.end_layer()
    lowering.add_layer(node, (source.tensor, picked.indices), (output.tensor,))


def lower_scattering(lowering: Lowering, node: Node, picked: Picked) -> None:
    """Write the layer that copies the first input and stores rows of the last one over it, in one tile, since
    a picked row may lie anywhere."""
    data, updates, output = (
        lowering.storage(index) for index in (node.inputs[0], node.inputs[2], node.outputs[0])
    )
    if attributes_of(node).text("reduction", "none") != "none":
        raise CannotLower("moves replace rows, they do not combine them", change="reduction none")
    if not updates.is_row_major or updates.dtype != output.dtype:
        raise CannotLower("the updates lie in another order or type than the result")
    if picked.count == 0:
        axis = Axis(prod(data.shape), data.item_bytes, data.item_bytes)
        _require_alike(lowering, node)
        lower_moves(lowering, node, [Move(data.tensor, output.tensor, (axis,))])
        return
    _require(lowering, node, picked)
    resources, builder = lowering.resources, lowering.builder
    size = round_up(data.size_bytes, resources.request_bytes)
    size += picked.count * round_up(picked.length, resources.request_bytes)
    size += lowering.storage(picked.indices).size_bytes
    if size > resources.spad_half:
        raise CannotLower("a tensor and updates of which half a scratchpad holds all", f"{size} bytes")
    builder.begin_layer(node.name or node.op_type, node.id)
    whole = builder.template("whole", partial(_write_scattered, lowering, node, picked))
    tensors = (picked.indices, updates.tensor, output.tensor, data.tensor)
    builder.add_tile(whole, [lowering.storage(index).address for index in tensors], core=0)
    builder.end_layer()
    lowering.add_layer(node, (data.tensor, picked.indices, updates.tensor), (output.tensor,))


def _require_alike(lowering: Lowering, node: Node) -> None:
    data, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    if not data.is_row_major or not output.is_row_major:
        raise CannotLower("rows that do not follow each other in DRAM")
    if data.dtype != output.dtype:
        raise CannotLower("source and destination have different element types")


def _require(lowering: Lowering, node: Node, picked: Picked) -> None:
    """Raise CannotLower for what rows cannot be picked of."""
    _require_alike(lowering, node)
    indices = lowering.storage(picked.indices)
    if not indices.is_row_major or picked.width == 0 or 0 in picked.sizes or picked.length == 0:
        raise CannotLower("indices that name no rows")
    if picked.count > MAX_PICKED:
        raise CannotLower(f"{MAX_PICKED} rows are picked one by one", str(picked.count))


def _halves(lowering: Lowering) -> tuple[Half, Half]:
    resources, builder = lowering.resources, lowering.builder
    spad = Half(builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
    return spad, Half(builder.accumulator_entry, resources.request_bytes, resources.acc_half)


def _write_gathered(
    lowering: Lowering, node: Node, picked: Picked, numbers: range, template: Template
) -> None:
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    halves = _halves(lowering)
    offsets = _write_offsets(lowering, node, picked, numbers, template, halves)
    aux = lowering.shape((picked.outer, picked.length // source.item_bytes))
    words: list[int] = []
    for place, number in enumerate(numbers):
        word = halves[0].entry(("row", place), picked.outer * picked.length)
        rows = Rows(SOURCE, picked.known(number), picked.length, picked.outer, picked.picked_stride)
        pick = Pick(offsets, place, picked.assumed(number))
        size = picked.outer * picked.length
        template.movin(word, rows, size=size, tensor=source.root, aux=aux, pick=pick)
        words.append(word)
    for word, number in zip(words, numbers, strict=True):
        rows = Rows(TARGET, number * picked.length, picked.length, picked.outer, picked.other_stride)
        template.movout(word, rows, tensor=output.root)


def _write_scattered(lowering: Lowering, node: Node, picked: Picked, template: Template) -> None:
    data, updates, output = (
        lowering.storage(index) for index in (node.inputs[0], node.inputs[2], node.outputs[0])
    )
    halves, numbers = _halves(lowering), range(picked.count)
    offsets = _write_offsets(lowering, node, picked, numbers, template, halves)
    whole = halves[0].entry("data", data.size_bytes)
    template.movin(whole, Rows(DATA, 0, data.size_bytes), size=data.size_bytes, tensor=data.root)
    words = [halves[0].entry(("row", number), picked.length) for number in numbers]
    for number, word in enumerate(words):
        rows = Rows(SOURCE, number * picked.length, picked.length)
        template.movin(word, rows, size=picked.length, tensor=updates.root)
    template.movout(whole, Rows(TARGET, 0, data.size_bytes), tensor=output.root)
    for number, word in enumerate(words):
        rows = Rows(TARGET, picked.known(number), picked.length)
        pick = Pick(offsets, number, picked.assumed(number))
        template.movout(word, rows, tensor=output.root, pick=pick)


def _write_offsets(
    lowering: Lowering,
    node: Node,
    picked: Picked,
    numbers: range,
    template: Template,
    halves: tuple[Half, Half],
) -> int:
    """Load the indices of rows and compute their byte offsets; returns the entry with those.

    Both words of a 64-bit index are read; offsets have 32 bits.
    """
    indices, root = lowering.storage(picked.indices), lowering.storage(node.outputs[0]).root
    count, item = len(numbers) * picked.width, indices.item_bytes
    given = halves[0].entry("indices", count * item)
    shape = (len(numbers), picked.width)
    rows = Rows(INDICES, numbers.start * picked.width * item, count * item)
    template.movin(given, rows, size=count * item, tensor=indices.root, aux=lowering.shape(shape))
    places, offsets = (
        halves[1].entry("places", count * ACC_BYTES),
        halves[1].entry("offsets", count * ACC_BYTES),
    )

    def vector(
        opcode: int, sources: tuple[int, int], target: int, name: str, apply: Apply, item: int
    ) -> None:
        aux = lowering.function(("picked", node.id, name), apply, name)
        template.vector(
            opcode,
            sources,
            target,
            vbytes=count * item,
            tile_m=1,
            size=count * ACC_BYTES,
            tensor=root,
            aux=aux,
        )

    sizes, strides = np.array(picked.sizes, np.int64), np.array(picked.strides, np.int64)
    check = partial(_from_the_back, f"{node.op_type} {node.name}".strip(), sizes)
    vector(tk.OP_COMP, (given, 0), places, "size of the axis where negative", check, item)
    vector(tk.OP_ADD, (given, places), places, "index from the front", np.add, item)
    vector(tk.OP_MUL, (places, 0), places, "x bytes of an index", lambda a, _: a * strides, ACC_BYTES)
    sums = partial(np.sum, axis=-1)
    vector(tk.OP_ADDTREE, (places, 0), offsets, "byte offset", lambda a, _: sums(a), ACC_BYTES)
    return offsets


def _from_the_back(name: str, sizes: np.ndarray, given: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Return what to add to indices so that they count from the front. Raises TargetError for one outside of
    its axis."""
    given = given.astype(np.int64)
    wrong = np.argwhere((given < -sizes) | (given >= sizes))
    if len(wrong):
        row, column = (int(each) for each in wrong[0])
        size = int(sizes[column])
        raise TargetError(
            f"{name}: index {int(given[row, column])} is outside of -{size}..{size - 1}; give other inputs"
        )
    return np.where(given < 0, sizes, 0)


def lower_gather(lowering: Lowering, node: Node) -> None:
    """Lower Gather by indices known at run time only."""
    lower_gathering(lowering, node, gathered_rows(lowering, node))


def lower_gather_nd(lowering: Lowering, node: Node) -> None:
    """Lower GatherND."""
    lower_gathering(lowering, node, rows_of_tuples(lowering, node))


def lower_gather_elements(lowering: Lowering, node: Node) -> None:
    """Lower GatherElements: each row is one element."""
    lower_gathering(lowering, node, elements(lowering, node))


def lower_scatter_nd(lowering: Lowering, node: Node) -> None:
    """Lower ScatterND that replaces rows."""
    lower_scattering(lowering, node, rows_of_tuples(lowering, node))


def lower_scatter_elements(lowering: Lowering, node: Node) -> None:
    """Lower ScatterElements that replaces elements."""
    lower_scattering(lowering, node, elements(lowering, node))


LOWERINGS = {
    "GatherND": lower_gather_nd,
    "GatherElements": lower_gather_elements,
    "ScatterND": lower_scatter_nd,
    "ScatterElements": lower_scatter_elements,
}
